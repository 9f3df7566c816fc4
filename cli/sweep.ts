import { defineCommand } from './command.ts';
import { temporalFlags } from './flags.ts';
import { UsageError } from './options.ts';

export const sweepCommand = defineCommand({
  name: 'sweep',
  description:
    'Sweep the clouds now for what has no Machine, and tell what was found, deleted and kept, and why. Ends with 1 when something could not be listed or deleted, and when the sweep waits at its brake, with the list of what waits. approve: name the VMs that may go; every sweep that waits deletes those of its own that are named, keeps the others and ends.',
  arguments: [
    ['[action]', 'approve, or nothing to sweep'],
    ['[vm...]', 'for approve: ids of VMs as the sweep lists them, or names that one alone has'],
  ],
  flags: ['dryRun', 'namespace', 'output', 'installation', ...temporalFlags],
  async run(options, [action, ...vms], given) {
    if (action !== undefined && action !== 'approve') {
      throw new UsageError(`action is '${action}': give approve, or nothing to sweep`);
    }
    if (action === 'approve' && vms.length === 0) throw new UsageError('vm is missing: name the VMs that may go');
    if (action === 'approve' && given.dryRun !== undefined) {
      throw new UsageError("--dry-run is no option of 'sweep approve': give it to 'sweep' alone");
    }
    const { approve, sweep } = await import('./sweep-run.ts');
    await (action === undefined ? sweep(options, given) : approve(options, vms));
  },
});
