/** The address of the cluster of the Nodes leads to another cluster for a while. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { namespaces, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { listBlocked } from '../../temporal/blocked.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startMillwright } from '../support/millwright.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { until } from '../support/until.ts';

let dir: string;
let proxy: FaultProxy;
let millwright: Installation;
const healthMs = 5_000;

beforeEach(async () => {
  proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2'));
  dir = await mkdtemp(join(tmpdir(), 'millwright-other-target-'));
  await proxy.writeKubeconfig(join(dir, 'target'));
  millwright = await startInstallation({
    targetKubeconfig: fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2'),
    cloud: { statusUpdateMs: 2 ** 31 - 1 },
    isStopped: true,
  });
  const { namespace, processes } = millwright;
  const clusters = { kubeconfig: fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), targetKubeconfig: join(dir, 'target') };
  const flags = ['--machine-health-timeout', `${healthMs / 1_000}s`];
  processes.push(await startMillwright({ ...clusters, namespace, isElected: false, flags }));
});
afterEach(async () => {
  await millwright?.stop();
  await proxy.close();
  await rm(dir, { recursive: true });
});

it('[invariant 6] no Node is drained, and no machine, VM or Node goes, while the address leads elsewhere; then all goes on', async () => {
  const { control, target, cloud, namespace, temporal } = millwright;
  await millwright.createDeployment('led', 3);
  const draining = await millwright.createMachine('led-draining');
  const doomed = await millwright.createMachine('led-doomed');
  const before = await millwright.untilMachines(5, 'Running');
  const nodeUids = async () => (await millwright.nodes()).map(({ metadata }) => metadata.uid).toSorted();
  const vmIds = async () => (await cloud.vms()).map(({ id }) => id);
  const [vms, uids] = [await vmIds(), await nodeUids()];
  await target.create(namespaces, { metadata: { name: namespace } });
  const podOf = ({ name }: ObjectRef) => ({ namespace, name });
  for (const ref of [draining, doomed]) {
    await target.create(pods, {
      metadata: { ...podOf(ref), finalizers: ['example.com/stays'] },
      spec: { nodeName: ref.name, containers: [{ name: 'app', image: 'app' }] },
    });
  }
  await control.delete(machines, draining);
  await until('its pod is evicted', async (see) => {
    return see((await target.get(pods, podOf(draining))).metadata.deletionTimestamp) !== undefined;
  });
  const sick = before.find(({ metadata }) => metadata.name.startsWith('led-') && metadata.ownerReferences)!;
  await reportCondition(target, sick.metadata.name, 'Ready', 'Unknown');
  await millwright.untilPhase({ namespace, name: sick.metadata.name }, 'Unknown');

  await proxy.leadTo(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
  await control.delete(machines, doomed);
  await until('deletions wait for the API server', async (see) => {
    const blocked = await listBlocked({ client: temporal, name: namespace });
    const waiting = blocked
      .filter(({ blockedOn }) => blockedOn === 'KubernetesApi')
      .map(({ workflowId }) => workflowId);
    see(blocked);
    return [draining, doomed].every(({ uid }) => waiting.some((id) => id.endsWith(uid)));
  });
  expect((await millwright.command('stuck')).output).toContain('the cluster of the Nodes is another one than before');
  const overdueMs = Date.now() + 2 * healthMs;
  await until('the health timeout is over', async () => Date.now() > overdueMs);
  expect([await vmIds(), await nodeUids()]).toEqual([vms, uids]);
  expect((await target.get(pods, podOf(doomed))).metadata.deletionTimestamp).toBeUndefined();
  const names = (list: readonly Machine[]) => list.map(({ metadata }) => metadata.name).toSorted();
  expect(names(await millwright.machines())).toEqual(names(before));

  await proxy.leadTo(fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2'));
  for (const ref of [draining, doomed]) {
    await until('its pod is evicted', async (see) => {
      return see((await target.get(pods, podOf(ref))).metadata.deletionTimestamp) !== undefined;
    });
    await target.patch(pods, podOf(ref), mergePatch({ metadata: { finalizers: null } }));
    await millwright.untilGone(ref);
  }
  await millwright.untilGone({ namespace, name: sick.metadata.name });
  await millwright.untilMachines(3, 'Running');
  expect(await cloud.stats()).toMatchObject({ vmsNow: 3, vmsEver: 6 });
});
