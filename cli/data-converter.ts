/** The data converter that the flags name, with the keys of its folder. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import type { CodecKeys } from '../temporal/codec.ts';
import { createDataConverter } from '../temporal/data-converter.ts';
import { type Options, UsageError } from './options.ts';

/** The file that says which key encrypts. */
const currentFile = 'current';
/** Its content where nothing is encrypted. */
const none = 'none';

/**
 * Throws UsageError where the keys cannot be used.
 * @param onProblem called with the same later: keys are read again while the process runs
 */
export function dataConverterOf(
  { temporalCodecKeys: folder }: Options<'temporalCodecKeys'>,
  onProblem?: (error: unknown) => void,
): DataConverter {
  return createDataConverter(folder === undefined ? undefined : () => readCodecKeys(folder), onProblem);
}

/**
 * Reads a folder with a file for each key, named by its id, and the file `current`. Hidden files are ignored: a mounted
 * Secret has some. Throws UsageError that names the file and the fix, and never its content.
 */
export function readCodecKeys(folder: string): CodecKeys {
  const ids = readNames(folder).filter((name) => !name.startsWith('.') && name !== currentFile);
  const keys = new Map(ids.map((id) => [id, readKey(join(folder, id))]));
  if (ids.includes(none)) {
    const problem = `the file ${join(folder, none)} has the name that stands for no key`;
    throw new UsageError(`--temporal-codec-keys: ${problem}: give it another name`);
  }
  const path = join(folder, currentFile);
  const fix = `write the name of the key that encrypts into it, or '${none}' to encrypt nothing`;
  const current = readText(path, fix);
  if (current === none) return { current: undefined, keys };
  if (!keys.has(current)) {
    const known = ids.length === 0 ? 'the folder has no key' : `the folder has ${ids.join(', ')}`;
    throw new UsageError(`--temporal-codec-keys: the file ${path} names no key of the folder: ${fix}; ${known}`);
  }
  return { current, keys };
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    const problem = `the folder ${folder} cannot be read (${(cause as Error).message})`;
    throw new UsageError(`--temporal-codec-keys: ${problem}: give the folder with the keys`, { cause });
  }
}

function readKey(path: string): Buffer {
  const fix = 'give 32 bytes in base64, as `openssl rand -base64 32` prints them, or remove the file';
  const text = readText(path, fix);
  if (/^[A-Za-z0-9+/]{43}=$/.test(text)) return Buffer.from(text, 'base64');
  throw new UsageError(`--temporal-codec-keys: the file ${path} is no key: ${fix}`);
}

function readText(path: string, fix: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (cause) {
    const problem = `the file ${path} cannot be read (${(cause as Error).message})`;
    throw new UsageError(`--temporal-codec-keys: ${problem}: ${fix}`, { cause });
  }
}
