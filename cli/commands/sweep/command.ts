import { defineCommand } from '../../command.ts';
import { temporalFlags } from '../../flags.ts';
import { UsageError } from '../../options.ts';

export const sweepCommand = defineCommand({
  name: 'sweep',
  description:
    'Start a sweep now: find what has no Machine in the clouds, delete it, and report what was deleted and kept, and why. Ends with 1 when something could not be listed or deleted, or when the sweep waits for approval; then it lists what waits. approve: name the orphans that may be deleted; each waiting sweep that lists one of them deletes those, keeps the others and ends.',
  arguments: [
    ['[action]', 'approve; leave it out to start a sweep'],
    ['[orphan...]', 'for approve: ids as the sweep lists them, or names, where only one listed resource has that name'],
  ],
  flags: ['dryRun', 'namespace', 'output', 'installation', ...temporalFlags],
  async run(options, [action, ...orphans], given) {
    if (action !== undefined && action !== 'approve') {
      throw new UsageError(`action is '${action}': give approve, or leave it out to start a sweep`);
    }
    if (action === 'approve' && orphans.length === 0) {
      throw new UsageError('orphan is missing: name the orphans that may be deleted');
    }
    if (action === 'approve' && given.dryRun !== undefined) {
      throw new UsageError("--dry-run is no option of 'sweep approve': give it to 'sweep' alone");
    }
    const { approve, sweep } = await import('./run.ts');
    await (action === undefined ? sweep(options, given) : approve(options, orphans));
  },
});
