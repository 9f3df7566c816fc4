import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { OwnerView } from '../model/owner.ts';
import { names } from '../names.ts';
import { healthOf, type MostReplacing, mostReplacing, readHealth } from './health.ts';

const api = { ...gardener, nowMs: Date.now() };

const askedAt = '2026-08-19T12:10:00Z';

interface Traits {
  /** Since when it is Unknown and, ten minutes later, asks to be replaced. */
  readonly asksSince?: string;
  readonly isGranted?: boolean;
  readonly replaces?: string;
  readonly phase?: string;
  /** It was deleted because it had Failed. */
  readonly isReplaced?: boolean;
}

function machine(
  name: string,
  { asksSince, isGranted, replaces, phase = 'Running', isReplaced }: Traits = {},
): Machine {
  const isAsking = asksSince !== undefined;
  return {
    metadata: {
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: '2026-08-19T10:00:00Z',
      ...(isReplaced && { deletionTimestamp: askedAt }),
      annotations: {
        ...(isGranted && { [names.replace]: askedAt }),
        ...(replaces !== undefined && { [names.replaces]: replaces }),
        ...(isReplaced && { [names.replaced]: 'true' }),
      },
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: 'set', uid: 'set', controller: true }],
    },
    status: {
      currentStatus: { phase: isAsking ? 'Unknown' : phase, ...(isAsking && { lastUpdateTime: asksSince }) },
      ...(isAsking && { lastOperation: { type: 'HealthCheck', state: 'Failed', lastUpdateTime: askedAt } }),
    },
  };
}

const early = '2026-08-19T12:00:00Z';
const later = '2026-08-19T12:00:05Z';
const asking = (name: string, asksSince = early) => machine(name, { asksSince });
const granted = (name: string) => machine(name, { asksSince: early, isGranted: true });
const failed = (name: string) => machine(name, { isGranted: true, phase: 'Failed' });
const leaving = (name: string) => machine(name, { isGranted: true, phase: 'Terminating', isReplaced: true });
const starting = (name: string, replaces?: string) =>
  machine(name, { phase: 'Pending', ...(replaces !== undefined && { replaces }) });

describe('the unhealthy machines of an owner', () => {
  it.each([
    ['nothing of those that run', [machine('a')], undefined],
    ['one that asks', [machine('a'), asking('b')], { asking: 1, replacing: 0 }],
    ['one that is replaced, while it is unhealthy', [granted('a'), asking('b')], { asking: 1, replacing: 1 }],
    ['while it has failed', [failed('a')], { asking: 0, replacing: 1 }],
    ['while it is deleted', [leaving('a')], { asking: 0, replacing: 1 }],
    ['with the one in its place', [leaving('a'), starting('b', 'a')], { asking: 0, replacing: 1 }],
    ['while only that one is there', [starting('b', 'a')], { asking: 0, replacing: 1 }],
    ['until that one runs', [machine('b', { replaces: 'a' })], undefined],
    ['until the first one is gone', [leaving('a'), machine('b', { replaces: 'a' })], { asking: 0, replacing: 1 }],
    [
      'once, however many were made in its place',
      [leaving('a'), machine('b', { replaces: 'a', phase: 'Failed' }), starting('c', 'b')],
      { asking: 0, replacing: 1 },
    ],
    ['not those that start for another reason', [starting('a'), asking('b')], { asking: 1, replacing: 0 }],
    [
      'not a decision about an earlier request',
      [machine('a', { isGranted: true }), { ...asking('b'), metadata: { ...asking('b').metadata } }],
      { asking: 1, replacing: 0 },
    ],
  ] as const)('are counted: %s', (_, machines, expected) => {
    expect(healthOf(api, machines)).toEqual(expected);
  });

  const view = (machines: readonly Machine[], closed = false) =>
    ({
      replicas: 10,
      health: healthOf(api, machines),
      sets: [{ name: 'set', uid: 'set', closed, deleting: false }],
    }) as unknown as OwnerView;
  const read = (machines: readonly Machine[], closed = false) =>
    readHealth(api, view(machines, closed), machines, { count: 1 }, 100);

  it('are read with the longest unhealthy first', () => {
    expect(read([asking('a', later), asking('b'), machine('c')])?.asking).toEqual([
      { name: 'b', uid: 'b', resourceVersion: '1', set: 'set', askedAt },
      { name: 'a', uid: 'a', resourceVersion: '1', set: 'set', askedAt },
    ]);
  });

  it('are left alone where no other machine may be made', () => {
    expect(read([asking('a')], true)).toEqual({ most: 1, asking: [], unfilled: [] });
  });

  it('get another machine in their place once, when they are deleted', () => {
    expect(read([granted('a'), failed('b'), leaving('c'), leaving('d'), starting('e', 'd')])?.unfilled).toEqual(['c']);
  });
});

describe('the number of replacements at once', () => {
  it.each<[MostReplacing, number, number]>([
    [{ count: 3 }, 1, 3],
    [{ count: 0 }, 9, 0],
    [{ percent: 10 }, 39, 3],
    [{ percent: 10 }, 4, 1],
    [{ percent: 0 }, 100, 0],
  ])('%j of %d replicas is %d', (most, replicas, expected) => {
    expect(mostReplacing(most, replicas)).toBe(expected);
  });
});
