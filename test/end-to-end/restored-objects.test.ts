/**
 * Objects are restored without status in the middle of a rollout, and nobody can say for long which machines are
 * available.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { OwnerDescription } from '../../workflows/rollout/messages.ts';
import { type FaultProxy, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { isActive } from '../support/machine-facts.ts';
import { recreate } from '../support/recreated.ts';
import { until } from '../support/until.ts';

const replicas = 12;

let dir: string;
let proxy: FaultProxy;
let millwright: Installation;

beforeEach(async () => {
  const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
  proxy = await startFaultProxy(kubeconfig);
  dir = await mkdtemp(join(tmpdir(), 'millwright-restored-objects-'));
  const processKubeconfig = join(dir, 'kubeconfig');
  await proxy.writeKubeconfig(processKubeconfig);
  millwright = await startInstallation({ processKubeconfig, flags: ['--resource-exhausted-retry', '1s'] });
});
afterEach(async () => {
  await millwright?.stop();
  await proxy.close();
  await rm(dir, { recursive: true });
});

it('[invariant 5] a rollout deletes no healthy machine that was restored without status, before that says its phase', async () => {
  const { cloud, namespace, processes } = millwright;
  const tags = { cluster: namespace, is: 'full' };
  const providerSpec = { endpoint: cloud.url, machineType: 'small', region: 'here', tags };
  await millwright.createClass('full', { providerSpec });
  await millwright.createDeployment('restored', replicas);
  await millwright.untilRunning('restored', replicas);
  const template = { spec: { class: { name: 'full' } } };
  await millwright.changeDeployment('restored', { spec: { template } });
  await until('one machine is new and Running', async (see) => {
    const found = see((await millwright.machinesOf('restored')).map((each) => [each.spec?.class?.name, phaseOf(each)]));
    return (found as string[][]).some((each) => String(each) === 'full,Running');
  });
  await cloud.setFaults({ kind: 'capacity', tags: { is: 'full' } });
  await until('one machine waits for capacity', async (see) => {
    const found = await millwright.machinesOf('restored');
    see(found.map(phaseOf));
    const waiting = found.filter((each) => phaseOf(each) === 'CrashLoopBackOff');
    return found.length === replicas + 1 && waiting.length === 1;
  });
  const vmNames = async () => (await cloud.vms()).map(({ name }) => name).toSorted();
  const before = await vmNames();
  expect(before).toHaveLength(replicas);

  for (const process of processes.splice(0)) await process.stop();
  await recreate(millwright, { withStatus: false });
  proxy.setRule(({ method, url }) => {
    const isStatus = /\/machines\/[^/]+\/status$/.test(url.pathname);
    if (!isStatus || method === 'GET') return undefined;
    return { kind: 'answer', status: 503, body: statusBody(503, 'ServiceUnavailable') };
  });
  await millwright.start();
  const { metadata } = await millwright.deployment('restored');
  const ref = { dialect: 'gardener', namespace, name: 'restored', uid: metadata.uid };
  await until('the rollout has adopted all machines, and waits', async (see) => {
    const { doing, replicas } = see(
      await millwright.handleOf(ref, 'MachineDeployment').query<OwnerDescription>('describe'),
    ) as OwnerDescription;
    return doing === 'waiting for its machines' && replicas.total >= before.length;
  });
  const deleted = (await millwright.machines()).filter((each) => !isActive(each)).map(({ metadata }) => metadata.name);
  expect([await vmNames(), deleted]).toEqual([before, []]);

  proxy.setRule();
  await cloud.setFaults();
  await millwright.changeDeployment('restored', { spec: { strategy: { rollingUpdate: { maxSurge: replicas } } } });
  await millwright.untilComplete('restored', 'full');
  expect((await cloud.stats()).vmsNow).toBe(replicas);
});
