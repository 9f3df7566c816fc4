import type { Command } from '../command.ts';
import { isPlainWord } from '../command-line.ts';
import { say } from '../terminal.ts';
import { candidatesFor } from './candidates.ts';
import { namesOf } from './names.ts';

/**
 * Prints what may come next, one word in a line. Leaves out names that need quotes, because bash inserts them as they
 * are, and those that would be read as flags.
 * @param words as `candidatesFor` takes them
 */
export async function complete(commands: readonly Command[], words: readonly string[]): Promise<void> {
  const { words: found, namesOf: kind, prefix = '' } = candidatesFor(commands, words);
  const known = kind === undefined ? [] : await namesOf(kind, words);
  const offered = known.filter((name) => isPlainWord(name) && !name.startsWith('-'));
  const names = offered.map((name) => `${prefix}${name}`);
  for (const word of [...found, ...names.filter((name) => name.startsWith(words.at(-1) ?? ''))]) say(word);
}
