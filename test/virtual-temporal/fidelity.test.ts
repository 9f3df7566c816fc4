/** The virtual Temporal beside a real one: a workflow that gets the same answers takes the same steps. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import type { LimitUse } from '../../api/model/limits.ts';
import type { OwnerView } from '../../api/model/owner.ts';
import { providerTaskQueue } from '../../api/names.ts';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { fetchHistory } from '../../temporal/fetch-history.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import type * as workflows from '../../workflows/index.ts';
import { claimUpdate, describeLimitsQuery } from '../../workflows/limits/messages.ts';
import { describeQuery, type MachineDescription, observedSignal } from '../../workflows/machine/messages.ts';
import { fromSetup } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { playMachine } from '../support/played-machine.ts';
import { until } from '../support/until.ts';
import type { VirtualRun } from './run.ts';
import { VirtualTemporal } from './server.ts';

/** What the handles of both kinds have. */
interface Handle {
  signal(name: string, seen: unknown): Promise<void>;
  query(name: string): Promise<unknown>;
  executeUpdate(update: typeof claimUpdate, options: { args: Parameters<typeof claim> }): Promise<unknown>;
  result(): Promise<unknown>;
  terminate(): Promise<unknown>;
}

interface Scenario {
  readonly args: readonly unknown[];
  /** By task queue and name. */
  activitiesOf(taskQueue: string): Readonly<Record<string, object>>;
  /** What happens to the workflow, until it has ended. */
  happen(handle: Handle, until: (what: string, check: () => unknown) => Promise<unknown>): Promise<unknown>;
}

/** The machine's workflow reports its progress through it: that is no step. */
const sinks = { progress: { seen: { fn: () => undefined } } };

/** One for each workflow type, with new answers each time. */
type Scenarios = Readonly<Record<keyof typeof workflows, () => Scenario>>;

const ref = { dialect: 'gardener', namespace: 'n', name: 'small', uid: 'uid-of-small' };
const place = { provider: 'fake', providerSpec: { size: 'small' }, credentials: [] };
const untilItEnds: Scenario['happen'] = (handle) => handle.result();
const claim = (names: readonly string[]) => ({ kind: 'MachineDeployment', name: 'a', uid: 'a', names }) as const;

/** An owner that lacks all its machines, until a step has made them. */
function ownerScenario(kind: OwnerView['kind']): Scenario {
  const set = {
    ...{ name: 'pool-1', uid: 'set-1', resourceVersion: '1', generation: 1, isNew: true, hasOurFinalizer: true },
    ...{ deleting: false, outdated: [], closed: false, replicas: 3, total: 3, active: 3, available: 3 },
    ...{ starting: 0, failed: 0, replacing: 0 },
  };
  const complete: OwnerView = {
    ...{ kind, uid: 'owner-1', resourceVersion: '1', generation: 1, hasOurFinalizer: true, deleting: false },
    ...{
      outdated: [],
      paused: false,
      replicas: 3,
      strategy: 'RollingUpdate',
      maxSurge: 0,
      maxUnavailable: 0,
      countsLeaving: 'never',
    },
    ...(kind === 'MachineDeployment' && { progress: 'complete' }),
    ...{ template: { setName: 'pool-1', hash: '1' }, sets: [set] },
  };
  let view: OwnerView = { ...complete, sets: [{ ...set, total: 0, active: 0, available: 0 }] };
  return {
    args: [{ ...ref, name: 'pool', uid: 'owner-1' }],
    activitiesOf: (taskQueue) => ({
      [taskQueue]: {
        observeOwner: async () => ({ view, candidates: [], pendingCreations: [], reader: 'this worker' }),
        actOnOwner: async () => {
          view = complete;
          return {};
        },
      },
    }),
    happen: untilItEnds,
  };
}

const scenarios: Scenarios = {
  machine() {
    const { cluster, activitiesOf, touch, registerNode, time } = playMachine(Date.now);
    return {
      args: [{ ...ref, name: 'm', uid: cluster.machine.uid }],
      activitiesOf,
      async happen(handle, untilTrue) {
        const observe = () => handle.signal(observedSignal.name, { machine: cluster.machine, node: cluster.node });
        const does = (what: string) =>
          untilTrue(`it says ${what}`, async () => {
            const { doing, waitingFor } = (await handle.query(describeQuery.name)) as MachineDescription;
            return [doing, waitingFor].includes(what);
          });
        await does('node node-1 to register');
        registerNode();
        await observe();
        await does('running');
        touch({ deletingSince: time() });
        await observe();
        await handle.result();
      },
    };
  },
  rollout: () => ownerScenario('MachineDeployment'),
  machineSet: () => ownerScenario('MachineSet'),
  machineLimits() {
    const limits = { surge: 9, provisioning: 2 };
    const uses: LimitUse[] = [
      { ...claim([]), limits, provisioning: 0, surplus: 0, wanted: 3, pending: ['a-1', 'a-2', 'a-3'] },
    ];
    return {
      args: [{ dialect: 'gardener', namespace: 'n' }],
      activitiesOf: (taskQueue) => ({ [taskQueue]: { readLimits: async () => ({ limits, uses }) } }),
      async happen(handle) {
        await handle.query(describeLimitsQuery.name); // so that the claim comes to a workflow that waits for it
        await handle.executeUpdate(claimUpdate, { args: [claim(['a-1', 'a-2', 'a-3'])] as never });
        await handle.terminate(); // it would stay open for those who wait
      },
    };
  },
  orphanSweep() {
    const source = {
      object: { name: 'small', uid: 'u' },
      ...place,
      origin: { ...ref, kind: 'MachineClass', generation: 1 },
    };
    const brake = { brakeCount: 3, brakeRate: 10, approvalSeconds: 60 };
    const limits = { confirmAfterSeconds: 0.2, minimumAgeSeconds: 600, ...brake };
    const orphan = { kind: 'vm', id: 'vm-1', name: 'vm-1', createdAt: '2026-01-01T00:00:00Z', tags: {} };
    return {
      args: [{ dialect: 'gardener', namespace: 'n', dryRun: false }],
      activitiesOf: (taskQueue) => ({
        [taskQueue]: {
          readSweepScope: async () => ({ sources: [source], limits, past: { unanswered: [] } }),
          countDeletions: async () => 0,
          findOwnerless: async (_: unknown, asked: readonly unknown[]) => ({
            ...{ ownerless: asked.map((_each, i) => i), adopted: [], surplus: [] },
            machines: { count: 1, resourceVersion: '1' },
          }),
          findDoubts: async (_: unknown, asked: readonly unknown[]) => asked.map(() => []),
          releaseSources: async () => [],
          recordNotices: async () => undefined,
        },
        [providerTaskQueue(taskQueue, 'fake')]: {
          validateClass: async () => ({ problems: [] }),
          listVms: async () => ({ items: [orphan] }),
          deleteVm: async () => ({ state: 'gone', nodeNames: [] }),
        },
      }),
      happen: untilItEnds,
    };
  },
  sourceCheck: () => ({
    args: [ref],
    activitiesOf: (taskQueue) => ({
      [taskQueue]: {
        readSource: async () => ({
          version: 'v1',
          cloud: { ...place, origin: { ...ref, kind: 'MachineClass', generation: 1 } },
        }),
        writeVerdict: async () => undefined,
      },
      [providerTaskQueue(taskQueue, 'fake')]: { validateClass: async () => ({ problems: ['size is huge'] }) },
    }),
    happen: untilItEnds,
  }),
  tagUpdate: () => ({
    args: [ref],
    activitiesOf: (taskQueue) => ({
      [taskQueue]: {
        readTagUpdate: async (_: unknown, after: string) => {
          const machines = [{ uid: 'u', name: 'm', providerID: 'fake:///m', place: 0, noted: 'a', removedTags: [] }];
          return after < 'm' ? { tags: { team: 'b' }, places: [place], machines, last: 'm' } : null;
        },
        noteVmTags: async () => 'b',
        reportTagFailures: async () => undefined,
      },
      [providerTaskQueue(taskQueue, 'fake')]: { updateVm: async () => undefined },
    }),
    happen: untilItEnds,
  }),
  interruptionCheck: () => ({
    args: [{ dialect: 'gardener', namespace: 'n', cluster: 'c' }],
    activitiesOf: (taskQueue) => ({
      [taskQueue]: {
        listInterruptible: async () => [place],
        findInterrupted: async () => [{ providerID: 'fake:///m', reason: 'soon', name: 'm', uid: 'of-nobody' }],
      },
      [providerTaskQueue(taskQueue, 'fake')]: {
        listInterruptions: async () => ({ items: [{ providerID: 'fake:///m', reason: 'soon' }] }),
      },
    }),
    happen: untilItEnds,
  }),
};

interface Event {
  readonly eventType: string;
  readonly activityTaskScheduledEventAttributes?: { readonly activityType: { readonly name: string } };
  readonly upsertWorkflowSearchAttributesEventAttributes?: object | null | undefined;
}

/**
 * What comes to a run, and what it asks for, but for what the server adds: tasks, starts of activities, markers,
 * updates.
 */
function stepsOf(events: readonly Event[]): string[] {
  return events
    .filter(
      ({ upsertWorkflowSearchAttributesEventAttributes: upsert }) =>
        !JSON.stringify(upsert ?? {}).includes('ChangeVersion'),
    )
    .map(({ eventType, activityTaskScheduledEventAttributes: activity }) => {
      const words = eventType.replace('EVENT_TYPE_', '').toLowerCase().replaceAll('_', ' ');
      return activity ? `${words}: ${activity.activityType.name}` : words;
    })
    .filter((step) => !/^workflow task|^activity task started|^marker|update accepted$|update completed$/.test(step));
}

/** Notes each call of an activity. */
function noted(
  activities: Readonly<Record<string, object>>,
  calls: string[],
): Record<string, Record<string, () => unknown>> {
  const note = ([name, call]: [string, (...args: unknown[]) => unknown]) => [
    name,
    (...args: unknown[]) => {
      calls.push(name);
      return call(...args);
    },
  ];
  return Object.fromEntries(
    Object.entries(activities).map(([queue, played]) => [
      queue,
      Object.fromEntries(Object.entries(played).map(note as never)),
    ]),
  );
}

describe('a workflow in the virtual Temporal', () => {
  let connection: NativeConnection;
  let client: Client;
  beforeAll(async () => {
    const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
    connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
    client = new Client({ connection });
  });
  afterAll(() => connection.close());

  async function onServer(type: string, { args, activitiesOf, happen }: Scenario) {
    const taskQueue = `fidelity-${randomUUID()}`;
    const calls: string[] = [];
    const queues = Object.entries(noted(activitiesOf(taskQueue), calls));
    const workflowBundle = await loadWorkflowBundle();
    const workers = await Promise.all(
      queues.map(([queue, activities]) =>
        Worker.create({
          connection,
          taskQueue: queue,
          activities,
          sinks,
          ...(queue === taskQueue && { workflowBundle }),
        }),
      ),
    );
    const running = workers.map((worker) => worker.run());
    const workflowId = `${taskQueue}/${type}`;
    const handle = await client.workflow.start(type, { taskQueue, workflowId, args: [...args] });
    try {
      await happen(handle as never, (what, check) => until(what, check as never));
    } finally {
      for (const worker of workers) worker.shutdown();
      await Promise.all(running);
    }
    const steps: string[][] = [];
    for (let runId: string | undefined = handle.firstExecutionRunId; runId !== undefined; ) {
      const { events } = JSON.parse(await fetchHistory(client, workflowId, runId));
      steps.push(stepsOf(events));
      runId = events.at(-1).workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
    }
    return { calls, steps };
  }

  async function inVirtual(type: string, { args, activitiesOf, happen }: Scenario) {
    const taskQueue = 'played';
    const calls: string[] = [];
    const temporal = await VirtualTemporal.create(noted(activitiesOf(taskQueue), calls));
    const workflowId = `${taskQueue}/${type}`;
    const { firstExecutionRunId } = await temporal.start(type, { taskQueue, workflowId, args });
    await happen(temporal.handle(workflowId) as never, (what, check) => temporal.advanceUntil(what, check));
    const steps: string[][] = [];
    let run: VirtualRun | undefined = temporal.runOf(workflowId, firstExecutionRunId);
    for (; run !== undefined; run = temporal.runAfter(run)) steps.push(stepsOf(run.events));
    await temporal.reset();
    return { calls, steps };
  }

  it.each(Object.entries(scenarios))('takes the same steps as on a Temporal server: %s', async (type, scenario) => {
    expect(await inVirtual(type, scenario())).toEqual(await onServer(type, scenario()));
  });
});
