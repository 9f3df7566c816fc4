import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { refusal } from '../../../test/support/refusal.ts';
import { readTokenFile, tokenFileProblem } from './token-file.ts';

const key = 'tokenFile';
let dir: string;
let folder: string;

beforeAll(async () => {
  dir = await realpath(await mkdtemp(join(tmpdir(), 'token-file-')));
  folder = join(dir, 'tokens');
  await mkdir(join(folder, '..2026_11_28'), { recursive: true });
  await writeFile(join(folder, '..2026_11_28', 'token'), 'a-token\n');
  await symlink('..2026_11_28', join(folder, '..data'));
  await symlink('..data/token', join(folder, 'token'));
  await writeFile(join(folder, 'empty'), '\n');
  await writeFile(join(dir, 'secret'), 'of somebody else');
  await writeFile(join(dir, 'tokens-of-others'), 'of somebody else');
  await symlink('../secret', join(folder, 'link'));
  await symlink('..', join(folder, 'up'));
  await symlink(folder, join(dir, 'linked'));
});
afterAll(() => rm(dir, { recursive: true }));

const read = (name: string) => readTokenFile({ key, path: name, folder });

describe('a token file', () => {
  it('is read as Kubernetes mounts it, and without white space at its end', async () => {
    expect(await read(join(folder, 'token'))).toBe('a-token');
    expect(await read(join(folder, '..', 'tokens', '.', 'token'))).toBe('a-token');
    expect(await readTokenFile({ key, path: join(dir, 'linked', 'token'), folder: join(dir, 'linked') })).toBe(
      'a-token',
    );
  });

  it.each([
    ['elsewhere', () => join(dir, 'secret')],
    ['elsewhere, and does not exist', () => join(dir, 'missing')],
    ['above, by its name', () => `${folder}/../secret`],
    ['beside, with a name that begins so', () => `${folder}-of-others`],
    ['the folder itself', () => `${folder}/`],
    ['relative', () => 'token'],
  ])('is refused by its name if it is %s', async (_, path) => {
    const problem = `${key} is "${path()}": name a file below ${folder}, the folder of --token-folder of the worker`;

    expect(tokenFileProblem({ key, path: path(), folder })).toBe(problem);
    expect(await refusal(read(path()))).toMatchObject({ code: 'InvalidArgument', message: problem });
  });

  it.each([
    ['link', /it is a link that leads out of .*tokens\)/],
    ['up/secret', /it is a link that leads out of .*tokens\)/],
    ['empty', /\(it is empty\)/],
    ['missing', /\(ENOENT\)/],
    ['..data', /\(EISDIR\)/],
  ])('is not read if it is %s', async (name, why) => {
    const { code, message } = await refusal(read(join(folder, name)));

    expect([code, message]).toEqual(['Unauthenticated', expect.stringMatching(why)]);
    expect(message).toMatch(/^the token file \S+ cannot be read \(.*\): mount it into the worker$/);
  });
});
