import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../model/owner.ts';
import { inPlaceReplicas, selectionRoom } from './in-place.ts';

const set: SetView = {
  ...{ name: 'old', uid: 'old', resourceVersion: '1', generation: 1, isNew: false, hasOurFinalizer: true },
  ...{ deleting: false, outdated: [], closed: false, starting: 0, failed: 0, replacing: 0 },
  ...{ replicas: 0, total: 0, active: 0, available: 0 },
};
const view: OwnerView = {
  ...{ kind: 'MachineDeployment', uid: 'o', resourceVersion: '1', generation: 1, hasOurFinalizer: true },
  ...{ deleting: false, outdated: [], paused: false, template: { setName: 'new', hash: '1' }, sets: [] },
  ...{ replicas: 3, strategy: 'InPlace', maxSurge: 0, maxUnavailable: 1, countsLeaving: 'never' },
};
const having = (name: string, active: number, available = active, traits: Partial<SetView> = {}): SetView => ({
  ...{ ...set, name, uid: name, isNew: name === 'new', replicas: active, total: active, active, available },
  ...traits,
});
const none = { unmarked: 0, selectable: 0, selected: 0, selectedAvailable: 0, updated: 0, unreleased: 0, returning: 0 };

describe('sets of a deployment that updates its machines in place', () => {
  it.each<[string, Partial<OwnerView>, SetView[], object]>([
    ['stay as they are without a surge', {}, [having('old', 3), having('new', 0)], { old: 3, new: 0 }],
    ['get the surge as new machines', { maxSurge: 1 }, [having('old', 3), having('new', 0)], { old: 3, new: 1 }],
    [
      'give no place to a machine that was lost but the new set',
      {},
      [having('old', 2), having('new', 0)],
      { old: 2, new: 1 },
    ],
    ['grow in the new set', { replicas: 5 }, [having('old', 2), having('new', 1)], { old: 2, new: 3 }],
    ['shrink in the old ones', { replicas: 2 }, [having('old', 2), having('new', 1)], { old: 1, new: 1 }],
    [
      'shrink in an old one whose machine is not preserved',
      { replicas: 2 },
      [having('older', 1, 1, { preservedAvailable: 1 }), having('old', 1), having('new', 1)],
      { older: 1, old: 0, new: 1 },
    ],
    [
      'shrink as far as enough are available',
      { replicas: 2 },
      [having('old', 2), having('new', 1, 0)],
      { old: 1, new: 1 },
    ],
    [
      'lose the surge when the new set is full',
      { maxSurge: 1 },
      [having('old', 1), having('new', 3)],
      { old: 0, new: 3 },
    ],
    [
      'keep it until enough of the new set are available',
      { maxSurge: 1, maxUnavailable: 0 },
      [having('old', 1), having('new', 3, 2)],
      { old: 1, new: 3 },
    ],
    ['are one set in the end', {}, [having('old', 0), having('new', 2)], { old: 0, new: 3 }],
  ])('%s', (_, change, sets, expected) => {
    expect(Object.fromEntries(inPlaceReplicas({ ...view, ...change, sets }, sets))).toEqual(expected);
  });
});

describe('the turn of more machines', () => {
  const old = (updates: Partial<typeof none>, available = 3) =>
    having('old', 3, available, { updates: { ...none, selectable: 3, ...updates } });
  it.each<[string, Partial<OwnerView>, SetView[], number]>([
    ['comes', {}, [old({}), having('new', 0)], 1],
    ['comes for as many as may be unavailable', { maxUnavailable: 2 }, [old({}), having('new', 0)], 2],
    ['does not come while one is selected', {}, [old({ selected: 1, selectedAvailable: 1 }), having('new', 0)], 0],
    ['does not come while one is drained', {}, [old({ selected: 1 }, 2), having('new', 0)], 0],
    ['does not come while another one is unavailable', {}, [old({}, 2), having('new', 0)], 0],
    [
      'does not come before a new one takes pods',
      {},
      [old({}, 2), having('new', 1, 1, { updates: { ...none, returning: 1 } })],
      0,
    ],
    ['does not come for the surge', { maxSurge: 1, maxUnavailable: 3 }, [old({}), having('new', 1)], 2],
    ['does not come for a machine that the same step deletes', { replicas: 2 }, [old({}), having('new', 0)], 1],
    ['does not come where people select', { selectsManually: true }, [old({}), having('new', 0)], 0],
    ['does not come while it is paused', { paused: true }, [old({}), having('new', 0)], 0],
    ['does not come before there is a new set', {}, [old({})], 0],
  ])('%s', (_, change, sets, expected) => {
    expect(selectionRoom({ ...view, ...change, sets })).toBe(expected);
  });
});
