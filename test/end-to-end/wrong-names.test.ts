/** Commands that name what does not exist say so. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { fromSetup } from '../support/from-setup.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';
import { startProcess } from '../support/millwright.ts';

const client = testClient();
let namespace: string;
beforeAll(async () => {
  namespace = await newNamespace(client);
});
afterAll(() => client.close());

async function outcomeOf(...args: string[]): Promise<{ code: number | null; output: string }> {
  const { exited, logs } = startProcess([...args, '--target-kubeconfig', testKubeconfig()]);
  return { code: (await exited).code, output: logs() };
}
const temporal = () => ['--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')];

it.each([
  ['retry', 'nope'],
  ['drain', 'nope', '--force'],
])('a machine that does not exist, for %s', async (...words) => {
  const { code, output } = await outcomeOf(...words, '-n', namespace, ...temporal());

  expect(code).toBe(1);
  expect(output).toContain(
    `machine ${namespace}/nope does not exist in the control cluster: correct the name or --namespace, or if it was deleted`,
  );
});

it('a namespace that does not exist, for uninstall', async () => {
  const missing = await outcomeOf('uninstall', '-n', 'nosuch', ...temporal());
  const present = await outcomeOf('uninstall', '-n', namespace, ...temporal());

  expect(missing.output).toMatch(
    /^installation 'nosuch' of namespace nosuch, which does not exist: correct --namespace/,
  );
  expect(present.output).toMatch(new RegExp(`^installation '${namespace}' of namespace ${namespace}$`, 'm'));
});

it('a selector that the API server refuses, by its flag', async () => {
  expect(await outcomeOf('get', 'mc', '-n', namespace, '-l', 'a=b=c')).toEqual({
    code: 2,
    output: expect.stringMatching(/^--selector is 'a=b=c': .*found '='.*; give labels as in name=workers/),
  });
});
