import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../model/owner.ts';
import { surplusSets } from './history.ts';

const empty = { replicas: 0, total: 0, deleting: false, isNew: false, outdated: [] } as const;
const set = (name: string, change: Partial<SetView> = {}) => ({ ...empty, name, ...change }) as SetView;
const view = (historyLimit: number | undefined, sets: SetView[], change: Partial<OwnerView> = {}) =>
  ({ deleting: false, paused: false, progress: 'complete', historyLimit, sets, ...change }) as OwnerView;
const current = set('new', { isNew: true, replicas: 3, total: 3 });
const all = [set('a'), set('b'), set('c'), current];

describe('[mcm 81 partly] surplusSets', () => {
  it.each<[string, OwnerView, string[]]>([
    ['the oldest beyond the limit', view(1, all), ['a', 'b']],
    ['all old ones of a limit of 0, and not the current one', view(0, all), ['a', 'b', 'c']],
    ['none within the limit', view(3, all), []],
    ['none without a limit', view(undefined, all), []],
    ['the same while paused', view(1, all, { paused: true, progress: 'paused' }), ['a', 'b']],
    ['none in the middle of a rollout', view(1, all, { progress: 'updated' }), []],
    ['none while there are old machines', view(1, [...all.slice(0, 2), set('c', { total: 1 }), current]), []],
    ['none before the current set is there', view(1, all.slice(0, 3)), []],
    ['none of a deployment that is deleted', view(1, all, { deleting: true }), []],
    [
      'none that has machines, which counts all the same',
      view(1, [set('a', { total: 1 }), ...all.slice(1)], { paused: true }),
      ['b'],
    ],
    ['none that is to have machines', view(1, [set('a', { replicas: 1 }), ...all.slice(1)]), ['b']],
    [
      'none whose generation is not observed yet',
      view(1, [set('a', { outdated: ['status'] }), ...all.slice(1)]),
      ['b'],
    ],
    [
      'none that is being deleted, which does not count',
      view(1, [set('a', { deleting: true }), ...all.slice(1)]),
      ['b'],
    ],
  ])('has %s', (_, owner, expected) => {
    expect(surplusSets(owner).map(({ name }) => name)).toEqual(expected);
  });
});
