import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { mountFiles } from '../test/support/mounted-files.ts';
import { readCodecKeys } from './data-converter.ts';
import { UsageError } from './options.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-keys-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const key = Buffer.alloc(32, 7);
const write = (name: string, content: string) => writeFile(join(folder, name), content);

describe('readCodecKeys', () => {
  it('reads the keys and the current one of a mounted Secret', async () => {
    const secret = await mountFiles(folder);
    await secret.write({
      '2026-05': key.toString('base64'),
      '2026-11': `${key.toString('base64')}\n`,
      current: '2026-11\n',
    });

    expect(readCodecKeys(folder)).toEqual({
      current: '2026-11',
      keys: new Map([
        ['2026-05', key],
        ['2026-11', key],
      ]),
    });
  });

  it('has no current key where the file says none', async () => {
    await write('a', key.toString('base64'));
    await write('current', 'none');

    expect(readCodecKeys(folder)).toEqual({ current: undefined, keys: new Map([['a', key]]) });
  });

  const openssl = 'give 32 bytes in base64, as `openssl rand -base64 32` prints them, or remove the file';
  const named = "write the name of the key that encrypts into it, or 'none' to encrypt nothing";

  it.each([
    ['a key that is too short', { a: key.subarray(1).toString('base64'), current: 'a' }, `a is no key: ${openssl}`],
    ['a key in hexadecimal', { a: key.toString('hex'), current: 'a' }, `a is no key: ${openssl}`],
    ['an empty key', { a: '', current: 'a' }, `a is no key: ${openssl}`],
    ['no file current', { a: key.toString('base64') }, `): ${named}`],
    ['a current key that is not there', { a: key.toString('base64'), current: 'b' }, `${named}; the folder has a`],
    ['no key', { current: 'b' }, `${named}; the folder has no key`],
  ])('refuses %s, with the file and the fix', async (_, files, message) => {
    for (const [name, content] of Object.entries(files)) await write(name, content);

    const refused = refusalOf(folder);
    expect(refused.startsWith('--temporal-codec-keys: ')).toBe(true);
    expect(refused).toContain(`file ${folder}/`);
    expect(refused.endsWith(message)).toBe(true);
    expect(refused.includes(key.toString('hex').slice(0, 8))).toBe(false);
  });

  it('refuses a folder in place of a key', async () => {
    await mkdir(join(folder, 'a'));
    await write('current', 'a');

    expect(refusalOf(folder)).toContain(`the file ${folder}/a cannot be read (EISDIR`);
  });

  it('refuses a folder that cannot be read', () => {
    expect(refusalOf(join(folder, 'nope'))).toMatch(
      /^--temporal-codec-keys: the folder .*\/nope cannot be read \(ENOENT.*\): give the folder with the keys$/,
    );
  });
});

function refusalOf(path: string): string {
  try {
    readCodecKeys(path);
    return '';
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}
