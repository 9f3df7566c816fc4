import { describe, expect, it } from '@jest/globals';
import type { Candidate, OwnerPlan, OwnerSnapshot, OwnerView, SetView } from '../../api/model/owner.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { isEmpty, isWorthAStep, maxPerStep, planOwner } from './plan.ts';

describe('planOwner', () => {
  const set: SetView = {
    name: 'pool-1',
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
    maxSurge: 0,
    maxUnavailable: 0,
    countsLeaving: 'never',
    progress: 'complete',
    template: { setName: 'pool-1', hash: '42' },
    sets: [set],
  };
  const { progress: _, ...unreported } = owner;
  const lone: OwnerView = { ...unreported, kind: 'MachineSet' };
  const empty = { ...set, total: 0, active: 0, available: 0 };

  function planFor(
    view: OwnerView,
    candidates: Candidate[] = [],
    pendingCreations: OwnerSnapshot['pendingCreations'] = [],
  ): OwnerPlan {
    let asked = 0;
    return planOwner({ view, candidates, pendingCreations }, (name) => `${name}-${(asked += 1)}`);
  }

  function candidate(name: string, traits: Partial<Candidate> = {}): Candidate {
    return { name, uid: name, resourceVersion: '1', set: 'pool-1', failed: false, ...traits };
  }

  describe('of unhealthy machines', () => {
    const asking = ['a', 'b', 'c'].map((name) => ({
      name,
      uid: name,
      resourceVersion: '1',
      set: 'pool-1',
      askedAt: '',
    }));
    const planned = (most: number, replacing: number) => {
      const view = { ...owner, health: { asking: 3, replacing } };
      const health = { most, asking, unfilled: [] };
      return planOwner({ view, candidates: [], pendingCreations: [], health }, (name) => name).replace;
    };

    it('replaces as many as may be replaced at once, those under way included', () => {
      expect(planned(1, 0)).toEqual(asking.slice(0, 1));
      expect(planned(2, 1)).toEqual(asking.slice(0, 1));
      expect(planned(1, 1)).toBeUndefined();
      expect(planned(1, 2)).toBeUndefined();
      expect(planned(9, 0)).toEqual(asking);
    });

    it('is worth a step while one asks, and needs one', () => {
      const view = { ...owner, health: { asking: 1, replacing: 1 } };
      expect(isWorthAStep(view)).toBe(true);
      expect(ownerNeeds(view)).toEqual(['unhealthy']);
      expect(ownerNeeds({ ...owner, health: { asking: 0, replacing: 1 } })).toEqual([]);
    });

    it('makes the first new machines in place of those that are gone', () => {
      const view = {
        ...owner,
        health: { asking: 0, replacing: 1 },
        sets: [{ ...set, total: 1, active: 1, available: 1 }],
      };
      const health = { most: 1, asking: [], unfilled: ['gone'] };
      const plan = planOwner({ view, candidates: [], pendingCreations: [], health }, (name) => `${name}-${next++}`);
      expect(plan.create.map(({ names, replaces }) => ({ names, replaces }))).toEqual([
        { names: ['pool-1-1', 'pool-1-2'], replaces: { 'pool-1-1': 'gone' } },
      ]);
    });
    let next = 1;
  });

  describe('of Failed machines that a set keeps', () => {
    const view = { ...owner, sets: [{ ...set, available: 1, failed: 2, preservations: 1 }] };
    const candidates = ['a', 'b'].map((name) => candidate(name, { failed: true }));
    const change = { name: 'b', uid: 'b', set: 'pool-1' };

    it('replaces none of the set before they are chosen', () => {
      const preservations = [{ ...change, isKept: true }];
      const plan = planOwner({ view, candidates, pendingCreations: [], preservations }, (name) => name);
      expect(plan).toMatchObject({ preserve: preservations, remove: [] });
    });

    it('counts those of an old set among its replicas from then on', () => {
      const old = { ...set, name: 'old', isNew: false, available: 1, failed: 2, preservations: 1 };
      const rolling = { ...owner, sets: [old, empty] };
      const preservations = [{ ...change, set: 'old', isKept: true }];
      const plan = planOwner({ view: rolling, candidates: [], pendingCreations: [], preservations }, (name) => name);
      expect(plan.scale).toContainEqual({ set: 'old', replicas: 2 });
      expect(plan.create).toEqual([]);
    });

    it('replaces the others together with the release of one', () => {
      const preservations = [{ ...change, isKept: false }];
      const plan = planOwner({ view, candidates, pendingCreations: [], preservations }, (name) => name);
      expect(plan).toMatchObject({ preserve: preservations, remove: candidates });
    });

    it('is worth a step, and a need', () => {
      const idle = { ...owner, sets: [{ ...set, preservations: 1 }] };
      expect(ownerNeeds(idle)).toEqual(['preservation']);
      expect(isWorthAStep(idle)).toBe(true);
    });
  });

  describe('of settings that the template has by now', () => {
    const behind = [{ set: 'pool-1', name: 'm', uid: 'u' }];

    it('gives them to the set first, with the replicas that it has', () => {
      const view = { ...owner, sets: [{ ...set, isBehind: true as const }] };

      expect(ownerNeeds(view)).toEqual(['settings']);
      expect(planFor(view).scale).toEqual([{ set: 'pool-1', replicas: 3, settings: true }]);
    });

    it('gives them to the machines that were read, and is worth a step for those that a watcher has seen', () => {
      const view = { ...owner, sets: [{ ...set, machinesBehind: 1 }] };
      const plan = planOwner({ view, candidates: [], pendingCreations: [], machinesBehind: behind }, (name) => name);

      expect(ownerNeeds(view)).toEqual(['settings']);
      expect([plan.settings, isEmpty(plan), isWorthAStep(view)]).toEqual([behind, false, true]);
    });
  });

  const created = (plan: OwnerPlan) => plan.create.flatMap(({ names: machines }) => machines);
  const removed = (plan: OwnerPlan) => plan.remove.map(({ name }) => name);

  it('[invariant 5 partly] continues a pending creation, and only then uses new names', () => {
    const pendingCreations = [{ set: 'pool-1', id: 'first', names: ['a', 'b', 'c'], missing: ['b', 'c'] }];
    const lacking = (active: number) => ({ ...owner, sets: [{ ...set, total: active, active, available: active }] });
    expect(planFor(lacking(0), [], pendingCreations).create).toEqual([
      { set: 'pool-1', uid: set.uid, id: 'creation-2', names: ['b', 'c', 'pool-1-1'], continues: 'first' },
    ]);
    expect(created(planFor(lacking(2), [], pendingCreations))).toEqual(['b']);
    const refused = [{ set: 'pool-1', id: 'first', names: ['b', 'c'], missing: ['b', 'c'] }];
    const own = refused.map((pending) => ({ ...pending, isOwn: true as const }));
    expect(planFor(lacking(1), [], own).create).toMatchObject([{ id: 'first', names: ['b', 'c'] }]);
    // Of a lost run: a step of that run which would have followed it must not act any more.
    expect(planFor(lacking(1), [], refused).create).toMatchObject([
      { id: 'creation-1', names: ['b', 'c'], continues: 'first' },
    ]);
    expect(planFor(lacking(2)).create).toEqual([
      { set: 'pool-1', uid: set.uid, id: 'creation-2', names: ['pool-1-1'] },
    ]);
  });

  it('[mcm 70 partly] makes the set of a new deployment with all its replicas, finalizers and a report in one step', () => {
    const plan = planFor({ ...unreported, hasOurFinalizer: false, outdated: ['status'], sets: [] });
    expect(plan).toEqual({
      generation: 4,
      sets: [],
      addFinalizers: true,
      createSet: { name: 'pool-1', hash: '42', replicas: 3 },
      scale: [],
      create: [],
      remove: [],
      releaseSets: [],
      release: false,
      report: { progress: 'created' },
    });
  });

  it('[mcm 59 partly] creates as many machines as are missing, each with a name of its own', () => {
    const plan = planFor({ ...owner, sets: [empty] });
    expect(plan.create).toEqual([
      { set: 'pool-1', uid: 'set-1', id: 'creation-4', names: ['pool-1-1', 'pool-1-2', 'pool-1-3'] },
    ]);
  });

  it('[mcm 61 partly] creates at most a hundred in one step', () => {
    const plan = planFor({ ...owner, replicas: 250, sets: [{ ...empty, replicas: 250 }] });
    expect(created(plan)).toHaveLength(maxPerStep);
    expect(new Set(created(plan)).size).toBe(maxPerStep);
  });

  it('replaces at once what is being deleted, whatever the surge is', () => {
    const leaving = { ...set, total: 3, active: 1, available: 1 };
    for (const countsLeaving of ['never', 'inRollouts'] as const) {
      expect(created(planFor({ ...owner, countsLeaving, sets: [leaving] }))).toHaveLength(2);
    }
  });

  it('[invariant 5 partly] waits in a rollout for what is being deleted, where the deployment asks for that', () => {
    const old = { ...set, name: 'old', isNew: false, total: 3, active: 1, available: 1 };
    const view = { ...owner, maxUnavailable: 3, sets: [old, empty] };
    const createdWith = (change: Partial<OwnerView>) => created(planFor({ ...view, ...change })).length;
    expect(createdWith({})).toBe(2);
    expect(createdWith({ countsLeaving: 'inRollouts' })).toBe(0);
    expect(createdWith({ countsLeaving: 'inRollouts', maxSurge: 1 })).toBe(1);
    const replaced = { ...old, replacing: 1 };
    expect(createdWith({ countsLeaving: 'inRollouts', sets: [replaced, empty] })).toBe(1);
  });

  it('[mcm 63 partly] replaces Failed machines at once, also while they are being deleted', () => {
    const view = { ...owner, sets: [{ ...set, available: 2, failed: 1 }] };
    expect(removed(planFor(view, [candidate('bad', { failed: true }), candidate('good')]))).toEqual(['bad']);
    const leaving = { ...owner, sets: [{ ...set, active: 2, available: 2, replacing: 1 }] };
    expect(created(planFor(leaving))).toHaveLength(1);
  });

  it('counts Failed machines towards the excess before any other', () => {
    const view = { ...owner, replicas: 2, sets: [{ ...set, available: 2, failed: 1 }] };
    expect(removed(planFor(view, [candidate('bad', { failed: true }), candidate('a'), candidate('b')]))).toEqual([
      'bad',
    ]);
  });

  it('[invariant 7 partly] deletes marked machines of the excess besides the Failed ones', () => {
    const view = { ...owner, replicas: 2, sets: [{ ...set, available: 2, failed: 1, marked: 1, unmarked: 1 }] };
    const candidates = [candidate('bad', { failed: true }), candidate('marked'), candidate('good')];
    expect(removed(planFor(view, candidates))).toEqual(['bad', 'marked']);
    expect(removed(planFor({ ...view, replicas: 3 }, candidates))).toEqual(['bad']);
  });

  it('[mcm 66 partly] [invariant 7 partly] deletes what the autoscaler has scaled down, and no other for its sake', () => {
    const view = { ...owner, replicas: 2, sets: [{ ...set, available: 2, unneeded: 1 }] };
    const candidates = [candidate('unneeded', { unneeded: true }), candidate('good')];
    expect(removed(planFor(view, candidates))).toEqual(['unneeded']);
    expect(removed(planFor({ ...view, replicas: 3 }, candidates))).toEqual(['unneeded']);
    expect(planFor({ ...view, replicas: 3 }, candidates).create).toEqual([]); // not before it is gone
    expect(isWorthAStep({ ...view, replicas: 3 })).toBe(true);
    const both = { ...set, available: 1, unneeded: 1, marked: 1, unmarked: 0 };
    const marked = [...candidates.slice(0, 1), candidate('marked'), candidate('good')];
    expect(removed(planFor({ ...view, replicas: 1, sets: [both] }, marked))).toEqual(['unneeded', 'marked']);
  });

  it('[mcm 65 partly] [invariant 7 partly] marks machines before it deletes any', () => {
    const view: OwnerView = { ...owner, replicas: 2, isMarking: true };
    expect(planFor(view, [candidate('a')])).toMatchObject({ mark: true, remove: [], scale: [] });
    expect([isWorthAStep(view), ownerNeeds(view)]).toEqual([true, ['replicas', 'marked']]);
  });

  it('[mcm 62 partly] adopts and releases machines before it counts any', () => {
    const view: OwnerView = { ...owner, replicas: 5, sets: [{ ...set, ownerChanges: 2 }] };
    const ownerChanges = ['a', 'b'].map((name) => ({ name, uid: name, set: 'pool-1', isAdopted: name === 'a' }));
    const plan = planOwner({ view, candidates: [candidate('c')], pendingCreations: [], ownerChanges }, (name) => name);
    expect(plan).toMatchObject({ ownerChanges, create: [], remove: [], scale: [] });
    expect([isEmpty(plan), isWorthAStep(view)]).toEqual([false, true]);
    expect(ownerNeeds({ ...view, replicas: 3 })).toEqual(['ownership']);
    expect(planFor(view).create).toHaveLength(1); // what a watcher saw is not so
  });

  it('[mcm 81 partly] deletes old sets beyond the history limit', () => {
    const old = ['x', 'y'].map((name) => ({ ...empty, name, uid: name, isNew: false, replicas: 0 }));
    const view: OwnerView = { ...owner, historyLimit: 1, sets: [...old, set] };
    expect(planFor(view).forget).toEqual([{ name: 'x', uid: 'x', resourceVersion: '3' }]);
    expect([isWorthAStep(view), ownerNeeds(view)]).toEqual([true, ['history']]);
    expect(isEmpty(planFor({ ...view, historyLimit: 2 }))).toBe(true);
  });

  it('[mcm 64 partly] deletes the excess in the order of the candidates', () => {
    const candidates = ['a', 'b', 'c'].map((name) => candidate(name));
    const plan = planFor({ ...owner, replicas: 1 }, candidates);
    expect(plan.scale).toEqual([{ set: 'pool-1', replicas: 1 }]);
    expect(removed(plan)).toEqual(['a', 'b']);
  });

  it('deletes all that it may from old sets, and from the new one only what is more than the replicas', () => {
    const sets = ['old', 'new'].map((name) => ({ ...set, name, uid: name, isNew: name === 'new' }));
    const candidates = ['n1', 'o1', 'n2', 'o2', 'o3'].map((name) =>
      candidate(name, { set: name.startsWith('o') ? 'old' : 'new' }),
    );
    const plan = planFor({ ...owner, replicas: 2, sets }, candidates);
    expect(plan.scale).toMatchObject([
      { set: 'old', replicas: 0 },
      { set: 'new', replicas: 2 },
    ]);
    expect(removed(plan)).toEqual(['n1', 'o1', 'o2', 'o3']);
  });

  it('creates no machine in an old set: what fails there is replaced in the new set', () => {
    const sets = [
      { ...set, name: 'old', isNew: false, active: 2, available: 2, replacing: 1 },
      { ...empty, replicas: 0 },
    ];
    const plan = planFor({ ...owner, sets });
    expect(plan.create).toMatchObject([{ set: 'pool-1', names: ['pool-1-1'] }]);
    expect(plan.scale).toMatchObject([
      { set: 'old', replicas: 2 },
      { set: 'pool-1', replicas: 1 },
    ]);
  });

  describe('while machines of an old set are replaced', () => {
    const old = { ...set, name: 'old', uid: 'old', isNew: false };
    const fresh = { ...set, name: 'new', uid: 'new' };
    /** A set with some machines that are available, some that start, and some that are neither. */
    const having = (of: SetView, available: number, starting = 0, unavailable = 0): SetView => {
      const total = available + starting + unavailable;
      return { ...of, replicas: total, total, active: total, available, starting };
    };
    const three: OwnerView = { ...owner, replicas: 3, maxSurge: 1, progress: 'updated' };
    const noUpdates = {
      ...{ unmarked: 0, selectable: 0, selected: 0, selectedAvailable: 0, updated: 0, unreleased: 0, returning: 0 },
    };
    const sizes = (view: OwnerView) =>
      Object.fromEntries(planFor(view).sets.map(({ name, replicas }) => [name, replicas]));

    it('[mcm 71 partly] makes the set of a new template with as many replicas as there is room for, and none where there is none', () => {
      expect(planFor({ ...three, sets: [old] }).createSet).toMatchObject({ replicas: 1 });
      expect(planFor({ ...three, maxSurge: 9, sets: [old] }).createSet).toMatchObject({ replicas: 3 });
      expect(planFor({ ...three, maxSurge: 0, sets: [old] }).createSet).toMatchObject({ replicas: 0 });
    });

    it('deletes no machine for a set that does not exist yet', () => {
      expect(sizes({ ...three, maxUnavailable: 3, sets: [old] })).toEqual({ old: 3 });
    });

    it.each<[string, Partial<OwnerView>, SetView[], object]>([
      ['a surge at the start', { maxSurge: 2 }, [having(old, 3), having(fresh, 0)], { old: 3, new: 2 }],
      ['no old machine before a new one is available', {}, [having(old, 3), having(fresh, 0, 1)], { old: 3, new: 1 }],
      ['one old machine for one new that is available', {}, [having(old, 3), having(fresh, 1)], { old: 2, new: 1 }],
      [
        'what may be missing at once, and nothing more while that is not gone',
        { maxSurge: 0, maxUnavailable: 2 },
        [having(old, 3), having(fresh, 0)],
        { old: 1, new: 0 },
      ],
      [
        'the places of all that are on their way out',
        { maxSurge: 1, maxUnavailable: 1 },
        [{ ...having(old, 2), total: 3 }, having(fresh, 0)],
        { old: 2, new: 2 },
      ],
      [
        'a place that is free while another machine is still on its way out, where these count',
        { maxSurge: 1, maxUnavailable: 1, countsLeaving: 'inRollouts' },
        [{ ...having(old, 2), total: 3 }, having(fresh, 0)],
        { old: 2, new: 1 },
      ],
      [
        '[mcm 73 partly] old machines that never came up at once, whatever is available',
        {},
        [having(old, 0, 3), having(fresh, 0)],
        { old: 0, new: 1 },
      ],
      [
        '[mcm 73 partly] an Unknown machine before one that is available',
        {},
        [having(old, 2, 0, 1), having(fresh, 1)],
        { old: 2, new: 1 },
      ],
      [
        'no Unknown machine while too few are left that may be available again',
        {},
        [having(old, 0, 0, 3), having(fresh, 0, 1)],
        { old: 3, new: 1 },
      ],
      [
        'no machine that was restored without status while too few are available',
        { maxSurge: 1, replicas: 10 },
        [having(old, 0, 0, 8), having(fresh, 0, 0, 2)],
        { old: 8, new: 3 },
      ],
      [
        'a new machine beside a preserved one that does no work, and no old one in its place',
        {},
        [{ ...having(old, 2, 0, 1), setAside: 1 }, having(fresh, 1)],
        { old: 3, new: 2 },
      ],
      [
        'no preserved machine while another one of its template stays',
        {},
        [{ ...having(old, 1, 0, 1), setAside: 1 }, having(fresh, 2, 1)],
        { old: 2, new: 3 },
      ],
      [
        'a preserved machine last',
        {},
        [{ ...having(old, 0, 0, 1), setAside: 1 }, having(fresh, 3)],
        { old: 0, new: 3 },
      ],
      [
        'a preserved machine that works after the others of all old sets',
        {},
        [{ ...having({ ...old, name: 'oldest' }, 2), preservedAvailable: 1 }, having(old, 1), having(fresh, 2)],
        { oldest: 1, old: 0, new: 2 },
      ],
      [
        'a preserved machine that works when all others of old sets go',
        {},
        [{ ...having({ ...old, name: 'oldest' }, 1), preservedAvailable: 1 }, having(old, 0), having(fresh, 3)],
        { oldest: 0, old: 0, new: 3 },
      ],
      [
        'a preserved machine that works after the others of all old sets, for fewer replicas',
        { replicas: 2 },
        [{ ...having({ ...old, name: 'oldest' }, 1), preservedAvailable: 1 }, having(old, 2), having(fresh, 1)],
        { oldest: 1, old: 0, new: 1 },
      ],
      [
        'a preserved machine to go with the others, to recreate',
        { strategy: 'Recreate' },
        [{ ...having(old, 2, 0, 1), setAside: 1 }, having(fresh, 0)],
        { old: 0, new: 0 },
      ],
      [
        'a machine whose in-place update was next before one that takes pods',
        { maxUnavailable: 1, maxSurge: 0 },
        [{ ...having(old, 3), updates: { ...noUpdates, selectedAvailable: 1 } }, having(fresh, 0)],
        { old: 2, new: 0 },
      ],
      [
        'no machine more than that while its place is not taken',
        { maxUnavailable: 1, maxSurge: 0 },
        [{ ...having(old, 2), updates: { ...noUpdates, returning: 1 } }, having(fresh, 0, 1)],
        { old: 2, new: 1 },
      ],
      [
        'the oldest set first',
        {},
        [having({ ...old, name: 'oldest' }, 2), having(old, 1), having(fresh, 1)],
        { oldest: 1, old: 1, new: 1 },
      ],
      [
        'a third template in the middle: what starts for the second makes room at once',
        {},
        [having(old, 3), having({ ...old, name: 'second' }, 0, 1), having(fresh, 0)],
        { old: 3, second: 0, new: 0 },
      ],
      [
        'the way back: the set of the older template grows again',
        { maxSurge: 0, maxUnavailable: 1 },
        [
          { ...having(old, 1), isNew: true },
          { ...having(fresh, 1), isNew: false },
        ],
        { old: 2, new: 1 },
      ],
      ['more replicas for the new set alone', { replicas: 5 }, [having(old, 3), having(fresh, 0)], { old: 3, new: 3 }],
      ['fewer replicas from the old set', { replicas: 2 }, [having(old, 3), having(fresh, 1)], { old: 1, new: 1 }],
      [
        '[invariant 7 partly] as many marked machines of the new set as the replicas are fewer',
        { replicas: 2 },
        [having(old, 2), { ...having(fresh, 2), marked: 2, announcedReplicas: 3 }],
        { old: 1, new: 1 },
      ],
      [
        '[invariant 7 partly] marked machines of the new set that a step before has asked for',
        { replicas: 2 },
        [having(old, 1), { ...having(fresh, 2), replicas: 1, marked: 1, announcedReplicas: 2 }],
        { old: 1, new: 1 },
      ],
      [
        '[invariant 7 partly] no marked machine that a step before has asked for once the replicas are as they were',
        {},
        [having(old, 1), { ...having(fresh, 2), replicas: 1, marked: 1, announcedReplicas: 2 }],
        { old: 1, new: 3 },
      ],
      [
        '[invariant 7 partly] no marked machine of the new set while the replicas are as they were',
        {},
        [having(old, 3), { ...having(fresh, 1), marked: 1, announcedReplicas: 3 }],
        { old: 2, new: 1 },
      ],
      [
        '[invariant 5 partly] no marked machine of the new set while too few are available',
        { replicas: 2 },
        [having(old, 1, 0, 1), { ...having(fresh, 1), marked: 1, announcedReplicas: 3 }],
        { old: 1, new: 1 },
      ],
      [
        '[mcm 77] everything old, and nothing new before that is gone, to recreate',
        { strategy: 'Recreate', maxSurge: 0 },
        [having(old, 3), having(fresh, 0)],
        { old: 0, new: 0 },
      ],
    ])('asks for %s', (_name, change, sets, expected) => {
      expect(sizes({ ...three, ...change, sets })).toEqual(expected);
    });

    it('[invariant 7 partly] announces on the new set the scale-down that has to wait because too few are available now', () => {
      const wishing: SetView = { ...having(fresh, 2), outdated: ['annotations'], marked: 2, announcedReplicas: 5 };
      const asked = (gone: number) =>
        planFor({ ...three, sets: [having(old, 2 - gone, 0, gone), wishing] }).scale.find(
          (scale) => scale.set === 'new',
        );
      expect(asked(0)).toEqual({ set: 'new', replicas: 1, announcedReplicas: 4 });
      expect(asked(1)).toEqual({ set: 'new', replicas: 2, announcedReplicas: 5 });
    });

    it('[mcm 77] makes the set of a new template when the last old machine is gone, to recreate', () => {
      const recreate = { ...three, strategy: 'Recreate' as const, maxSurge: 0 };
      const leaving = { ...having(old, 0), total: 1 };
      expect(planFor({ ...recreate, sets: [leaving] })).not.toHaveProperty('createSet');
      expect(planFor({ ...recreate, sets: [having(old, 0)] }).createSet).toMatchObject({ replicas: 3 });
    });

    it.each<[string, Partial<OwnerView>, SetView[], object]>([
      ['all as it is, surge and all', { replicas: 5 }, [having(old, 4), having(fresh, 2)], { old: 4, new: 2 }],
      ['more from the new set', { replicas: 9 }, [having(old, 4), having(fresh, 2)], { old: 4, new: 5 }],
      [
        'more from the only set that has machines',
        { replicas: 5 },
        [having(old, 3), having(fresh, 0)],
        { old: 5, new: 0 },
      ],
      ['fewer in proportion', { replicas: 3 }, [having(old, 4), having(fresh, 2)], { old: 2, new: 1 }],
      [
        'fewer in proportion as far as enough is available',
        { replicas: 4 },
        [having(old, 4), having(fresh, 0, 4)],
        { old: 4, new: 0 },
      ],
      [
        '[invariant 5 partly] no available machine that a step was about to delete and that has become one of few',
        { replicas: 2 },
        [{ ...having(old, 1), replicas: 0 }, having(fresh, 0, 2)],
        { old: 1, new: 2 },
      ],
      [
        'what a step was about to delete, as far as enough are available',
        { replicas: 3 },
        [{ ...having(old, 3), replicas: 1 }, having(fresh, 2)],
        { old: 1, new: 2 },
      ],
      [
        '[invariant 5 partly] of two sets that were about to lose one together no more than may be missing',
        { replicas: 5 },
        [
          { ...having(old, 3), replicas: 2 },
          { ...having({ ...old, name: 'second' }, 3), replicas: 2 },
          { ...having(fresh, 0, 2), replicas: 1 },
        ],
        { old: 2, second: 3, new: 1 },
      ],
      [
        'fewer from a set whose machines are not preserved, whatever its size',
        { replicas: 3 },
        [{ ...having(old, 4), preservedAvailable: 3 }, having(fresh, 2)],
        { old: 3, new: 0 },
      ],
      [
        '[invariant 5 partly] fewer preserved machines where too few others are available',
        { replicas: 4 },
        [{ ...having(old, 0, 0, 2), setAside: 2 }, having(fresh, 4)],
        { old: 0, new: 4 },
      ],
      [
        'of two sets that were about to lose one the preserved machine last',
        { replicas: 3 },
        [
          { ...having(old, 1), replicas: 0, preservedAvailable: 1 },
          { ...having({ ...old, name: 'second' }, 1), replicas: 0 },
          having(fresh, 2, 1),
        ],
        { old: 1, second: 0, new: 3 },
      ],
      [
        '[invariant 5 partly] no other available machine while one is updated in place',
        { replicas: 3, maxSurge: 0, maxUnavailable: 1 },
        [
          { ...having(old, 3), replicas: 2, updates: { ...noUpdates, selectedAvailable: 1 } },
          { ...having(fresh, 0), replicas: 1 },
        ],
        { old: 3, new: 1 },
      ],
      ['none', { replicas: 0 }, [having(old, 4), having(fresh, 2)], { old: 0, new: 0 }],
      [
        'fewer first where some are marked',
        { replicas: 4 },
        [having(old, 4), { ...having(fresh, 2), marked: 1 }],
        { old: 3, new: 1 },
      ],
      [
        '[invariant 7 partly] what is marked, whatever is available, and no other available machine while too few are',
        { replicas: 8 },
        [having(old, 6), { ...having(fresh, 4, 2), marked: 3, unmarked: 1 }],
        { old: 6, new: 2 },
      ],
      [
        '[invariant 7 partly] what the autoscaler has scaled down, and no other in its place',
        { replicas: 5 },
        [{ ...having(old, 4, 3), unneeded: 1 }, having(fresh, 2)],
        { old: 3, new: 2 },
      ],
      [
        '[invariant 7 partly] no machine more to be made for one that goes',
        { replicas: 3 },
        [
          { ...having(old, 4, 3), unneeded: 1 },
          { ...having(fresh, 0), replicas: 1 },
        ],
        { old: 3, new: 0 },
      ],
      [
        '[invariant 7 partly] no other than what is marked where more than that goes anyway',
        { replicas: 2 },
        [
          { ...having(old, 4, 2), replicas: 2, unneeded: 2 },
          { ...having(fresh, 0), replicas: 2 },
        ],
        { old: 2, new: 0 },
      ],
      [
        'no surge once the replicas are others',
        { replicas: 5 },
        [{ ...having(old, 4), outdated: ['annotations'] }, having(fresh, 2)],
        { old: 3, new: 2 },
      ],
    ])('[mcm 78 partly] asks for %s while paused', (_name, change, sets, expected) => {
      expect(sizes({ ...three, paused: true, ...change, sets })).toEqual(expected);
    });

    it('[mcm 78 partly] replaces a machine in its own set while paused', () => {
      const lacking = { ...having(old, 2), replicas: 3 };
      const plan = planFor({ ...three, paused: true, sets: [lacking, having(fresh, 1)] });
      expect(plan.create).toMatchObject([{ set: 'old', names: ['old-1'] }]);
    });
  });

  it('[invariant 3 partly] creates nothing in a set that lacks our finalizer', () => {
    const plan = planFor({ ...owner, sets: [{ ...empty, hasOurFinalizer: false }] });
    expect(plan).toMatchObject({ addFinalizers: true, create: [] });
  });

  it('[mcm 69 partly] deletes all machines of a deleted owner, then releases everything', () => {
    const candidates = [candidate('a'), candidate('b')];
    expect(planFor({ ...owner, deleting: true }, candidates)).toMatchObject({ remove: candidates, release: false });
    expect(planFor({ ...owner, deleting: true, sets: [empty] })).toMatchObject({ remove: [], release: true });
    expect(planFor({ ...lone, deleting: true, sets: [empty] })).toMatchObject({ remove: [], release: true });
  });

  it('waits for the garbage collector with an owner that is deleted with --cascade=orphan, and then releases it', () => {
    for (const view of [owner, lone]) {
      const kept: OwnerView = { ...view, deleting: true, orphans: true };
      expect([isEmpty(planFor(kept)), ownerNeeds(kept)]).toEqual([true, ['deletion']]);
      const sets = view.kind === 'MachineSet' ? [{ ...empty, deleting: true }] : [];
      expect(planFor({ ...view, deleting: true, sets })).toMatchObject({ remove: [], release: true });
    }
  });

  it('deletes nothing of a deleted owner while a set of it is not released that was deleted with --cascade=orphan', () => {
    const kept: OwnerView = { ...owner, deleting: true, sets: [{ ...set, deleting: true, orphans: true }] };
    expect([isEmpty(planFor(kept)), ownerNeeds(kept)]).toEqual([true, ['deletion']]);
  });

  it('is at rest once a deleted owner is released, although others still hold it back', () => {
    const released = { ...empty, hasOurFinalizer: false, deleting: true };
    for (const view of [owner, lone]) {
      expect(isEmpty(planFor({ ...view, deleting: true, hasOurFinalizer: false, sets: [released] }))).toBe(true);
    }
  });

  it('is at rest once the finalizer of a deleted set is removed, although the garbage collector still holds the set', () => {
    const released: SetView = {
      ...empty,
      name: 'pool-2',
      uid: 'set-2',
      isNew: false,
      hasOurFinalizer: false,
      deleting: true,
    };
    const view: OwnerView = {
      ...owner,
      sets: [set, { ...released, orphans: true, outdated: ['status'], generation: 2 }],
    };
    expect(ownerNeeds(view)).toEqual([]);
    expect(isEmpty(planFor(view))).toBe(true);
  });

  it('empties and releases a set that somebody deleted before another set gets its name', () => {
    const deleted = { ...owner, sets: [{ ...set, deleting: true }] };
    const plan = planFor(deleted, [candidate('a'), candidate('b'), candidate('c')]);
    expect(removed(plan)).toEqual(['a', 'b', 'c']);
    expect(plan).not.toHaveProperty('createSet');
    expect(plan.releaseSets).toEqual([]);
    expect(planFor({ ...owner, sets: [{ ...empty, deleting: true }] }).releaseSets).toEqual([
      { name: 'pool-1', uid: 'set-1' },
    ]);
    expect(planFor({ ...owner, sets: [] })).toMatchObject({ createSet: { name: 'pool-1', replicas: 3 } });
  });

  it.each<[string, Partial<OwnerView>, Partial<SetView>]>([
    ['a set that is closed', {}, { ...empty, closed: true }],
    ['an owner that is not valid', { problem: 'spec.selector is missing' }, empty],
  ])('creates nothing for %s', (_name, change, setChange) => {
    expect(created(planFor({ ...owner, ...change, sets: [{ ...set, ...setChange }] }))).toEqual([]);
  });

  it('reports a problem of an owner once, and does nothing else but delete it', () => {
    const problem = 'spec.selector is missing';
    const wrong: OwnerView = {
      ...unreported,
      problem,
      hasOurFinalizer: false,
      outdated: ['status'],
      sets: [{ ...set, failed: 1 }],
    };
    const plan = planFor(wrong, [candidate('bad', { failed: true })]);
    expect(plan.report).toEqual({ problem });
    const { report: _report, ...rest } = plan;
    expect(isEmpty(rest)).toBe(true);
    const reported: OwnerView = { ...wrong, outdated: [] };
    expect([isEmpty(planFor(reported)), ownerNeeds(reported)]).toEqual([true, []]);
    expect(removed(planFor({ ...reported, deleting: true }, [candidate('a')]))).toEqual(['a']);
  });

  it('makes no set for a new template while paused, and scales the newest', () => {
    const older = { ...set, name: 'old', uid: 'old', isNew: false };
    const newest = { ...set, isNew: false, total: 2, active: 2, available: 2, replicas: 2 };
    const plan = planFor({ ...owner, paused: true, replicas: 9, sets: [older, newest] });
    expect(plan).not.toHaveProperty('createSet');
    expect(plan.scale).toEqual([{ set: 'pool-1', replicas: 6 }]);
    expect(planFor({ ...owner, paused: true, sets: [] })).toMatchObject({ scale: [], create: [] });
  });

  it('announces the replicas of the deployment on its sets, without another change', () => {
    const plan = planFor({ ...owner, sets: [{ ...set, outdated: ['annotations'] }] });
    expect(plan.scale).toEqual([{ set: 'pool-1', replicas: 3 }]);
  });

  it('names the generation and the sets that it is for, as they are once they are scaled', () => {
    const plan = planFor({ ...owner, replicas: 5 });
    expect(plan).toMatchObject({
      generation: 4,
      sets: [{ name: 'pool-1', uid: 'set-1', generation: 1, replicas: 5 }],
    });
  });

  it('neither makes sets for nor reports progress of a set without a deployment', () => {
    expect(isEmpty(planFor(lone))).toBe(true);
    const plan = planFor({ ...lone, outdated: ['status'], replicas: 5, sets: [{ ...set, replicas: 5 }] });
    expect(created(plan)).toHaveLength(2);
    expect(plan).toMatchObject({ scale: [], report: {} });
    expect(plan).not.toHaveProperty('createSet');
  });

  it.each<[string, OwnerView, string | undefined]>([
    ['complete when all machines of the template run', { ...owner, progress: 'found' }, 'complete'],
    [
      'complete when there are none to run',
      { ...unreported, replicas: 0, sets: [{ ...empty, replicas: 0 }] },
      'complete',
    ],
    ['not complete with a machine that does not run', { ...unreported, sets: [{ ...set, available: 2 }] }, 'found'],
    ['not complete with one that is leaving', { ...unreported, sets: [{ ...set, total: 4 }] }, 'found'],
    ['still complete when a machine fails later', { ...owner, sets: [{ ...set, available: 2 }] }, undefined],
    ['still complete while it is scaled', { ...owner, replicas: 9 }, undefined],
    ['under way again with a new template', { ...owner, sets: [{ ...set, isNew: false }] }, 'created'],
    [
      'under way with machines of an older template',
      {
        ...owner,
        sets: [
          { ...set, name: 'old', isNew: false },
          { ...empty, replicas: 0 },
        ],
      },
      'found',
    ],
    [
      'moving on with the first machine',
      { ...owner, progress: 'created', sets: [{ ...set, available: 0 }] },
      'updated',
    ],
    ['[mcm 78 partly] paused', { ...owner, paused: true }, 'paused'],
    ['paused, once', { ...owner, paused: true, progress: 'paused' }, undefined],
    ['late though it is paused', { ...owner, paused: true, progress: 'late' }, undefined],
    ['[mcm 78 partly] resumed', { ...owner, progress: 'paused' }, 'resumed'],
    ['complete after it was resumed', { ...owner, progress: 'resumed' }, 'complete'],
    ['complete after it was late', { ...owner, progress: 'late' }, 'complete'],
    [
      '[mcm 80 partly] moving on again after it was late',
      { ...owner, progress: 'late', sets: [{ ...set, available: 1 }] },
      'updated',
    ],
  ])('says that a rollout is %s', (_name, view, progress) => {
    expect(planFor(view).report).toEqual(progress === undefined ? undefined : { progress });
  });
});
