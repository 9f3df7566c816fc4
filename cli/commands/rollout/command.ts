import { defineCommand, type RawFlags } from '../../command.ts';
import { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import type { FlagName } from '../../flags.ts';
import { flagOf, UsageError } from '../../options.ts';
import { type RolloutAction, rolloutActions } from './actions.ts';

/** Flags that only one action takes. */
const ownFlags = [
  ['watch', 'status'],
  ['toRevision', 'undo'],
] as const satisfies readonly (readonly [FlagName, RolloutAction])[];

export const rolloutCommand = defineCommand({
  name: 'rollout',
  description: `Manage the rollout of a MachineDeployment, as \`kubectl rollout\` does for a Deployment.
- status: show the progress until the rollout is complete; exits with 1 once the progress deadline has passed.
- history: list the revisions.
- retry: retry now whatever the rollout and its machines are waiting for.
- pause, resume: hold back changes of the template, or apply them.
- undo: restore the template of an earlier revision.
- restart: replace all machines.`,
  arguments: [
    ['action', `${rolloutActions.slice(0, -1).join(', ')} or ${rolloutActions.at(-1)}`],
    ['name', 'name of the MachineDeployment'],
  ],
  flags: ['watch', 'toRevision', 'namespace', 'installation', ...clusterFlags, ...temporalFlags],
  async run(options, [wanted = '', name = ''], rawFlags) {
    const action = rolloutActions.find((known) => known === wanted);
    if (action === undefined) throw new UsageError(`action is '${wanted}': give one of ${rolloutActions.join(', ')}`);
    refuseForeignFlags(action, rawFlags);
    const { rollout } = await import('./run.ts');
    await rollout(action, name, options, rawFlags);
  },
});

/** Only on the command line: a variable may be set for other commands. */
function refuseForeignFlags(action: RolloutAction, rawFlags: RawFlags): void {
  const problems = ownFlags
    .filter(([name, owner]) => rawFlags[name] !== undefined && owner !== action)
    .map(
      ([name, owner]) => `${flagOf(name)} is not a flag of 'rollout ${action}': use it with 'rollout ${owner}' only`,
    );
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
}
