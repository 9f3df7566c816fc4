import { defineCommand } from '../../command.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';
import { parseObjects } from '../../kinds.ts';
import { UsageError } from '../../options.ts';
import { say } from '../../terminal.ts';

export const describeCommand = defineCommand({
  name: 'describe',
  description: 'Show what Millwright is doing with an object, what it is waiting for and what would unblock it.',
  arguments: [
    [
      'kind',
      'machine, machinedeployment or machineset, or a plural or short name of kubectl; or <kind>/<name> as `kubectl get -o name` prints it',
      ['machine', 'machinedeployment', 'machineset'],
    ],
    ['[name...]', 'names of objects; leave them out with <kind>/<name>'],
  ],
  flags: ['output', 'installation', ...personFlags, ...temporalFlags],
  examples: [
    ['describe machine workers-757f8-4bh9w', 'what a machine does, waits for, and what would unblock it'],
    ['describe mcd/workers', 'a MachineDeployment, and what holds up its rollout'],
    ['describe mc workers-757f8-4bh9w workers-757f8-c6qxp', 'two machines'],
  ],
  async run(options, [given = '', ...more], rawFlags) {
    const { kind, names } = await parseObjects(given, more);
    if (names.length === 0) throw new UsageError('name is missing: name the object, or several');
    const { describe } = await import('./run.ts');
    const { text, notFound } = await describe(kind, names, options, rawFlags);
    if (text !== '') say(text);
    if (notFound !== undefined) throw new Error(notFound);
  },
});
