import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { nodes, pods } from '../../kube/core.ts';
import { startReflector } from '../../kube/reflector.ts';
import type { StoreEvent } from '../../kube/store.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';

describe('a Machine', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ alone: 'its process is killed' });
    millwright.recordAs('deletion');
  });
  afterEach(async () => {
    await millwright.cloud.setFaults();
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const presentVmsOf = async (ref: ObjectRef) => (await millwright.cloud.vms()).filter(({ name }) => name === ref.name);
  /** VMs, disks, NICs and addresses of the Machine that are in the cloud. */
  const leftoversOf = async ({ uid }: ObjectRef) =>
    (await millwright.cloud.resources()).filter(({ tags }) => tags[names.machineUid] === uid);

  /**
   * Types of the activities of the newest run and of those that it continues, with what became of them, oldest first.
   */
  async function activitiesOf({ name, uid }: ObjectRef): Promise<string[]> {
    const { temporal, namespace } = millwright;
    const id = workflowId(namespace, 'Machine', { dialect: 'gardener', namespace, name, uid });
    const lines: { readonly ms: number; readonly line: string }[] = [];
    let runId: string | undefined; // the newest first: a list of runs may be behind
    do {
      const types = new Map<string, string>();
      const { events } = await temporal.workflow.getHandle(id, runId).fetchHistory();
      runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined;
      for (const event of events ?? []) {
        const ms = Number(event.eventTime?.seconds ?? 0) * 1_000 + (event.eventTime?.nanos ?? 0) / 1e6;
        const { activityTaskScheduledEventAttributes: scheduled, ...others } = event;
        if (scheduled) types.set(String(event.eventId), scheduled.activityType?.name ?? '');
        const ended = [
          others.activityTaskCompletedEventAttributes,
          others.activityTaskFailedEventAttributes,
          others.activityTaskCanceledEventAttributes,
          others.activityTaskTimedOutEventAttributes,
        ].find((each) => each);
        if (scheduled) lines.push({ ms, line: `${scheduled.activityType?.name} scheduled` });
        if (ended) lines.push({ ms, line: `${types.get(String(ended.scheduledEventId))} ended` });
      }
    } while (runId !== undefined);
    return lines.toSorted((a, b) => a.ms - b.ms).map(({ line }) => line);
  }

  it('[mcm 7] [mcm 43 partly] [invariant 3] has its finalizer before any cloud is called, is drained, loses its VM, its Node and last its finalizer', async () => {
    const { cloud } = millwright;
    const ref = await millwright.createMachine('ordered', { class: { kind: 'MachineClass', name: 'later' } });
    // Nothing can be made of a class that is missing, and the finalizer is there all the same.
    const refused = await millwright.untilPhase(ref, 'CrashLoopBackOff');
    expect(refused.metadata.finalizers).toContain(finalizers.machine);
    expect(
      (await cloud.calls()).filter(({ path, token }) => token?.startsWith(ref.uid) || path.includes(ref.uid)),
    ).toEqual([]);
    await millwright.createClass('later');
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
      async (see) => see(await millwright.target.get(pods, { namespace, name: 'web' })).status?.phase === 'Running',
    );
    // While the cloud refuses to delete, everything before that step is done and nothing after it.
    await millwright.cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'delete' });
    await millwright.control.delete(machines, ref);

    const deleting = await until('the VM is being deleted', async (see) => {
      const found = see(await millwright.control.get(machines, ref));
      return found.status?.lastOperation?.description?.includes('Initiate VM deletion') ? found : undefined;
    });

    expect(deleting.metadata.finalizers).toContain(finalizers.machine);
    expect(phaseOf(deleting)).toBe('Terminating');
    expect((await millwright.target.get(nodes, { name: nodeName })).spec?.unschedulable).toBe(true);
    expect(await millwright.target.find(pods, { namespace, name: 'web' })).toBeUndefined();
    expect(await presentVmsOf(ref)).toHaveLength(1);

    // A process that dies here goes on at the same step.
    await millwright.processes.at(-1)?.kill('SIGKILL');
    await millwright.start();
    const own = [`Node ${nodeName}`, `Machine ${ref.name}`]; // the Nodes of other tests are in the same cluster
    const gone = await startWatch(own);
    await millwright.cloud.setFaults();
    await millwright.untilGone(ref);
    expect(await leftoversOf(ref)).toEqual([]);
    expect(await millwright.target.find(nodes, { name: nodeName })).toBeUndefined();
    // The API server numbers all changes: the Node went before the Machine, and that with its finalizer.
    expect(await gone()).toEqual(own);
  });

  /**
   * Watches these Machines and Nodes from now on. Answers with what waits until all are gone, and names them in order.
   */
  async function startWatch(own: readonly string[]): Promise<() => Promise<string[]>> {
    const gone: { readonly version: bigint; readonly name: string }[] = [];
    const { control, target, namespace } = millwright;
    const note = (kind: string, event: StoreEvent<KubeObject>) => {
      if (event.kind !== 'deleted') return;
      const { name, resourceVersion } = event.object.metadata;
      const of = `${kind} ${name}`;
      if (own.includes(of)) gone.push({ version: BigInt(resourceVersion), name: of });
    };
    const logger = recordingLogger();
    const watches = [
      startReflector({
        client: control,
        resource: machines,
        namespace,
        logger,
        onEvent: (event) => note('Machine', event),
      }),
      startReflector({ client: target, resource: nodes, logger, onEvent: (event) => note('Node', event) }),
    ];
    await Promise.all(watches.map((watch) => watch.waitForSync()));
    return async () => {
      await until('all are gone', async () => gone.length >= own.length || undefined);
      await Promise.all(watches.map((watch) => watch.stop()));
      return gone.toSorted((a, b) => Number(a.version - b.version)).map(({ name }) => name);
    };
  }

  it('[mcm 10] goes when its Node is deleted, and the Node stays until the VM is gone', async () => {
    const ref = await millwright.createMachine('by-node');
    await millwright.untilPhase(ref, 'Running');
    await millwright.cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'delete' });
    await millwright.target.delete(nodes, { name: 'by-node' });

    await millwright.untilPhase(ref, 'Terminating');

    expect((await millwright.target.get(nodes, { name: 'by-node' })).metadata.deletionTimestamp).toBeDefined();
    expect(await presentVmsOf(ref)).toHaveLength(1);
    await millwright.cloud.setFaults();
    await millwright.untilGone(ref);
    expect(await millwright.target.find(nodes, { name: 'by-node' })).toBeUndefined();
    expect(await leftoversOf(ref)).toEqual([]);
  });

  it('[mcm 20] [mcm 44] that never joined is Pending, and loses its VM without a drain', async () => {
    await millwright.cloud.setFaults({ kind: 'neverJoin' });
    const ref = await millwright.createMachine('never-joined');

    const { status } = await millwright.untilPhase(ref, 'Pending');

    expect(status?.currentStatus?.timeoutActive).toBe(true);
    expect(status?.lastOperation).toMatchObject({ type: 'Create', state: 'Processing' });
    await until('it waits for its Node', async (see) => {
      const { phase, waitingFor } = see(await millwright.describe(ref));
      return phase === 'Pending' && waitingFor === 'node never-joined to register';
    });

    await millwright.control.delete(machines, ref);

    await millwright.untilGone(ref);
    expect(await leftoversOf(ref)).toEqual([]);
    const done = await activitiesOf(ref);
    expect(done).toContain('ensureVm scheduled');
    expect(done).toContain('deleteVm scheduled');
    expect(done).not.toContain('drainNode scheduled');
  });

  for (const effect of ['done', 'none'] as const) {
    it(`[mcm 45] that is deleted while its create call hangs (effect ${effect}) waits for the call and leaves nothing in the cloud`, async () => {
      const { cloud, control } = millwright;
      await cloud.setFaults({ kind: 'hang', operation: 'create', effect });
      const ref = await millwright.createMachine(`hanging-${effect}`);
      await until('the create call hangs', async (see) => {
        const [hang] = see(await cloud.faults());
        return hang !== undefined && hang.shown > 0;
      });
      // The VM of a call that is never answered becomes a node all the same.
      if (effect === 'done') await until('its node is there', () => millwright.target.find(nodes, { name: ref.name }));

      await control.delete(machines, ref);

      await millwright.untilGone(ref);
      expect(await leftoversOf(ref)).toEqual([]);
      const done = await activitiesOf(ref);
      expect(done.indexOf('deleteVm scheduled')).toBeGreaterThan(done.lastIndexOf('ensureVm ended'));
      expect(done).toContain('ensureVm ended');
      expect(await millwright.target.find(nodes, { name: ref.name })).toBeUndefined();
    });
  }

  it('[invariant 2] leaves nothing in the cloud and no Node when its VM was never reported and the worker dies while it deletes the VM', async () => {
    const { cloud, target } = millwright;
    const hangs = (operation: 'create' | 'delete') => ({ kind: 'hang', effect: 'done', operation }) as const;
    await cloud.setFaults(hangs('create'), hangs('delete'));
    const ref = await millwright.createMachine('never-heard');
    await until('its node has registered', () => target.find(nodes, { name: ref.name }));
    await millwright.control.delete(machines, ref);
    await until('the cloud deletes the VM', async (see) => see(await presentVmsOf(ref)).length === 0, {
      describe: () => millwright.story(),
    });

    await millwright.processes.at(-1)?.kill('SIGKILL');
    await cloud.setFaults();
    await millwright.start();

    await millwright.untilGone(ref);
    expect(await leftoversOf(ref)).toEqual([]);
    expect(await target.find(nodes, { name: ref.name })).toBeUndefined();
  });
});
