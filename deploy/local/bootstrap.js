// Runs a script of this repository on a fresh clone: `node deploy/local/bootstrap.js <script> [arguments]`.
// Plain JavaScript for Node 18 and later, as nothing is installed yet and the Node on PATH may be old. It installs what
// package-lock.json says, when that has changed, and runs the script on the Node 24 that comes with it.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
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
  const lock = readFileSync(join(root, 'package-lock.json'));
  const stamp = `${createHash('sha256').update(lock).digest('hex')} ${process.platform} ${process.arch}\n`;
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return;

  console.error('Installing the packages of package-lock.json: about half a minute, once');
  // Not `npm ci`: it refuses a lock file without the packages of other platforms, which npm leaves out behind a registry
  // mirror that lacks them. Errors only, as npm itself runs on a Node that is older than our packages ask for.
  const flags = ['--no-save', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = spawnSync('npm', ['install', ...flags], {
    cwd: root,
    stdio: ['ignore', 2, 2], // standard output belongs to the script
  });
  if (npm.error) fail(`npm cannot be started (${npm.error.message}): install Node.js with npm`);
  if (npm.status !== 0) fail('npm install has failed: see above');
  if (!existsSync(node)) {
    fail('npm has not run the install script of the package `node`: allow it in the settings of npm (`allow-scripts`)');
  }
  writeFileSync(stampFile, stamp);
}

/** @param {string[]} args */
function run(args) {
  // The guard makes the script stop when this process is killed in a way that it cannot pass on.
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
