/** What a release consists of says the same version everywhere. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { root } from '../deploy/generators/root.ts';
import { version } from '../temporal/version.ts';

it('the package, the chart, the changelog and the recorded histories have one version', () => {
  const { version: ofChart, appVersion } = parse(readFileSync(join(root, 'deploy/chart/Chart.yaml'), 'utf8'));
  const [, released] =
    /^## \[(\d.*?)\] - \d{4}-\d\d-\d\d$/m.exec(readFileSync(join(root, 'CHANGELOG.md'), 'utf8')) ?? [];

  expect({ ofChart, appVersion, released }).toEqual({ ofChart: version, appVersion: version, released: version });
  expect(existsSync(join(root, 'test/histories', version))).toBe(true);
});

interface Package {
  readonly version?: string;
  readonly integrity?: string;
  readonly dependencies?: object;
  readonly devDependencies?: object;
  readonly optionalDependencies?: object;
}

describe('package-lock.json', () => {
  const read = <T>(file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')) as T;
  const { '': own, ...packages } = read<{ packages: Record<string, Package> }>('package-lock.json').packages;

  it('fits package.json, so that npm looks for no other version', () => {
    const { dependencies, devDependencies, optionalDependencies } = read<Package>('package.json');

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
