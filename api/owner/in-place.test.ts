import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
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
  ...{ replicas: 3, strategy: 'InPlace', maxSurge: 0, maxUnavailable: 1 },
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
    ['does not come where people select', { selectsManually: true }, [old({}), having('new', 0)], 0],
    ['does not come while it is paused', { paused: true }, [old({}), having('new', 0)], 0],
    ['does not come before there is a new set', {}, [old({})], 0],
  ])('%s', (_, change, sets, expected) => {
    expect(selectionRoom({ ...view, ...change, sets })).toBe(expected);
  });
});

/** A machine of the simulation: in the old or new set, and how far its update is. */
interface Simulated {
  isNew: boolean;
  available: boolean;
  step: 'none' | 'selected' | 'updated' | 'returning';
}

it('[invariant 5 partly] [mcm 99 partly] an update in place stays within its bounds and ends, whatever comes first', () => {
  const sizes = fc.record({
    replicas: fc.integer({ min: 1, max: 8 }),
    maxSurge: fc.integer({ min: 0, max: 3 }),
    maxUnavailable: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(
    fc.property(sizes, fc.nat(2 ** 31), ({ replicas, maxSurge, maxUnavailable }, seed) => {
      let random = seed;
      const bounds = { ...view, replicas, maxSurge, maxUnavailable: Math.min(maxUnavailable, replicas) };
      const all: Simulated[] = Array.from({ length: replicas }, () => ({
        isNew: false,
        available: true,
        step: 'none',
      }));
      const viewOf = (name: 'old' | 'new') => {
        const own = all.filter(({ isNew }) => isNew === (name === 'new'));
        const count = (is: (machine: Simulated) => boolean) => own.filter(is).length;
        const isTurn = ({ step }: Simulated) => step === 'selected' || step === 'updated';
        const updates = {
          ...{ ...none, selectable: count(({ step, available }) => step === 'none' && available) },
          ...{ selected: count(isTurn), selectedAvailable: count((each) => isTurn(each) && each.available) },
          ...{ updated: count(({ step }) => step === 'updated'), returning: count(({ step }) => step === 'returning') },
        };
        return having(
          name,
          own.length,
          count(({ available }) => available),
          { updates },
        );
      };
      for (let steps = 0; all.some((each) => !each.isNew || !each.available || each.step !== 'none'); steps += 1) {
        expect(steps).toBeLessThan(2_000);
        const now = { ...bounds, sets: [viewOf('old'), viewOf('new')] };
        const desired = inPlaceReplicas(now, now.sets);
        random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
        const choice = Math.floor(random / 2 ** 16);
        const room = selectionRoom(now);
        const machine = all[Math.floor(choice / 2) % Math.max(1, all.length)];
        const isOwnerNext = choice % 2 === 0;
        if (isOwnerNext) {
          for (const each of all
            .filter(({ isNew, step, available }) => !isNew && step === 'none' && available)
            .slice(0, room))
            each.step = 'selected';
          for (const each of all.filter(({ step }) => step === 'updated'))
            Object.assign(each, { isNew: true, step: 'returning' });
          const now = all.filter(({ isNew }) => isNew).length;
          for (
            let missing = (desired.get('new') ?? 0) - now;
            missing > 0 && all.length < replicas + maxSurge;
            missing -= 1
          )
            all.push({ isNew: true, available: false, step: 'none' });
          let excess = all.filter(({ isNew }) => !isNew).length - (desired.get('old') ?? 0);
          for (const each of all
            .filter(({ isNew }) => !isNew)
            .toSorted((a, b) => Number(a.available) - Number(b.available)))
            if ((excess -= 1) >= 0) all.splice(all.indexOf(each), 1);
        } else if (machine?.step === 'selected') {
          if (machine.available) machine.available = false;
          else Object.assign(machine, { available: true, step: 'updated' });
        } else if (machine?.step === 'returning') machine.step = 'none';
        else if (machine?.isNew) machine.available = true;
        const working = all.filter(({ available, step }) => available && step === 'none').length;
        expect(working).toBeGreaterThanOrEqual(replicas - bounds.maxUnavailable);
        expect(all.length).toBeLessThanOrEqual(replicas + maxSurge);
      }
    }),
    { numRuns: 300 },
  );
});
