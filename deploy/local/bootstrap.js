// Runs a script of this repository, also in a fresh clone: `node deploy/local/bootstrap.js <script> [arguments]`.
// Installs the packages of package-lock.json when it has changed, and runs the script on the Node 24 among them.
// Plain JavaScript for Node 18 and later: nothing is installed yet, and the Node on PATH may be old.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const binaries = join(root, 'node_modules', '.bin');
const node = join(binaries, 'node');

install();
run(process.argv.slice(2));

function install() {
  const stampFile = join(root, 'node_modules', '.millwright-installed');
  const packageLock = readFileSync(join(root, 'package-lock.json'));
  const stamp = `${createHash('sha256').update(packageLock).digest('hex')} ${process.platform} ${process.arch}\n`;
  const isInstalled = () => existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp;
  if (isInstalled()) return;
  const unlock = lock();
  if (!isInstalled()) {
    installPackages();
    writeFileSync(stampFile, stamp);
  }
  unlock();
}

/** Two installs at once would destroy each other. The file holds the pid of its owner; the lock of a dead owner is void. */
function lock() {
  const file = join(root, '.cache', 'install.lock');
  mkdirSync(join(root, '.cache'), { recursive: true });
  for (let isWaiting = false; ; isWaiting = true) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' });
      return () => rmSync(file, { force: true });
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const owner = ownerOf(file);
    // In containers process ids repeat: one's own was left by another process.
    if (owner === process.pid || (owner > 0 && !isAlive(owner))) rmSync(file, { force: true });
    else if (!isWaiting) console.error(`Waiting for process ${owner}, which installs the packages (${file})`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 250); // sleeps, ms
  }
}

/** @param {string} file */
function ownerOf(file) {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return 0; // just unlocked
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function installPackages() {
  console.error('Installing the packages of package-lock.json: about half a minute, once');
  // Not `npm ci`: it refuses a lock file without the packages of other platforms, and npm leaves those out behind a
  // registry mirror that lacks them. Errors only: npm runs on the Node on PATH, for which our packages print warnings.
  const which = ['--no-save', '--include=dev', '--include=optional', '--ignore-scripts'];
  const flags = [...which, '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = spawnSync('npm', ['install', ...flags], {
    cwd: root,
    stdio: ['ignore', 2, 2], // standard output belongs to the script
  });
  if (npm.error) fail(`npm cannot be started (${npm.error.message}): install Node.js with npm`);
  if (npm.status !== 0) fail('npm install has failed: see above');
  // npm says nothing when it cannot get an optional package.
  if (!existsSync(node)) {
    fail(
      `npm has not installed node-${process.platform}-${process.arch}: use Linux on x64 or arm64, and look at npm's log`,
    );
  }
}

/** @param {string[]} args */
function run(args) {
  // The guard stops the script when this process is killed by SIGKILL.
  const guard = fileURLToPath(new URL('guard.sh', import.meta.url));
  const child = spawn('sh', [guard, 'TERM', node, ...args], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...process.env, PATH: `${binaries}${delimiter}${process.env.PATH}` },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

/** @param {string} message */
function fail(message) {
  console.error(message);
  process.exit(1);
}
