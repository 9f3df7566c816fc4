import { defineCommand, type Given } from '../../command.ts';
import { clusterFlags, temporalFlags } from '../../flags.ts';
import { lineOf } from '../../line.ts';
import { type FlagName, flagOf, UsageError } from '../../options.ts';

const actions = ['status', 'history', 'retry', 'pause', 'resume', 'undo', 'restart'] as const;
export type RolloutAction = (typeof actions)[number];

/** Options that one action alone has. */
const ownOptions = [
  ['watch', 'status'],
  ['toRevision', 'undo'],
] as const satisfies readonly (readonly [FlagName, RolloutAction])[];

export const rolloutCommand = defineCommand({
  name: 'rollout',
  description:
    'Look after the rollout of a MachineDeployment, as `kubectl rollout` does for others. status: tell how far it is until it is complete; ends with 1 when the progress deadline has passed. history: its revisions. retry: try again now whatever it and the machines that hold it up wait for. pause and resume: changes of the template wait, or no longer. undo: back to the template of an earlier revision. restart: replace all machines.',
  arguments: [
    ['action', `${actions.slice(0, -1).join(', ')} or ${actions.at(-1)}`],
    ['name', 'name of the MachineDeployment'],
  ],
  flags: ['watch', 'toRevision', 'namespace', 'installation', ...clusterFlags, ...temporalFlags],
  async run(options, [wanted = '', name = ''], given) {
    const action = actions.find((known) => known === wanted);
    if (action === undefined) throw new UsageError(`action is '${wanted}': give one of ${actions.join(', ')}`);
    refuseForeign(action, given);
    const { rollout } = await import('./run.ts');
    await rollout(action, name, options, given);
  },
});

/** A variable may be there for other commands. What is on the command line was meant for this one. */
function refuseForeign(action: RolloutAction, given: Given): void {
  const problems = ownOptions
    .filter(([name, owner]) => given[name] !== undefined && owner !== action)
    .map(([name, owner]) => `${flagOf(name)} is no option of 'rollout ${action}': give it to 'rollout ${owner}' alone`);
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
}

/** A command line for people to run next, at the same servers and for the same installation as this one. */
export function rolloutLine(
  action: RolloutAction,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  given: Given,
): string {
  return lineOf(['rollout', action, name], namespace, given);
}
