import type { WorkflowKind } from '../api/workflow-id.ts';
import type { RawFlags } from './command.ts';
import { kubeconfigFlags, temporalFlags } from './flag-groups.ts';
import { flagOf } from './options.ts';

/**
 * A command line for people to run next: same servers, same installation as this command. Without the request rates:
 * commands that connect to no cluster do not take them.
 */
export function commandLine(words: readonly string[], namespace: string, rawFlags: RawFlags): string {
  const servers = (['installation', 'context', ...kubeconfigFlags, ...temporalFlags] as const).flatMap((flag) => {
    const value = rawFlags[flag];
    return value === undefined ? [] : [flagOf(flag), quoted(value)];
  });
  return ['millwright', ...words.map(quoted), '-n', namespace, ...servers].join(' ');
}

/**
 * The end of a sentence on objects that do not exist: the command that shows the past of those that were deleted.
 * Empty for MachineSets, whose past no command shows.
 */
export function pastText(kind: WorkflowKind, names: readonly string[], namespace: string, rawFlags: RawFlags): string {
  const words = { Machine: ['timeline'], MachineDeployment: ['rollout', 'runs'], MachineSet: undefined }[kind];
  if (words === undefined) return '';
  const lines = names.map((name) => commandLine([...words, name], namespace, rawFlags));
  return `, or if ${names.length === 1 ? 'it was' : 'they were'} deleted run ${lines.join('; ')}`;
}

/** As one word of a shell. */
function quoted(value: string): string {
  return /^[\w.,:/@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
