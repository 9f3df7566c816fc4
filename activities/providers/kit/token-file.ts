/** Files with tokens of the worker's identity, which Secrets may name. */
import { readFile, realpath } from 'node:fs/promises';
import { isAbsolute, relative, resolve } from 'node:path';
import { z } from 'zod';
import { ProviderError } from '../provider.ts';

/** A file that a Secret names, and the folder below which such files are. */
export interface TokenFile {
  /** Key of the Secret. */
  readonly key: string;
  readonly path: string;
  readonly folder: string;
}

/** Why a Secret may not name the file; undefined: by its name it may. Does not say whether it exists. */
export function tokenFileProblem({ key, path, folder }: TokenFile): string | undefined {
  if (isAbsolute(path) && isBelow(resolve(path), folder)) return undefined;
  const fix = `name a file below ${folder}, the folder of --token-folder of the worker`;
  return `${key} is "${path}": ${fix}`;
}

const FileError = z.object({ code: z.string(), syscall: z.string() });

/** Reads a token. Throws ProviderError where the file is elsewhere, also by a link, or cannot be read. */
export async function readTokenFile({ key, path, folder }: TokenFile): Promise<string> {
  const unreadable = (why: string, cause?: unknown) => {
    const message = `the token file ${path} cannot be read (${why}): mount it into the worker`;
    return new ProviderError('Unauthenticated', message, { cause });
  };
  const problem = tokenFileProblem({ key, path, folder });
  if (problem !== undefined) throw new ProviderError('InvalidArgument', problem);
  try {
    const real = await realpath(path); // what Kubernetes mounts are links within their folder
    if (!isBelow(real, await realpath(folder))) throw unreadable(`it is a link that leads out of ${folder}`);
    const token = (await readFile(real, 'utf8')).trim();
    if (token !== '') return token;
  } catch (error) {
    const { code } = FileError.safeParse(error).data ?? {};
    throw code === undefined ? error : unreadable(code, error);
  }
  throw unreadable('it is empty');
}

function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith('../');
}
