/** Doc comments of the sources, for reference pages: what is documented is documented once, where it is defined. */
import { readFileSync } from 'node:fs';
import { root } from './root.ts';

/** By name: the doc comment of each export or property of a file, as one line without its `@` tags. */
export function docCommentsIn(path: string, from = ''): Map<string, string> {
  const source = readFileSync(`${root}${path}`, 'utf8');
  const found = source
    .slice(source.indexOf(from))
    .matchAll(/\/\*\*((?:(?!\*\/)[^])*)\*\/\s*(?:export (?:const|async function|function) )?(\w+)/g);
  const comments = new Map<string, string>();
  for (const [, comment = '', name = ''] of found) {
    const lines = comment.split('\n').map((line) => line.replace(/^\s*\* ?/, '').trim());
    const tags = lines.findIndex((line) => line.startsWith('@'));
    if (!comments.has(name))
      comments.set(
        name,
        lines
          .slice(0, tags < 0 ? undefined : tags)
          .join(' ')
          .trim(),
      );
  }
  return comments;
}

/** The comment of a name, in two parts. Throws an Error that says what the comment lacks. */
export function splitComment(
  comments: Map<string, string>,
  name: string,
  separator: 'Written by' | 'Sent by',
): { readonly meaning: string; readonly by: string } {
  const [, meaning, by] = new RegExp(`^(.+) ${separator} (.+)\\.$`).exec(comments.get(name) ?? '') ?? [];
  if (meaning === undefined || by === undefined) {
    throw new Error(`${name}: expected a doc comment that ends with "${separator} <who>."`);
  }
  return { meaning, by };
}
