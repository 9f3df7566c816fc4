import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import { annotations as keys } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { names } from '../names.ts';
import { changedPreservations } from './preservation.ts';
import { toLoneSetView } from './view.ts';

const api = { ...gardener, nowMs: Date.now() };

const time = '2026-08-19T10:00:00Z';

interface Traits {
  readonly phase?: string;
  readonly value?: string;
  /** What its workflow has noted of its Node. */
  readonly noted?: string;
  readonly isOver?: boolean;
  readonly isDeleted?: boolean;
}

/** A Failed machine; the later in the alphabet, the younger. */
function machine(name: string, { phase = 'Failed', value, noted, isOver, isDeleted }: Traits = {}): Machine {
  const minutes = String(name.codePointAt(0)! - 96).padStart(2, '0');
  return {
    metadata: {
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: time.replace('00:00Z', `${minutes}:00Z`),
      ...(isDeleted && { deletionTimestamp: time }),
      annotations: {
        ...(value !== undefined && { [keys.preserve]: value }),
        ...(isOver && { [names.preservedUntil]: time }),
        ...(noted !== undefined && { [keys.lastAppliedNodePreserveValue]: noted }),
      },
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: 'set', uid: 'set', controller: true }],
    },
    status: { currentStatus: { phase } },
  };
}

const kept = (name: string) => machine(name, { value: 'auto-preserved' });
const set = (autoPreserveFailedMachineMax?: number): MachineSet => ({
  metadata: { name: 'set', uid: 'set', resourceVersion: '1', creationTimestamp: time },
  spec: { replicas: 9, ...(autoPreserveFailedMachineMax !== undefined && { autoPreserveFailedMachineMax }) },
});

describe('the Failed machines that a set keeps by itself', () => {
  it.each([
    ['none by default', undefined, [machine('a')], []],
    ['the youngest', 2, [machine('a'), machine('c'), machine('b')], ['b', 'c']],
    ['as many as are missing', 2, [kept('a'), machine('b'), machine('c')], ['c']],
    ['none besides as many as it may', 1, [kept('a'), machine('b')], []],
    ['the oldest no more when it may keep fewer', 1, [kept('b'), kept('c'), kept('a')], ['a', 'b']],
    ['none any more when it may keep none', undefined, [kept('a')], ['a']],
    [
      'none that runs or is being deleted',
      9,
      [machine('a', { phase: 'Running' }), machine('b', { isDeleted: true })],
      [],
    ],
    [
      'none about which somebody has decided',
      9,
      ['now', 'when-failed', 'false'].map((value) => machine('a', { value })),
      [],
    ],
    ['one with a value that nobody knows', 1, [machine('a', { value: 'maybe' })], ['a']],
    ['none whose preservation is over', 9, [machine('a', { isOver: true })], []],
    ['none any less that the Node of a machine keeps', undefined, [machine('a', { noted: 'auto-preserved' })], []],
    ['none whose Node says something', 9, ['false', '', 'maybe'].map((noted) => machine('a', { noted })), []],
  ])('are %s', (_, most, own, expected) => {
    const changed = changedPreservations(api, set(most), own);
    expect(changed.map(({ metadata }) => metadata.name)).toEqual(expected);
    expect(toLoneSetView(api, set(most), own).sets[0]?.preservations).toBe(expected.length || undefined);
  });

  it('are none in a set that is being deleted', () => {
    const { metadata, ...rest } = set(9);
    expect(
      changedPreservations(api, { metadata: { ...metadata, deletionTimestamp: time }, ...rest }, [machine('a')]),
    ).toEqual([]);
  });
});
