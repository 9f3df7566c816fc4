import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../model/owner.ts';
import { waitsOf } from './waits.ts';

function set(name: string, available: number, starting = 0, leaving = 0): SetView {
  const active = available + starting;
  return {
    ...{ name, uid: name, resourceVersion: '1', generation: 1, current: name === 'new', managed: true },
    ...{ deleting: false, observed: true, annotated: true, closed: false, replicas: active },
    ...{ total: active + leaving, active, available, starting, failed: 0, replacing: 0 },
  };
}
const owner: OwnerView = {
  ...{ kind: 'MachineDeployment', uid: 'd', resourceVersion: '1', generation: 1, managed: true, deleting: false },
  ...{ observed: true, paused: false, replicas: 10, strategy: 'RollingUpdate', maxSurge: 2, maxUnavailable: 0 },
  template: { setName: 'new', hash: '1' },
  sets: [],
};

describe('what the machines of an owner wait for', () => {
  it.each<[string, Partial<OwnerView>, SetView[], string | undefined]>([
    ['nothing at rest', {}, [set('new', 10)], undefined],
    ['machines that join', {}, [set('new', 9, 1)], '1 machine of the template does not run'],
    ['machines that leave', {}, [set('new', 10, 0, 2)], '2 machines are on the way out'],
    [
      'room that machines on their way out take',
      {},
      [set('old', 8, 0, 2), set('new', 2)],
      '2 machines are on the way out; no new one may come, as there may be 12 at most; no older one may go, as 10 of at least 10 are available',
    ],
    [
      'new machines, before old ones may go',
      {},
      [set('old', 10), set('new', 0, 2)],
      '2 machines of the template do not run; no new one may come, as there may be 12 at most; no older one may go, as 10 of at least 10 are available',
    ],
    [
      'what is left of older templates, to recreate',
      { strategy: 'Recreate' },
      [set('old', 0, 0, 3), set('new', 0)],
      '3 machines are on the way out; new ones come when all of older templates are gone',
    ],
    [
      'its resumption',
      { paused: true },
      [set('old', 4), set('new', 6)],
      '4 machines of older templates stay while it is paused',
    ],
    ['all machines of a deleted one', { deleting: true }, [set('new', 1, 0, 1)], '1 machine is on the way out'],
    [
      'what it owns to be released, after a deletion without that',
      { deleting: true, orphans: true },
      [set('new', 9, 1)],
      'the garbage collector of Kubernetes has to release what it owns, after a deletion with --cascade=orphan; if it never does, check kube-controller-manager',
    ],
    [
      'the machines of a set to be released',
      {},
      [{ ...set('old', 3), deleting: true, orphans: true }, set('new', 10)],
      'the garbage collector of Kubernetes has to release the machines of old, after a deletion with --cascade=orphan; if it never does, check kube-controller-manager',
    ],
    ['nothing while it is not valid', { problem: 'spec.selector is missing' }, [set('new', 9, 1)], undefined],
  ])('is %s', (_name, change, sets, expected) => {
    expect(waitsOf({ ...owner, ...change, sets })).toBe(expected);
  });
});
