/** The examples of providers, each with a Makefile. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * `make test` of an example. Resolves with what it prints, and throws that if it fails.
 * @param flags of the conformance suite, such as those of servers that run already
 */
export function testExample(
  example: string,
  flags: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<string> {
  return make(example, 'test', { ...variables, CONFORMANCE_FLAGS: flags.join(' ') });
}

/** Builds the provider in Go. Only the first time on a machine takes long. */
export function buildGoProvider(): Promise<string> {
  return make('go-provider', 'build', {});
}

async function make(example: string, target: string, variables: Readonly<Record<string, string>>): Promise<string> {
  const folder = fileURLToPath(new URL(`../../deploy/examples/${example}`, import.meta.url));
  const args = ['-C', folder, target, ...Object.entries(variables).map(([name, value]) => `${name}=${value}`)];
  const run = promisify(execFile)('make', args, { maxBuffer: 10_000_000 });
  const { stdout, stderr } = await run.catch((error: { stdout?: string; stderr?: string; message: string }) => {
    throw new Error([`make ${target} of ${example} has failed`, error.stdout, error.message].join('\n'));
  });
  return `${stdout}\n${stderr}`;
}
