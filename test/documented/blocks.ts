/** The commands in the documentation: lines of the blocks that are marked as `sh`. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../deploy/generators/root.ts';

/** The documents with commands that a reader may paste. */
export const documents = globSync(['*.md', 'docs/**/*.md', 'deploy/**/*.md', 'activities/**/*.md'], {
  cwd: root,
}).toSorted();

/** The commands of a document, in its order: without comments, a continued line as one. */
export function commandsOf(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...text.matchAll(/^ *```sh\n([^]*?)^ *```/gm)]
    .flatMap(([, block = '']) => block.replaceAll(/\\\n\s*/g, '').split('\n'))
    .map((line) => line.replace(/(^| +)# .*$/, '').trim())
    .filter((line) => line !== '');
}
