import { defineCommand } from '../../command.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';

export const uninstallCommand = defineCommand({
  name: 'uninstall',
  description: `Remove what an installation leaves when its processes are stopped: finalizers, annotations, Leases, Schedules and open workflows. It deletes no VM, no Node and no Machine. Without --yes it changes nothing, and shows what it would do, and which VMs need attention. It refuses while controllers or workers run, as they would write everything again. It may be repeated at any time.`,
  flags: ['yes', 'machines', 'withoutTemporal', 'output', 'installation', ...personFlags, ...temporalFlags],
  examples: [
    ['uninstall -n team-a --machines unmanaged', 'what would be removed'],
    ['uninstall -n team-a --machines mcm --yes', 'leave the machines to the system that Millwright replaces'],
    ['uninstall -n team-a --machines unmanaged --yes', 'leave VMs and Nodes, which nothing manages then'],
  ],
  async run(options, _args, rawFlags) {
    const { uninstall } = await import('./run.ts');
    await uninstall(options, rawFlags);
  },
});
