import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../model/owner.ts';
import { waitsOf } from './waits.ts';

function set(name: string, available: number, starting = 0, leaving = 0): SetView {
  const active = available + starting;
  return {
    ...{ name, uid: name, resourceVersion: '1', generation: 1, isNew: name === 'new', hasOurFinalizer: true },
    ...{ deleting: false, outdated: [], closed: false, replicas: active },
    ...{ total: active + leaving, active, available, starting, failed: 0, replacing: 0 },
  };
}
const owner: OwnerView = {
  ...{
    kind: 'MachineDeployment',
    uid: 'd',
    resourceVersion: '1',
    generation: 1,
    hasOurFinalizer: true,
    deleting: false,
  },
  ...{
    outdated: [],
    paused: false,
    replicas: 10,
    strategy: 'RollingUpdate',
    maxSurge: 2,
    maxUnavailable: 0,
    countsLeaving: 'never',
  },
  template: { setName: 'new', hash: '1' },
  sets: [],
};

describe('what the machines of an owner wait for', () => {
  it.each<[string, Partial<OwnerView>, SetView[], string | undefined]>([
    ['nothing at rest', {}, [set('new', 10)], undefined],
    ['machines that join', {}, [set('new', 9, 1)], '1 machine is not running'],
    ['nothing of one that is preserved', {}, [{ ...set('new', 9, 1), preserved: 1 }], '1 Failed machine is preserved'],
    [
      'a set that lacks machines and is frozen',
      {},
      [{ ...set('new', 9), closed: true, replicas: 10 }],
      'no machine may be created in MachineSet new, as it or its deployment is frozen',
    ],
    ['nothing of one that is frozen and lacks none', {}, [{ ...set('new', 10), closed: true }], undefined],
    ['machines that leave', {}, [set('new', 10, 0, 2)], '2 machines are being deleted'],
    [
      'available machines while others are on their way out',
      {},
      [set('old', 8, 0, 2), set('new', 2)],
      '2 machines are being deleted; no old machine may be deleted: 10 are available, and at least 10 have to be',
    ],
    [
      'the same where these machines count',
      { countsLeaving: 'inRollouts' },
      [set('old', 8, 0, 2), set('new', 2)],
      '2 machines are being deleted; no new machine may be created: at most 12 may exist; no old machine may be deleted: 10 are available, and at least 10 have to be',
    ],
    [
      'new machines, before old ones may go',
      {},
      [set('old', 10), set('new', 0, 2)],
      '2 new machines are not running; no new machine may be created: at most 12 may exist besides those that are being deleted; no old machine may be deleted: 10 are available, and at least 10 have to be',
    ],
    [
      'what is left of older templates, to recreate',
      { strategy: 'Recreate' },
      [set('old', 0, 0, 3), set('new', 0)],
      '3 machines are being deleted; new machines are created when all old ones are gone',
    ],
    ['its resumption', { paused: true }, [set('old', 4), set('new', 6)], '4 old machines stay while it is paused'],
    ['all machines of a deleted one', { deleting: true }, [set('new', 1, 0, 1)], '1 machine is being deleted'],
    [
      'what it owns to be released, after a deletion without that',
      { deleting: true, orphans: true },
      [set('new', 9, 1)],
      'the Kubernetes garbage collector has to release what it owns, after a deletion with `--cascade=orphan`; if it does not, check kube-controller-manager',
    ],
    [
      'the machines of a set to be released',
      {},
      [{ ...set('old', 3), deleting: true, orphans: true }, set('new', 10)],
      'the Kubernetes garbage collector has to release the machines of old, after a deletion with `--cascade=orphan`; if it does not, check kube-controller-manager',
    ],
    ['nothing while it is not valid', { problem: 'spec.selector is missing' }, [set('new', 9, 1)], undefined],
  ])('is %s', (_name, change, sets, expected) => {
    expect(waitsOf({ ...owner, ...change, sets })).toBe(expected);
  });
});
