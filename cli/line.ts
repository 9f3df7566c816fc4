import type { Given } from './command.ts';
import { clusterFlags, temporalFlags } from './flags.ts';
import { flagOf } from './options.ts';

/** A command line for people to run next, at the same servers and for the same installation as this one. */
export function lineOf(words: readonly string[], namespace: string, given: Given): string {
  const where = (['installation', ...clusterFlags, ...temporalFlags] as const).flatMap((flag) => {
    const value = given[flag];
    return value === undefined ? [] : [flagOf(flag), quoted(value)];
  });
  return ['millwright', ...words, '-n', namespace, ...where].join(' ');
}

/** As a shell takes it for one word. */
function quoted(value: string): string {
  return /^[\w.,:/@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
