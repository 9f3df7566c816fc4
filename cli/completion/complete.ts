import type { Command } from '../command.ts';
import { say } from '../terminal.ts';
import { candidatesFor } from './candidates.ts';
import { namesOf } from './names.ts';

/** Prints what may come next, one word in a line. @param words as `candidatesFor` takes them */
export async function complete(commands: readonly Command[], words: readonly string[]): Promise<void> {
  const { words: found, namesOf: kind, prefix = '' } = candidatesFor(commands, words);
  const names = kind === undefined ? [] : (await namesOf(kind, words)).map((name) => `${prefix}${name}`);
  for (const word of [...found, ...names.filter((name) => name.startsWith(words.at(-1) ?? ''))]) say(word);
}
