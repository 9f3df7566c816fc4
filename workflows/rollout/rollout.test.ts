/** The loop of an owner, with activities that the tests play. */

import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { Order, OrderActivities } from '../../activities/orders.ts';
import type { OwnerActivities } from '../../activities/owner/index.ts';
import type { StepResult } from '../../activities/owner/step.ts';
import type { OwnerPlan, OwnerReading, OwnerView, RolloutBlockers, SetView } from '../../api/model/owner.ts';
import { searchAttributes } from '../../api/names.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { VirtualHandle } from '../../test/virtual-temporal/server.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { describeOwnerQuery, ownerObservedSignal, progressDeadlineFailure, type RolloutState } from './messages.ts';

const set: SetView = {
  name: 'pool-1',
  uid: 'set-1',
  resourceVersion: '1',
  generation: 1,
  isNew: true,
  hasOurFinalizer: true,
  deleting: false,
  outdated: [],
  closed: false,
  replicas: 3,
  total: 3,
  active: 3,
  available: 3,
  starting: 0,
  failed: 0,
  replacing: 0,
};
const atRest: OwnerView = {
  kind: 'MachineDeployment',
  uid: 'owner-1',
  resourceVersion: '1',
  generation: 1,
  hasOurFinalizer: true,
  deleting: false,
  outdated: [],
  paused: false,
  replicas: 3,
  strategy: 'RollingUpdate',
  maxSurge: 0,
  maxUnavailable: 0,
  countsLeaving: 'never',
  progress: 'complete',
  template: { setName: 'pool-1', hash: '1' },
  sets: [set],
};
/** One machine is on its way out, and none may be created in its place: the set is frozen. */
const waiting: OwnerView = { ...atRest, sets: [{ ...set, active: 2, available: 2, closed: true }] };
const lacking: OwnerView = { ...atRest, sets: [{ ...set, total: 0, active: 0, available: 0 }] };

const blockedOnKey = defineSearchAttributeKey(searchAttributes.blockedOn, SearchAttributeType.KEYWORD);

/** What the activities answer, and what they were asked. */
let view: OwnerView | undefined;
let pendingCreations: OwnerReading['pendingCreations'];
let candidates: OwnerReading['candidates'];
let health: OwnerReading['health'];
let observe: () => void;
const blockedBy: RolloutBlockers = {
  count: 2,
  machines: [
    { name: 'pool-1-aaaaa', reason: 'CrashLoopBackOff, ResourceExhausted: no capacity' },
    { name: 'pool-1-bbbbb', reason: 'Terminating: draining' },
  ],
  blockedOn: 'CloudCapacity',
};
let cause: RolloutBlockers['blockedOn'];
let act: (plan: OwnerPlan) => void;
let result: StepResult;
let beforeHoldups: () => Promise<void>;
let readings: number;
let plans: OwnerPlan[];
let orders: Order[];
let handle: VirtualHandle;

const workflows = setUpWorkflows((taskQueue) => ({ [taskQueue]: activities }));
const { taskQueue } = workflows;

const activities: OwnerActivities & OrderActivities = {
  recordOrder: async (order) => {
    orders.push(order);
  },
  observeOwner: async (): Promise<OwnerReading | null> => {
    readings += 1;
    observe();
    if (view === undefined) return null;
    return { view, candidates, pendingCreations, ...(health && { health }), reader: 'this worker' };
  },
  listBlockers: async () => {
    await beforeHoldups();
    return { ...blockedBy, blockedOn: cause };
  },
  actOnOwner: async (_ref, _kind, plan) => {
    plans.push(plan);
    act(plan);
    return result;
  },
};

beforeEach(() => {
  readings = 0;
  plans = [];
  orders = [];
  cause = 'CloudCapacity';
  result = {};
  pendingCreations = [];
  candidates = [];
  health = undefined;
  act = () => undefined;
  observe = () => undefined;
  beforeHoldups = async () => undefined;
});

/** @param before what an earlier run has left, whose search attribute is still there */
async function start(first: OwnerView, before?: RolloutState): Promise<void> {
  view = first;
  const ref = { dialect: 'gardener', namespace: 'n', name: 'pool', uid: 'owner-1' };
  const retry = { initialInterval: '1 second', backoffCoefficient: 1 } as const;
  const blockedOn = before?.blockedBy && [{ key: blockedOnKey, value: before.blockedBy.blockedOn }];
  handle = await workflows.temporal.start('rollout', {
    taskQueue,
    workflowId: workflows.newWorkflowId(),
    args: [ref, before],
    retry,
    ...(blockedOn !== undefined && { typedSearchAttributes: blockedOn }),
  });
}

const blockedOn = async (of = handle) => (await of.describe()).typedSearchAttributes.get(blockedOnKey);
const doing = async () => (await handle.query(describeOwnerQuery)).doing;
/** Has it look again every half second, for this long, ms. */
async function keepSending(signal: typeof retryNowSignal | typeof refreshSignal, ms: number): Promise<void> {
  for (let passedMs = 0; passedMs <= ms; passedMs += 500) {
    await workflows.temporal.advance(500);
    await workflows.temporal.handle(handle.workflowId).signal(signal);
  }
}

const namesOf = (plan: OwnerPlan | undefined) => plan?.create.flatMap(({ names }) => names) ?? [];

describe('a set whose machines have failed without having joined', () => {
  /** It lacks a machine, and may have one in two minutes. */
  function paused(): OwnerView {
    const until = new Date(workflows.now() + 120_000).toISOString();
    const failedAttempts = { count: 3, reason: 'Internal: no key', until, isPaused: true } as const;
    return { ...atRest, sets: [{ ...set, total: 2, active: 2, available: 2, failedAttempts }] };
  }
  /** The activity that reads knows the time. */
  const readClock = () => {
    observe = () => {
      const [first] = view?.sets ?? [];
      if (view === undefined || first?.failedAttempts?.until === undefined) return;
      const { isPaused: _, ...attempts } = first.failedAttempts;
      const isOver = workflows.now() >= Date.parse(first.failedAttempts.until);
      if (isOver) view = { ...view, sets: [{ ...first, failedAttempts: attempts }] };
    };
  };

  it('gets no other one before its pause is over, is not read meanwhile, and says so', async () => {
    readClock();
    await start(paused());
    await workflows.temporal.advance(119_000);
    expect([readings, plans.length]).toEqual([1, 0]);
    expect((await handle.query(describeOwnerQuery)).waitsFor).toContain(
      'no Node has joined in the last 3 attempts: Internal: no key',
    );
    await workflows.temporal.advance(2_000);
    expect(namesOf(plans[0])).toHaveLength(1);
  });

  it('gets one at once when somebody asks for it, which is recorded, and waits again after that', async () => {
    readClock();
    await start(paused());
    await workflows.temporal.advance(1_000);
    await handle.signal(retryNowSignal, 'alice@laptop');
    await workflows.advanceUntil(() => plans.length > 0);
    expect(namesOf(plans[0])).toHaveLength(1);
    expect(orders).toMatchObject([{ command: 'rollout retry', by: 'alice@laptop', ref: { name: 'pool' } }]);
    view = paused();
    const before = plans.length;
    await workflows.temporal.advance(60_000);
    expect(plans).toHaveLength(before);
  });

  it('gets one at once when a watcher sees that the pause does not count any more', async () => {
    readClock();
    await start(paused());
    await workflows.temporal.advance(1_000);
    const { failedAttempts: _, ...free } = view?.sets[0] ?? set;
    view = { ...atRest, replicas: 4, sets: [{ ...free, hasOldAttempts: true, outdated: ['annotations'] }] };
    await handle.signal(ownerObservedSignal, view);
    await workflows.advanceUntil(() => plans.length > 0);
    expect(plans[0]).toMatchObject({ scale: [{ forgetsAttempts: true }] });
    expect(namesOf(plans[0])).toHaveLength(2);
  });
});

describe('a set that lacks a machine and is frozen', () => {
  it('blocks its owner until it may have machines again, and says what helps', async () => {
    await start(waiting);
    await workflows.advanceUntil(async () => (await blockedOn()) === 'Freeze');
    const shown = await handle.query(describeOwnerQuery);
    expect(shown).toMatchObject({ blockedOn: 'Freeze', unblock: expect.stringContaining('Delete machines') });
    expect(shown.waitsFor).toContain('no machine may be created in MachineSet pool-1');

    view = { ...waiting, sets: [{ ...set, total: 2, active: 2, available: 2 }] };
    await handle.signal(ownerObservedSignal, view);
    await workflows.advanceUntil(() => plans.length > 0);
    expect(namesOf(plans[0])).toHaveLength(1);
    expect(await blockedOn()).toBeUndefined();
  });
});

describe('the workflow of an owner', () => {
  it('completes when there is nothing to do', async () => {
    await start(atRest);
    await handle.result();
    expect([readings, plans.length]).toEqual([1, 0]);
  });

  it('reads live on the signal refresh, and ends when the owner is gone', async () => {
    await start(waiting);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    view = undefined;
    await handle.signal(refreshSignal);
    await handle.result();
    expect(readings).toBe(2);
  });

  it('reads only for a view that is worth it, and ends after the one without needs', async () => {
    await start(waiting);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    await handle.signal(ownerObservedSignal, { ...waiting, resourceVersion: '2' });
    view = atRest;
    await handle.signal(ownerObservedSignal, atRest);
    await handle.result();
    expect(readings).toBe(2);
  });

  it('says that it waits for the garbage collector, whatever it waited for, and lets go of what is released', async () => {
    await start(waiting);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    const deleted: OwnerView = { ...waiting, generation: 2, deleting: true };
    const orphaning: OwnerView = { ...deleted, orphans: true };
    view = orphaning;
    await handle.signal(ownerObservedSignal, orphaning);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for the Kubernetes garbage collector');
    expect((await handle.query(describeOwnerQuery)).waitsFor).toContain('after a deletion with `--cascade=orphan`');

    const released: OwnerView = { ...deleted, sets: [] };
    act = () => {
      view = undefined;
    };
    view = released;
    await handle.signal(ownerObservedSignal, released);
    await handle.result();
    expect(plans).toMatchObject([{ generation: 2, remove: [], release: true }]);
  });

  it('[invariant 5 partly] reads again after a step that failed, and continues the creation that it has started', async () => {
    act = (plan) => {
      const creation = plan.create[0]!;
      pendingCreations = [{ ...creation, missing: creation.names.slice(1) }];
      view = { ...atRest, sets: [{ ...set, total: 1, active: 1, available: 1 }] };
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer', nonRetryable: true });
    };
    await start(lacking);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for the Kubernetes API');
    act = () => {
      view = atRest;
    };
    await handle.signal(retryNowSignal);
    await handle.result();
    expect(new Set(namesOf(plans[0])).size).toBe(3);
    expect(namesOf(plans[1])).toEqual(namesOf(plans[0]).slice(1));
  });

  it('says that it waits for the limits of its namespace while the tasks of their workflow fail', async () => {
    act = () => {
      const details = [{ blockedOn: 'WorkflowTask' }];
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no grant', nonRetryable: true, details });
    };
    await start(lacking);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for the limits of its namespace');

    expect(await handle.query(describeOwnerQuery)).toMatchObject({
      blockedOn: 'WorkflowTask',
      lastError: { code: 'Unavailable', message: 'no grant' },
    });
    act = () => {
      view = atRest;
    };
    await handle.signal(retryNowSignal);
    await handle.result();
  });

  it('repeats a creation that was refused as the same one, so that its set does not change each time', async () => {
    act = ({ create: [creation] }) => {
      pendingCreations = [{ ...creation!, missing: creation!.names }];
      throw ApplicationFailure.create({ type: 'PermissionDenied', message: 'no', nonRetryable: true });
    };
    await start(lacking);
    await workflows.advanceUntil(() => plans.length === 3);
    const [first, ...next] = plans.map(({ create: [creation] }) => [creation?.id, creation?.names]);
    expect(next).toEqual([first, first]);
  });

  it('waits for its turn where the namespace limits machines, and then creates those that it was refused', async () => {
    const wait = {
      limit: 'provisioning',
      most: 1,
      used: 1,
      holders: [{ name: 'other', count: 1 }],
      holderCount: 1,
    } as const;
    act = ({ create: [creation] }) => {
      const all = creation!.names;
      if (readings > 1) {
        view = atRest;
        result = {};
        return;
      }
      pendingCreations = [{ ...creation!, missing: all.slice(1) }];
      view = { ...lacking, limits: { provisioning: 1 }, sets: [{ ...set, total: 1, active: 1, available: 1 }] };
      result = { limited: { ...wait, isOwn: false, names: all.slice(1) } };
    };
    await start({ ...lacking, limits: { provisioning: 1 } });
    await workflows.advanceUntil(async () => (await handle.query(describeOwnerQuery)).limit !== undefined);
    const { limit } = await handle.query(describeOwnerQuery);
    await handle.signal(refreshSignal);
    await handle.result();

    expect(limit).toBe("the namespace's limit of machines that do not run yet, 1 of 1 used: other 1");
    expect(namesOf(plans[1])).toEqual(namesOf(plans[0]).slice(1));
  });

  it('makes machines in place of unhealthy ones that it has deleted, and counts these until then', async () => {
    const asking = [{ name: 'bad', uid: 'bad', resourceVersion: '1', set: 'pool-1', askedAt: '' }];
    const short = { ...atRest, sets: [{ ...set, total: 2, active: 2, available: 2 }] };
    const gone = { name: 'old', uid: 'old', resourceVersion: '1', set: 'pool-1', failed: true } as const;
    candidates = [{ ...gone, isOfReplacement: true }];
    act = () => {
      result = readings === 1 ? { replaced: ['old'] } : {};
      candidates = [];
      health = readings === 1 ? { most: 1, asking, unfilled: [] } : undefined;
      view = readings === 1 ? { ...short, health: { asking: 1, replacing: 0 } } : atRest;
    };
    await start({ ...atRest, sets: [{ ...set, failed: 1 }] });
    await handle.result();
    expect(plans[1]?.replace).toBeUndefined();
    const [name = ''] = namesOf(plans[1]);
    expect(plans[1]?.create[0]?.replaces).toEqual({ [name]: 'old' });
  });

  it('looks again and again whether an outage is over that keeps unhealthy machines', async () => {
    const asking = [{ name: 'bad', uid: 'bad', resourceVersion: '1', set: 'pool-1', askedAt: '' }];
    const sick = { ...atRest, health: { asking: 1, replacing: 0 } };
    health = { most: 1, asking, unfilled: [] };
    result = { outage: '5 of 8 Nodes in the cluster are unhealthy' };
    await start(sick);
    await workflows.advanceUntil(async () => (await handle.query(describeOwnerQuery)).outage === result.outage);
    await workflows.advanceUntil(() => plans.length === 2);
    act = () => {
      view = atRest;
      health = undefined;
      result = {};
    };
    await handle.result();
    expect(plans.map(({ replace }) => replace)).toEqual([asking, asking, asking]);
  });

  it('is not blocked on an outage any more while it only waits', async () => {
    const asking = [{ name: 'bad', uid: 'bad', resourceVersion: '1', set: 'pool-1', askedAt: '' }];
    health = { most: 1, asking, unfilled: [] };
    result = { outage: '5 of 8 Nodes in the cluster are unhealthy' };
    await start({ ...atRest, health: { asking: 1, replacing: 0 } });
    await workflows.advanceUntil(async () => (await blockedOn()) === 'Outage');
    view = { ...atRest, progress: 'updated', sets: [{ ...set, available: 2, starting: 1 }] };
    health = undefined;
    await handle.signal(refreshSignal);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    expect(await blockedOn()).toBeUndefined();
    expect((await handle.query(describeOwnerQuery)).blockedOn).toBeUndefined();
    expect((await handle.describe()).status.name).toBe('RUNNING');
  });

  it('pauses after each step for an unhealthy machine whose Node is well by now, until its workflow has seen that', async () => {
    const asking = [{ name: 'well', uid: 'well', resourceVersion: '1', set: 'pool-1', askedAt: '' }];
    const seen = { ...atRest, health: { asking: 1, replacing: 0 } };
    health = { most: 1, asking, unfilled: [] };
    await start(seen);
    await workflows.advanceUntil(async () => {
      const { events } = await handle.fetchHistory();
      return events?.some((event) => event.timerStartedEventAttributes) === true;
    });
    expect(plans).toHaveLength(1);
    view = atRest;
    health = undefined;
    await handle.signal(refreshSignal);
    await handle.result();
    expect(plans).toHaveLength(1);
  });

  it('[invariant 5 partly] plans again what a step has left undone, and never does it later', async () => {
    act = () => {
      view = atRest;
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer' });
    };
    await start(lacking);
    await handle.result();
    expect([readings, plans.length]).toEqual([2, 1]);
  });

  it('says that an owner is not valid, once, and is blocked until it is corrected', async () => {
    const problem = 'spec.selector is missing';
    act = () => {
      view = { ...lacking, problem };
    };
    await start({ ...lacking, problem, outdated: ['status'] });
    await workflows.advanceUntil(() => readings === 2);
    expect(plans).toMatchObject([{ report: { problem }, create: [] }]);
    expect(await handle.query(describeOwnerQuery)).toMatchObject({
      doing: `nothing: the spec is invalid (${problem})`,
      waitsFor: `a correction of its spec: ${problem}`,
      blockedOn: 'OwnerSpec',
      unblock: 'Correct the spec; the change is picked up at once.',
    });
    expect(await blockedOn()).toBe('OwnerSpec');

    view = atRest;
    await handle.signal(ownerObservedSignal, { ...atRest, outdated: ['status'] });
    await handle.result();
    expect(await blockedOn()).toBeUndefined();
  });

  it('is blocked on the API server while that refuses its requests again and again', async () => {
    act = () => {
      if (plans.length === 6) view = atRest;
      else throw ApplicationFailure.create({ type: 'InvalidArgument', message: 'no', nonRetryable: true });
    };
    await start(lacking);
    await workflows.advanceUntil(() => plans.length === 3);
    expect(await blockedOn()).toBeUndefined();
    await workflows.advanceUntil(() => plans.length === 5);
    expect(await blockedOn()).toBe('KubernetesApi');
    expect(await handle.query(describeOwnerQuery)).toMatchObject({
      doing: 'trying again what the Kubernetes API has refused',
      blockedOn: 'KubernetesApi',
      lastError: { code: 'InvalidArgument', message: 'no' },
      unblock: expect.stringContaining('Check that the API servers'),
    });

    await handle.result();
    expect(await blockedOn()).toBeUndefined();
  });

  it('pauses for longer and longer after readings that took too long, is blocked on them, and uses the next one in time', async () => {
    const startedMs: number[] = [];
    observe = () => {
      startedMs.push(workflows.now());
      if (readings < 6) workflows.temporal.clock.moveTo(workflows.now() + 61_000);
      else view = atRest;
    };
    await start(lacking);
    for (const count of [1, 2, 3, 4, 5]) await workflows.advanceUntil(() => readings === count);
    const pauses = startedMs.slice(1).map((ms, i) => ms - (startedMs[i] ?? 0) - 61_000);
    expect(pauses).toEqual([1_000, 2_000, 4_000, 5_000]);
    expect(await blockedOn()).toBe('KubernetesApi');
    expect(await handle.query(describeOwnerQuery)).toMatchObject({
      blockedOn: 'KubernetesApi',
      lastError: { code: 'DeadlineExceeded', message: expect.stringContaining('took 61 s') },
    });

    await handle.result();
    expect(plans).toEqual([]);
    expect(await blockedOn()).toBeUndefined();
  });

  it('begins a new run for a new template, before it does anything for that', async () => {
    await start(waiting);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    const first = (await handle.describe()).runId;
    view = { ...lacking, template: { setName: 'pool-2', hash: '2' } };
    act = () => {
      view = { ...atRest, template: { setName: 'pool-2', hash: '2' } };
    };
    await handle.signal(refreshSignal);
    await handle.result();
    const { runId } = await workflows.temporal.handle(handle.workflowId).describe();
    expect(runId).not.toBe(first);
    expect([readings, plans.length]).toEqual([4, 1]);
    const { status } = await workflows.temporal.handle(handle.workflowId, first).describe();
    expect(status.name).toBe('CONTINUED_AS_NEW');
  });

  it('goes on in a new run when the history has grown long, whatever it waits for', async () => {
    await start(waiting);
    const first = (await handle.describe()).runId;
    const signal = () => handle.signal(ownerObservedSignal, waiting);
    for (let count = 0; count < 1_000; count += 50) await Promise.all(Array.from({ length: 50 }, signal));
    await workflows.advanceUntil(
      async () => (await workflows.temporal.handle(handle.workflowId).describe()).runId !== first,
    );
    view = atRest;
    await workflows.temporal.handle(handle.workflowId).signal(refreshSignal);
    await workflows.temporal.handle(handle.workflowId).result();
  });
});

describe('a rollout with a progress deadline', () => {
  /** One machine of three is missing, and its place is not free. */
  const stuck: OwnerView = { ...waiting, progress: 'updated', progressDeadlineSeconds: 2 };
  const current = () => workflows.temporal.handle(handle.workflowId);
  const reported = () => plans.flatMap(({ report }) => report?.progress ?? []);

  /** What the status says after a step. */
  function believe(): void {
    act = ({ report }) => {
      if (view !== undefined && report?.progress !== undefined) view = { ...view, progress: report.progress };
    };
  }

  async function untilFailed(runId: string): Promise<void> {
    const isFailed = async () =>
      (await workflows.temporal.handle(handle.workflowId, runId).describe()).status.name === 'FAILED';
    await workflows.advanceUntil(isFailed);
  }

  it('says what helps where its machines have no class that can be used', async () => {
    cause = 'Source';
    believe();
    await start(stuck);
    await untilFailed((await handle.describe()).runId);
    await workflows.advanceUntil(async () => (await describeNow()).blockedOn === 'Source');
    expect((await describeNow()).unblock).toMatch(/^Create the class that the template names if it does not exist/);
  });

  it('[mcm 80 partly] fails past it with the machines that hold it up, and goes on in the next run until it recovers', async () => {
    believe();
    await start(stuck);
    const first = (await handle.describe()).runId;
    await untilFailed(first);

    const failed = workflows.temporal.handle(handle.workflowId, first);
    expect(await blockedOn(failed)).toBe('CloudCapacity');
    expect(reported()).toEqual(['late']);
    await workflows.advanceUntil(async () => (await current().describe()).runId !== first);
    const { runId: second } = await current().describe();
    const history = await failed.fetchHistory();
    const { failure } = history.events?.at(-1)?.workflowExecutionFailedEventAttributes ?? {};
    expect(failure?.applicationFailureInfo?.type).toBe(progressDeadlineFailure);
    expect(failure?.message).toMatch(
      /n\/pool has made no progress for 2 s\nblocked by 2 machines:\npool-1-aaaaa: Crash/,
    );
    expect(failure?.message).toContain('pool-1-bbbbb: Terminating: draining');
    expect(failure?.message).toContain(`: millwright rollout retry pool -n n --installation ${taskQueue}`);
    expect(plans.flatMap(({ report }) => report?.late ?? [])).toEqual([
      'no progress for 2 s; blocked by 2 machines: pool-1-aaaaa: CrashLoopBackOff, ResourceExhausted: no capacity; pool-1-bbbbb: Terminating: draining',
    ]);

    // Looks of the next run, past another deadline, fail nothing.
    await workflows.advanceUntil(async () => (await describeNow()).blockedOn === 'CloudCapacity');
    await keepSending(retryNowSignal, 2_500);
    expect((await describeNow()).blockedBy).toEqual(blockedBy);
    expect((await current().describe()).runId).toBe(second);
    expect(reported()).toEqual(['late']);

    // A machine more is progress, and the condition recovers; after that it may fail again.
    view = { ...stuck, progress: 'late', sets: [{ ...set, available: 2 }] };
    await current().signal(ownerObservedSignal, view);
    await workflows.advanceUntil(() => reported().includes('updated'));
    await workflows.advanceUntil(async () => (await current().describe()).runId !== second);
    view = { ...atRest, progressDeadlineSeconds: 2, progress: 'late' };
    await current().signal(retryNowSignal);
    await current().result();
    expect(reported()).toEqual(['late', 'updated', 'late', 'complete']);
  });

  it('[mcm 80 partly] has a successor also after another template has started another run', async () => {
    believe();
    await start({ ...stuck, progressDeadlineSeconds: 600 });
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    const { runId: first } = await handle.describe();
    view = { ...stuck, template: { setName: 'pool-1', hash: '2' } };
    await handle.signal(refreshSignal);
    await workflows.advanceUntil(async () => (await current().describe()).runId !== first);
    const { runId: second } = await current().describe();
    await untilFailed(second);
    await workflows.advanceUntil(async () => (await current().describe()).runId !== second);

    // The run after the next template knows nothing of that failure, and has all of the deadline.
    const { runId: third } = await current().describe();
    await workflows.advanceUntil(async () => (await describeNow()).blockedOn === 'CloudCapacity');
    view = { ...stuck, template: { setName: 'pool-1', hash: '3' } };
    await current().signal(refreshSignal);
    await workflows.advanceUntil(async () => (await current().describe()).runId !== third);
    const { runId: fourth } = await current().describe();
    await untilFailed(fourth);
    const { events } = await workflows.temporal.handle(handle.workflowId, fourth).fetchHistory();
    const started = events?.[0]?.workflowExecutionStartedEventAttributes;
    expect([started?.attempt, started?.continuedFailure]).toEqual([1, undefined]);
    expect(reported()).toEqual(['late', 'late']);
    await workflows.advanceUntil(async () => (await current().describe()).runId !== fourth);
    view = atRest;
    await current().signal(retryNowSignal);
    await current().result();
  });

  it('is looked after again when a watcher sees it get further after it was late', async () => {
    const { progressDeadlineSeconds: _, ...patient } = stuck;
    const reached = { about: '1/3', updated: 2, available: 1, old: 0 };
    const lateSince = { ...reached, sinceMs: workflows.now() - 3_600_000, isLate: true };
    const one = { ...patient, sets: [{ ...set, active: 2, available: 1, closed: true }] };
    await start(one, { clock: lateSince, blockedBy });
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    expect((await describeNow()).blockedOn).toBe('CloudCapacity');

    view = patient;
    await handle.signal(ownerObservedSignal, patient);
    await workflows.advanceUntil(async () => (await blockedOn(handle)) === 'Freeze');
    const { blockedBy: left, progressAt = '' } = await describeNow();
    expect([left, Date.parse(progressAt) > workflows.now() - 600_000]).toEqual([undefined, true]);
    await workflows.advanceUntil(async () => {
      const { events } = await handle.fetchHistory();
      return events?.some((event) => event.timerStartedEventAttributes) === true;
    });
  });

  it('shows no more what the run before it was blocked on, once that is over', async () => {
    const reached = { about: '1/3', updated: 2, available: 2, old: 0 };
    await start(stuck, { clock: { ...reached, sinceMs: workflows.now(), isLate: false }, blockedBy });
    await workflows.advanceUntil(async () => (await blockedOn(handle)) === 'Freeze');
  });

  it('has a deadline from when on it is set, however long the one before was', async () => {
    believe();
    await start({ ...stuck, progressDeadlineSeconds: 2_147_483_647 });
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    const { runId } = await handle.describe();
    view = { ...stuck, outdated: ['status'] };
    act = ({ report }) => {
      view = { ...stuck, progress: report?.progress ?? 'updated' };
    };
    await handle.signal(refreshSignal);
    await untilFailed(runId);
    expect(reported()).toContain('late');
  });

  it.each<[string, Partial<OwnerView>]>([
    ['gets further', { sets: [{ ...set, available: 2 }] }],
    ['is paused', { paused: true, progress: 'paused', generation: 2 }],
  ])('does not fail when it %s while it is found out what holds it up', async (_name, change) => {
    believe();
    beforeHoldups = async () => {
      view = { ...stuck, ...change, progressDeadlineSeconds: 600 };
      await handle.signal(ownerObservedSignal, view);
    };
    await start(stuck);
    const { runId } = await handle.describe();
    await workflows.advanceUntil(async () => {
      const { doing: now, deadline = '', replicas } = await describeNow();
      return change.paused
        ? now.endsWith('on hold while paused')
        : replicas.active === 3 && Date.parse(deadline) > workflows.now() + 300_000;
    });
    expect([(await current().describe()).runId, reported()]).toEqual([runId, []]);
  });

  it('does not fail when its deployment changes before it is reported as late', async () => {
    believe();
    result = { isVoid: true };
    await start(stuck);
    const { runId } = await handle.describe();
    await workflows.advanceUntil(() => reported().includes('late'));
    view = { ...stuck, generation: 2, progressDeadlineSeconds: 600 };
    await handle.signal(refreshSignal);
    await workflows.advanceUntil(
      async () => Date.parse((await describeNow()).deadline ?? '') > workflows.now() + 300_000,
    );
    expect((await current().describe()).runId).toBe(runId);
  });

  it('is a red run, too, when it gets a deadline after it was late without one', async () => {
    believe();
    const reached = { about: '1/3', updated: 2, available: 2, old: 0 };
    await start(stuck, { clock: { ...reached, sinceMs: workflows.now() - 3_600_000, isLate: true }, blockedBy });
    await untilFailed((await handle.describe()).runId);
    expect(reported()).toEqual(['late']);
  });

  it.each<[string, string, Partial<OwnerView>]>([
    ['Unauthenticated', 'when it is due', {}],
    ['Unavailable', 'when its lost workflow knew that it was late', { progress: 'late', progressDeadlineSeconds: 600 }],
  ])(
    '[invariant 6 partly] makes and takes machines although nobody can tell what holds it up (%s, %s)',
    async (type, _when, change) => {
      believe();
      let asked = 0;
      beforeHoldups = async () => {
        asked += 1;
        throw ApplicationFailure.create({ type, message: 'nobody can tell', nonRetryable: true });
      };
      await start({ ...stuck, ...change });
      const { runId } = await handle.describe();
      await workflows.advanceUntil(() => asked > 0);
      view = { ...stuck, ...change, sets: [{ ...set, total: 2, active: 2, available: 2 }] };
      await current().signal(ownerObservedSignal, view);
      await workflows.advanceUntil(() => plans.flatMap(namesOf).length > 0);
      expect((await current().describe()).runId).toBe(runId);
    },
  );

  it('does not fail while it is paused', async () => {
    believe();
    await start(stuck);
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');
    const { runId } = await handle.describe();
    view = { ...stuck, paused: true };
    await keepSending(refreshSignal, 3_000);
    expect([(await current().describe()).runId, reported()]).toEqual([runId, ['paused']]);
    expect(await describeNow()).not.toHaveProperty('deadline');
  });

  it('[invariant 6 partly] does not fail because the API server has not answered', async () => {
    believe();
    await start(stuck);
    await workflows.advanceUntil(() => readings > 0);
    const { runId } = await handle.describe();
    observe = () => {
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer', nonRetryable: true });
    };
    await keepSending(retryNowSignal, 3_000);
    expect((await current().describe()).runId).toBe(runId);
    observe = () => undefined;
    view = atRest;
    await handle.signal(retryNowSignal);
    await current().result();
    expect(reported()).toEqual([]);
  });

  it.each<[string, () => Promise<void>]>([
    ['the API server has not answered', () => beWithoutAnswers(3_600_000)],
    ['Temporal was down', () => workflows.temporal.beDown(3_600_000)],
  ])('[invariant 6 partly] has all of its deadline again after an hour in which %s', async (_, beOut) => {
    believe();
    await start({ ...stuck, progressDeadlineSeconds: 600 });
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');

    await beOut();
    await workflows.temporal.advance(590_000);
    expect(reported()).toEqual([]);

    await workflows.temporal.advance(20_000);
    expect(reported()).toEqual(['late']);
  });

  it('has no more of its deadline after an hour in which an API server, or our own rate limit, has asked for pauses', async () => {
    believe();
    await start({ ...stuck, progressDeadlineSeconds: 600 });
    await workflows.advanceUntil(async () => (await doing()) === 'waiting for its machines');

    await beWithoutAnswers(3_600_000, true);
    await workflows.temporal.advance(1_000);
    expect(reported()).toEqual(['late']);
  });

  it.each([
    ['is not late while only others use up', false, []],
    ['is late while it uses up itself', true, ['late']],
  ])('%s what the namespace has of machines', async (_, isOwn, expected) => {
    const limits = { provisioning: 1 };
    const holders = [{ name: isOwn ? 'pool' : 'other', count: 1 }];
    const wait = { limit: 'provisioning', most: 1, used: 1, holders, holderCount: 1 } as const;
    act = ({ create, report }) => {
      if (view !== undefined && report?.progress !== undefined) view = { ...view, progress: report.progress };
      result = { limited: { ...wait, isOwn, names: create.flatMap(({ names }) => names) } };
    };
    await start({ ...lacking, limits, progress: 'updated', progressDeadlineSeconds: 90 });

    await workflows.temporal.advance(600_000);

    expect(reported()).toEqual(expected);
    expect(plans.length).toBeGreaterThan(3);
  });

  async function beWithoutAnswers(ms: number, isThrottled?: true): Promise<void> {
    observe = () => {
      const details = [{ isThrottled }];
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer', details, nonRetryable: true });
    };
    await current().signal(retryNowSignal);
    await workflows.temporal.advance(ms);
    observe = () => undefined;
    await current().signal(retryNowSignal);
  }

  it('does not wait on a timer while it is paused or at rest', async () => {
    await start({ ...stuck, paused: true, progress: 'paused', sets: [{ ...set, active: 2, closed: true }] });
    await workflows.advanceUntil(async () => (await doing()).startsWith('waiting for its machines'));
    const { events } = await handle.fetchHistory();
    expect(events?.some((event) => event.timerStartedEventAttributes)).toBe(false);
  });

  async function describeNow() {
    return current().query(describeOwnerQuery);
  }
});
