import { expect, it } from '@jest/globals';
import type { Command } from './command.ts';
import { rolloutCommand } from './commands/rollout/command.ts';
import { drainCommand, retryCommand } from './commands/signal/commands.ts';
import { timelineCommand } from './commands/timeline/command.ts';
import { parseNames, parseObjects } from './kinds.ts';
import { parseOptions, UsageError } from './options.ts';

it.each([
  [['machines', 'a', 'b'], 'Machine', ['a', 'b']],
  [['mcd'], 'MachineDeployment', []],
  [['machine/a'], 'Machine', ['a']],
  [['machine.machine.sapcloud.io/a', 'machine.machine.sapcloud.io/b'], 'Machine', ['a', 'b']],
  [['machine/a', 'b'], 'Machine', ['a', 'b']],
  [['machine', 'mc/a'], 'Machine', ['a']],
] as const)('reads the kind and names of %j', async ([first, ...more], kind, names) => {
  expect(await parseObjects(first, more)).toEqual({ kind, names });
});

it.each([
  [['machine/a', 'mcd/b']],
  [['machine', 'mcd/b']],
  [['machine/']],
  [['machine/a/b']],
  [['node/a']],
  [['machines.cluster.x-k8s.io']],
  [['deployment.apps/a']],
  [['machine.v1beta1.machine.sapcloud.io/a']],
])('refuses %j', async ([first, ...more]) => {
  await expect(parseObjects(first!, more)).rejects.toThrow(UsageError);
});

it.each([
  ['MachineDeployment', 'mcd/a'],
  ['MachineDeployment', 'machinedeployment.machine.sapcloud.io/a'],
  ['MachineDeployment', 'machinedeployments.v1alpha1.machine.sapcloud.io/a'],
  ['MachineDeployment', 'Deployment/a'],
  ['Machine', 'a'],
  ['Machine', 'mc/a'],
] as const)('reads the name of a %s from %s', async (kind, given) => {
  expect(await parseNames(kind, [given])).toEqual(['a']);
});

it.each([['mcd/a'], ['prod/a'], ['machine/'], [''], ['machine/n/a'], ['machine.machine.cluster.x-k8s.io/a']])(
  'refuses %j as the name of a Machine',
  async (given) => {
    const problem = `name is '${given}': give a Machine, as <name> or machine/<name>`;
    await expect(parseNames('Machine', ['b', given])).rejects.toThrow(new UsageError(problem));
  },
);

const named: readonly { readonly command: Command; readonly args: readonly string[]; readonly kind: string }[] = [
  { command: timelineCommand, args: ['mcd/a'], kind: 'Machine' },
  { command: drainCommand, args: ['mcd/a'], kind: 'Machine' },
  { command: retryCommand, args: ['b', 'mcd/a'], kind: 'Machine' },
  { command: rolloutCommand, args: ['status', 'mc/a'], kind: 'MachineDeployment' },
];

it.each(named)('$command.name refuses $args, as it takes a $kind', async ({ command, args, kind }) => {
  const running = command.run(parseOptions(command.flags, {}, {}), args, {});
  const form = `as <name> or ${kind.toLowerCase()}/<name>`;
  await expect(running).rejects.toThrow(new UsageError(`name is '${args.at(-1)}': give a ${kind}, ${form}`));
});

it('rollout takes the kind before the name', async () => {
  const options = parseOptions(rolloutCommand.flags, { filename: '/dev/null' }, {});
  const running = rolloutCommand.run(options, ['plan', 'mcd/a'], {});
  await expect(running).rejects.toThrow(new UsageError("name is 'a': leave it out with --filename"));
});
