import { defineCommand } from '../../command.ts';
import { clusterFlags, temporalFlags } from '../../flags.ts';
import { UsageError } from '../../options.ts';

/** Kinds by what kubectl calls them. */
const kinds = {
  Machine: ['machine', 'machines', 'mc'],
  MachineDeployment: ['machinedeployment', 'machinedeployments', 'mcd'],
  MachineSet: ['machineset', 'machinesets', 'mcs'],
} as const;

export const describeCommand = defineCommand({
  name: 'describe',
  description: 'Tell what is being done with an object, what that waits for and what would unblock it.',
  arguments: [
    ['kind', 'machine, machinedeployment or machineset, or what kubectl calls them for short'],
    ['name', 'name of the object'],
  ],
  flags: ['namespace', 'output', 'installation', ...clusterFlags, ...temporalFlags],
  async run(options, [kind = '', name = ''], given) {
    const kindOf = (Object.keys(kinds) as (keyof typeof kinds)[]).find((known) =>
      kinds[known].some((spelling) => spelling === kind.toLowerCase()),
    );
    if (kindOf === undefined) {
      throw new UsageError(`kind is '${kind}': give one of ${Object.values(kinds).flat().join(', ')}`);
    }
    const { describe } = await import('./run.ts');
    console.log(await describe(kindOf, name, options, given));
  },
});
