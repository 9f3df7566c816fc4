import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels, taints } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { startReflector } from '../../kube/reflector.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

describe('the health of a Node', () => {
  let millwright: Installation;

  beforeAll(async () => {
    // The kubelets report once and no more, so that what a test writes into a Node stays.
    millwright = await startInstallation({ alone: 'its process is killed', cloud: { statusUpdateMs: 2 ** 31 - 1 } });
    millwright.recordAs('health');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const statusOf = ({ status }: Machine, type: string) =>
    status?.conditions?.find((condition) => condition.type === type)?.status;
  const untilMirrored = (ref: ObjectRef, type: string, status: string) =>
    millwright.untilMachine(ref, `says ${type} ${status}`, (machine) => statusOf(machine, type) === status);

  async function running(name: string, spec: object = {}): Promise<ObjectRef> {
    const ref = await millwright.createMachine(name, { class: { kind: 'MachineClass', name: 'small' }, ...spec });
    await millwright.untilPhase(ref, 'Running');
    return ref;
  }

  /** Nodes have the names of their machines. */
  const report = (name: string, type: string, status: string, at?: Date) =>
    reportCondition(millwright.target, name, type, status, at);

  it('[mcm 30] shows on the Machine when a condition comes, changes or goes, and not with its heartbeats', async () => {
    const ref = await running('health-mirrored');
    const versions = new Set<string>();
    const watch = startReflector({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      logger: recordingLogger(),
      onEvent: (event) => {
        if ('object' in event && event.object.metadata.name === ref.name) {
          versions.add(event.object.metadata.resourceVersion);
        }
      },
    });
    try {
      await watch.waitForSync();
      const untilSeen = ({ metadata }: Machine) =>
        until('the watch is up to date', async () => versions.has(metadata.resourceVersion));
      await report(ref.name, 'Frozen', 'False');
      await untilSeen(await untilMirrored(ref, 'Frozen', 'False'));
      const before = versions.size;

      for (let beat = 1; beat <= 5; beat++)
        await report(ref.name, 'Frozen', 'False', new Date(Date.now() + beat * 1e4));
      await report(ref.name, 'Frozen', 'True');
      const changed = await untilMirrored(ref, 'Frozen', 'True');

      // One write for the change, none for the heartbeats before it.
      await untilSeen(changed);
      expect(versions.size).toBe(before + 1);
      expect(phaseOf(changed)).toBe('Running');

      const remaining = strategicMergePatch({ status: { conditions: [{ type: 'Frozen', $patch: 'delete' }] } });
      await millwright.target.patch(nodes, { name: ref.name }, remaining, { subresource: 'status' });
      await millwright.untilMachine(ref, 'says nothing of it', (machine) => statusOf(machine, 'Frozen') === undefined);
    } finally {
      await watch.stop();
    }
  });

  it('[mcm 31] [mcm 34] makes its machine Unknown, and Running again without another VM', async () => {
    await millwright.createDeployment('health', 1);
    const machine = await until('it runs', async (see) =>
      see(await millwright.machines()).find(
        (each) => each.metadata.labels?.[labels.name] === 'health' && phaseOf(each) === 'Running',
      ),
    );
    const ref = refOf(machine);
    const { name } = ref;
    const { vmsEver } = await millwright.cloud.stats();
    // What is not on the list is no reason.
    await report(name, 'MemoryPressure', 'True');
    expect(phaseOf(await untilMirrored(ref, 'MemoryPressure', 'True'))).toBe('Running');

    for (const [type, bad, good] of [
      ['Ready', 'False', 'True'],
      ['Ready', 'Unknown', 'True'],
      ['DiskPressure', 'True', 'False'],
      ['ReadonlyFilesystem', 'Unknown', 'False'],
    ] as const) {
      await report(name, type, bad);
      const unhealthy = await millwright.untilPhase(ref, 'Unknown');
      expect(statusOf(unhealthy, type)).toBe(bad);
      expect(unhealthy.status?.currentStatus?.timeoutActive).toBe(true);
      expect(unhealthy.status?.lastOperation).toMatchObject({ type: 'HealthCheck', state: 'Processing' });
      await until('describe says so', async (see) => see(await millwright.describe(ref)).blockedOn === 'NodeHealth');

      await report(name, type, good);
      const healthy = await millwright.untilPhase(ref, 'Running');
      expect(statusOf(healthy, type)).toBe(good);
      expect(healthy.status?.currentStatus?.timeoutActive).toBe(false);
      expect(healthy.status?.lastOperation).toMatchObject({ type: 'HealthCheck', state: 'Successful' });
      expect(healthy.metadata.uid).toBe(machine.metadata.uid);
    }
    expect((await millwright.cloud.stats()).vmsEver).toBe(vmsEver);
  });

  it('[mcm 32] is judged by the conditions that its Machine names instead of those of the flag', async () => {
    const ref = await running('health-chosen', { nodeConditions: 'MemoryPressure,Frozen' });
    await report(ref.name, 'DiskPressure', 'True');
    expect(phaseOf(await untilMirrored(ref, 'DiskPressure', 'True'))).toBe('Running');

    for (const type of ['MemoryPressure', 'Frozen']) {
      await report(ref.name, type, 'True');
      await millwright.untilPhase(ref, 'Unknown');
      await report(ref.name, type, 'False');
      await millwright.untilPhase(ref, 'Running');
    }
  });

  it('[mcm 33 partly] is Unknown when the Node has lost its status, until that is there again', async () => {
    const ref = await running('health-empty');
    const nothing = mergePatch({ status: { conditions: null } });
    await millwright.target.patch(nodes, { name: ref.name }, nothing, { subresource: 'status' });
    expect((await millwright.untilPhase(ref, 'Unknown')).metadata.deletionTimestamp).toBeUndefined();

    await report(ref.name, 'Ready', 'True');
    await millwright.untilPhase(ref, 'Running');
  });

  it('[mcm 33] is Unknown when the Node is gone, until its kubelet registers it again; one deleted on purpose takes its machine along', async () => {
    const { target, cloud, processes } = millwright;
    const ref = await running('health-vanished');
    const vm = (await cloud.vms()).find(({ name }) => name === ref.name);
    // Nobody is there to see it go, which would delete the Machine.
    await processes.at(-1)?.kill('SIGKILL');
    await target.patch(nodes, { name: ref.name }, mergePatch({ metadata: { finalizers: null } }));
    await target.delete(nodes, { name: ref.name });
    await millwright.start();

    const lost = await millwright.untilPhase(ref, 'Unknown');
    expect(lost.metadata.deletionTimestamp).toBeUndefined();
    expect(await millwright.describe(ref)).toMatchObject({ blockedOn: 'NodeHealth' });

    await cloud.restartVm(vm?.id ?? '');
    const found = await millwright.untilPhase(ref, 'Running');
    expect(found.spec?.providerID).toBe(lost.spec?.providerID);
    expect((await cloud.vms()).filter(({ name }) => name === ref.name)).toHaveLength(1);

    await until(
      'it is marked as ours',
      async (see) => see(await target.get(nodes, { name: ref.name })).metadata.finalizers !== undefined,
    );
    await target.delete(nodes, { name: ref.name });
    await millwright.untilGone(ref);
  });

  it('[mcm 22] counts only when its critical components are ready', async () => {
    const { namespace, cloud, target } = millwright;
    const { key, effect } = taints.criticalComponentsNotReady;
    const tags = { cluster: namespace };
    await millwright.createClass('critical', {
      providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags, taints: [{ key, effect }] },
    });
    const ref = await millwright.createMachine('health-critical', {
      class: { kind: 'MachineClass', name: 'critical' },
    });
    await until(
      'it waits for them',
      async (see) =>
        see(await millwright.describe(ref).catch(() => undefined))?.waitingFor?.startsWith('the critical components')
          ? true
          : undefined,
      { describe: () => millwright.story() },
    );
    // It says what its Node does all the same.
    await report(ref.name, 'Ready', 'False');
    expect(phaseOf(await untilMirrored(ref, 'Ready', 'False'))).toBe('Pending');
    await report(ref.name, 'Ready', 'True');
    expect(phaseOf(await untilMirrored(ref, 'Ready', 'True'))).toBe('Pending');

    await target.patch(nodes, { name: ref.name }, mergePatch({ spec: { taints: null } }));

    await millwright.untilPhase(ref, 'Running');
    // Once it has joined, the taint does not send it back.
    await target.patch(nodes, { name: ref.name }, mergePatch({ spec: { taints: [{ key, effect }] } }));
    await report(ref.name, 'Frozen', 'True');
    expect(phaseOf(await untilMirrored(ref, 'Frozen', 'True'))).toBe('Running');
  });
});
