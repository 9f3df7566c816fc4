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
    ['[name]', 'name of the object; leave it out with <kind>/<name>'],
  ],
  flags: ['output', 'installation', ...personFlags, ...temporalFlags],
  async run(options, [given = '', ...more], rawFlags) {
    const { kind, names } = parseObjects(given, more);
    const [name, surplus] = names;
    if (name === undefined) throw new UsageError('name is missing: name the object');
    if (surplus !== undefined) throw new UsageError(`name is '${surplus}': name one object`);
    const { describe } = await import('./run.ts');
    say(await describe(kind, name, options, rawFlags));
  },
});
