/** etcd of the control cluster is restored from a backup: it has lost Machines whose VMs are there. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from '@jest/globals';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { heldSweep, quickSweeps, sweep, untilOld } from '../support/sweeps.ts';

let millwright: Installation;
let stack: Stack;
let dir: string;

afterEach(async () => {
  await millwright?.stop();
  await stack?.stop();
  await rm(dir, { recursive: true, force: true });
});

it('[mcm 89 partly] [invariant 4] a control cluster that was restored from a backup costs no VM of a Machine that the backup does not have', async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-restored-'));
  stack = await startStack({ dir });
  const { kubeconfig, temporalAddress, etcd } = stack;
  const [{ apiServer }] = stack.clusters;
  millwright = await startInstallation({ kubeconfig, temporalAddress, flags: quickSweeps });
  const { cloud, processes, namespace } = millwright;
  const stopAll = async () => {
    for (const each of processes.splice(0)) await each.stop();
    await apiServer.kill('SIGKILL'); // it would wait for its watchers
    await etcd.kill();
  };
  const startServers = async () => {
    await etcd.restart();
    await apiServer.restart();
  };
  await millwright.createMachine(`before-${namespace}`);
  await millwright.untilMachines(1, 'Running');
  await stopAll();
  await cp(join(dir, 'etcd'), join(dir, 'etcd-copy'), { recursive: true });
  await startServers();
  await millwright.start();
  await millwright.createMachine(`after-${namespace}`);
  await millwright.untilMachines(2, 'Running');
  await untilOld(millwright);
  expect((await sweep(millwright, '--temporal-address', temporalAddress)).report.unanswered).toEqual([]);
  await stopAll();
  await rm(join(dir, 'etcd'), { recursive: true });
  await cp(join(dir, 'etcd-copy'), join(dir, 'etcd'), { recursive: true });
  await startServers();
  await millwright.start();

  const { code, output } = await heldSweep(millwright, '--temporal-address', temporalAddress);

  expect(code).toBe(1);
  expect(output).toMatch(/waits for approval: the list of Machines has resourceVersion \d+, but a sweep read \d+ at/);
  expect(output).toContain(`after-${namespace}`);
  expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 2 });
});
