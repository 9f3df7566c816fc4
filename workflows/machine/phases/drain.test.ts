import { describe, expect, it } from '@jest/globals';
import { CancelledFailure } from '@temporalio/activity';
import type { DrainOutcome, DrainRequest } from '../../../activities/machine/drain/index.ts';
import { names } from '../../../api/names.ts';
import { refuse, setUpMachine } from '../../../test/support/played-machine.ts';
import { retryNowSignal } from '../../messages.ts';
import { forceDeletionSignal, skipDrainSignal } from '../messages.ts';

const { now, cluster, cloud, touch, workflow, described, observe, startAtRest, advanceUntil, untilCancelled, time } =
  setUpMachine();

const blocked: Extract<DrainOutcome, { kind: 'blocked' }> = {
  ...{ kind: 'blocked', budget: 'n/budget', podsLeft: 7, pods: ['n/a', 'n/b'] },
  ...{ refusals: { a: 3 }, retryMs: 100_000 },
};

/** Begins the deletion of a machine at rest, and waits until its drain was asked for. */
async function deleteMachine(change: object = {}): Promise<void> {
  await startAtRest();
  touch({ deletingSince: time(), ...change });
  await observe();
  await advanceUntil(() => cluster.drains > 0);
}

async function pendingActivities(): Promise<number> {
  return (await workflow().describe()).raw.pendingActivities?.length ?? 0;
}

describe('a drain that a budget blocks', () => {
  it('[mcm 114 partly] holds no activity, and says what it waits for', async () => {
    cluster.drainNode = () => blocked;
    await deleteMachine();
    await advanceUntil(async () => (await described()).blockedOn === 'PodDisruptionBudget');
    expect(await described()).toMatchObject({
      doing: 'draining the node',
      waitingFor: 'the PodDisruptionBudget n/budget to allow the eviction of n/a, n/b and 5 more',
      unblock: expect.stringMatching(/^Make the pods of the budget healthy.*`millwright drain --force m .*`--skip` /),
    });
    const waitsFor = 'the PodDisruptionBudget n/budget to allow the eviction of n/a, n/b and 5 more';
    await advanceUntil(() => cluster.written.at(-1)?.step?.waitsFor === waitsFor);
    await advanceUntil(async () => (await pendingActivities()) === 0);
    await observe(); // what happens to the Node or the Machine meanwhile is no reason to ask sooner
    expect(cluster.drains).toBe(1);
    await workflow().terminate();
  });

  it('is called again after the pause, with the counts', async () => {
    cluster.drainNode = ({ refusals }) => (refusals === undefined ? { ...blocked, retryMs: 50 } : { kind: 'drained' });
    await deleteMachine();
    await workflow().result();
    expect(cluster.drains).toBe(2);
    expect(cluster.drainRequest).toMatchObject({ refusals: { a: 3 } });
  });

  it('is reported once where the budget is a mistake, also when a new run goes on with it', async () => {
    const mistake = 'it allows no eviction';
    cluster.drainNode = () => ({ ...blocked, mistake });
    await deleteMachine();
    const written = () => cluster.steps.filter((step) => step === 'writeStatus').length;
    await advanceUntil(async () => (await described()).waitingFor?.endsWith(`5 more (${mistake})`) === true);
    await advanceUntil(() => cluster.steps.at(-1) === 'writeStatus');
    const before = written();

    const first = (await workflow().describe()).runId;
    for (let count = 0; count < 500; count++) await observe();
    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await workflow().describe()).runId !== first);
    await advanceUntil(async () => (await described()).waitingFor?.endsWith(`5 more (${mistake})`) === true);
    expect(written()).toBe(before);
    await workflow().terminate();
  });

  it('[mcm 54 partly] ends at once when it is forced', async () => {
    cluster.drainNode = ({ force }) => (force ? { kind: 'drained' } : blocked);
    await deleteMachine();
    await advanceUntil(async () => (await described()).blockedOn === 'PodDisruptionBudget');
    await workflow().signal(forceDeletionSignal);
    await workflow().result();
    expect(cluster.orders).toEqual([]);
  });

  it.each([
    [forceDeletionSignal, 'drain --force'],
    [skipDrainSignal, 'drain --skip'],
    [retryNowSignal, 'retry'],
  ])('records who has ordered %o', async (signal, command) => {
    cluster.drainNode = () => blocked;
    await deleteMachine();
    await advanceUntil(async () => (await described()).blockedOn === 'PodDisruptionBudget');
    await workflow().signal(signal, 'alice@laptop');
    await advanceUntil(() => cluster.orders.length > 0);
    const { uid } = cluster.machine;
    const ref = { dialect: 'gardener', namespace: 'n', name: 'm', uid };
    expect(cluster.orders).toEqual([{ command, by: 'alice@laptop', kind: 'Machine', ref }]);
  });

  it('is skipped, and tried again, as annotations of the Machine order, each once', async () => {
    let tries = 0;
    cluster.drainNode = () => {
      tries++;
      return blocked;
    };
    await deleteMachine({ retry: 'before' });
    await advanceUntil(async () => (await described()).blockedOn === 'PodDisruptionBudget');
    const before = tries;
    touch({ retry: 'now' });
    await observe();
    await advanceUntil(() => tries > before);
    await observe();

    touch({ retry: 'now', skipDrain: true });
    await observe();
    await workflow().result();
    expect(cloud.deletions).toHaveLength(1);
    expect(cluster.orders).toMatchObject([
      { command: 'retry' },
      { command: 'retry', by: `whoever wrote the annotation ${names.retry}` },
      { command: 'drain --skip', by: `whoever wrote the annotation ${names.skipDrain}` },
    ]);
  });

  it('ends when the drain timeout has come, and an Event says which pods were left', async () => {
    const left = '1 pod left: n/a';
    cluster.drainNode = ({ deadline }) => (now() >= Date.parse(deadline) ? { kind: 'drained', left } : blocked);
    await deleteMachine({ limits: { ...cluster.machine.limits, drainSeconds: 2 } });
    await workflow().result();
    expect(cluster.drains).toBe(2);
    const note = 'The drain timeout of 2 s is over, with 1 pod left: n/a';
    expect(cluster.written).toContainEqual({ stage: 'deleting', event: { reason: 'DrainTimeout', note } });
  });
});

describe('a drain that is stuck', () => {
  const stuck: DrainOutcome = { kind: 'stuck', reported: 'abc', waitingFor: ['n/a to end', 'volume v'], refusals: {} };

  it('can be searched for, says what is left, and is searched for no more when it goes on', async () => {
    let goOn = () => {};
    const isAllowed = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    cluster.drainNode = async ({ reported }) => {
      if (cluster.drains === 1) return stuck;
      if (reported === undefined) return untilCancelled();
      await isAllowed;
      return { kind: 'goesOn', refusals: {} };
    };
    const blockers = async () =>
      ((await workflow().describe()).searchAttributes['MillwrightBlockedOn'] ?? []).filter(Boolean);
    await deleteMachine();
    await advanceUntil(async () => (await blockers())[0] === 'Drain');
    expect(await described()).toMatchObject({ waitingFor: 'n/a to end; volume v', blockedOn: 'Drain' });
    expect(cluster.written.at(-1)?.step).toEqual({
      kind: 'drain',
      state: 'processing',
      waitsFor: 'n/a to end; volume v',
    });
    await advanceUntil(() => cluster.drainRequest?.reported === 'abc');

    goOn();
    await advanceUntil(async () => (await blockers()).length === 0);
    expect(await described()).not.toHaveProperty('blockedOn');
    expect(cluster.written.at(-1)?.step).toEqual({ kind: 'drain', state: 'processing' });
    await advanceUntil(() => cluster.drains === 3);
    expect(cluster.drainRequest).not.toHaveProperty('reported');
    await workflow().terminate();
  });

  it('is refused at once by the API server, which an Event, the status and the search attributes say, each time anew', async () => {
    const waitingFor = ['n/a: 500: no webhook answers'];
    const refused: DrainOutcome = { kind: 'stuck', reported: 'def', isRefused: true, waitingFor, refusals: {} };
    cluster.drainNode = () => {
      if (cluster.drains === 4) return untilCancelled();
      return cluster.drains === 2 ? { kind: 'goesOn', refusals: {} } : refused;
    };
    await deleteMachine();
    await advanceUntil(() => cluster.drains === 4);

    const [message] = waitingFor;
    expect(await described()).toMatchObject({ waitingFor: message, blockedOn: 'Drain' });
    const steps = cluster.written.filter(({ step }) => step?.kind === 'drain');
    expect(steps.map(({ step }) => step?.state)).toEqual(['processing', 'failed', 'processing', 'failed']);
    expect(steps.at(-1)).toMatchObject({
      step: { code: 'FailedPrecondition', message },
      event: { reason: 'FailedDrain', note: expect.stringContaining(`FailedPrecondition: ${message}. `) },
    });
    await workflow().terminate();
  });

  it('is blocked on the API server while that refuses it', async () => {
    cluster.drainNode = () => refuse('PermissionDenied');
    await deleteMachine();
    await advanceUntil(async () => (await described()).blockedOn === 'KubernetesApi');
    await advanceUntil(() => cluster.drainRequest?.reported === 'noAnswer');
    await workflow().terminate();
  });
});

describe('the call of a drain', () => {
  it('may take a minute longer than the drain timeout, with the wait for a worker; past that it comes before others', async () => {
    cluster.drainNode = () => (cluster.drains === 1 ? { ...blocked, retryMs: 5_000 } : { kind: 'drained' });
    await deleteMachine({ limits: { ...cluster.machine.limits, drainSeconds: 5 } });
    await workflow().result();
    const { events } = await workflow().fetchHistory();
    const scheduled = (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: call }) => call ?? []);
    const [first, second] = scheduled.filter(({ activityType }) => activityType?.name === 'drainNode');
    expect([first, second].map((call) => call?.priority?.priorityKey)).toEqual([3, 1]);
    const seconds = Number(first?.scheduleToCloseTimeout?.seconds);
    expect(seconds >= 60 && seconds <= 65).toBe(true);
  });
});

describe('a drain that is cancelled, because something was edited', () => {
  it('goes on with the refusals of the call that ran', async () => {
    const requests: DrainRequest['refusals'][] = [];
    const edit = async () => {
      const { limits } = cluster.machine;
      touch({ limits: { ...limits, maxEvictRetries: limits.maxEvictRetries - 1 } });
      await observe();
    };
    cluster.drainNode = ({ refusals }) => {
      requests.push(refusals);
      if (requests.length > 1) return { kind: 'drained' };
      return untilCancelled().catch(() => {
        throw new CancelledFailure('CANCELLED', [{ refusals: { 'pod-uid': 3 } }]);
      });
    };
    await deleteMachine();
    await edit();
    await workflow().result();

    expect(requests).toEqual([undefined, { 'pod-uid': 3 }]);
  });
});

describe('a drain that is to be tried again now', () => {
  it('evicts again, although a budget has refused that a moment ago', async () => {
    cluster.drainNode = () => blocked;
    await deleteMachine();
    await advanceUntil(async () => (await described()).blockedOn === 'PodDisruptionBudget');
    cluster.drainNode = () => ({ kind: 'drained' });
    const before = now();
    await workflow().signal(retryNowSignal);
    await workflow().result();
    expect(now() - before).toBeLessThan(blocked.retryMs);
  });

  it('begins anew with the refusals of the call that ran', async () => {
    cluster.drainNode = () =>
      untilCancelled().catch(() => {
        throw new CancelledFailure('CANCELLED', [{ refusals: { 'pod-uid': 3 } }]);
      });
    await deleteMachine();
    cluster.drainNode = () => ({ kind: 'drained' });
    await workflow().signal(retryNowSignal);
    await workflow().result();
    expect(cluster.drainRequest?.refusals).toEqual({ 'pod-uid': 3 });
  });
});

describe('an edit of the drain timeout', () => {
  it('takes effect in a drain that runs', async () => {
    cluster.drainNode = untilCancelled;
    await deleteMachine();
    const before = Date.parse(cluster.drainRequest?.deadline ?? '');
    cluster.drainNode = () => ({ kind: 'drained' });
    const { limits } = cluster.machine;
    touch({ limits: { ...limits, drainSeconds: limits.drainSeconds - 1_000 } });
    await observe();
    await workflow().result();
    expect(Date.parse(cluster.drainRequest?.deadline ?? '')).toBe(before - 1_000_000);
  });

  it('takes effect in one that a budget blocks', async () => {
    cluster.drainNode = ({ deadline }) => (now() >= Date.parse(deadline) ? { kind: 'drained' } : blocked);
    await deleteMachine();
    await advanceUntil(async () => (await described()).blockedOn === 'PodDisruptionBudget');
    touch({ limits: { ...cluster.machine.limits, drainSeconds: 0 } });
    await observe();
    await workflow().result();
  });
});

describe('volumes that nobody has asked the provider about', () => {
  const spec = { csi: { driver: 'd', volumeHandle: 'disk' } };
  const volumes = ['ours', 'foreign'].map((name) => ({ name, spec }));
  const ask = (request: DrainRequest): DrainOutcome => {
    return request.volumes === undefined ? { kind: 'unknownVolumes', volumes, refusals: {} } : { kind: 'drained' };
  };

  it('[mcm 52 partly] are waited for when it knows them', async () => {
    cluster.drainNode = ask;
    cloud.volumeIds = (request) => {
      expect(request).toEqual({ volumes });
      return { ids: { ours: 'disk-1' } };
    };
    await deleteMachine();
    await workflow().result();
    expect(cluster.drainRequest?.volumes).toEqual({ ours: { id: 'disk-1' }, foreign: null });
  });

  it('are waited for when it does not answer within seconds', async () => {
    cluster.drainNode = ask;
    cloud.volumeIds = untilCancelled;
    await deleteMachine();
    await workflow().result();
    expect(cluster.drainRequest?.volumes).toEqual({ ours: {}, foreign: {} });
  });

  it('are waited for when it does not say', async () => {
    cluster.drainNode = ask;
    cloud.volumeIds = () => refuse('Internal');
    await deleteMachine();
    await workflow().result();
    expect(cluster.drainRequest?.volumes).toEqual({ ours: {}, foreign: {} });
  });
});
