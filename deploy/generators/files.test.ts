import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { generatedFiles } from './files.ts';
import { root } from './root.ts';

describe('generated files', () => {
  const files = generatedFiles();

  it.each(Object.keys(files))('%s is what the code says: else run npm run generate', (path) => {
    const file = join(root, path);

    expect(existsSync(file) ? readFileSync(file, 'utf8') : `${path} is missing: run npm run generate`).toBe(
      files[path],
    );
  });

  it('are all there is in deploy/crds, so that applying the folder applies nothing of old', () => {
    const found = globSync('deploy/crds/*', { cwd: root }).toSorted();

    expect(found).toEqual(
      Object.keys(files)
        .filter((path) => path.startsWith('deploy/crds/'))
        .toSorted(),
    );
  });
});
