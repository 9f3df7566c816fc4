/** Environment variables that jest's global setup has set. Throws where it has not. */
export function fromSetup(name: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new Error(`${name} is not set: run npm test, or set all variables that npm run stack -- --clusters 2 prints`);
}
