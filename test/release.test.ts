/** What a checkout consists of says the same version everywhere, and its packages are pinned. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { root } from '../deploy/generators/root.ts';
import { lastRelease, versionsOf } from '../deploy/release.ts';
import { version } from '../temporal/version.ts';

const read = (file: string) => readFileSync(join(root, file), 'utf8');

it('the package, its lock file, the chart and the manifests have one version: of the last release, or of the next one with -dev', async () => {
  const released = await lastRelease(root);
  const [number = ''] = version.split('-');
  const isNext = number.localeCompare(released, 'en', { numeric: true }) > 0;

  expect(new Set(Object.values(await versionsOf(root)))).toEqual(new Set([version]));
  expect(version).toBe(isNext ? `${number}-dev` : released);
  expect(existsSync(join(root, 'test/histories', released))).toBe(true);
});

interface Package {
  readonly version?: string;
  readonly integrity?: string;
  readonly dependencies?: object;
  readonly devDependencies?: object;
  readonly optionalDependencies?: object;
}

describe('package-lock.json', () => {
  const lock: { packages: Record<string, Package> } = JSON.parse(read('package-lock.json'));
  const { '': own, ...packages } = lock.packages;

  it('fits package.json, so that npm looks for no other version', () => {
    const { dependencies, devDependencies, optionalDependencies }: Package = JSON.parse(read('package.json'));

    expect(own).toMatchObject({ dependencies, devDependencies, optionalDependencies });
  });

  it('has the checksum of every package', () => {
    expect(Object.keys(packages).length).toBeGreaterThan(100);
    expect(Object.entries(packages).filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))).toEqual([]);
  });

  it('has the Node that runs this test, for each platform', () => {
    const found = ['x64', 'arm64'].map((cpu) => packages[`node_modules/node-linux-${cpu}`]?.version);

    expect(found.map((each) => `v${each}`)).toEqual([process.version, process.version]);
    expect(realpathSync(process.execPath)).toBe(
      realpathSync(join(root, `node_modules/node-linux-${process.arch}/bin/node`)),
    );
  });
});
