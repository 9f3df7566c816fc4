/** API servers that do not keep what a step of an owner writes: a webhook, a policy or a controller changes it back. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { OwnerActivities } from '../../activities/owner/index.ts';
import type { StepResult } from '../../activities/owner/step.ts';
import type { LastSeen, OwnerPlan, OwnerReading, OwnerView, SetView } from '../../api/model/owner.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { VirtualHandle } from '../../test/virtual-temporal/server.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { describeOwnerQuery, ownerObservedSignal } from './messages.ts';
import { newOwnerRun, toRolloutState } from './state.ts';

const set: SetView = {
  ...{ name: 'pool-1', uid: 'set-1', resourceVersion: '1', generation: 1, isNew: true, hasOurFinalizer: true },
  ...{ deleting: false, outdated: [], closed: false, replicas: 3, total: 3, active: 3, available: 3, starting: 0 },
  ...{ failed: 0, replacing: 0 },
};
const atRest: OwnerView = {
  ...{ kind: 'MachineDeployment', uid: 'owner-1', resourceVersion: '1', generation: 1, hasOurFinalizer: true },
  ...{ deleting: false, outdated: [], paused: false, replicas: 3, strategy: 'RollingUpdate', maxSurge: 0 },
  ...{
    maxUnavailable: 0,
    countsLeaving: 'never',
    progress: 'complete',
    template: { setName: 'pool-1', hash: '1' },
    sets: [set],
  },
};
const old: SetView = {
  ...set,
  name: 'pool-0',
  uid: 'set-0',
  isNew: false,
  replicas: 0,
  total: 0,
  active: 0,
  available: 0,
};
const with1 = (change: Partial<SetView>): OwnerView => ({ ...atRest, sets: [{ ...set, ...change }] });
const machine = { name: 'm', uid: 'm', resourceVersion: '1', set: 'pool-1' };

type Reading = Pick<OwnerReading, 'view'> & Partial<OwnerReading>;

const isNoWrite = 'is no write of its own';
const isLateReport = 'is part of the report of a late rollout, after which the run ends';
const isHeldAnyway = 'has a pause of its own';

/** For each part of a plan, what makes an owner plan it. The compiler asks for a new one. */
const parts: Record<keyof OwnerPlan, Reading | typeof isNoWrite | typeof isLateReport | typeof isHeldAnyway> = {
  generation: isNoWrite,
  sets: isNoWrite,
  replace: isHeldAnyway,
  addFinalizers: { view: { ...atRest, hasOurFinalizer: false } },
  createSet: { view: { ...atRest, sets: [] } },
  scale: { view: with1({ replicas: 2, total: 2, active: 2, available: 2 }) },
  create: { view: with1({ total: 2, active: 2, available: 2 }) },
  attempts: isNoWrite,
  remove: {
    view: with1({ failed: 1, available: 2 }),
    candidates: [{ ...machine, failed: true }],
  },
  preserve: {
    view: with1({ preservations: 1 }),
    preservations: [{ ...machine, isKept: true }],
  },
  rollback: { view: { ...atRest, rollsBack: true } },
  completed: { view: { ...atRest, lacksCompletion: true } },
  update: {
    view: with1({
      updates: {
        ...{ unmarked: 0, selectable: 0, selected: 0, selectedAvailable: 0, updated: 0, unreleased: 1, returning: 0 },
      },
    }),
    updates: { candidates: [], selectable: [], updated: [], released: [machine] },
  },
  ownerChanges: {
    view: with1({ ownerChanges: 1 }),
    ownerChanges: [{ ...machine, isAdopted: true }],
  },
  adopt: { view: { ...atRest, adoptable: [{ name: 'free', uid: 'free' }] } },
  mark: { view: { ...atRest, isMarking: true } },
  forget: { view: { ...atRest, historyLimit: 0, sets: [old, set] } },
  settings: { view: with1({ machinesBehind: 1 }), machinesBehind: [machine] },
  releaseSets: { view: { ...atRest, sets: [{ ...old, deleting: true }, set] } },
  release: { view: { ...atRest, deleting: true, sets: [] } },
  report: { view: { ...atRest, outdated: ['status'] } },
};
const rows = Object.entries(parts).flatMap(([part, reading]) =>
  typeof reading === 'string' ? [] : [{ part: part as keyof OwnerPlan, reading }],
);

let reading: Reading;
let plans: OwnerPlan[];
let result: StepResult;
/** What the readings were given. */
let lasts: (LastSeen | undefined)[];
let handle: VirtualHandle;

const activities: OwnerActivities = {
  observeOwner: async (_ref, _kind, _notBeforeMs, last) => {
    lasts.push(last);
    return { candidates: [], pendingCreations: [], reader: 'this worker', ...reading };
  },
  listBlockers: async () => null,
  actOnOwner: async (_ref, _kind, plan) => {
    plans.push(plan);
    return result;
  },
};
const workflows = setUpWorkflows((taskQueue) => ({ [taskQueue]: activities }));
const { taskQueue } = workflows;

beforeEach(() => {
  plans = [];
  result = {};
  lasts = [];
});

async function start(first: Reading, type: 'rollout' | 'machineSet' = 'rollout'): Promise<void> {
  reading = first;
  const ref = { dialect: 'gardener', namespace: 'n', name: 'pool', uid: 'owner-1' };
  const workflowId = workflows.newWorkflowId();
  handle = await workflows.temporal.start(type, { taskQueue, workflowId, args: [ref] });
}

/** The workflow in whichever run it is. */
const current = () => workflows.temporal.handle(handle.workflowId);
const described = () => current().query(describeOwnerQuery);

/** Of a step in a minute. It is made a few times before it has a pause. */
const most = 16;

describe('a step of which the API server keeps nothing', () => {
  it.each(rows)('is made again with growing pauses, and its owner says so: $part', async ({ part, reading: first }) => {
    await start(first);
    await workflows.temporal.advance(60_000);
    expect(plans.length).toBeGreaterThan(4);
    expect(plans.length).toBeLessThanOrEqual(most);
    const value = plans.at(-1)?.[part];
    expect(Array.isArray(value) ? value.length > 0 : Boolean(value)).toBe(true);
    expect(await described()).toMatchObject({
      blockedOn: 'KubernetesApi',
      lastError: { message: expect.stringContaining('have changed nothing') },
    });
  });

  it.each([
    ['rollout', 'millwright rollout retry pool -n n'],
    ['machineSet', 'millwright retry --blocked-on KubernetesApi -n n'],
  ] as const)('gives the command that makes it at once: %s', async (type, command) => {
    await start({ view: with1({ machinesBehind: 1 }), machinesBehind: [machine] }, type);
    await workflows.temporal.advance(60_000);
    expect(await described()).toMatchObject({ unblock: expect.stringContaining(`\`${command} --installation`) });
  });

  it('says what is not kept, where that is known', async () => {
    result = { notKept: 'the API server does not keep the label a' };
    await start({ view: with1({ machinesBehind: 1 }), machinesBehind: [machine] });
    await workflows.temporal.advance(60_000);
    expect(await described()).toMatchObject({ lastError: { message: result.notKept } });
  });

  it('is made again with growing pauses, where it is to begin a replacement', async () => {
    const asking = { ...machine, askedAt: '2026-01-01T00:00:00Z' };
    result = { notKept: 'the API server does not keep the annotation' };
    await start({
      view: { ...with1({}), health: { asking: 1, replacing: 0 } },
      health: { most: 1, asking: [asking], unfilled: [] },
    });
    await workflows.temporal.advance(600_000);
    const before = plans.length;
    expect(plans.at(-1)?.replace).toEqual([asking]);
    expect(await described()).toMatchObject({ blockedOn: 'KubernetesApi', lastError: { message: result.notKept } });
    await workflows.temporal.advance(600_000);
    expect(plans.length - before).toBeLessThanOrEqual(2);
  });

  it('keeps no other step: the next one is made at once', async () => {
    await start({ view: with1({ machinesBehind: 1 }), machinesBehind: [machine] });
    await workflows.temporal.advance(60_000);
    const before = plans.length;
    const nowMs = workflows.now();
    const view = with1({ machinesBehind: 1, failed: 1, available: 2 });
    reading = { view, machinesBehind: [machine], candidates: [{ ...machine, failed: true }] };
    await current().signal(ownerObservedSignal, view);
    await workflows.advanceUntil(() => plans.length > before);
    expect(workflows.now() - nowMs).toBeLessThan(1_000);
    expect((await described()).blockedOn).toBeUndefined();
  });

  it('delays no next attempt to make machines', async () => {
    const untilMs = workflows.now() + 200_000;
    const failedAttempts = { count: 3, reason: 'Internal: no key', until: new Date(untilMs).toISOString() };
    const lacking = { machinesBehind: 1, total: 2, active: 2, available: 2 };
    const view = with1({ ...lacking, failedAttempts: { ...failedAttempts, isPaused: true } });
    await start({ view, machinesBehind: [machine] });
    await workflows.temporal.advance(199_000);
    const before = plans.length;
    reading = { ...reading, view: with1({ ...lacking, failedAttempts }) };
    await workflows.temporal.advance(2_000);
    expect(before).toBeGreaterThan(4);
    expect(plans.slice(0, before).flatMap(({ create }) => create)).toEqual([]);
    expect(plans[before]?.create).toMatchObject([{ set: 'pool-1' }]);
  });

  it('tells the next ones which attempts of sets have failed, until they count no more', async () => {
    const recorded = { count: 1, since: '2026-01-01T00:00:00Z', reason: 'no key', about: 'hash/3' };
    const failed = { view: with1({ failed: 1, available: 2 }), candidates: [{ ...machine, failed: true }] };
    result = { attempts: { 'pool-1': recorded } };
    await start(failed);
    await workflows.advanceUntil(() => plans.length === 2);
    expect(lasts.at(-1)?.attempts).toEqual({ 'pool-1': recorded });
    expect(plans[1]?.attempts).toEqual({ 'pool-1': recorded });

    result = { attempts: { 'pool-1': null } };
    await workflows.advanceUntil(() => plans.length === 4);
    expect(lasts.at(-1)).not.toHaveProperty('attempts');
    expect(plans[3]).not.toHaveProperty('attempts');
  });

  const recorded = { count: 1, since: '2026-01-01T00:00:00Z', reason: 'no key', about: 'hash/3' };
  /** A run that knows of an attempt. */
  async function startKnowing(change: Partial<OwnerView>): Promise<void> {
    const view = { ...with1({ failed: 1, available: 2 }), ...change };
    result = { attempts: { 'pool-1': recorded } };
    await start({ view, candidates: [{ ...machine, failed: true }] });
    await workflows.advanceUntil(() => plans.length === 1);
    result = {};
  }

  it('keeps the run open that knows of attempts that have failed, until they count no more', async () => {
    await startKnowing({});
    reading = { view: atRest };
    await current().signal(refreshSignal);
    await workflows.temporal.advance(600_000);
    expect((await current().describe()).status.name).toBe('RUNNING');

    result = { attempts: { 'pool-1': null } };
    reading = { view: with1({ hasOldAttempts: true, outdated: ['annotations'] }) };
    await current().signal(refreshSignal);
    await workflows.advanceUntil(() => plans.length > 1);
    reading = { view: atRest };
    await workflows.advanceUntil(async () => (await current().describe()).status.name === 'COMPLETED');
  });

  it('keeps no run open for a set that is being deleted', async () => {
    await startKnowing({});
    const view = {
      ...atRest,
      deleting: true,
      hasOurFinalizer: false,
      sets: [{ ...set, deleting: true, hasOurFinalizer: false }],
    };
    reading = { view };
    await current().signal(refreshSignal);
    await workflows.advanceUntil(async () => (await current().describe()).status.name === 'COMPLETED');
  });

  it('leaves the attempts of sets that have failed to the next run where the rollout is late', async () => {
    const underWay = { progress: 'updated', progressDeadlineSeconds: 2 } as const;
    await startKnowing(underWay);
    reading = { view: { ...with1({ available: 2, starting: 1 }), ...underWay } };
    await current().signal(refreshSignal);
    await workflows.advanceUntil(async () => (await handle.describe()).status.name === 'FAILED');
    const { events } = await handle.fetchHistory();
    const failure = events?.at(-1)?.workflowExecutionFailedEventAttributes?.failure?.applicationFailureInfo;
    const [state] = failure?.details?.payloads ?? [];
    expect(JSON.parse(Buffer.from(state?.data ?? []).toString())).toMatchObject({ attempts: { 'pool-1': recorded } });
  });

  it('leaves the attempts of sets that have failed to the next run', () => {
    const attempts = { 'pool-1': { count: 3, since: '2026-01-01T00:00:00Z', reason: 'no key', about: 'hash/3' } };
    const ref = { dialect: 'gardener', namespace: 'n', name: 'pool', uid: 'owner-1' };
    expect(toRolloutState(newOwnerRun(ref, 'MachineDeployment', { attempts }))).toEqual({ attempts });
  });

  it('is not made again because a watcher sees the same, and is when somebody asks for it', async () => {
    await start({ view: { ...atRest, hasOurFinalizer: false } });
    await workflows.temporal.advance(60_000);
    const before = plans.length;
    for (let signals = 0; signals < 5; signals++) {
      await current().signal(ownerObservedSignal, { ...reading.view, resourceVersion: String(signals) });
      await workflows.temporal.advance(100);
    }
    expect(plans).toHaveLength(before);
    await current().signal(retryNowSignal);
    await workflows.advanceUntil(() => plans.length > before);
  });
});
