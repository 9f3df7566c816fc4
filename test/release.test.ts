/** What a release consists of says the same version everywhere. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
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
