import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { access, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { spawnGuarded } from './process.ts';
import type { ServerSource } from './server-source.ts';

const modules = fileURLToPath(new URL('servers/', import.meta.url));

/** What is built, and how it is called in what is printed. */
export type GoSource = Pick<ServerSource, 'name' | 'version' | 'variable' | 'build'>;

/**
 * Builds a program at `destination` from its Go module, which is in deploy/local/servers or has an absolute path. Only
 * one build runs at a time on a machine, because each uses all cores. Progress goes to standard error. Throws when Go
 * is missing or older than 1.21, and when the build fails.
 */
export async function buildFromSource(source: GoSource, destination: string): Promise<void> {
  const unlock = await lock(join(dirname(destination), '.build.lock'), source.name);
  try {
    if (await exists(destination)) return; // another process has built it
    await goBuild(source, await goVersion(source), destination);
  } finally {
    await unlock();
  }
}

async function goBuild({ name, version, build }: GoSource, go: string, destination: string): Promise<void> {
  const partial = `${destination}.${process.pid}`;
  const args = [
    'build',
    '-mod=readonly',
    '-buildvcs=false',
    '-trimpath',
    '-v',
    // Nobody debugs these programs. Without debug information a build takes a tenth less time.
    '-gcflags=all=-dwarf=false',
    ...(build.tags === undefined ? [] : ['-tags', build.tags]),
    '-ldflags',
    `-s -w ${build.ldflags}`,
    '-o',
    partial,
  ];
  const child = spawnGuarded('TERM', 'go', [...args, build.package], {
    cwd: resolve(modules, build.module),
    stdio: ['ignore', 'ignore', 'pipe'],
    // The modules need a newer Go than 1.21. GOTOOLCHAIN lets Go 1.21 download it through the module proxy.
    // GOGC: compilers that collect their garbage less often take another tenth less.
    env: { ...process.env, CGO_ENABLED: '0', GOTOOLCHAIN: 'auto', GOWORK: 'off', GOGC: '400' },
  });

  const log: string[] = [];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => log.push(...text.trimEnd().split('\n')));
  const what = `${name}: building ${version} with ${go}, once, about ${build.minutes} min on two cores`;
  const finish = showElapsed(what, () => `${log.length} packages`);
  const [code] = await once(child, 'close');
  finish();
  if (code !== 0) {
    throw new Error(`${name}: go build has failed (${code}):\n${log.slice(-15).join('\n')}`);
  }
  await rename(partial, destination);
}

/** Prints the elapsed time until the returned function is called: every 10 s, on a terminal every second. */
function showElapsed(what: string, detail: () => string): () => void {
  const terminal = process.stderr.isTTY;
  const since = Date.now();
  const show = () => {
    const seconds = Math.round((Date.now() - since) / 1000);
    const elapsed = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
    process.stderr.write(`${terminal ? '\r' : ''}${what}: ${elapsed}, ${detail()}${terminal ? '' : '\n'}`);
  };
  show();
  const timer = setInterval(show, terminal ? 1000 : 10_000);
  return () => {
    clearInterval(timer);
    show();
    if (terminal) process.stderr.write('\n');
  };
}

async function goVersion({ name, version, variable }: GoSource): Promise<string> {
  const { stdout } = await promisify(execFile)('go', ['version']).catch(() => ({ stdout: '' }));
  const [found, minor] = /go1\.(\d+)\S*/.exec(stdout) ?? [];
  if (found && Number(minor) >= 21) return found;
  throw new Error(
    `${name} is not on PATH, could not be downloaded, and ${found ?? 'no Go'} on PATH cannot build it. Install one of: ` +
      `Go 1.21 or newer (https://go.dev/dl/), or ${name} ${version} and set ${variable} to its path`,
  );
}

/**
 * Waits for a lock file that holds the pid of its owner, and resolves to its release. The lock of a dead owner is void.
 */
export async function lock(file: string, name: string): Promise<() => Promise<void>> {
  for (let waiting = false; ; waiting = true) {
    try {
      const handle = await open(file, 'wx');
      await handle.writeFile(String(process.pid));
      await handle.close();
      return () => rm(file, { force: true });
    } catch (error) {
      // No `instanceof`: in jest, errors of Node come from another realm.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = Number(await readFile(file, 'utf8').catch(() => ''));
    if (owner > 0 && !isAlive(owner)) await rm(file, { force: true });
    else if (!waiting && owner !== process.pid)
      console.error(`${name}: waiting for the build of process ${owner} (${file})`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
