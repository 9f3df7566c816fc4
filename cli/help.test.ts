import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { buildName } from '../temporal/version.ts';
import { testKubeconfig } from '../test/support/kube.ts';
import { commands } from './commands.ts';
import { type Flag, flags } from './flags.ts';
import { flagOf } from './options.ts';

const root = new URL('../', import.meta.url);
/** Prints the URL of each module before it is loaded, to standard error. */
const listModules = `
  import { registerHooks } from 'node:module';
  registerHooks({
    load(url, context, next) {
      process.stderr.write(url + '\\n');
      return next(url, context);
    },
  });`;

/** Modules that a command loads, also one that fails: paths in this repository, and names of packages. */
async function modulesOf(...args: string[]): Promise<string[]> {
  const hook = `data:text/javascript,${encodeURIComponent(listModules)}`;
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const { stderr } = await promisify(execFile)(process.execPath, ['--import', hook, main, ...args]).catch(
    (failed: { stderr: string }) => failed,
  );
  const urls = stderr.split('\n').filter((line) => line.startsWith('file:'));
  return urls.map((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? url.replace(root.href, ''));
}

function packagesOf(modules: readonly string[]): string[] {
  return [...new Set(modules.filter((name) => !name.endsWith('.ts')))].toSorted();
}

it('names the same build for -V as for the command version', async () => {
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const { stdout } = await promisify(execFile)(process.execPath, [main, '-V']);

  expect(stdout).toBe(`${buildName()}\n`);
});

it('loads no cloud SDK, no client of Kubernetes and nothing of Temporal for --help', async () => {
  const modules = await modulesOf('--help');

  expect(packagesOf(modules)).toEqual(['commander', 'zod']);
  expect(modules).toContain('cli/commands/describe/command.ts');
  expect(
    modules.filter((path) => /^(activities\/providers\/\w+\/|api\/gardener|kube|controllers|workflows)/.test(path)),
  ).toEqual([]);
});

it.each([
  [['help'], 0],
  [['help', 'get'], 0],
  [['--help'], 0],
  [['help', 'nope'], 2],
  [[], 2],
])('is a success where people ask for it: %j exits with %i', async (args, code) => {
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const exit = await promisify(execFile)(process.execPath, [main, ...args]).then(
    () => 0,
    (error: { code: number }) => error.code,
  );
  expect(exit).toBe(code);
});

it('summarizes each command without a full stop', async () => {
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const { stdout } = await promisify(execFile)(process.execPath, [main, '--help']);
  expect(stdout).toMatch(/^ {2}describe /m);
  expect(stdout.split('Commands:')[1]).not.toMatch(/\.$/m);
});

it.each(['main.ts', 'kubectl-machine.ts', 'kubectl-complete.ts'])('says that Node is too old: %s', async (program) => {
  const old = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { node: '22.12.0' } })`;
  const path = fileURLToPath(new URL(`cli/${program}`, root));
  const run = promisify(execFile)(process.execPath, ['--import', old, path, '--help']);
  await expect(run).rejects.toMatchObject({
    code: 1,
    stderr: 'this is Node 22.12.0: put Node 24 or later first in PATH\n',
  });
});

it('loads nothing of Temporal for get, rollout status and history, nor for the completion of names', async () => {
  const target = ['--target-kubeconfig', testKubeconfig()];
  const commands = [
    ['get', 'machines', ...target],
    ['rollout', 'status', 'missing', ...target],
    ['rollout', 'history', 'missing', ...target],
    ['__complete', 'describe', ...target, 'machine', ''],
  ];
  for (const command of commands) {
    const modules = await modulesOf(...command);

    expect(packagesOf(modules).filter((name) => name !== 'commander')).toEqual(['undici', 'yaml', 'zod']);
  }
});

it('loads no client of Temporal for rollout plan', async () => {
  const modules = await modulesOf('rollout', 'plan', 'missing', '--target-kubeconfig', testKubeconfig());

  expect(modules).toContain('cli/commands/rollout/simulation.ts');
  const packages = packagesOf(modules);
  for (const heavy of ['@temporalio/client', '@temporalio/proto', '@grpc/grpc-js'])
    expect(packages).not.toContain(heavy);
});

it('loads no client for HTTP for rollout runs', async () => {
  const temporal = ['--temporal-address', process.env['MILLWRIGHT_TEST_TEMPORAL_ADDRESS'] ?? ''];
  const modules = await modulesOf('rollout', 'runs', 'missing', ...temporal);

  expect(modules).toContain('cli/commands/rollout/runs.ts');
  expect(packagesOf(modules)).not.toContain('undici');
});

it('loads no worker and no cloud SDK for a command that asks Temporal', async () => {
  const temporal = ['--temporal-address', process.env['MILLWRIGHT_TEST_TEMPORAL_ADDRESS'] ?? ''];
  const modules = await modulesOf('retry', '--blocked-on', 'Source', ...temporal);

  const packages = packagesOf(modules);
  expect(packages).toContain('@temporalio/client');
  for (const heavy of [/^@temporalio\/(worker|core-bridge)$/, /^@aws-sdk\//, /^@azure\//, /^@kubernetes\//, /^pino/]) {
    expect(packages).not.toContainEqual(expect.stringMatching(heavy));
  }
});

it.each(commands)('has examples in the help of $name, whose flags the command has', (command) => {
  expect(command.examples.length).toBeGreaterThan(0);
  for (const [line] of command.examples) {
    const [name, ...words] = line.split(' ');
    expect(name).toBe(command.name);
    const taken = command.flags.flatMap((flag) => [flagOf(flag), `-${(flags[flag] as Flag).short}`]);
    for (const word of words.filter((each) => each.startsWith('-'))) expect(taken).toContain(word);
  }
});

it('has the flags of connections in a help of their own, and says where', async () => {
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const run = async (...args: string[]) => (await promisify(execFile)(process.execPath, [main, ...args])).stdout;
  const [help, options, ofProcess] = [
    await run('stuck', '--help'),
    await run('options'),
    await run('worker', '--help'),
  ];

  expect(help).not.toContain('--temporal-tls-ca');
  expect(help).toMatch(/--installation .*/);
  expect(help).toContain('Examples:\n  millwright stuck ');
  expect(help).toContain('Flags for the connections to the servers: millwright options');
  for (const text of [options, ofProcess]) {
    expect(text).toContain('--temporal-tls-ca');
    expect(text).toContain('MILLWRIGHT_TEMPORAL_API_KEY');
  }
});

it.each([
  [
    ['get'],
    'kind is missing: give machines, sets or deployments, .*\nusage: millwright get <kind> \\[name...\\] \\[flags\\]\n',
  ],
  [['rollout'], 'action is missing: give status, .*\nusage: millwright rollout <action> \\[name\\] \\[flags\\]\n'],
  [['rollout', 'plan'], 'name is missing: name a MachineDeployment, or give --filename with a manifest\n'],
  [
    ['stuck', '-A'],
    "--all-namespaces is not a flag of 'stuck': .*, run it with -n <namespace> for each .* `millwright get mcd -A` lists\n",
  ],
  [['get', '--dry-run'], "error: unknown option '--dry-run'\n"],
  [['version', '-A'], "error: unknown option '-A'\n"],
  [['sweep', '--all-namespaces', '--dry-run'], "--all-namespaces is not a flag of 'sweep': an installation .*\n"],
])('says of %j what is missing or wrong', async (args, problem) => {
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const run = promisify(execFile)(process.execPath, [main, ...args]);
  await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(new RegExp(`^${problem}`)) });
});

it('indents what continues an item of a list', async () => {
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const { stdout } = await promisify(execFile)(process.execPath, [main, 'rollout', '--help']);
  expect(stdout).toMatch(/^- status: .*\n {2}\S/m);
});
