import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { writePythonClass } from '../../test/support/python-provider.ts';
import { until } from '../../test/support/until.ts';
import { clouds } from './demo/clouds.ts';
import { startSimulatedCloud } from './simulated-cloud/admin.ts';

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

  it('deletes the VM of a provider of the user on Ctrl-C, also on many of them, and ends with 0', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'millwright-demo-test-'));
    const cloud = await startSimulatedCloud({ dir, bootMs: 200, deleteMs: 2_000 });
    const args = ['deploy/local/demo.ts', ...(await writePythonClass(dir, cloud.url))];
    // A process group, to which a terminal sends the signal of Ctrl-C.
    const demo = spawn(process.execPath, args, { detached: true });
    try {
      let output = '';
      for (const stream of [demo.stdout, demo.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()));
      await until('the VM runs', async (see) => see(output).includes('and leaves the VMs.'));
      expect(await cloud.stats()).toMatchObject({ vmsEver: 1, vmsNow: 1 });

      const pressing = setInterval(() => {
        if (demo.exitCode === null && !output.includes(' Delete all machines and their VMs ('))
          process.kill(-demo.pid!, 'SIGINT');
      }, 100);
      demo.once('exit', () => clearInterval(pressing));
      const [code] = await once(demo, 'exit');

      expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('✓ Delete all machines') });
      expect(await cloud.stats()).toMatchObject({ vmsEver: 1, vmsNow: 0 });
    } finally {
      demo.kill('SIGKILL');
      await cloud.stop();
      await rm(dir, { recursive: true, force: true });
    }
  });
});
