import type { WorkflowKind } from '../api/workflow-id.ts';
import type { RawFlags } from './command.ts';
import { kubeconfigFlags, temporalFlags } from './flag-groups.ts';
import { flagOf } from './options.ts';

/**
 * A command line for people to run next: same servers, same installation as this command. Without the request rates:
 * commands that connect to no cluster do not take them.
 * @param foreign arguments that may look like flags, as others have chosen them
 */
export function commandLine(
  words: readonly string[],
  namespace: string,
  rawFlags: RawFlags,
  foreign: readonly string[] = [],
): string {
  const servers = (['installation', 'context', ...kubeconfigFlags, ...temporalFlags] as const).flatMap((flag) => {
    const value = rawFlags[flag];
    return value === undefined ? [] : [flagOf(flag), quoted(value)];
  });
  const last = foreign.length === 0 ? [] : ['--', ...foreign.map(quoted)];
  return ['millwright', ...words.map(quoted), '-n', namespace, ...servers, ...last].join(' ');
}

/** Most names that get a command each. */
const maxNames = 3;

/**
 * The end of a sentence on objects that do not exist: the command that shows the past of those that were deleted.
 * Empty for MachineSets, whose past no command shows.
 */
export function pastText(kind: WorkflowKind, names: readonly string[], namespace: string, rawFlags: RawFlags): string {
  const words = { Machine: ['timeline'], MachineDeployment: ['rollout', 'runs'], MachineSet: undefined }[kind];
  if (words === undefined) return '';
  const lines = names.slice(0, maxNames).map((name) => commandLine([...words, name], namespace, rawFlags));
  const others = names.length > maxNames ? ', and so on' : '';
  return `, or if ${names.length === 1 ? 'it was' : 'they were'} deleted run ${lines.join('; ')}${others}`;
}

/** As one word of a shell. */
function quoted(value: string): string {
  return isPlainWord(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

/** Whether bash, zsh and fish read it as one word without quotes. Zsh replaces `=` at the start. */
export function isPlainWord(value: string): boolean {
  return /^(?!=)[\w.,:/@%+=-]+$/.test(value);
}
