/** Workflows that were changed on purpose. */
import { globSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildWorkflowBundle } from '../../temporal/bundle.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Bundles a copy of workflows/ in which each file was changed by this. Throws when that changes nothing. */
export async function bundleChanged(change: (source: string) => string): Promise<{ code: string }> {
  // Within the repository, where the copy finds the packages that it imports.
  await mkdir(join(root, '.cache'), { recursive: true });
  const copy = await mkdtemp(join(root, '.cache/changed-workflows-'));
  try {
    for (const folder of ['workflows', 'api']) await cp(join(root, folder), join(copy, folder), { recursive: true });
    let changes = 0;
    for (const file of globSync(join(copy, 'workflows/**/*.ts'))) {
      const source = await readFile(file, 'utf8');
      const changed = change(source);
      if (changed === source) continue;
      await writeFile(file, changed);
      changes++;
    }
    if (changes === 0) throw new Error('the change has found nothing to change in workflows/');
    return await buildWorkflowBundle(join(copy, 'workflows'));
  } finally {
    await rm(copy, { recursive: true });
  }
}
