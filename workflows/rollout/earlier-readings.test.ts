import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../../api/model/owner.ts';
import { countWorking, creationHeadroom } from '../../api/owner/set-counts.ts';
import { type AnyView, withRules } from './earlier-readings.ts';

const updates = {
  unmarked: 0,
  selectable: 0,
  selected: 1,
  selectedAvailable: 1,
  updated: 0,
  unreleased: 0,
  returning: 0,
};
const set: SetView = {
  ...{ name: 'old', uid: 'old', resourceVersion: '1', generation: 1, isNew: false, hasOurFinalizer: true },
  ...{ deleting: false, outdated: [], closed: false, starting: 0, failed: 0, replacing: 0 },
  ...{ replicas: 3, total: 3, active: 2, available: 2, updates },
};
const read: AnyView = {
  ...{ kind: 'MachineDeployment', uid: 'o', resourceVersion: '1', generation: 1, hasOurFinalizer: true },
  ...{ deleting: false, outdated: [], paused: false, template: { setName: 'new', hash: '1' }, sets: [set] },
  ...{ replicas: 3, strategy: 'RollingUpdate', maxSurge: 0, maxUnavailable: 0 },
};
const working = ({ sets }: OwnerView) => sets.map(countWorking);

describe('a reading of release 0.1.0', () => {
  it('counts machines that are being deleted, and those that are updated in place as available', () => {
    const view = withRules(read);
    expect([creationHeadroom(view), working(view)]).toEqual([0, [2]]);
  });

  it('counts those that are updated in place as such while that is its strategy', () => {
    expect(working(withRules({ ...read, strategy: 'InPlace' }))).toEqual([1]);
    expect(working(withRules({ ...read, strategy: 'InPlace', paused: true }))).toEqual([2]);
  });
});

it('a reading of this release stays as it is', () => {
  const view = withRules({ ...read, countsLeaving: 'never' });
  expect([creationHeadroom(view), working(view)]).toEqual([1, [1]]);
});
