import { defineCommand, type RawFlags } from '../../command.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';
import type { FlagName } from '../../flags.ts';
import { parseNames } from '../../kinds.ts';
import { flagOf, UsageError } from '../../options.ts';
import { say } from '../../terminal.ts';
import { type RolloutAction, rolloutActions } from './actions.ts';

/** Flags that only some actions take. */
const ownFlags = [
  ['watch', ['status']],
  ['toRevision', ['undo']],
  ['output', ['plan', 'runs']],
  ['filename', ['plan']],
] as const satisfies readonly (readonly [FlagName, readonly RolloutAction[]])[];

export const rolloutCommand = defineCommand({
  name: 'rollout',
  description: `Manage the rollout of a MachineDeployment, as \`kubectl rollout\` does for a Deployment.
- status: show the progress until the rollout is complete; exits with 1 once the progress deadline has passed, or if the rollout went back by itself because of that.
- plan: show step by step what the rollout will do, or what it would do with a changed manifest (-f). It writes nothing.
- history: list the revisions.
- runs: list the runs of the rollout's workflow, the newest first, with their outcome and why they failed. It needs no deployment: runs stay until the retention of the Temporal namespace ends.
- retry: retry now whatever the rollout and its machines are waiting for.
- pause, resume: hold back changes of the template, or apply them.
- undo: restore the template of an earlier revision.
- restart: replace all machines.`,
  arguments: [
    ['action', `${rolloutActions.slice(0, -1).join(', ')} or ${rolloutActions.at(-1)}`, rolloutActions],
    ['[name]', 'name of the MachineDeployment, or machinedeployment/<name>; leave it out with -f'],
  ],
  flags: ['watch', 'toRevision', 'filename', 'output', 'installation', ...personFlags, ...temporalFlags],
  examples: [
    ['rollout status workers', 'follow a rollout until it is complete'],
    ['rollout plan -f workers.yaml', 'what a changed manifest would do'],
    ['rollout undo workers --to-revision 2', 'go back to a revision'],
    ['rollout retry workers', 'try again what it waits for'],
  ],
  async run(options, [wanted = '', ...given], rawFlags) {
    const action = rolloutActions.find((known) => known === wanted);
    if (action === undefined) throw new UsageError(`action is '${wanted}': give one of ${rolloutActions.join(', ')}`);
    refuseForeignFlags(action, rawFlags);
    const [name] = await parseNames('MachineDeployment', given);
    const isFromFile = action === 'plan' && options.filename !== undefined;
    if (isFromFile && name !== undefined) throw new UsageError(`name is '${name}': leave it out with --filename`);
    if (!isFromFile && name === undefined) {
      const orFile = action === 'plan' ? ', or give --filename with a manifest' : '';
      throw new UsageError(`name is missing: name a MachineDeployment${orFile}`);
    }
    if (action === 'runs') {
      const { runs } = await import('./runs.ts'); // asks Temporal alone
      return say(await runs({ key: { namespace: options.namespace, name: name ?? '' }, options, rawFlags }));
    }
    const { rollout } = await import('./run.ts');
    await rollout(action, name ?? '', options, rawFlags);
  },
});

/** Only on the command line: a variable may be set for other commands. */
function refuseForeignFlags(action: RolloutAction, rawFlags: RawFlags): void {
  const problems = ownFlags
    .filter(([name, owners]) => rawFlags[name] !== undefined && !owners.some((owner) => owner === action))
    .map(([name, owners]) => {
      const those = owners.map((owner) => `'rollout ${owner}'`).join(' and ');
      return `${flagOf(name)} is not a flag of 'rollout ${action}': use it with ${those} only`;
    });
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
}
