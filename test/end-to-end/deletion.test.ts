import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { nodes, pods } from '../../kube/core.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('a Machine', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ alone: 'its process is killed' });
    millwright.recordAs('deletion');
  }, 120_000);
  afterEach(async () => {
    await millwright.cloud.setFaults();
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const vmsOf = async (ref: ObjectRef) => (await millwright.cloud.vms()).filter(({ name }) => name === ref.name);

  it('[mcm 7] [mcm 43] is drained, loses its VM, its Node and last its finalizer', async () => {
    const ref = await millwright.createMachine('ordered');
    const machine = await millwright.untilPhase(ref, 'Running');
    const nodeName = machine.metadata.labels?.[labels.node] ?? '';
    expect((await millwright.target.get(nodes, { name: nodeName })).metadata.finalizers).toContain(finalizers.node);
    const { namespace } = millwright;
    const pod = {
      metadata: { namespace, name: 'web' },
      spec: { nodeName, containers: [{ name: 'web', image: 'web' }], terminationGracePeriodSeconds: 1 },
    };
    await millwright.target.create(pods, pod);
    await until(
      'the pod runs',
      async () => (await millwright.target.get(pods, { namespace, name: 'web' })).status?.phase === 'Running',
    );
    // While the cloud refuses to delete, everything before that step is done and nothing after it.
    await millwright.cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'delete' });
    await millwright.control.delete(machines, ref);

    const deleting = await until('the VM is being deleted', async () => {
      const found = await millwright.control.get(machines, ref);
      return found.status?.lastOperation?.description?.includes('Initiate VM deletion') ? found : undefined;
    });

    expect(deleting.metadata.finalizers).toContain(finalizers.machine);
    expect(phaseOf(deleting)).toBe('Terminating');
    expect((await millwright.target.get(nodes, { name: nodeName })).spec?.unschedulable).toBe(true);
    expect(await millwright.target.find(pods, { namespace, name: 'web' })).toBeUndefined();
    expect(await vmsOf(ref)).toHaveLength(1);

    // A process that dies here goes on at the same step.
    await millwright.processes.at(-1)?.kill('SIGKILL');
    await millwright.start();
    await millwright.cloud.setFaults();
    await millwright.untilGone(ref);
    expect(await vmsOf(ref)).toEqual([]);
    expect(await millwright.target.find(nodes, { name: nodeName })).toBeUndefined();
  }, 120_000);

  it('[mcm 10] goes when its Node is deleted, and the Node stays until the VM is gone', async () => {
    const ref = await millwright.createMachine('by-node');
    await millwright.untilPhase(ref, 'Running');
    await millwright.cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'delete' });
    await millwright.target.delete(nodes, { name: 'by-node' });

    await millwright.untilPhase(ref, 'Terminating');

    expect((await millwright.target.get(nodes, { name: 'by-node' })).metadata.deletionTimestamp).toBeDefined();
    expect(await vmsOf(ref)).toHaveLength(1);
    await millwright.cloud.setFaults();
    await millwright.untilGone(ref);
    expect(await millwright.target.find(nodes, { name: 'by-node' })).toBeUndefined();
    expect(await vmsOf(ref)).toEqual([]);
  }, 120_000);

  it('[mcm 20] [mcm 44] that never joined is Pending, and loses its VM without a drain', async () => {
    await millwright.cloud.setFaults({ kind: 'neverJoin' });
    const ref = await millwright.createMachine('never-joined');

    const { status } = await millwright.untilPhase(ref, 'Pending');

    expect(status?.currentStatus?.timeoutActive).toBe(true);
    expect(status?.lastOperation).toMatchObject({ type: 'Create', state: 'Processing' });
    expect(await millwright.describe(ref)).toMatchObject({
      phase: 'Pending',
      waitingFor: 'node never-joined to register',
    });

    await millwright.control.delete(machines, ref);

    await millwright.untilGone(ref);
    expect(await vmsOf(ref)).toEqual([]);
  }, 60_000);

  for (const effect of ['done', 'none'] as const) {
    it(`[mcm 45] that is deleted while its create call hangs (effect ${effect}) leaves no VM`, async () => {
      const { cloud, control } = millwright;
      await cloud.setFaults({ kind: 'hang', operation: 'create', effect });
      const ref = await millwright.createMachine(`hanging-${effect}`);
      await until('the create call hangs', async () => {
        const [hang] = await cloud.faults();
        return hang !== undefined && hang.shown > 0;
      });
      // The VM of a call that is never answered becomes a node all the same.
      if (effect === 'done') await until('its node is there', () => millwright.target.find(nodes, { name: ref.name }));

      await control.delete(machines, ref);

      await millwright.untilGone(ref, 90_000);
      expect(await vmsOf(ref)).toEqual([]);
      expect(await millwright.target.find(nodes, { name: ref.name })).toBeUndefined();
    }, 120_000);
  }

  it('[invariant 2] leaves no Node when its VM was never heard of and the worker dies while it deletes that', async () => {
    const { cloud, target } = millwright;
    const hangs = (operation: 'create' | 'delete') => ({ kind: 'hang', effect: 'done', operation }) as const;
    await cloud.setFaults(hangs('create'), hangs('delete'));
    const ref = await millwright.createMachine('never-heard');
    await until('its node has registered', () => target.find(nodes, { name: ref.name }));
    await millwright.control.delete(machines, ref);
    await until('the cloud deletes the VM', async () => (await vmsOf(ref)).length === 0, {
      describe: () => millwright.story(),
    });

    await millwright.processes[0]?.kill('SIGKILL');
    await cloud.setFaults();
    await millwright.start();

    await millwright.untilGone(ref);
    expect(await target.find(nodes, { name: ref.name })).toBeUndefined();
  }, 120_000);
});
