import { defineCommand } from '../../command.ts';
import { namespaceFlags, temporalFlags } from '../../flag-groups.ts';

export const replayCommand = defineCommand({
  name: 'replay',
  description: `Replay a run of a workflow, such as a failed rollout or a stuck machine, against the workflow code of this version. It reports whether this code would decide the same, and if not, the first decision that differs with what it was made from. It changes nothing. Exits with 0 if all decisions are the same, with 3 if one differs, and with 1 if the run cannot be replayed.`,
  arguments: [
    [
      'workflow|file',
      'id of the workflow, or a file with a history as --export or `temporal workflow show -o json` writes it',
    ],
    ['[run]', 'id of the run, see `rollout runs`; leave it out for the newest run, or with a file'],
  ],
  flags: ['export', 'output', ...namespaceFlags, 'installation', ...temporalFlags],
  examples: [
    ['replay default/rollout/default/workers/<uid>', 'its newest run'],
    ['replay default/rollout/default/workers/<uid> <run id> --export run.json', 'keep the history of a run'],
  ],
  async run(options, [given = '', runId]) {
    const { replay } = await import('./run.ts');
    await replay(given, runId, options);
  },
});
