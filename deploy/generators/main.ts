/** `npm run generate`: writes the generated files. With `--check` it writes nothing and fails when one differs. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { generatedFiles } from './files.ts';
import { root } from './root.ts';

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const stale = Object.entries(generatedFiles()).filter(([path, content]) => read(join(root, path)) !== content);
for (const [path, content] of stale) {
  console.log(values.check ? `${path} is not up to date: run npm run generate` : `Writing ${path}`);
  if (values.check) continue;
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
}
if (values.check && stale.length > 0) process.exitCode = 1;

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
