import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { version } from '../temporal/version.ts';
import { purlOf } from '../test/support/purl.ts';
import { root } from './generators/root.ts';
import { findServer } from './local/servers.ts';
import { findProblems, makeFiles } from './release.ts';

const run = promisify(execFile);

interface LockEntry {
  readonly version: string;
  readonly dev?: true;
  readonly optional?: true;
  readonly devOptional?: true;
}

describe('npm run release', () => {
  let checkout: string;
  beforeAll(() => findServer('helm'), 900_000); // where it has to be built
  beforeAll(async () => {
    checkout = await mkdtemp(join(tmpdir(), 'millwright-release-'));
    for (const file of ['package.json', 'package-lock.json', 'CHANGELOG.md', 'Containerfile', 'deploy']) {
      await cp(join(root, file), join(checkout, file), {
        recursive: true,
        filter: (path) => !/deploy\/(local|generators)/.test(path),
      });
    }
    await change('Containerfile', (text) => text.replace(/^(ARG BASE=[^@\n]*).*/m, '$1'));
    await git('init', '--quiet');
    await commit();
  });
  afterAll(() => rm(checkout, { recursive: true }));

  const git = async (...args: string[]) => {
    const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'];
    await run('git', [...identity, ...args], { cwd: checkout });
  };
  async function commit() {
    await git('add', '--all');
    await git('commit', '--quiet', '--allow-empty', '--message', 'a');
  }
  async function change(file: string, how: (text: string) => string) {
    const path = join(checkout, file);
    await writeFile(path, how(await readFile(path, 'utf8')));
  }

  it('names all that is missing for the release', async () => {
    expect(await findProblems(checkout, '9.8')).toEqual([expect.stringContaining("'9.8' is not the version")]);

    await writeFile(join(checkout, 'new'), '');
    await git('tag', 'v9.8.0');
    await git('commit', '--quiet', '--allow-empty', '--message', 'b');
    const places = [
      'package.json',
      'package-lock.json',
      'the root of package-lock.json',
      'version in',
      'appVersion in',
    ];
    expect(await findProblems(checkout, '9.8.0')).toEqual(
      [...places, 'the image in', 'CHANGELOG.md', 'test/histories/9.8.0', 'the base image', 'the checkout has']
        .map((place) => expect.stringMatching(`^${place}`))
        .concat(expect.stringContaining('the tag v9.8.0 is at another commit')),
    );
    await git('tag', '--delete', 'v9.8.0');
    await rm(join(checkout, 'new'));
  });

  describe('of a checkout that is the release', () => {
    let folder: string;
    beforeAll(async () => {
      folder = join(checkout, '.cache/files');
      const setVersion = (text: string) => text.replaceAll(version, '9.8.0');
      await change('deploy/chart/Chart.yaml', setVersion);
      await change('deploy/manifests/millwright.yaml', setVersion);
      const setFirst = (text: string) => text.replace(`"version": "${version}"`, '"version": "9.8.0"');
      await change('package-lock.json', (text) => setFirst(setFirst(text)));
      await change('package.json', (text) => setFirst(text).replace(/"prepack": .*\n/, '')); // it takes ten seconds
      await change('CHANGELOG.md', (text) => text.replace(/^## \[.*/m, '## [9.8.0] - 2026-11-28'));
      await change('Containerfile', (text) => text.replace(/^ARG BASE=.*/m, `$&@sha256:${'a'.repeat(64)}`));
      await writeFile(join(checkout, '.gitignore'), '.cache\n');
      await mkdir(join(checkout, 'test/histories/9.8.0'), { recursive: true });
      await commit();
      expect(await findProblems(checkout, '9.8.0')).toEqual([]);
      await makeFiles(checkout, '9.8.0', folder);
    });

    it('makes a package, a chart, what the image is built from, and their checksums', async () => {
      const name = 'millwright-9.8.0';
      const contentOf = async (file: string) =>
        (await run('tar', ['--list', '--file', join(folder, file)])).stdout.trim().split('\n');

      const checked = await run('sha256sum', ['--check', 'SHA256SUMS'], { cwd: folder });
      expect(checked.stdout.trim().split('\n')).toEqual(
        [`${name}-chart.tgz`, `${name}-image.tar.gz`, `${name}.cdx.json`, `${name}.tgz`].map((file) => `${file}: OK`),
      );
      expect(await contentOf(`${name}.tgz`)).toContain('package/deploy/crds/machine.sapcloud.io_machines.yaml');
      expect(await contentOf(`${name}-chart.tgz`)).toContain('millwright/Chart.yaml');
      expect(await contentOf(`${name}-image.tar.gz`)).toEqual(['Containerfile', 'package-lock.json', `${name}.tgz`]);
    });

    it('lists every package of the image and the base image, with their checksums', async () => {
      const bill = JSON.parse(await readFile(join(folder, 'millwright-9.8.0.cdx.json'), 'utf8'));
      const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
      const entries: [string, LockEntry][] = Object.entries(packages);
      const inImage = entries.filter(
        ([path, { dev, optional, devOptional }]) => path && !dev && !optional && !devOptional,
      );
      const purls = inImage.map(purlOf);

      const [base, ...components] = bill.components;
      expect({ format: bill.bomFormat, name: bill.metadata.component.name }).toEqual({
        format: 'CycloneDX',
        name: 'millwright',
      });
      expect(base).toMatchObject({ type: 'container', hashes: [{ alg: 'SHA-256', content: 'a'.repeat(64) }] });
      expect(new Set(components.map(({ purl }: { purl: string }) => purl))).toEqual(new Set(purls));
      expect(purls.filter((purl) => purl.startsWith('pkg:npm/zod@'))).toHaveLength(1); // also for development
    });
  });
});
