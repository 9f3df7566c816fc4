import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { clouds } from './demo/clouds.ts';

describe('npm run demo', () => {
  it.each(['aws', 'azure', 'openstack'] as const)(
    'runs the tour with --cloud %s and ends with 0',
    async (name) => {
      const { stdout } = await promisify(execFile)(process.execPath, [
        ...['deploy/local/demo.ts', '--cloud', name, '--exit'],
      ]);

      expect(stdout).toMatch(
        new RegExp(`✓ ${clouds[name].title} [^]*${name}:///[^]*✓ Delete the deployment: no Machine, .* is left`),
      );
    },
    900_000, // where the packages of OpenStack have to be unpacked
  );
});
