/** The actions of `millwright rollout`, and the command lines that other commands advise. */
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';

export const rolloutActions = [
  'status',
  'plan',
  'history',
  'runs',
  'retry',
  'pause',
  'resume',
  'undo',
  'restart',
] as const;
export type RolloutAction = (typeof rolloutActions)[number];

/** A command line for people to run next: same servers, same installation as this command. */
export function rolloutCommandLine(
  action: RolloutAction,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  rawFlags: RawFlags,
): string {
  return commandLine(['rollout', action, name], namespace, rawFlags);
}
