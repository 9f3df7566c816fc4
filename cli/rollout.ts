import { defineCommand } from './command.ts';
import { clusterFlags, temporalFlags } from './flags.ts';
import { UsageError } from './options.ts';

const actions = ['status', 'history', 'retry', 'pause', 'resume', 'undo', 'restart'] as const;
export type RolloutAction = (typeof actions)[number];

export const rolloutCommand = defineCommand({
  name: 'rollout',
  description:
    'Look after the rollout of a MachineDeployment, as `kubectl rollout` does for others. status: tell how far it is until it is complete; ends with 1 when the progress deadline has passed. history: its revisions. retry: try again now whatever it and the machines that hold it up wait for. pause and resume: changes of the template wait, or no longer. undo: back to the template of an earlier revision. restart: replace all machines.',
  arguments: [
    ['action', `${actions.slice(0, -1).join(', ')} or ${actions.at(-1)}`],
    ['name', 'name of the MachineDeployment'],
  ],
  flags: ['watch', 'toRevision', 'namespace', 'installation', ...clusterFlags, ...temporalFlags],
  async run(options, [given = '', name = '']) {
    const action = actions.find((known) => known === given);
    if (action === undefined) throw new UsageError(`action is '${given}': give one of ${actions.join(', ')}`);
    const { rollout } = await import('./rollout-run.ts');
    await rollout(action, name, options);
  },
});
