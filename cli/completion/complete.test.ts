import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { testKubeconfig } from '../../test/support/kube.ts';
import { until } from '../../test/support/until.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-completion-'));
  for (const [name, file] of [
    ['millwright', '../main.ts'],
    ['kubectl_complete-machine', '../kubectl-complete.ts'],
  ] as const) {
    const main = fileURLToPath(new URL(file, import.meta.url));
    await writeFile(join(folder, name), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
    await chmod(join(folder, name), 0o755);
  }
});
afterAll(() => rm(folder, { recursive: true }));

const environment = () => ({ ...process.env, NODE_OPTIONS: '', PATH: `${folder}:${process.env['PATH']}` });

async function bash(script: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env: environment() });
  return stdout.trim().split('\n');
}

/** What a bash with the completion makes of what is typed after the name of the program, and a Tab. */
async function typed(lines: readonly string[], kubeconfig = ''): Promise<string[]> {
  const env = { ...environment(), KUBECONFIG: kubeconfig, HISTFILE: '', INPUTRC: '/dev/null' };
  const running = promisify(execFile)('bash', ['--norc', '-i'], { env });
  const commands = lines.map((line) => `echo ${line}\t`);
  const begin = ['source <(millwright completion bash)', 'complete -F _millwright echo'];
  running.child.stdin?.end([...begin, ...commands, ''].join('\n'));
  return (await running).stdout.trim().split('\n');
}

it('bash completes commands, flags and values with what `millwright completion bash` prints', async () => {
  expect(await typed(['do', 'get --wat', 'get -o w'])).toEqual(['doctor', 'get --watch', 'get -o wide']);
});

it('bash completes words that it splits at =, : and @', async () => {
  const cluster = 'arn:aws:eks:eu-1:1:cluster';
  const contexts = ['prod', `${cluster}/a`, `${cluster}/b`, 'admin@home'].map((name) => ({ name, context: {} }));
  const own = join(folder, 'split');
  await writeFile(own, JSON.stringify({ contexts }));

  const lines = [
    '--context=p',
    '--context=ar',
    `--context ${cluster}/b`,
    '--context arn:',
    '-o  json --context=admin@h',
  ];
  expect(
    await typed(
      lines.map((line) => `stuck ${line}`),
      own,
    ),
  ).toEqual([
    'stuck --context=prod',
    `stuck --context=${cluster}/`,
    `stuck --context ${cluster}/b`,
    `stuck --context ${cluster}/`,
    'stuck -o json --context=admin@home',
  ]);
});

it('offers nothing where Temporal does not answer, before a connection has timed out', async () => {
  let connectedMs = 0;
  const silent = createServer(() => (connectedMs ||= performance.now())).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;

  const offered = await bash(`millwright __complete sweep approve -n a --temporal-address 127.0.0.1:${port} ''`);
  silent.close();
  expect(offered).toEqual(['']);
  expect(connectedMs).toBeGreaterThan(0);
  expect(performance.now() - connectedMs).toBeLessThan(9_000);
});

it('kubectl completes the plugin with what kubectl_complete-machine prints', async () => {
  expect(await bash('kubectl_complete-machine sw')).toEqual(['sweep', ':4']);
  expect(await bash('kubectl_complete-machine run')).toEqual([':4']);
});

it('offers the contexts of the kubeconfigs, and the namespaces of the cluster', async () => {
  const own = join(folder, 'kubeconfig');
  const contexts = ['prod-a', 'prod-b', 'test', 'prod $(id)', 'prod;id', '-prod'].map((name) => ({
    name,
    context: { cluster: 'c' },
  }));
  await writeFile(own, JSON.stringify({ contexts, clusters: [{ name: 'c', cluster: { server: 'https://nowhere' } }] }));
  const other = join(folder, 'other');
  await writeFile(other, JSON.stringify({ contexts: [{ name: 'prod-c', context: { cluster: 'c' } }], clusters: [] }));
  const complete = (...words: string[]) => bash(`KUBECONFIG=${own}:${other} millwright __complete ${words.join(' ')}`);

  expect(await complete('get', 'machines', '--context', 'prod')).toEqual(['prod-a', 'prod-b', 'prod-c']);
  expect(await complete('stuck', '--context=t')).toEqual(['--context=test']);
  // Each needs quotes, or would be read as a flag.
  expect(await complete('stuck', '--context', "''")).toEqual(['prod-a', 'prod-b', 'test', 'prod-c']);
  // A shell gets nothing where the API server does not answer within 1.5 s.
  for (const typedSoFar of ["''", 'kube-', 'kube-sys']) {
    await until(`a namespace is offered after ${typedSoFar}`, async (see) => {
      const offered = see(await complete('stuck', '--kubeconfig', testKubeconfig(), '-n', typedSoFar));
      return offered.includes('kube-system');
    });
  }
});
