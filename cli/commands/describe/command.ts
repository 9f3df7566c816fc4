import { defineCommand } from '../../command.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';
import { parseKind } from '../../kinds.ts';

export const describeCommand = defineCommand({
  name: 'describe',
  description: 'Show what Millwright is doing with an object, what it is waiting for and what would unblock it.',
  arguments: [
    [
      'kind',
      'machine, machinedeployment or machineset, or a plural or short name of kubectl',
      ['machine', 'machinedeployment', 'machineset'],
    ],
    ['name', 'name of the object'],
  ],
  flags: ['output', 'installation', ...personFlags, ...temporalFlags],
  async run(options, [given = '', name = ''], rawFlags) {
    const kind = parseKind(given);
    const { describe } = await import('./run.ts');
    console.log(await describe(kind, name, options, rawFlags));
  },
});
