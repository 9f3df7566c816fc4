/** Debian packages that tests need. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { isRoot } from './users.ts';

const run = promisify(execFile);

export function canInstallPackages(): boolean {
  return isRoot && existsSync('/usr/bin/apt-get');
}

/** Installs them, and waits while another process installs something. Throws what apt-get says. */
export async function installPackages(...names: readonly string[]): Promise<void> {
  process.stderr.write(`installing the Debian packages ${names.join(', ')}, once\n`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const waiting = ['-o', 'DPkg::Lock::Timeout=600'];
  await run('apt-get', ['update'], { env });
  await run('apt-get', [...waiting, 'install', '--yes', '--no-install-recommends', ...names], { env });
}
