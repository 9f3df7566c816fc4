import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import { labels, updateResults } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import { inPlaceOrders, names } from '../names.ts';
import { countUpdates } from './updated-machines.ts';

const api = { ...gardener, nowMs: Date.now() };

const ofSet = (order: string) => `${order}@set`;
const [candidate, selected, updated] = (['candidate', 'selected', 'updated'] as const).map((each) =>
  ofSet(inPlaceOrders[each]),
);

function machine(phase: string, order?: string, isReturning = false, reason?: string): Machine {
  const made = { name: 'm', uid: 'm', resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z' };
  return {
    metadata: {
      ...made,
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: 's', uid: 'set', controller: true }],
      ...(order !== undefined && { annotations: { [names.inPlaceUpdate]: order } }),
      ...(isReturning && { labels: { [labels.updateResult]: updateResults.successful } }),
    },
    status: {
      currentStatus: { phase },
      ...(reason !== undefined && { conditions: [{ type: 'InPlaceUpdate', status: 'True', reason }] }),
    },
  };
}

describe('the machines of a set in an in-place update', () => {
  const ofOld = { isNew: false, isInPlace: true, minReadySeconds: 0 };
  const ofNew = { isNew: true, isInPlace: true, minReadySeconds: 0 };
  it.each<[string, typeof ofOld, Machine, object | undefined]>([
    ['learn that they have an old template', ofOld, machine('Running'), { unmarked: 1 }],
    ['learn it only when their Nodes take pods again', ofOld, machine('Running', undefined, true), { returning: 1 }],
    ['wait for their turn', ofOld, machine('Running', candidate), { selectable: 1 }],
    ['are selected', ofOld, machine('Running', selected), { selected: 1, selectedAvailable: 1 }],
    [
      'count as selected where machine-controller-manager has selected them before',
      ofOld,
      machine('Running', candidate, false, 'SelectedForUpdate'),
      { selected: 1, selectedAvailable: 1 },
    ],
    [
      'wait for their turn after an update before',
      ofOld,
      machine('Running', candidate, false, 'UpdateSuccessful'),
      { selectable: 1 },
    ],
    ['are handed over', ofOld, machine('InPlaceUpdateSuccessful', updated), { selected: 1, updated: 1 }],
    ['are none without that strategy', { ...ofOld, isInPlace: false }, machine('Running', candidate), undefined],
    ['are released when the template goes back', ofNew, machine('Running', candidate), { unreleased: 1 }],
    [
      'are released also when they were selected, but not drained yet',
      ofNew,
      machine('Running', selected),
      { selectedAvailable: 1, unreleased: 1 },
    ],
    ['are left to the agent that may be at them', ofNew, machine('InPlaceUpdating', selected), undefined],
    [
      'come back when that agent succeeds after the template went back',
      ofNew,
      machine('Running', updated),
      { selectedAvailable: 1, updated: 1 },
    ],
    ['are not selected by an order for another set', ofOld, machine('Running', 'selected@other'), { unmarked: 1 }],
    ['are not released by one either', ofNew, machine('Running', 'selected@other'), undefined],
    [
      'count as selected by an order without a set, which others have to settle',
      ofOld,
      machine('Running', inPlaceOrders.selected),
      { selected: 1, selectedAvailable: 1 },
    ],
    ['are returning', ofNew, machine('Running', undefined, true), { returning: 1 }],
  ])('%s', (_, set, one, expected) => {
    const counts = countUpdates(api, [one], set);
    const found = Object.entries(counts ?? {}).filter(([, count]) => count > 0);
    expect(counts && Object.fromEntries(found)).toEqual(expected);
  });
});
