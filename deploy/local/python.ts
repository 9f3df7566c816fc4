import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const cache = fileURLToPath(new URL('../../.cache', import.meta.url));
const run = promisify(execFile);

/** On Debian, venv is there without python3-venv, but it cannot install pip: ensurepip is what is missing. */
const probe = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))';

/**
 * The Python of a virtual environment with the packages of a requirements file. It is made once for each content of the
 * file, which takes up to a minute, in the cache folder of the checkout. Throws an Error that names what to install.
 */
export async function ensureVenv(name: string, requirementsFile: string): Promise<string> {
  const requirements = await readFile(requirementsFile);
  const hash = createHash('sha256').update(requirements).digest('hex').slice(0, 12);
  const environment = join(cache, `${name}-${hash}`);
  const python = join(environment, 'bin/python');
  if (existsSync(python)) return python;

  await run('python3', ['-c', probe]).catch((cause: unknown) => {
    const needs = `${name} needs python3 of 3.10 or newer with venv on PATH`;
    throw new Error(`${needs}: install it (Debian and Ubuntu: packages python3 and python3-venv)`, { cause });
  });
  process.stderr.write(`${name}: installing the packages of ${requirementsFile}, once: this may take a minute\n`);
  await mkdir(cache, { recursive: true });
  const half = await mkdtemp(join(cache, `${name}-`));
  try {
    await run('python3', ['-m', 'venv', half]);
    await run(join(half, 'bin/python'), ['-m', 'pip', 'install', '--quiet', '--requirement', requirementsFile]);
    await rename(half, environment);
  } catch (error) {
    await rm(half, { recursive: true });
    // Another run may have been quicker: then its environment is as good.
    if (!existsSync(python)) throw error;
  }
  return python;
}
