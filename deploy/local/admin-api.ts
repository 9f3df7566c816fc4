/** How the processes of local clouds are started and asked. */
import { request } from 'undici';

/** Flags of a command line; what is undefined is left out. */
export function toFlags(flags: Readonly<Record<string, string | number | undefined>>): string[] {
  return Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]));
}

/** Calls the admin API of a cloud at a URL. An empty answer is null. Throws with its answer when it refuses. */
export async function callAdmin<T>(
  url: string,
  method: 'GET' | 'PUT' | 'POST',
  path: string,
  body?: unknown,
): Promise<T> {
  const answer = await request(url + path, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) throw new Error(`${method} ${path} of the cloud: ${answer.statusCode} ${text}`);
  return JSON.parse(text || 'null');
}
