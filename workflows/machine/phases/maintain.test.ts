/** The preservation and in-place update of a machine: when its workflow writes, drains, and stops to drain. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { refreshSignal } from '../../messages.ts';

const {
  cluster,
  cloud,
  touch,
  start,
  joinNode,
  observe,
  described,
  startAtRest,
  workflow,
  advanceUntil,
  untilCancelled,
  now,
  sleep,
  time,
} = setUpMachine();
const written = () => cluster.steps.filter((step) => step === 'maintain').length;

describe('a machine at rest whose preservation changes', () => {
  it('is written once, and without a drain', async () => {
    await startAtRest();
    cluster.maintenance = 'write';
    await observe();
    await advanceUntil(() => cluster.maintenance === undefined);
    await observe();
    await advanceUntil(async () => (await described()).doing === 'running');
    expect([cluster.preserved, cluster.drains]).toEqual([[undefined], 0]);
  });

  it('is written at once, even if it is read before a watcher says so', async () => {
    await startAtRest();
    cluster.maintenance = 'write';
    await workflow().signal(refreshSignal);
    const sinceMs = now();
    await advanceUntil(() => written() === 1);
    expect(now()).toBe(sinceMs);
  });

  it('is written at once, even if a watcher says so while the VM is created', async () => {
    cloud.ensureVm = async () => {
      cluster.maintenance = 'write';
      await joinNode();
      return vm;
    };
    await start();
    const sinceMs = now();
    await advanceUntil(() => written() === 1);
    expect(now()).toBe(sinceMs);
  });

  it('is written again if a watcher says so before the answer to a slow write arrives', async () => {
    await startAtRest();
    cluster.after = async (step) => {
      if (step !== 'maintain' || written() > 2) return;
      if (written() === 1) return sleep(8_000); // is given up after 7 s
      cluster.maintenance = 'write';
      await observe();
      await sleep(1_000); // the task is prolonged after 8 s, and hears of the signal
    };
    cluster.maintenance = 'write';
    await observe();
    await advanceUntil(() => written() === 3);
    expect(cluster.maintenance).toBeUndefined();
  });

  it('is written again when its time is over', async () => {
    await startAtRest();
    const preservedUntil = time(2_000);
    touch({ preservedUntil });
    cluster.maintenance = 'write';
    await observe();
    await advanceUntil(() => written() === 1);
    expect(await described()).toMatchObject({ doing: 'running', preservedUntil });
    cluster.after = (step) =>
      step === 'maintain' && delete (cluster.machine as { preservedUntil?: string }).preservedUntil;
    await advanceUntil(() => written() >= 2);
    expect(now()).toBeGreaterThanOrEqual(Date.parse(preservedUntil));
  });

  it('is written again when somebody has moved its end to an earlier time', async () => {
    await startAtRest();
    touch({ preservedUntil: time(3_600_000) });
    cluster.maintenance = 'write';
    await observe();
    await advanceUntil(async () => written() === 1 && (await described()).doing === 'running');
    const preservedUntil = time(1_000);
    touch({ preservedUntil });
    await observe();
    await advanceUntil(() => written() >= 2);
    expect(now()).toBeGreaterThanOrEqual(Date.parse(preservedUntil));
  });
});

describe('a preserved machine that has failed', () => {
  beforeEach(async () => {
    await startAtRest();
    if (cluster.node.state === 'present') cluster.node = { ...cluster.node, conditions: { Ready: 'False' } };
    touch({ stage: 'failed', stageSince: new Date(0).toISOString(), conditions: { Ready: 'False' } });
    cluster.maintenance = 'write';
  });

  it('is drained without a cordon, and then says so', async () => {
    await observe();
    await advanceUntil(async () => (await described()).doing === 'waiting to be replaced');
    expect(cluster.preserved).toEqual([undefined, { purpose: 'preservation', isDrained: true }]);
    expect(cluster.drainRequest).toMatchObject({
      purpose: 'preservation',
      deadline: new Date(7_200_000).toISOString(),
      force: false,
    });
  });

  it('has an Event of what the API server refuses, and of the pods that its drain timeout leaves', async () => {
    const waitingFor = ['n/a: 500: no webhook answers'];
    cluster.drainNode = () =>
      cluster.drains === 1
        ? { kind: 'stuck', reported: 'abc', isRefused: true, waitingFor, refusals: {} }
        : { kind: 'drained', left: '1 pod left: n/a' };
    await observe();
    await advanceUntil(async () => (await described()).doing === 'waiting to be replaced');
    const [refused, left] = cluster.written.flatMap(({ event }) => event ?? []);
    expect(refused).toEqual({ reason: 'FailedDrain', note: `FailedPrecondition: ${waitingFor[0]}` });
    expect(left).toEqual({ reason: 'DrainTimeout', note: 'The drain timeout of 7200 s is over, with 1 pod left: n/a' });
  });

  it.each([
    [
      'its Node is healthy again',
      () => {
        if (cluster.node.state === 'present') cluster.node = { ...cluster.node, conditions: { Ready: 'True' } };
      },
      'running',
    ],
    [
      'it is not preserved any more',
      () => {
        cluster.maintenance = 'write';
        cluster.before = (step) => step === 'maintain' && delete (cluster as { maintenance?: string }).maintenance;
      },
      'waiting to be replaced',
    ],
  ])('is drained no more when %s', async (_, change, doing) => {
    cluster.drainNode = untilCancelled;
    await observe();
    await advanceUntil(() => cluster.drains === 1);
    expect((await described()).doing).toBe('draining the node of a preserved machine');
    change();
    await observe();
    await advanceUntil(async () => (await described()).doing === doing);
    expect(cluster.drains).toBe(1);
    expect(cluster.preserved).not.toContainEqual({ purpose: 'preservation', isDrained: true });
  });

  it('waits for a budget without an activity, and says for which', async () => {
    const blocked = { kind: 'blocked', budget: 'n/budget', podsLeft: 1, pods: ['n/a'], refusals: { a: 1 } } as const;
    cluster.drainNode = () => ({ ...blocked, retryMs: 500 });
    touch({ stageSince: time() });
    await observe();
    const waitingFor = 'the PodDisruptionBudget n/budget to allow the eviction of n/a';
    await advanceUntil(async () => (await described()).waitingFor === waitingFor);
    await advanceUntil(async () => ((await workflow().describe()).raw.pendingActivities ?? []).length === 0);
    cluster.drainNode = () => ({ kind: 'drained' });
    await advanceUntil(() => cluster.preserved.some((drain) => drain?.isDrained));
    expect(cluster.drainRequest?.refusals).toEqual({ a: 1 });
  });

  it('shows that it could not be drained, and is drained again', async () => {
    cluster.drainNode = () => (cluster.drains === 1 ? refuse('PermissionDenied') : { kind: 'drained' });
    await observe();
    await advanceUntil(() => cluster.preserved.some((drain) => drain?.isDrained));
    const message = 'PermissionDenied: the cloud says PermissionDenied';
    expect(cluster.preserved.filter(Boolean)).toEqual([
      { purpose: 'preservation', isDrained: false, message },
      { purpose: 'preservation', isDrained: true },
    ]);
  });

  it('is drained by force when its label says so', async () => {
    cluster.drainNode = untilCancelled;
    await observe();
    await advanceUntil(() => cluster.drains === 1);
    cluster.drainNode = () => ({ kind: 'drained' });
    touch({ forceDrain: true });
    await observe();
    await advanceUntil(() => cluster.drainRequest?.force === true);
    await advanceUntil(() => cluster.maintenance === undefined);
  });

  it('is deleted at once when somebody deletes it', async () => {
    cluster.drainNode = untilCancelled;
    await observe();
    await advanceUntil(() => cluster.drains === 1);
    cluster.drainNode = () => ({ kind: 'drained' });
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cluster.drainRequest?.purpose).toBe('deletion');
    expect(cluster.preserved).toEqual([undefined]);
  });
});
