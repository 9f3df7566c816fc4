import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { findServer, isAtLeast, parseVersion, serverSources } from './servers.ts';

describe('parseVersion', () => {
  it.each([
    ['etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8', '3.6.8'],
    ['Kubernetes v1.34.10', '1.34.10'],
    ['Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0', '1.32.4'],
    ['temporal version 1.8.2 (Server 1.31.2, UI 2.50.1)', '1.8.2'],
    ['command not found', undefined],
  ])('reads %j as %s', (output, version) => {
    expect(parseVersion(output)).toBe(version);
  });
});

describe('isAtLeast', () => {
  it('compares numbers, not text', () => {
    expect(isAtLeast('3.5.13', '3.5.13')).toBe(true);
    expect(isAtLeast('3.5.9', '3.5.13')).toBe(false);
    expect(isAtLeast('3.10.0', '3.5.13')).toBe(true);
    expect(isAtLeast('1.5.0', '1.31.0')).toBe(false);
  });

  it('accepts what we would build ourselves', () => {
    for (const { version, minimum } of Object.values(serverSources)) {
      expect(isAtLeast(version.slice(1), minimum)).toBe(true);
    }
  });
});

describe('findServer', () => {
  const environment = { ...process.env };
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-servers-'));
    process.env.XDG_CACHE_HOME = join(folder, 'cache');
    process.env.PATH = ['old', 'new'].map((name) => join(folder, name)).join(delimiter) + delimiter + process.env.PATH;
    delete process.env.MILLWRIGHT_ETCD;
    await plant('cache/millwright/bin/etcd-v3.6.8', '3.6.8');
  });

  afterEach(async () => {
    process.env = { ...environment };
    await rm(folder, { recursive: true, force: true });
  });

  it('takes the path of the environment variable without asking for its version', async () => {
    process.env.MILLWRIGHT_ETCD = await plant('mine', '3.4.0');
    await plant('new/etcd', '3.6.1');

    expect(await findServer('etcd')).toBe(join(folder, 'mine'));
  });

  it('names the variable whose path is no program', async () => {
    process.env.MILLWRIGHT_ETCD = join(folder, 'nothing');

    await expect(findServer('etcd')).rejects.toThrow(
      `MILLWRIGHT_ETCD is ${folder}/nothing, which is not an executable`,
    );
  });

  it('takes the first program on PATH that is new enough', async () => {
    await plant('old/etcd', '3.4.23');
    await plant('new/etcd', '3.5.13');

    expect(await findServer('etcd')).toBe(join(folder, 'new/etcd'));
  });

  it('prefers its cache to an old program on PATH', async () => {
    process.env.PATH = `${join(folder, 'old')}${delimiter}/bin`;
    await plant('old/etcd', '3.4.23');

    expect(await findServer('etcd')).toBe(join(folder, 'cache/millwright/bin/etcd-v3.6.8'));
  });

  async function plant(name: string, version: string): Promise<string> {
    const path = join(folder, name);
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, `#!/bin/sh\necho "etcd Version: ${version}"\n`, { mode: 0o755 });
    return path;
  }
});
