import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { clusterFlags, personFlags } from './flag-groups.ts';
import { accessTo, accountOf, namespaceOf } from './kubeconfig.ts';
import { parseOptions, UsageError } from './options.ts';
import { resolveOptions } from './resolve-options.ts';

it.each([
  [{ targetKubeconfig: 'inClusterConfig' }, 'Pod', 'Pod'],
  [{ controlKubeconfig: 'inClusterConfig', targetKubeconfig: '/k' }, 'Pod', 'kubeconfig'],
  [{ controlKubeconfig: '/k', targetKubeconfig: 'inClusterConfig' }, 'kubeconfig', 'Pod'],
  [{ kubeconfig: '/k' }, 'kubeconfig', 'kubeconfig'],
])(
  'with %j the control cluster knows the account of the %s, and the target cluster that of the %s',
  (given, control, target) => {
    const options = parseOptions(personFlags, given, {});

    expect(accountOf('control', options)).toBe(`the account of the ${control}`);
    expect(accountOf('target', options)).toBe(`the account of the ${target}`);
  },
);

it('names the variable and the flag that everybody has, where no kubeconfig is given', async () => {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const run = promisify(execFile)(process.execPath, [main, 'get', 'machines'], { env: { HOME: '/nowhere' } });
  await expect(run).rejects.toMatchObject({
    code: 1,
    stderr: 'no kubeconfig is given, and there is no /nowhere/.kube/config: set KUBECONFIG, or give --kubeconfig\n',
  });
});

it('refuses a context that the kubeconfig does not have with those that it has', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'millwright-contexts-'));
  const withContexts = join(folder, 'some');
  const without = join(folder, 'none');
  const contexts = ['blue', 'green'].map((name) => ({ name, context: { cluster: 'c' } }));
  await writeFile(withContexts, JSON.stringify({ contexts, clusters: [] }));
  await writeFile(without, JSON.stringify({ clusters: [] }));
  for (const [controlKubeconfig, kubeconfig, fix] of [
    ['', withContexts, `give one of blue, green, which kubeconfig ${withContexts} has`],
    [withContexts, without, `give one of blue, green, which kubeconfig ${withContexts} has`],
    ['', without, `leave it out, kubeconfig ${without} has no contexts`],
  ]) {
    const options = parseOptions(personFlags, { controlKubeconfig, kubeconfig, context: 'nope' }, {});
    const problem = new UsageError(`--context is 'nope': ${fix}`);
    expect(() => accessTo('control', options)).toThrow(problem);
    expect(() => namespaceOf(options)).toThrow(problem.message);
    // Also for a command that asks only Temporal, and has a namespace.
    const given = { controlKubeconfig, kubeconfig, context: 'nope', namespace: 'n' };
    await expect(resolveOptions(personFlags, given, {})).rejects.toThrow(problem.message);
  }
  const noKubeconfig = join(folder, 'notes');
  await writeFile(noKubeconfig, 'no kubeconfig');
  const options = parseOptions(personFlags, { kubeconfig: noKubeconfig, context: 'nope' }, {});
  expect(() => accessTo('control', options)).toThrow(
    `--kubeconfig: kubeconfig ${noKubeconfig} has no clusters: give a kubeconfig of kind Config`,
  );
  await rm(folder, { recursive: true });
});

it('names the flag that chooses a context, where the command has it and the kubeconfig has no current one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'millwright-contexts-'));
  const kubeconfig = join(folder, 'config');
  await writeFile(
    kubeconfig,
    JSON.stringify({ contexts: [{ name: 'blue', context: { cluster: 'c' } }], clusters: [] }),
  );
  const forPeople = parseOptions(personFlags, { kubeconfig }, {});
  const forServers = parseOptions(clusterFlags, { kubeconfig }, {});
  const ofTarget = { ...forPeople, controlKubeconfig: '/k' };
  const fix = 'kubectl config use-context <name>` with one of blue';

  expect(() => accessTo('control', forPeople)).toThrow(new RegExp(`^--kubeconfig: .*${fix}, or give --context$`));
  expect(() => accessTo('control', forServers)).toThrow(new RegExp(`^--kubeconfig: .*${fix}$`));
  expect(() => accessTo('target', ofTarget)).toThrow(new RegExp(`^--kubeconfig: .*${fix}$`));
  await rm(folder, { recursive: true });
});
