import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import { names } from '../names.ts';
import { adoptableSets, ownerChangesOf, selects, toAdoptionPatch, toOwnerPatch, unmetLabels } from './adoption.ts';
import type { LabelSelector, OwnerSet } from './objects.ts';

const created = { resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z' };
const deleted = { deletionTimestamp: '2026-08-19T11:00:00Z' };

function set(name: string, labels: Record<string, string>, change: Partial<OwnerSet['metadata']> = {}): OwnerSet {
  return {
    metadata: { name, uid: name, ...created, ...change },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels } } },
  };
}

function machine(name: string, labels: Record<string, string>, owner?: string, change: object = {}): Machine {
  const reference = { apiVersion: 'v1', kind: 'MachineSet', name: owner ?? '', uid: owner ?? '', controller: true };
  return {
    metadata: { name, uid: name, ...created, labels, ...(owner && { ownerReferences: [reference] }), ...change },
  };
}

describe('selects', () => {
  const labels = { name: 'pool', zone: 'a' };
  const selecting = (selector: LabelSelector, template: Record<string, string> = labels): OwnerSet => ({
    metadata: { name: 'pool', uid: 'pool', ...created },
    spec: { selector, template: { metadata: { labels: template } } },
  });

  it.each<[LabelSelector, boolean]>([
    [{ matchLabels: { name: 'pool' } }, true],
    [{ matchLabels: { name: 'other' } }, false],
    [{ matchLabels: { name: 'pool', zone: 'a' } }, true],
    [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['a', 'b'] }] }, true],
    [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['b'] }] }, false],
    [{ matchExpressions: [{ key: 'rack', operator: 'In', values: ['b'] }] }, false],
    [{ matchExpressions: [{ key: 'zone', operator: 'NotIn', values: ['b'] }] }, true],
    [{ matchExpressions: [{ key: 'zone', operator: 'NotIn', values: ['a'] }] }, false],
    [{ matchExpressions: [{ key: 'rack', operator: 'NotIn', values: ['a'] }] }, true],
    [{ matchExpressions: [{ key: 'zone', operator: 'Exists' }] }, true],
    [{ matchExpressions: [{ key: 'rack', operator: 'Exists' }] }, false],
    [{ matchExpressions: [{ key: 'rack', operator: 'DoesNotExist' }] }, true],
    [{ matchExpressions: [{ key: 'zone', operator: 'DoesNotExist' }] }, false],
    [{ matchExpressions: [{ key: 'zone', operator: 'Near', values: ['a'] }] }, false],
    [{ matchLabels: { name: 'pool' }, matchExpressions: [{ key: 'rack', operator: 'Exists' }] }, false],
    [{ matchLabels: {} }, false],
    [{}, false],
  ])('answers for %j: %p', (selector, expected) => {
    expect(selects(selecting(selector), labels)).toBe(expected);
  });

  it('nothing where the set does not select the machines that it makes', () => {
    expect(selects(selecting({ matchLabels: { name: 'pool' } }, { name: 'other' }), labels)).toBe(false);
  });
});

describe('[mcm 62 partly] ownerChangesOf', () => {
  const pool = set('pool', { name: 'pool' });
  const pick = (of: Partial<Parameters<typeof ownerChangesOf>[1]>) =>
    ownerChangesOf(api, { set: pool, own: [], ownerless: [], sets: [pool], ...of }).map(
      ({ metadata }) => metadata.name,
    );
  const stray = machine('stray', { name: 'other' }, 'pool');
  const free = machine('free', { name: 'pool' });

  it('has what is owned and not selected, and what is selected and not owned', () => {
    expect(pick({ own: [machine('own', { name: 'pool' }, 'pool'), stray], ownerless: [free] })).toEqual([
      'stray',
      'free',
    ]);
    expect(pick({ ownerless: [machine('other', { name: 'other' })] })).toEqual([]);
  });

  it('has nothing that is being deleted', () => {
    const leaving = [stray, free].map((one) => ({ ...one, metadata: { ...one.metadata, ...deleted } }));
    expect(pick({ own: leaving.slice(0, 1), ownerless: leaving.slice(1) })).toEqual([]);
    const terminating = { ...free, status: { currentStatus: { phase: 'Terminating' as const } } };
    expect(pick({ ownerless: [terminating] })).toEqual([]);
  });

  it('has nothing for a set that is being deleted, or that does not select what it makes', () => {
    expect(pick({ set: set('pool', { name: 'pool' }, deleted), own: [stray], ownerless: [free] })).toEqual([]);
    const wrong = { ...pool, spec: { ...pool.spec, selector: { matchLabels: { name: 'wrong' } } } };
    expect(pick({ set: wrong, own: [stray, machine('own', { name: 'pool' }, 'pool')], ownerless: [free] })).toEqual([]);
  });

  it('has nothing that another set selects as well, unless that one is being deleted', () => {
    const rival = set('rival', { zone: 'a' });
    const contested = machine('contested', { name: 'pool', zone: 'a' });
    expect(pick({ ownerless: [contested, free], sets: [pool, rival] })).toEqual(['free']);
    const leaving = set('rival', { zone: 'a' }, deleted);
    expect(pick({ ownerless: [contested], sets: [pool, leaving] })).toEqual(['contested']);
  });
});

describe('[mcm 62 partly] toOwnerPatch', () => {
  const pool = set('pool', { name: 'pool' });
  const other = { apiVersion: 'v1', kind: 'Something', name: 'other', uid: 'other' };

  it('adds the set as the controller, and removes nothing but that', () => {
    const free = machine('m', { name: 'pool' }, undefined, { ownerReferences: [other] });
    const adopted = { kind: 'MachineSet', name: 'pool', uid: 'pool', controller: true, blockOwnerDeletion: true };
    expect(toOwnerPatch(api, pool, free, true)).toMatchObject({
      metadata: { ownerReferences: [other, adopted], annotations: { [names.releasedBy]: null } },
    });
    const own = machine('m', { name: 'x' }, 'pool');
    const both = { ...own, metadata: { ...own.metadata, ownerReferences: [...own.metadata.ownerReferences!, other] } };
    expect(toOwnerPatch(api, pool, both, false)).toEqual({
      metadata: { ownerReferences: [other], annotations: { [names.releasedBy]: 'pool' } },
    });
  });

  it.each<[string, Machine, boolean]>([
    ['has an owner by now', machine('m', { name: 'pool' }, 'rival'), true],
    ['has other labels by now', machine('m', { name: 'x' }), true],
    ['is deleted by now', machine('m', { name: 'pool' }, undefined, deleted), true],
    ['has another owner by now', machine('m', { name: 'x' }, 'rival'), false],
    ['has its labels again', machine('m', { name: 'pool' }, 'pool'), false],
  ])('changes no machine that %s', (_, one, isAdopted) => {
    expect(toOwnerPatch(api, pool, one, isAdopted)).toBeUndefined();
  });
});

describe('unmetLabels', () => {
  it('names each label for which a set does not select a machine, once', () => {
    const pool: OwnerSet = {
      metadata: { name: 'pool', uid: 'pool', ...created },
      spec: {
        selector: {
          matchLabels: { name: 'pool', zone: 'a', rack: '1' },
          matchExpressions: [
            { key: 'zone', operator: 'Exists' },
            { key: 'gone', operator: 'DoesNotExist' },
          ],
        },
      },
    };
    expect(unmetLabels(pool, machine('m', { name: 'pool', rack: '1', gone: '' }))).toBe('labels zone, gone');
    expect(unmetLabels(pool, machine('m', { name: 'pool', rack: '2', zone: 'a' }))).toBe('label rack');
  });
});

describe('adoptableSets', () => {
  const labels = { name: 'pool' };
  const pool = set('pool', labels);
  const controlled = { ownerReferences: [{ apiVersion: 'v1', kind: 'x', name: 'x', uid: 'x', controller: true }] };

  it.each<[string, OwnerSet, readonly OwnerSet[], boolean]>([
    ['one that it selects and nobody controls', set('old', labels, { labels }), [pool], true],
    ['none with other labels', set('old', labels, { labels: { name: 'other' } }), [pool], false],
    ['none that another owner controls', set('old', labels, { labels, ...controlled }), [pool], false],
    ['none that is being deleted', set('old', labels, { labels, ...deleted }), [pool], false],
    ['none that another deployment selects', set('old', labels, { labels }), [pool, set('other', labels)], false],
    ['one that a deleted deployment selects', set('old', labels, { labels }), [set('other', labels, deleted)], true],
  ])('has %s', (_title, one, deployments, expected) => {
    expect(adoptableSets(pool, [one], deployments)).toEqual(expected ? [one] : []);
  });

  it('has none for a deployment that is being deleted', () => {
    expect(adoptableSets(set('pool', labels, deleted), [set('old', labels, { labels })], [])).toEqual([]);
  });

  it('become owned, beside owners that control nothing', () => {
    const other = { apiVersion: 'v1', kind: 'x', name: 'x', uid: 'x' };
    const old = set('old', labels, { labels, ownerReferences: [other] });
    expect(toAdoptionPatch(api, pool, old)).toMatchObject({
      metadata: { ownerReferences: [other, { kind: 'MachineDeployment', uid: 'pool', controller: true }] },
    });
    expect(toAdoptionPatch(api, pool, set('old', labels, { labels, ...controlled }))).toBeUndefined();
  });
});
