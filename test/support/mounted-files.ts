import { renameSync } from 'node:fs';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface MountedFiles {
  path(name: string): string;
  /** Replaces all files at once. */
  write(files: Readonly<Record<string, string | Buffer>>): Promise<void>;
}

/** Files as kubelet mounts a Secret: the symbolic link `..data` moves from one directory to the next. */
export async function mountFiles(folder: string): Promise<MountedFiles> {
  let version = 0;
  await mkdir(folder, { recursive: true });
  return {
    path: (name) => join(folder, name),
    async write(files) {
      const previous = join(folder, `..${version}`);
      version += 1;
      const directory = `..${version}`;
      await mkdir(join(folder, directory));
      for (const [name, content] of Object.entries(files)) await writeFile(join(folder, directory, name), content);
      await symlink(directory, join(folder, '..data_tmp'));
      renameSync(join(folder, '..data_tmp'), join(folder, '..data')); // no reader of this process is in the middle
      for (const name of version === 1 ? Object.keys(files) : []) await symlink(`..data/${name}`, join(folder, name));
      await rm(previous, { recursive: true, force: true });
    },
  };
}
