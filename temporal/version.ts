import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** package.json of the checkout; in a package, what deploy/package.ts has written. */
const own = z
  .object({ version: z.string(), revision: z.string().optional() })
  .parse(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')));

/** Version of Millwright. Between two releases it is that of the next one with `-dev`. */
export const { version } = own;

let asked: string | undefined;

/** The commit that a package was made of, or that a checkout is at. Empty where nobody knows it. */
export function revision(): string {
  if (own.revision !== undefined) return own.revision;
  asked ??= askGit();
  return asked;
}

/** What tells two builds apart: the version, and if it is that of no release also the commit: `0.2.0-dev+4faeed52d21c`. */
export function buildName(): string {
  const isRelease = !version.includes('-');
  return isRelease || revision() === '' ? version : `${version}+${revision()}`;
}

function askGit(): string {
  try {
    const cwd = fileURLToPath(new URL('./', import.meta.url));
    return execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return '';
  }
}
