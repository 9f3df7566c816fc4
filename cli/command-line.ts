import type { RawFlags } from './command.ts';
import { clusterFlags, temporalFlags } from './flag-groups.ts';
import { flagOf } from './options.ts';

/** A command line for people to run next: same servers, same installation as this command. */
export function commandLine(words: readonly string[], namespace: string, rawFlags: RawFlags): string {
  const servers = (['installation', 'context', ...clusterFlags, ...temporalFlags] as const).flatMap((flag) => {
    const value = rawFlags[flag];
    return value === undefined ? [] : [flagOf(flag), quoted(value)];
  });
  return ['millwright', ...words, '-n', namespace, ...servers].join(' ');
}

/** As one word of a shell. */
function quoted(value: string): string {
  return /^[\w.,:/@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
