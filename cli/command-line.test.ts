import { expect, it } from '@jest/globals';
import { testKubeconfig } from '../test/support/kube.ts';
import { commandLine } from './command-line.ts';
import { describe } from './commands/describe/run.ts';
import { personFlags, temporalFlags } from './flag-groups.ts';
import { parseOptions } from './options.ts';

it('repeats how servers are found, and not how often they are asked: not all commands take that', () => {
  const given = { context: 'blue', kubeconfig: '/k', kubeApiQps: '5', kubeApiBurst: '9', temporalTls: 'true' };
  expect(commandLine(['timeline', 'a'], 'n', given)).toBe(
    'millwright timeline a -n n --context blue --kubeconfig /k --temporal-tls true',
  );
});

it.each([
  ['Machine', ['a'], ', or if it was deleted run millwright timeline a -n nowhere --installation blue'],
  [
    'Machine',
    ['a', 'b'],
    ', or if they were deleted run millwright timeline a -n nowhere --installation blue; millwright timeline b -n nowhere --installation blue',
  ],
  [
    'MachineDeployment',
    ['a', 'b', 'c', 'd'],
    ', or if they were deleted run millwright rollout runs a -n nowhere --installation blue; millwright rollout runs b -n nowhere --installation blue; millwright rollout runs c -n nowhere --installation blue, and so on',
  ],
  ['MachineDeployment', ['a'], ', or if it was deleted run millwright rollout runs a -n nowhere --installation blue'],
  ['MachineSet', ['a'], ''],
] as const)('describe says of each missing %s of %j which command shows its past', async (kind, names, past) => {
  const flags = ['namespace', 'installation', 'output', ...personFlags, ...temporalFlags] as const;
  const options = parseOptions(flags, { namespace: 'nowhere', kubeconfig: testKubeconfig() }, {});
  const { notFound } = await describe(kind, names, options, { installation: 'blue' });

  const those = names.map((name) => `nowhere/${name}`).join(', ');
  const missing = `${kind} ${those} ${names.length === 1 ? 'does' : 'do'} not exist in the control cluster`;
  expect(notFound).toBe(`${missing}: correct the name or --namespace${past}`);
});
