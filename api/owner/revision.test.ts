import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import { annotations } from '../gardener/names.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { nextRevision, withNewestRevision, withRevision } from './revision.ts';

const metadata = { name: 'pool-a', uid: 'md-1', resourceVersion: '5', creationTimestamp: '2026-08-19T10:00:00Z' };

function set(uid: string, revision?: string, history?: string): MachineSet {
  const own = {
    ...(revision !== undefined && { [annotations.revision]: revision }),
    ...(history !== undefined && { [annotations.revisionHistory]: history }),
  };
  return { metadata: { ...metadata, name: uid, uid, annotations: own } };
}

describe('nextRevision', () => {
  it.each([
    [1, []],
    [1, [set('a')]],
    [8, [set('a', '7'), set('b', 'x'), set('c', '3')]],
  ])('is %d for %j', (next, sets) => {
    expect(nextRevision(api, sets)).toBe(next);
  });
});

describe('withNewestRevision', () => {
  it('leaves the newest set as it is, and a set that is alone', () => {
    expect(withNewestRevision(api, set('b', '2'), [set('a', '1'), set('b', '2')])).toBeUndefined();
    expect(withNewestRevision(api, set('b', '9'), [set('a', '1'), set('b', '9')])).toBeUndefined();
    expect(withNewestRevision(api, set('a'), [set('a')])).toBeUndefined();
  });

  it.each([
    ['1', undefined, '1'],
    ['4', '1,2', '1,2,4'],
    ['5', undefined, '5'],
    [undefined, undefined, undefined],
  ])('[mcm 83 partly] raises revision %p of a set that is used again, with history %p', (revision, history, after) => {
    const current = set('a', revision, history);
    const changed = {
      [annotations.revision]: '6',
      ...(after !== undefined && { [annotations.revisionHistory]: after }),
    };
    expect(withNewestRevision(api, current, [current, set('b', '5'), set('c', '2')])).toEqual({
      metadata: { annotations: changed },
    });
  });
});

describe('withRevision', () => {
  it('[mcm 83 partly] gives the deployment the revision of its set, once', () => {
    const current = set('a', '7');
    expect(withRevision(api, { metadata }, current)).toEqual({
      metadata: { annotations: { [annotations.revision]: '7' } },
    });
    expect(withRevision(api, { metadata: current.metadata }, current)).toBeUndefined();
    expect(withRevision(api, { metadata }, undefined)).toBeUndefined();
    expect(withRevision(api, { metadata }, set('a'))).toBeUndefined();
  });
});
