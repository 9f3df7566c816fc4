import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../model/owner.ts';
import { isToBeRecorded, type OwnerNeed, ownerNeeds } from './needs.ts';

describe('ownerNeeds', () => {
  const set: SetView = {
    name: 'pool-a-1',
    uid: 'set-1',
    resourceVersion: '3',
    generation: 1,
    closed: false,
    isNew: true,
    hasOurFinalizer: true,
    deleting: false,
    outdated: [],
    replicas: 3,
    total: 3,
    active: 3,
    available: 3,
    starting: 0,
    failed: 0,
    replacing: 0,
  };
  const owner: OwnerView = {
    kind: 'MachineDeployment',
    uid: 'owner-1',
    resourceVersion: '2',
    generation: 4,
    paused: false,
    hasOurFinalizer: true,
    deleting: false,
    outdated: [],
    replicas: 3,
    strategy: 'RollingUpdate',
    maxSurge: 1,
    maxUnavailable: 0,
    countsLeaving: 'never',
    progress: 'complete',
    template: { setName: 'pool-a-1', hash: '1' },
    sets: [set],
  };
  const older = {
    ...set,
    name: 'pool-a-0',
    uid: 'set-0',
    isNew: false,
    replicas: 0,
    total: 0,
    active: 0,
    available: 0,
  };

  it.each<[string, OwnerView]>([
    ['a deployment whose machines all run', owner],
    ['one with an empty set of an older template', { ...owner, sets: [older, set] }],
    [
      'a rollout without machines, which says nothing of its template',
      {
        ...owner,
        lacksCompletion: true,
        replicas: 0,
        sets: [{ ...set, replicas: 0, total: 0, active: 0, available: 0 }],
      },
    ],
    ['one without replicas', { ...owner, replicas: 0, sets: [{ ...set, replicas: 0, total: 0, active: 0 }] }],
    ['machines that run but for one that is Unknown', { ...owner, sets: [{ ...set, available: 2 }] }],
    ['a machine more that is on its way out', { ...owner, sets: [{ ...set, total: 4 }] }],
    ['an owner that is deleted and was released', { ...owner, deleting: true, hasOurFinalizer: false, sets: [] }],
    [
      'a paused one whose template has no set',
      { ...owner, paused: true, progress: 'paused', sets: [{ ...set, isNew: false }] },
    ],
    [
      'a paused one in the middle of a rollout, surge and all',
      {
        ...owner,
        paused: true,
        progress: 'paused',
        replicas: 5,
        sets: [
          { ...set, isNew: false },
          { ...set, name: 'pool-a-2' },
        ],
      },
    ],
    ['a paused one that was late before', { ...owner, paused: true, progress: 'late' }],
    [
      'one that is not valid, and says so',
      { ...owner, problem: 'spec.selector is missing', hasOurFinalizer: false, sets: [{ ...set, failed: 1 }] },
    ],
    [
      'a set that only others hold back',
      { ...owner, sets: [{ ...older, deleting: true, hasOurFinalizer: false }, set] },
    ],
  ])('are none for %s', (_, view) => {
    expect(ownerNeeds(view)).toEqual([]);
  });

  const { progress: _, ...unreported } = owner;
  it.each<[string, OwnerView, OwnerNeed[]]>([
    ['an owner without our finalizer', { ...owner, hasOurFinalizer: false }, ['finalizer']],
    ['a set without it', { ...owner, sets: [{ ...set, hasOurFinalizer: false }] }, ['finalizer']],
    ['no set of the template', { ...owner, replicas: 0, sets: [older] }, ['template']],
    ['more replicas', { ...owner, replicas: 4 }, ['replicas']],
    ['fewer replicas', { ...owner, replicas: 2 }, ['replicas']],
    ['a machine too few', { ...owner, sets: [{ ...set, active: 2, available: 2 }] }, ['replicas']],
    ['a machine too many', { ...owner, sets: [{ ...set, total: 4, active: 4 }] }, ['replicas']],
    ['a failed machine', { ...owner, sets: [{ ...set, available: 2, failed: 1 }] }, ['failed']],
    ['a new generation', { ...owner, outdated: ['status'] }, ['status']],
    ['a complete rollout that no set records', { ...owner, lacksCompletion: true }, ['status']],
    ['a problem that is not reported', { ...owner, problem: 'x', outdated: ['status'], sets: [] }, ['status']],
    [
      'a set that does not announce the replicas of its deployment',
      { ...owner, sets: [{ ...set, outdated: ['annotations'] }] },
      ['status'],
    ],
    ['a new generation of a set', { ...owner, sets: [{ ...set, outdated: ['status'] }] }, ['status']],
    ['a rollout under way', { ...owner, progress: 'found' }, ['progress']],
    [
      'machines of an older template, whatever was reported',
      {
        ...owner,
        replicas: 6,
        sets: [
          { ...set, isNew: false },
          { ...set, name: 'pool-a-2' },
        ],
      },
      ['replicas', 'progress'],
    ],
    ['a pause that nobody reported', { ...owner, paused: true }, ['progress']],
    ['the end of a pause', { ...owner, progress: 'paused' }, ['progress']],
    ['a rollout nobody reported', unreported, ['progress']],
    ['a deletion', { ...owner, deleting: true }, ['deletion']],
    ['a deletion that left a set', { ...owner, deleting: true, hasOurFinalizer: false }, ['deletion']],
    ['a set that somebody deleted', { ...owner, sets: [{ ...older, deleting: true }, set] }, ['deletion']],
    [
      'a deleted set of the template: its machines are not counted on',
      { ...owner, sets: [{ ...set, deleting: true }] },
      ['deletion', 'template'],
    ],
  ])('name %s', (_name, view, needs) => {
    expect(ownerNeeds(view)).toEqual(needs);
  });

  it('do not take what the status says of another template for the end of a rollout', () => {
    const sets = [
      { ...set, name: 'pool-a-2', isNew: false },
      { ...set, replicas: 0, total: 0, active: 0, available: 0 },
    ];
    expect(isToBeRecorded({ ...owner, lacksCompletion: true, sets })).toBe(false);
  });

  it('ask nothing about the progress of a set without a deployment', () => {
    expect(ownerNeeds({ ...unreported, kind: 'MachineSet' })).toEqual([]);
  });
});
