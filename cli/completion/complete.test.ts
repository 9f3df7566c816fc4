import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
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

async function bash(script: string): Promise<string[]> {
  const env = { ...process.env, NODE_OPTIONS: '', PATH: `${folder}:${process.env['PATH']}` };
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env });
  return stdout.trim().split('\n');
}

it('bash completes commands, flags and values with what `millwright completion bash` prints', async () => {
  const after = (words: string, at: number) =>
    `COMP_WORDS=(${words}); COMP_CWORD=${at}; _millwright; printf '%s ' "\${COMPREPLY[@]}"; echo`;

  const [command, flag, value] = await bash(
    ['source <(millwright completion bash)', after('millwright do', 1), after('millwright get --wat', 2)]
      .concat(after('millwright get -o ""', 3))
      .join('\n'),
  );

  expect([command, flag, value].map((line) => line?.trim())).toEqual(['doctor', '--watch', 'text wide json yaml']);
});

it('kubectl completes the plugin with what kubectl_complete-machine prints', async () => {
  expect(await bash('kubectl_complete-machine sw')).toEqual(['sweep', ':4']);
  expect(await bash('kubectl_complete-machine run')).toEqual([':4']);
});

it('offers the contexts of the kubeconfigs, and the namespaces of the cluster', async () => {
  const own = join(folder, 'kubeconfig');
  const contexts = ['prod-a', 'prod-b', 'test'].map((name) => ({ name, context: { cluster: 'c' } }));
  await writeFile(own, JSON.stringify({ contexts, clusters: [{ name: 'c', cluster: { server: 'https://nowhere' } }] }));
  const other = join(folder, 'other');
  await writeFile(other, JSON.stringify({ contexts: [{ name: 'prod-c', context: { cluster: 'c' } }], clusters: [] }));
  const complete = (...words: string[]) => bash(`KUBECONFIG=${own}:${other} millwright __complete ${words.join(' ')}`);

  expect(await complete('get', 'machines', '--context', 'prod')).toEqual(['prod-a', 'prod-b', 'prod-c']);
  expect(await complete('stuck', '--context=t')).toEqual(['--context=test']);
  // A shell gets nothing where the API server does not answer within 1.5 s.
  await until('a namespace is offered', async (see) => {
    const offered = see(await complete('stuck', '--kubeconfig', testKubeconfig(), '-n', 'kube-sys'));
    return offered.includes('kube-system');
  });
});
