import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { searchAttributes } from '../../api/names.ts';
import type { KubeObject, NewObject, Resource } from '../../api/objects.ts';
import { events, nodes, type Pod, podDisruptionBudgets, pods, volumeAttachments } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { readTimeline } from '../../temporal/read-timeline.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

const webhooks: Resource<KubeObject> = {
  ...{ group: 'admissionregistration.k8s.io', version: 'v1', plural: 'validatingwebhookconfigurations' },
  ...{ kind: 'ValidatingWebhookConfiguration', namespaced: false },
};

describe('a drain', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({
      alone: 'its processes are killed',
      flags: ['--machine-max-evict-retries', '1'],
      cloud: { statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 200 },
    });
    millwright.recordAs('drain');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  async function running(name: string, spec: object = {}): Promise<ObjectRef> {
    const patient = { class: { kind: 'MachineClass', name: 'small' }, maxEvictRetries: 360 };
    const ref = await millwright.createMachine(name, { ...patient, ...spec });
    await millwright.untilPhase(ref, 'Running');
    return ref;
  }

  /** Runs a pod on the machine's node, which has its name; pods are named after both. */
  async function runPod(
    { name: nodeName, namespace }: ObjectRef,
    pod: string,
    metadata: Partial<NewObject<Pod>['metadata']> = {},
    spec: Partial<Pod['spec']> = {},
  ): Promise<string> {
    const name = `${nodeName}-${pod}`;
    await millwright.target.create(pods, {
      metadata: { namespace, name, labels: { app: name }, ...metadata },
      spec: { nodeName, containers: [{ name: 'app', image: 'app' }], ...spec },
    });
    await until(
      `${name} runs`,
      async (see) => see(await millwright.target.get(pods, { namespace, name })).status?.phase === 'Running',
    );
    return name;
  }

  /** Runs a pod with a budget of the same name that allows nothing. No controller of budgets runs here. */
  async function runGuarded(ref: ObjectRef, { expectedPods = 1 } = {}): Promise<string> {
    const name = await runPod(ref, 'guarded');
    const { namespace } = ref;
    const { metadata } = await millwright.target.create(podDisruptionBudgets, {
      metadata: { namespace, name },
      spec: { selector: { matchLabels: { app: name } }, minAvailable: 1 },
    });
    const counts = { currentHealthy: 1, desiredHealthy: 1, expectedPods, disruptionsAllowed: 0 };
    const status = { observedGeneration: metadata.generation, ...counts };
    await millwright.target.patch(podDisruptionBudgets, { namespace, name }, mergePatch({ status }), {
      subresource: 'status',
    });
    return name;
  }

  async function stateOf(name: string): Promise<'gone' | 'leaving' | 'running'> {
    const pod = await millwright.target.find(pods, { namespace: millwright.namespace, name });
    if (pod === undefined) return 'gone';
    return pod.metadata.deletionTimestamp === undefined ? 'running' : 'leaving';
  }

  async function terminating({ name }: ObjectRef) {
    const { spec, status } = await millwright.target.get(nodes, { name });
    const condition = status?.conditions?.find(({ type }) => type === 'Terminating');
    return { unschedulable: spec?.unschedulable, status: condition?.status, reason: condition?.reason };
  }

  const untilBlocked = (ref: ObjectRef, budget: string) =>
    until(
      `${budget} holds the drain up`,
      async () => {
        const described = await millwright.describe(ref);
        return described.blockedOn === 'PodDisruptionBudget' && described.waitingFor?.includes(budget)
          ? described
          : undefined;
      },
      { describe: () => millwright.story() },
    );

  it('[mcm 46 partly] [mcm 47] [mcm 48 partly] marks the node, evicts all that may go at once, and shows what may not', async () => {
    const { control, temporal, namespace } = millwright;
    const ref = await running('drain-all');
    const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'agent', uid: 'agent', controller: true };
    const staying = [
      await runPod(ref, 'daemon', { ownerReferences: [owner] }),
      await runPod(ref, 'mirror', { annotations: { 'kubernetes.io/config.mirror': 'x' } }),
    ];
    const guarded = await runGuarded(ref);
    const scratch = { volumes: [{ name: 'scratch', emptyDir: {} }] };
    const leaving = [
      await runPod(ref, 'unmanaged'),
      await runPod(ref, 'scratch', {}, scratch),
      await runPod(ref, 'replicated', { ownerReferences: [{ ...owner, kind: 'ReplicaSet' }] }),
    ];

    await control.delete(machines, ref);

    await untilBlocked(ref, `${namespace}/${guarded}`);
    await until('the others have left', async (see) => {
      const states = see(await Promise.all(leaving.map(stateOf)));
      return states.every((state) => state === 'gone');
    });
    expect(await terminating(ref)).toEqual({ unschedulable: true, status: 'True', reason: 'ScaleDown' });
    expect(await Promise.all([...staying, guarded].map(stateOf))).toEqual(['running', 'running', 'running']);
    // Whoever looks for machines that are stuck finds it.
    const query =
      `${searchAttributes.installation} = '${namespace}' AND ` +
      `${searchAttributes.blockedOn} = 'PodDisruptionBudget' AND ExecutionStatus = 'Running'`;
    await until('it is found', async (see) => see(await temporal.workflow.count(query)).count === 1);
    // And whoever opens the workflow sees which pod it is.
    const { waitingFor } = await millwright.describe(ref);
    expect(waitingFor).toBe(
      `the PodDisruptionBudget ${namespace}/${guarded} to allow the eviction of ${namespace}/${guarded} (it requires zero voluntary evictions: all of its pods are healthy, and it lets none of them go. Allow one, or add replicas)`,
    );

    await millwright.handleOf(ref).signal('forceDeletion');

    await millwright.untilGone(ref);
    expect(await Promise.all([...staying, guarded].map(stateOf))).toEqual(['running', 'running', 'gone']);
  });

  it('[mcm 46 partly] [mcm 54] says on the node of an unhealthy machine that this is why, until a label forces it', async () => {
    const { control, target, namespace } = millwright;
    const ref = await running('drain-unhealthy');
    const guarded = await runGuarded(ref);
    const condition = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' };
    const patch = strategicMergePatch({ status: { conditions: [condition] } });
    await target.patch(nodes, { name: ref.name }, patch, { subresource: 'status' });
    await millwright.untilPhase(ref, 'Unknown');

    await control.delete(machines, ref);

    await untilBlocked(ref, `${namespace}/${guarded}`);
    expect(await terminating(ref)).toEqual({ unschedulable: true, status: 'True', reason: 'Unhealthy' });
    await control.patch(machines, ref, mergePatch({ metadata: { labels: { [labels.forceDeletion]: 'True' } } }));
    await millwright.untilGone(ref);
    expect(await stateOf(guarded)).toBe('gone');
  });

  it('[mcm 56] deletes the VolumeAttachments of the node after a forced drain, before the VM', async () => {
    const { control, target, cloud, namespace } = millwright;
    const ref = await running('drain-attached');
    const guarded = await runGuarded(ref);
    const attach = (nodeName: string) =>
      target.create(volumeAttachments, {
        metadata: { name: `${namespace}-${nodeName}` },
        spec: { attacher: 'example.com', nodeName, source: { persistentVolumeName: 'some' } },
      });
    const others = await attach('another-node');
    const attachments = [await attach(ref.name), others];
    await control.delete(machines, ref);
    await untilBlocked(ref, `${namespace}/${guarded}`);
    await cloud.setFaults({ kind: 'forbidden', operation: 'delete' });

    await millwright.handleOf(ref).signal('forceDeletion');

    await until(
      'the cloud refuses',
      async (see) => see(await millwright.describe(ref)).lastError?.code === 'PermissionDenied',
    );
    const found = await Promise.all(attachments.map(({ metadata }) => target.find(volumeAttachments, metadata)));
    expect(found).toEqual([undefined, others]);
    expect((await cloud.vms()).map(({ name }) => name)).toContain(ref.name);
    await target.delete(volumeAttachments, others.metadata);
    await cloud.setFaults();
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilGone(ref);
  });

  it('says in the status of the machine which budget it waits for, and leaves the pods when an operator says so', async () => {
    const { control, cloud, namespace } = millwright;
    const ref = await running('drain-skipped');
    const guarded = await runGuarded(ref, { expectedPods: 2 });
    await control.delete(machines, ref);
    await untilBlocked(ref, `${namespace}/${guarded}`);
    await until('the status says what it waits for', async () => {
      const { description = '' } = (await control.get(machines, ref)).status?.lastOperation ?? {};
      return description.startsWith(
        `Initiate node drain: waits for the PodDisruptionBudget ${namespace}/${guarded} to`,
      );
    });

    await millwright.handleOf(ref).signal('skipDrain');

    await millwright.untilGone(ref);
    expect(await stateOf(guarded)).toBe('running');
    expect((await cloud.vms()).filter(({ name }) => name === ref.name)).toEqual([]);
  });

  it('goes by a drain timeout that is edited while it runs', async () => {
    const { control, namespace } = millwright;
    const ref = await running('drain-edited');
    const guarded = await runGuarded(ref);
    await control.delete(machines, ref);
    await untilBlocked(ref, `${namespace}/${guarded}`);

    await control.patch(machines, ref, mergePatch({ spec: { drainTimeout: '1s' } }));
    await millwright.untilGone(ref);
    expect(await stateOf(guarded)).toBe('gone');
  });

  it('[mcm 53] deletes the pods and the VM when the drain timeout has come, which counts from when the workflow saw the deletion', async () => {
    const { control, cloud, namespace } = millwright;
    const ref = await running('drain-late', { drainTimeout: '20s' });
    const guarded = await runGuarded(ref);
    const deletedMs = Date.now();
    await control.delete(machines, ref);
    await untilBlocked(ref, `${namespace}/${guarded}`);
    expect(await stateOf(guarded)).toBe('running');

    await millwright.untilGone(ref);

    expect(await stateOf(guarded)).toBe('gone');
    const { events = [] } = await millwright.handleOf(ref).fetchHistory();
    const [drain] = (events ?? []).flatMap(({ eventTime, activityTaskScheduledEventAttributes: activity }) =>
      activity?.activityType?.name === 'drainNode' ? [{ eventTime, request: activity.input?.payloads?.[0]?.data }] : [],
    );
    const { deadline } = JSON.parse(Buffer.from(drain?.request ?? []).toString());
    const seenMs = Date.parse(deadline) - 20_000;
    expect(seenMs).toBeGreaterThanOrEqual(deletedMs);
    expect(seenMs).toBeLessThanOrEqual(optionalTsToMs(drain?.eventTime) ?? 0);
    expect((await cloud.vms()).filter(({ name }) => name === ref.name)).toEqual([]);
  });

  it('[mcm 50] names a budget that never allows an eviction in the status of the machine, in describe and in an Event', async () => {
    const { control, target, namespace } = millwright;
    const ref = await running('drain-mistake');
    const budget = await runGuarded(ref);
    await control.delete(machines, ref);
    const described = await untilBlocked(ref, `${namespace}/${budget}`);
    expect(described.waitingFor).toContain('it requires zero voluntary evictions');
    expect(described.lastError).toMatchObject({ code: 'FailedPrecondition' });
    const { lastOperation } = await until('the status says that the drain has failed', async (see) => {
      const { status } = see(await control.get(machines, ref));
      return status?.lastOperation?.state === 'Failed' && status;
    });
    expect(lastOperation).toMatchObject({
      type: 'Delete',
      description: expect.stringContaining(
        `PodDisruptionBudget ${namespace}/${budget}: it requires zero voluntary evictions`,
      ),
    });
    await until('there is an Event', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.some(
        ({ regarding, reason, note }) =>
          regarding.name === ref.name && reason === 'FailedDrain' && note.includes(budget),
      );
    });

    const allowed = mergePatch({ status: { disruptionsAllowed: 1 } });
    await target.patch(podDisruptionBudgets, { namespace, name: budget }, allowed, { subresource: 'status' });
    await millwright.untilGone(ref);
  });

  it('[mcm 49] goes on when the budget allows it, and deletes a pod that it has refused too often, 20 s apart', async () => {
    const { control, target, namespace } = millwright;
    const patient = await running('drain-patient');
    const hasty = await running('drain-hasty', { maxEvictRetries: undefined }); // as the flag says
    const allowed = await runGuarded(patient);
    const refused = await runGuarded(hasty);
    const deletedMs = Date.now();
    for (const ref of [patient, hasty]) await control.delete(machines, ref);
    await untilBlocked(patient, `${namespace}/${allowed}`);
    await untilBlocked(hasty, `${namespace}/${refused}`);

    const status = { disruptionsAllowed: 1 };
    await target.patch(podDisruptionBudgets, { namespace, name: allowed }, mergePatch({ status }), {
      subresource: 'status',
    });

    // The pod is refused twice, and deleted 20 s after that: the limit of the flag is one more attempt.
    await until('the pod is deleted', async (see) => see(await stateOf(refused)) !== 'running');
    expect(Date.now() - deletedMs).toBeGreaterThanOrEqual(20_000);
    for (const ref of [patient, hasty]) await millwright.untilGone(ref);
    expect(await Promise.all([allowed, refused].map(stateOf))).toEqual(['gone', 'gone']);
    const budget = await target.get(podDisruptionBudgets, { namespace, name: refused });
    expect(budget.status?.disruptionsAllowed).toBe(0);
  });

  it('[mcm 112 partly] goes on in another process when the one that is at it is killed', async () => {
    const { control, target, cloud, namespace, processes } = millwright;
    await millwright.start();
    const ref = await running('drain-elsewhere');
    const held = await runPod(ref, 'held', { finalizers: ['test/held'] });
    await control.delete(machines, ref);
    await until('the pod is ending', async (see) => see(await stateOf(held)) === 'leaving');
    const busy = await until('somebody is at it', () => drainerOf(ref));

    await processes.find(({ pid }) => pid === busy)?.kill('SIGKILL');

    const next = await until('another is at it', async (see) => {
      const pid = see(await drainerOf(ref));
      return pid === busy ? undefined : pid;
    });
    expect(processes.map(({ pid }) => pid)).toContain(next);
    expect(await stateOf(held)).toBe('leaving');
    await target.patch(pods, { namespace, name: held }, mergePatch({ metadata: { finalizers: null } }));
    await millwright.untilGone(ref);
    expect(await stateOf(held)).toBe('gone');
    expect((await cloud.vms({ all: true })).filter(({ name }) => name === ref.name)).toHaveLength(1);
  });

  it('says at once what a webhook refuses, and at the drain timeout which pods were left', async () => {
    const { control, target, namespace, temporal } = millwright;
    const ref = await running('drain-walled', { drainTimeout: '1h' });
    const held = await running('drain-held', { drainTimeout: '1h' });
    const walled = await runPod(ref, 'walled');
    const kept = await runPod(held, 'kept', { finalizers: ['test/held'] });
    await control.delete(machines, held);
    await until('the pod with a finalizer is ending', async (see) => see(await stateOf(kept)) === 'leaving');
    const open = await closeEvictions();
    try {
      await control.delete(machines, ref);

      const operation = await until('the status says it', async (see) => {
        const { lastOperation } = see(await control.get(machines, ref)).status ?? {};
        return lastOperation?.type === 'Delete' && lastOperation.state === 'Failed' ? lastOperation : undefined;
      });
      const refusal = `failed calling webhook "${webhook}"`;
      expect(operation.description).toMatch(new RegExp(`^Initiate node drain: ${namespace}/${walled}: .*${refusal}`));
      await until('so does an Event', async (see) =>
        see(await notesOf(ref, 'FailedDrain')).some((note) => note.includes(refusal)),
      );
      expect(await millwright.describe(ref)).toMatchObject({
        blockedOn: 'Drain',
        waitingFor: expect.stringContaining(refusal),
      });

      for (const [each, left] of [
        [ref, walled],
        [held, kept],
      ] as const) {
        await control.patch(machines, each, mergePatch({ spec: { drainTimeout: '1s' } }));
        await millwright.untilGone(each);
        const said = `with 1 pod left: ${namespace}/${left}`;
        await until('an Event says what is left', async (see) => {
          return see(await notesOf(each, 'DrainTimeout')).includes(`The drain timeout of 1 s is over, ${said}`);
        });
        const lived = await until('the timeline says it', () =>
          readTimeline({ client: temporal, name: namespace }, each),
        );
        const drain = lived.steps.find(({ step }) => step === 'drain');
        const over = { code: 'DeadlineExceeded', message: `the drain timeout was over, ${said}`, times: 1 };
        expect(drain?.failures).toContainEqual(over);
      }
      expect(await stateOf(walled)).toBe('running');
    } finally {
      await open();
      await target.patch(pods, { namespace, name: kept }, mergePatch({ metadata: { finalizers: null } }));
    }
  });

  const webhook = 'block.example.com';

  /**
   * Has a webhook that does not answer decide on all evictions and deletions of pods of the namespace. Answers what
   * ends that.
   */
  async function closeEvictions(): Promise<() => Promise<unknown>> {
    const { target, namespace } = millwright;
    const rule = (operation: string, resource: string) => ({
      ...{ apiGroups: ['*'], apiVersions: ['*'], operations: [operation], resources: [resource] },
    });
    await target.create(webhooks, {
      metadata: { name: namespace },
      webhooks: [
        {
          ...{ name: webhook, admissionReviewVersions: ['v1'], sideEffects: 'None', failurePolicy: 'Fail' },
          ...{ timeoutSeconds: 2, clientConfig: { url: 'https://127.0.0.1:1/x' } },
          rules: [rule('CREATE', 'pods/eviction'), rule('DELETE', 'pods')],
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        },
      ],
    } as NewObject<KubeObject>);
    await until('the webhook decides', async () => {
      const probe = await target.create(pods, {
        metadata: { namespace, generateName: 'probe-' },
        spec: { containers: [{ name: 'app', image: 'app' }] },
      });
      const remove = target.delete(pods, probe.metadata, { gracePeriodSeconds: 0 });
      return remove.then(() => undefined).catch(() => true);
    });
    return () => target.delete(webhooks, { name: namespace });
  }

  async function notesOf(ref: ObjectRef, of: string): Promise<string[]> {
    const { items } = await millwright.control.list(events, { namespace: ref.namespace });
    return items.filter(({ regarding, reason }) => regarding.uid === ref.uid && reason === of).map(({ note }) => note);
  }

  /** The process that runs the activity which drains the node of a machine. */
  async function drainerOf(ref: ObjectRef): Promise<number | undefined> {
    const { raw } = await millwright.handleOf(ref).describe();
    const identity = raw.pendingActivities?.[0]?.lastWorkerIdentity;
    return identity ? Number.parseInt(identity, 10) : undefined; // begins with the process id
  }
});
