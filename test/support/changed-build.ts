/** Another build of Millwright: this checkout, with some of its workflow code changed. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folders = ['activities', 'api', 'cli', 'controllers', 'kube', 'temporal', 'workflows'];

/** By file, what is replaced by what. */
export type Changes = Readonly<Record<string, readonly (readonly [was: string, is: string])[]>>;

export interface ChangedBuild {
  /** What its command line begins with. */
  readonly program: readonly string[];
  remove(): Promise<void>;
}

/** Makes the build, for `startMillwright`. Throws when a file has nothing of what is to be replaced. */
export async function makeChangedBuild(changes: Changes): Promise<ChangedBuild> {
  const folder = await mkdtemp(join(tmpdir(), 'millwright-build-'));
  for (const each of [...folders, 'package.json']) await cp(join(root, each), join(folder, each), { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, replacements] of Object.entries(changes)) {
    const file = join(folder, name);
    let source = await readFile(file, 'utf8');
    for (const [was, is] of replacements) {
      if (!source.includes(was)) throw new Error(`there is nothing to replace in ${name}: ${was}`);
      source = source.replace(was, () => is);
    }
    await writeFile(file, source);
  }
  const program = [process.execPath, join(folder, 'cli/main.ts')];
  return { program, remove: () => rm(folder, { recursive: true }) };
}
