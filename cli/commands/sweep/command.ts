import { defineCommand } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import { namespaceFlags, temporalFlags } from '../../flag-groups.ts';
import { UsageError } from '../../options.ts';

export const sweepCommand = defineCommand({
  name: 'sweep',
  description: `Start an orphan sweep now: find resources in the clouds that have no Machine, delete them, and report what was deleted or kept, and why. Exits with 1 if something could not be listed or deleted, or if the sweep waits for approval; then it lists the orphans that wait.
- approve: name the orphans that may be deleted. Each waiting sweep that lists one of them deletes those, keeps the others and ends.`,
  arguments: [
    ['[action]', 'approve; leave it out to start a sweep', ['approve']],
    ['[orphan...]', 'for approve: ids as the sweep lists them, or names, if only one listed resource has that name'],
  ],
  flags: ['dryRun', ...namespaceFlags, 'output', 'installation', ...temporalFlags],
  examples: [
    ['sweep --dry-run', 'what a sweep would delete'],
    ['sweep', 'look for orphans now'],
    ['sweep approve vm-1 vm-2', 'delete two of the orphans that wait'],
  ],
  async run(options, [action, ...orphans], rawFlags) {
    if (action !== undefined && action !== 'approve') {
      throw new UsageError(`action is '${action}': give approve, or leave it out to start a sweep`);
    }
    if (action === 'approve' && orphans.length === 0) {
      const stuck = commandLine(['stuck'], options.namespace, rawFlags);
      throw new UsageError(`orphan is missing: name the orphans that may be deleted, which ${stuck} lists`);
    }
    if (action === 'approve' && rawFlags.dryRun !== undefined) {
      throw new UsageError("--dry-run is not a flag of 'sweep approve': use it with 'sweep' only");
    }
    const { approve, sweep } = await import('./run.ts');
    await (action === undefined ? sweep(options, rawFlags) : approve(options, orphans, rawFlags));
  },
});
