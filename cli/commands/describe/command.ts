import { defineCommand } from '../../command.ts';
import { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { UsageError } from '../../options.ts';

/** Kinds by the names that kubectl accepts. */
const kinds = {
  Machine: ['machine', 'machines', 'mc'],
  MachineDeployment: ['machinedeployment', 'machinedeployments', 'mcd'],
  MachineSet: ['machineset', 'machinesets', 'mcs'],
} as const;

export const describeCommand = defineCommand({
  name: 'describe',
  description: 'Show what Millwright is doing with an object, what it is waiting for and what would unblock it.',
  arguments: [
    ['kind', 'machine, machinedeployment or machineset, or a plural or short name of kubectl'],
    ['name', 'name of the object'],
  ],
  flags: ['namespace', 'output', 'installation', ...clusterFlags, ...temporalFlags],
  async run(options, [given = '', name = ''], rawFlags) {
    const kind = (Object.keys(kinds) as (keyof typeof kinds)[]).find((known) =>
      kinds[known].some((spelling) => spelling === given.toLowerCase()),
    );
    if (kind === undefined) {
      throw new UsageError(`kind is '${given}': give one of ${Object.values(kinds).flat().join(', ')}`);
    }
    const { describe } = await import('./run.ts');
    console.log(await describe(kind, name, options, rawFlags));
  },
});
