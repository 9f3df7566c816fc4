import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import { annotations } from '../gardener/names.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import {
  afterFailures,
  attemptsAnnotation,
  attemptsIn,
  attemptsText,
  failureToJoin,
  isBetweenAttempts,
  nextAttempt,
  nextAttemptMs,
  recordedAttempts,
  withKnownAttempts,
} from './failed-attempts.ts';
import type { OwnerSet } from './objects.ts';

const start = Date.parse('2030-01-01T00:00:00Z');
const at = (seconds: number) => ({ ...gardener, nowMs: start + seconds * 1_000 });
const time = (seconds: number) => new Date(start + seconds * 1_000).toISOString().replace('.000Z', 'Z');
const metadata = { namespace: 'n', name: 's', uid: 's', resourceVersion: '1', creationTimestamp: time(0) };
const template = { spec: { class: { kind: 'MachineClass', name: 'small' } } };

/** A set with what it records. */
const setWith = (record: Readonly<Record<string, string | null>> = {}, className = 'small'): OwnerSet => ({
  metadata: { ...metadata, annotations: record as Record<string, string> },
  spec: { template: { spec: { class: { ...template.spec.class, name: className } } } },
});
const failure = (seconds: number) => ({ createdAt: time(seconds), reason: `Internal: no key at ${seconds}` });
/** The set after machines have failed. */
function fail(set: OwnerSet, seconds: number, ...failures: { createdAt: string; reason: string }[]): OwnerSet {
  const attempts = afterFailures(at(seconds), set, 3, failures, 1_200);
  return attempts === undefined ? set : setWith(attemptsAnnotation(attempts));
}
const tryAgain = (set: OwnerSet) => setWith(attemptsAnnotation(nextAttempt(set)!));
const viewOf = (set: OwnerSet, replicas: number, own: readonly KubeObject[] = [], now = at(0), isNew = true) =>
  attemptsIn(now, { ...set, spec: { ...set.spec, replicas } }, set, { own, isNew });
const machine = (phase: string, seconds: number, lastOperation: object = {}) =>
  ({
    metadata: { ...metadata, name: 'm', creationTimestamp: time(seconds) },
    status: { currentStatus: { phase }, lastOperation },
  }) as KubeObject;

describe('what the run of an owner knows of the attempts of a set', () => {
  const first = fail(setWith(), 0, failure(0));
  const second = fail(tryAgain(first), 20, failure(20));
  const known = (set: OwnerSet) => recordedAttempts(gardener, set, 3)!;

  it.each<[string, OwnerSet, OwnerSet, OwnerSet]>([
    ['where the annotation was removed', setWith(), first, first],
    ['where an older one was put back', first, second, second],
    ['where the pause was put back of the attempt that is under way', first, tryAgain(first), tryAgain(first)],
    ['but not where Temporal was restored, and the set records more', second, first, second],
    ['but not where the set records that the next attempt has begun', tryAgain(first), first, tryAgain(first)],
  ])('counts %s', (_, set, inRun, counts) => {
    const seen = withKnownAttempts(set, known(inRun));
    expect(recordedAttempts(gardener, seen, 3)).toEqual(known(counts));
  });

  it('counts no more where the set records attempts for other replicas since then', () => {
    const other = afterFailures(at(60), setWith(), 5, [failure(60)], 1_200)!;
    const set = setWith(attemptsAnnotation(other));
    expect(recordedAttempts(gardener, withKnownAttempts(set, known(second)), 5)).toEqual(other);
  });

  it('counts no more with other replicas, nor when a machine has joined', () => {
    const seen = withKnownAttempts(setWith(), known(first));
    expect(viewOf(seen, 3, [], at(1))).toMatchObject({ failedAttempts: { isPaused: true } });
    expect(viewOf(seen, 5, [], at(1))).toEqual({ hasOldAttempts: true });
    expect(viewOf(seen, 3, [machine('Running', 5)], at(1))).toEqual({ hasOldAttempts: true });
  });
});

describe('the pause after machines that never joined', () => {
  it('doubles with each attempt from 20 s, up to the creation timeout', () => {
    const pauses: number[] = [];
    let set = setWith();
    for (let seconds = 0; pauses.length < 9; ) {
      set = fail(set, seconds, failure(seconds));
      const untilMs = Date.parse(recordedAttempts(gardener, set, 3)?.until ?? '');
      pauses.push((untilMs - start) / 1_000 - seconds);
      seconds = (untilMs - start) / 1_000;
      set = tryAgain(set);
    }
    expect(pauses).toEqual([20, 40, 80, 160, 320, 640, 1_200, 1_200, 1_200]);
  });

  it('is the creation timeout where that is shorter', () => {
    expect(afterFailures(at(0), setWith(), 3, [failure(0)], 5)?.until).toBe(time(5));
  });

  it('is one for all machines of an attempt, however many fail, and when', () => {
    const set = fail(setWith(), 10, failure(2), failure(1), failure(3));
    expect(recordedAttempts(gardener, set, 3)).toMatchObject({ count: 1, since: time(1), until: time(30) });
    expect(fail(set, 15, failure(2))).toBe(set);
    expect(recordedAttempts(gardener, fail(tryAgain(set), 40, failure(31)), 3)).toMatchObject({
      ...{ count: 2, since: time(1), until: time(80), reason: 'Internal: no key at 31' },
    });
  });

  it('ends at its time, and is not there while the next attempt is under way', () => {
    const set = fail(setWith(), 0, failure(0));
    expect(viewOf(set, 3, [], at(19))).toMatchObject({ failedAttempts: { count: 1, isPaused: true } });
    expect(viewOf(set, 3, [], at(20)).failedAttempts).not.toHaveProperty('isPaused');
    expect(isBetweenAttempts(set)).toBe(true);
    expect(isBetweenAttempts(tryAgain(set))).toBe(false);
    expect(nextAttempt(tryAgain(set))).toBeUndefined();
  });

  it('ends when a machine has joined that is as young as the first one that failed', () => {
    const set = fail(setWith(), 10, failure(5));
    for (const phase of ['Running', 'Unknown', 'Available', 'InPlaceUpdating'])
      expect(viewOf(set, 3, [machine(phase, 5)], at(11))).toEqual({ hasOldAttempts: true });
    for (const phase of ['Pending', 'Failed', 'CrashLoopBackOff'])
      expect(viewOf(set, 3, [machine(phase, 5)], at(11))).toHaveProperty('failedAttempts');
    expect(viewOf(set, 3, [machine('Running', 4)], at(11))).toHaveProperty('failedAttempts');
  });

  it('is over with another template, and with other replicas', () => {
    const set = fail(setWith(), 0, failure(0));
    expect(viewOf(set, 4, [], at(1))).toEqual({ hasOldAttempts: true });
    expect(viewOf(set, 2, [], at(1))).toEqual({ hasOldAttempts: true });
    expect(viewOf(setWith(set.metadata.annotations, 'large'), 3, [], at(1))).toEqual({ hasOldAttempts: true });
    const corrected = setWith(set.metadata.annotations, 'large');
    expect(afterFailures(at(1), corrected, 3, [failure(1)], 1_200)?.count).toBe(1);
  });

  it('is over for an old set that is to have no machines', () => {
    const set = fail(setWith(), 0, failure(0));
    const own = { ...set, spec: { ...set.spec, replicas: 1 } };
    expect(viewOf(set, 3, [], at(1), false)).toEqual({ hasOldAttempts: true });
    expect(viewOf(own, 3, [], at(1), false)).toHaveProperty('failedAttempts');
  });

  it.each(['', '{}', '[1]', 'null', '{"count":"1","since":"","reason":"","about":""}'])(
    'is none where the record is %p, which is removed',
    (text) => {
      expect(viewOf(setWith({ [names.failedAttempts]: text }), 3, [], at(0))).toEqual({ hasOldAttempts: true });
    },
  );

  it('says to people until when, and why', () => {
    const attempts = { count: 3, reason: 'Internal: no key', until: time(80) };
    expect(attemptsText('s', attempts)).toBe(
      'MachineSet s gets no machine before 2030-01-01T00:01:20Z, as no Node has joined in the last 3 attempts: Internal: no key',
    );
    const { until: _, ...underWay } = attempts;
    expect(attemptsText('s', underWay)).toBeUndefined();
  });
});

describe('a machine that has failed without having joined', () => {
  it.each([
    [
      'whose VM has failed',
      'Failed',
      { type: 'Create', state: 'Failed', description: 'the VM x failed' },
      'the VM x failed',
    ],
    ['that has failed its health check', 'Failed', { type: 'HealthCheck', state: 'Failed' }, undefined],
    ['of which nobody knows why', 'Failed', {}, undefined],
    ['that is still tried', 'CrashLoopBackOff', { type: 'Create', state: 'Failed' }, undefined],
  ])('is one %s', (_, phase, operation, reason) => {
    expect(failureToJoin(gardener, machine(phase, 7, operation))).toEqual(
      reason === undefined ? undefined : { createdAt: time(7), reason },
    );
  });

  it('has a reason of at most 120 characters', () => {
    const operation = { type: 'Create', state: 'Failed', description: 'x'.repeat(500) };
    expect(failureToJoin(gardener, machine('Failed', 0, operation))?.reason).toHaveLength(120);
  });
});

describe('the creation timeout of the machines of a set', () => {
  it.each<[object, object, number | undefined]>([
    [{}, {}, undefined],
    [{ creationTimeout: '5m' }, {}, 300],
    [{ creationTimeout: '5m' }, { [annotations.effectiveCreationTimeout]: '1m' }, 60],
    [{ creationTimeout: 'soon' }, {}, undefined],
  ])('of %j with the annotations %j is %p s', (spec, own, seconds) => {
    const set = { metadata: { ...metadata, annotations: own }, spec: { template: { spec } } } as OwnerSet;
    expect(gardener.owner.template.creationSecondsOf(set)).toBe(seconds);
  });
});

describe('nextAttemptMs', () => {
  it('is Infinity where no set waits', () => {
    expect(nextAttemptMs({ sets: [] } as unknown as Parameters<typeof nextAttemptMs>[0])).toBe(
      Number.POSITIVE_INFINITY,
    );
  });
});
