import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { deploymentNeeds, rolloutComplete } from '../../api/attention.ts';
import type { Machine } from '../../api/gardener/machine.ts';
import { annotations, finalizers } from '../../api/gardener/names.ts';
import { controllerOf, isActive, isAvailable } from '../../api/gardener/owner.ts';
import type { Candidate, OwnerPlan, OwnerReading, OwnerView, SetView } from '../../api/model.ts';
import { names } from '../../api/names.ts';
import { roomFor } from '../../api/surplus.ts';
import { createWorld, phaseOf, template, type World, type WorldOptions } from '../../test/support/owner-world.ts';
import { isEmpty, maxPerStep, planOwner } from './plan.ts';

/** What may happen between two steps, and the steps themselves. Machines and sets are picked by number. */
type Happening =
  | { readonly kind: 'step'; readonly maxWrites?: number } // with so many writes it is lost in the middle
  | { readonly kind: 'read' } // the next step acts on what is read here, whatever happens in between
  | { readonly kind: 'scale'; readonly replicas: number }
  | { readonly kind: 'template'; readonly className: string }
  | { readonly kind: 'phase'; readonly pick: number; readonly phase: string }
  | { readonly kind: 'manage'; readonly pick: number }
  | { readonly kind: 'delete'; readonly pick: number }
  | { readonly kind: 'gone'; readonly pick: number }
  | { readonly kind: 'preserve'; readonly pick: number }
  | { readonly kind: 'mark'; readonly pick: number }
  | { readonly kind: 'pause'; readonly paused: boolean }
  | { readonly kind: 'deleteSet'; readonly pick: number }
  | { readonly kind: 'deleteOwner' };

const pick = fc.nat(20);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: 'step' } as const) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('step' as const), maxWrites: fc.nat(6) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'read' } as const) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('scale' as const), replicas: fc.nat(6) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('template' as const), className: fc.constantFrom('a', 'b', 'c') }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pause' as const), paused: fc.boolean() }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('phase' as const),
      pick,
      phase: fc.constantFrom('Pending', 'Running', 'Running', 'Unknown', 'Failed', 'CrashLoopBackOff'),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('manage' as const, 'gone' as const), pick }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('delete' as const, 'preserve' as const, 'mark' as const, 'deleteSet' as const),
      pick,
    }),
  },
);
const happenings = fc.array(happening, { maxLength: 40, size: 'max' });
interface Start extends WorldOptions {
  readonly before: readonly { className: string; replicas: number; managed: boolean }[];
}
const start: fc.Arbitrary<Start> = fc.record({
  replicas: fc.nat(6),
  strategy: fc.constantFrom('RollingUpdate', 'RollingUpdate', 'Recreate'),
  maxSurge: fc.nat(2),
  maxUnavailable: fc.nat(2),
  /** Candidates of one reading: no fewer than there are sets, but fewer than machines. None may be left out for ever. */
  limit: fc.constantFrom(5, 100),
  /** Sets that machine-controller-manager left behind. */
  before: fc.array(fc.record({ className: fc.constantFrom('a', 'b'), replicas: fc.nat(3), managed: fc.boolean() }), {
    maxLength: 2,
  }),
});

function begin({ before, ...options }: Start): World {
  const world = createWorld(options);
  for (const set of before) world.addSet(set.className, set.replicas, set.managed);
  return world;
}

function picked(world: World, number: number): Machine | undefined {
  return world.machines[number % world.machines.length];
}

function setPhase(world: World, machine: Machine, phase: string): void {
  machine.status = { ...machine.status, currentStatus: { ...machine.status?.currentStatus, phase } };
  world.touch(machine);
}

function manage(world: World, machine: Machine): void {
  if (machine.metadata.deletionTimestamp !== undefined || machine.metadata.finalizers?.length) return;
  machine.metadata.finalizers = [finalizers.machine];
  world.touch(machine);
}

/** The VM is gone, and the finalizer with it. */
function finish(world: World, machine: Machine): void {
  if (machine.metadata.deletionTimestamp === undefined) return;
  machine.metadata.finalizers = [];
  world.remove(machine);
}

const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0);

/** Machines, leaving ones included, but for those that are being replaced. */
function countStaying({ machines }: World): number {
  return machines.filter(
    ({ metadata }) => metadata.deletionTimestamp === undefined || metadata.annotations?.[names.replaced] === undefined,
  ).length;
}

/** A reading, with the machines that it counts as available, but for those that somebody has marked. */
interface Look extends OwnerReading {
  readonly available: ReadonlySet<string>;
}

function look(world: World): Look | undefined {
  const reading = world.observe();
  const good = world.machines.filter((one) => isActive(one) && isAvailable(one) && !isMarked(one));
  return reading && { ...reading, available: new Set(good.map(({ metadata }) => metadata.uid)) };
}

/** Plans from a reading, acts on the world as it is now, and checks what one act may never do. */
function step(world: World, seen: Look | undefined, maxWrites?: number): OwnerPlan | undefined {
  if (seen === undefined) return undefined;
  const { view } = seen;
  const plan = planOwner(seen, world.newName);
  if (deploymentNeeds(view).length === 0) expect(isEmpty(plan)).toBe(true);
  expect(sum(plan.create.map((batch) => batch.names.length))).toBeLessThanOrEqual(maxPerStep);
  if (!view.deleting) expectEnoughAvailable(seen, plan);
  if (!view.deleting && !view.paused) expectSafeSizes(seen, plan);
  const known = new Set(world.machines.map(({ metadata }) => metadata.uid));
  world.act(plan, maxWrites);
  const made = world.machines.filter(({ metadata }) => !known.has(metadata.uid));
  if (made.length === 0) return plan;
  expect(countStaying(world)).toBeLessThanOrEqual(view.replicas + view.maxSurge);
  const controllers = new Set(world.machines.map((machine) => controllerOf(machine)));
  if (view.strategy === 'Recreate' && !view.paused) expect(controllers.size).toBe(1);
  return plan;
}

function isMarked({ metadata }: Machine): boolean {
  return metadata.annotations?.[annotations.priority] === '1';
}

/**
 * As far as anybody could know when it was decided: what fails or is deleted later is in no precondition. What somebody
 * has marked goes when the replicas are fewer, whatever is left.
 */
function expectEnoughAvailable({ view, available }: Look, { remove }: OwnerPlan): void {
  const staying = view.sets.filter((set) => !set.deleting);
  const leaving = remove.filter(({ set, uid }) => available.has(uid) && staying.some(({ name }) => name === set));
  if (leaving.length === 0 || view.strategy === 'Recreate') return;
  const left = sum(staying.map((set) => set.available)) - leaving.length;
  expect(left).toBeGreaterThanOrEqual(view.replicas - view.maxUnavailable);
}

/** Sets ask for no more than there is room for, so that whoever fills them stays within the bounds, too. */
function expectSafeSizes({ view }: Look, { sets }: OwnerPlan): void {
  if (view.sets.every((set) => set.current || set.total === 0)) return;
  const missing = sets.map(({ uid, replicas }) => {
    const set = view.sets.find((one) => one.uid === uid);
    return set === undefined || set.deleting ? 0 : Math.max(0, replicas - set.active);
  });
  expect(sum(missing)).toBeLessThanOrEqual(Math.max(0, roomFor(view)));
}

/** No waves: while machines make way, nothing waits that one of the bounds allows. */
function expectBoundsUsed({ view }: Look): void {
  const current = view.sets.find((set) => set.current && !set.deleting);
  const old = view.sets.filter((set) => !set.current && !set.deleting && set.active > 0);
  if (view.deleting || view.paused || current === undefined || old.length === 0) return;
  expect(sum(old.map((set) => set.starting + set.failed))).toBe(0);
  if (view.strategy === 'Recreate') throw new Error('machines of an older template are still there');
  const total = sum(view.sets.map((set) => set.total - set.replacing));
  if (current.active < view.replicas) expect(total).toBeGreaterThanOrEqual(view.replicas + view.maxSurge);
  const available = sum([...old, current].map((set) => set.available));
  if (old.some((set) => set.available > 0)) expect(available).toBeLessThanOrEqual(view.replicas - view.maxUnavailable);
}

function happen(world: World, event: Happening, memory: { reading?: Look | undefined }): void {
  switch (event.kind) {
    case 'step':
      step(world, memory.reading ?? look(world), event.maxWrites);
      delete memory.reading;
      return;
    case 'read':
      memory.reading = look(world);
      return;
    case 'scale':
      world.editSpec({ replicas: event.replicas });
      return;
    case 'template':
      world.editSpec({ template: template(event.className) });
      return;
    case 'pause':
      world.editSpec({ paused: event.paused });
      return;
    case 'deleteOwner':
      if (world.deployment !== undefined) world.remove(world.deployment);
      return;
    case 'deleteSet': {
      // Without a finalizer it would vanish at once, and its machines be nobody's until they are collected.
      const set = world.sets[event.pick % world.sets.length];
      if (set?.metadata.finalizers?.length) world.remove(set);
      return;
    }
    default:
      happenToMachine(world, event, picked(world, event.pick));
  }
}

function happenToMachine(
  world: World,
  event: Extract<Happening, { pick: number }>,
  machine: Machine | undefined,
): void {
  if (machine === undefined) return;
  if (event.kind === 'phase') setPhase(world, machine, event.phase);
  if (event.kind === 'manage') manage(world, machine);
  if (event.kind === 'delete') world.remove(machine);
  if (event.kind === 'gone') finish(world, machine);
  if (event.kind === 'preserve') annotate(world, machine, { [annotations.preserve]: 'now' });
  if (event.kind === 'mark') annotate(world, machine, { [annotations.priority]: '1' });
}

function annotate(world: World, machine: Machine, more: Record<string, string>): void {
  machine.metadata.annotations = { ...machine.metadata.annotations, ...more };
  world.touch(machine);
}

/** Acts until the plan is empty; every act that does something changes what is seen. Answers how many there were. */
function actUntilIdle(world: World): number {
  for (let steps = 0; ; steps++) {
    const seen = look(world);
    const plan = step(world, seen);
    if (seen !== undefined && plan !== undefined && isEmpty(plan)) expectBoundsUsed(seen);
    if (plan === undefined || isEmpty(plan)) return steps;
    expect(look(world)).not.toEqual(seen);
    expect(steps).toBeLessThan(20);
  }
}

/** Nothing more happens but that machines come up and go away. */
function settle(world: World): void {
  for (let rounds = 0; settleOnce(world); rounds++) expect(rounds).toBeLessThan(100);
}

/** What can be done is done, and machines come up and go away, once. Answers whether there was anything of it. */
function settleOnce(world: World): boolean {
  const steps = actUntilIdle(world);
  const leaving = world.machines.filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  const coming = world.machines.filter(
    (machine) => isActive(machine) && !['Running', 'Failed'].includes(phaseOf(machine)),
  );
  for (const machine of leaving) finish(world, machine);
  for (const machine of coming) {
    manage(world, machine);
    setPhase(world, machine, 'Running');
  }
  return steps + leaving.length + coming.length > 0;
}

describe('planOwner, whatever happens', () => {
  it('[invariant 5] bounds every act, and comes to rest with the machines that were asked for', () => {
    fc.assert(
      fc.property(start, happenings, (from, events) => {
        const world = begin(from);
        const memory = {};
        for (const event of events) happen(world, event, memory);
        world.editSpec({ paused: false });
        settle(world);

        const view = world.observe()?.view;
        if (view === undefined) throw new Error('the deployment is gone, and nobody deleted it');
        // What is preserved though it has Failed holds a rollout up, as it takes the place of one that is available.
        if (world.machines.some((machine) => phaseOf(machine) === 'Failed')) return;
        expect(deploymentNeeds(view)).toEqual([]);
        expect(view.sets.filter((set) => set.current)).toMatchObject([
          { total: view.replicas, replicas: view.replicas },
        ]);
        expect(world.machines).toHaveLength(view.replicas);
      }),
      { numRuns: 250 },
    );
  });

  it('[mcm 69] a deletion ends with everything released, whenever it comes', () => {
    fc.assert(
      fc.property(start, happenings, happenings, (from, before, after) => {
        const world = begin(from);
        const memory = {};
        for (const event of before) happen(world, event, memory);
        const wasManaged = world.deployment?.metadata.finalizers?.includes(finalizers.machine) === true;
        happen(world, { kind: 'deleteOwner' }, memory);
        for (const event of after) happen(world, event, memory);
        settle(world);
        expect(world.deployment).toBeUndefined();
        if (wasManaged) expect(world.sets).toEqual([]);
      }),
      { numRuns: 120 },
    );
  });

  it('does nothing at rest, however often it is asked', () => {
    fc.assert(
      fc.property(start, happenings, (from, events) => {
        const world = begin(from);
        for (const event of events) happen(world, event, {});
        settle(world);
        const before = JSON.stringify([world.sets, world.machines, world.deployment]);
        expect(actUntilIdle(world)).toBe(0);
        expect(JSON.stringify([world.sets, world.machines, world.deployment])).toBe(before);
      }),
      { numRuns: 120 },
    );
  });
});

describe('planOwner in the middle of a rollout', () => {
  it('[invariant 7] takes the machines that are marked for fewer replicas, of whichever template they are', () => {
    const bounds = fc.constantFrom({ maxSurge: 1, maxUnavailable: 0 }, { maxSurge: 3, maxUnavailable: 2 });
    fc.assert(
      fc.property(bounds, fc.nat(8), fc.integer({ min: 1, max: 3 }), fc.nat(2), (from, rounds, fewer, away) => {
        const replicas = 6;
        const world = createWorld({ ...from, replicas, limit: 100 });
        settle(world);
        world.editSpec({ template: template('new') });
        for (let round = 0; round < rounds; round++) settleOnce(world);
        const available = world.machines.filter((one) => isActive(one) && isAvailable(one));
        const marked = available.slice(-fewer);
        for (const machine of marked) annotate(world, machine, { [annotations.priority]: '1' });
        // Too few may be available then: what is marked has to wait until they are back.
        const isNew = ({ spec }: Machine) => spec?.class?.name === 'new';
        const unmarked = available.slice(0, -fewer).filter(isNew);
        for (const machine of unmarked.slice(0, away)) setPhase(world, machine, 'Unknown');
        world.editSpec({ replicas: replicas - fewer });
        settle(world);

        const left = new Set(world.machines.map(({ metadata }) => metadata.uid));
        expect(left.size).toBe(replicas - fewer);
        expect(marked.filter(({ metadata }) => left.has(metadata.uid))).toEqual([]);
      }),
    );
  });
});

describe('planOwner while paused, whatever happens', () => {
  it('keeps the number of machines and makes no set', () => {
    fc.assert(
      fc.property(start, happenings, fc.nat(6), (from, events, replicas) => {
        const world = begin(from);
        for (const event of events) happen(world, event, {});
        settle(world);
        fc.pre(world.sets.length > 0);
        fc.pre(world.deployment?.spec?.replicas !== replicas); // else a surge stays
        world.editSpec({ template: template('new'), paused: true });
        settle(world);
        const before = world.sets.map(({ metadata }) => metadata.uid);
        world.editSpec({ replicas });
        settle(world);
        expect(world.sets.map(({ metadata }) => metadata.uid)).toEqual(before);
        expect(world.machines).toHaveLength(replicas);
      }),
      { numRuns: 60 },
    );
  });
});

describe('planOwner', () => {
  const set: SetView = {
    name: 'pool-1',
    uid: 'set-1',
    resourceVersion: '3',
    generation: 1,
    annotated: true,
    closed: false,
    current: true,
    managed: true,
    deleting: false,
    observed: true,
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
    managed: true,
    deleting: false,
    observed: true,
    replicas: 3,
    strategy: 'RollingUpdate',
    maxSurge: 0,
    maxUnavailable: 0,
    progress: rolloutComplete,
    template: { setName: 'pool-1', hash: '42' },
    sets: [set],
  };
  const { progress: _, ...unreported } = owner;
  const lone: OwnerView = { ...unreported, kind: 'MachineSet' };
  const empty = { ...set, total: 0, active: 0, available: 0 };

  function planFor(view: OwnerView, candidates: Candidate[] = [], begun: OwnerReading['begun'] = []): OwnerPlan {
    let asked = 0;
    return planOwner({ view, candidates, begun }, (name) => `${name}-${(asked += 1)}`);
  }

  function candidate(name: string, traits: Partial<Candidate> = {}): Candidate {
    return { name, uid: name, resourceVersion: '1', set: 'pool-1', failed: false, ...traits };
  }

  const created = (plan: OwnerPlan) => plan.create.flatMap(({ names: machines }) => machines);
  const removed = (plan: OwnerPlan) => plan.remove.map(({ name }) => name);

  it('[invariant 5] goes on with a creation that was begun, and only then takes other names', () => {
    const begun = [{ set: 'pool-1', text: 'a,b,c', left: ['b', 'c'] }];
    const lacking = (active: number) => ({ ...owner, sets: [{ ...set, total: active, active, available: active }] });
    expect(planFor(lacking(0), [], begun).create).toEqual([
      { set: 'pool-1', uid: set.uid, names: ['b', 'c', 'pool-1-1'], after: 'a,b,c' },
    ]);
    expect(created(planFor(lacking(2), [], begun))).toEqual(['b']);
    expect(planFor(lacking(2)).create).toEqual([{ set: 'pool-1', uid: set.uid, names: ['pool-1-1'] }]);
  });

  it('[mcm 70] makes the set of a new deployment with all its replicas, finalizers and a report in one step', () => {
    const plan = planFor({ ...unreported, managed: false, observed: false, sets: [] });
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
      report: { progress: 'NewMachineSetCreated' },
    });
  });

  it('[mcm 59] creates as many machines as are missing, each with a name of its own', () => {
    const plan = planFor({ ...owner, sets: [empty] });
    expect(plan.create).toEqual([{ set: 'pool-1', uid: 'set-1', names: ['pool-1-1', 'pool-1-2', 'pool-1-3'] }]);
  });

  it('[mcm 61] creates at most a hundred in one step', () => {
    const plan = planFor({ ...owner, replicas: 250, sets: [{ ...empty, replicas: 250 }] });
    expect(created(plan)).toHaveLength(maxPerStep);
    expect(new Set(created(plan)).size).toBe(maxPerStep);
  });

  it('[invariant 5] waits for machines that are on their way out', () => {
    const leaving = { ...set, total: 3, active: 1, available: 1 };
    expect(created(planFor({ ...owner, sets: [leaving] }))).toEqual([]);
    expect(created(planFor({ ...owner, maxSurge: 1, sets: [leaving] }))).toHaveLength(1);
    expect(created(planFor({ ...owner, maxSurge: 9, sets: [leaving] }))).toHaveLength(2);
  });

  it('[mcm 63] replaces Failed machines at once, also while they are on their way out', () => {
    const view = { ...owner, sets: [{ ...set, available: 2, failed: 1 }] };
    expect(removed(planFor(view, [candidate('bad', { failed: true }), candidate('good')]))).toEqual(['bad']);
    const leaving = { ...owner, sets: [{ ...set, active: 2, available: 2, replacing: 1 }] };
    expect(created(planFor(leaving))).toHaveLength(1);
  });

  it('takes Failed machines for the surplus before any other', () => {
    const view = { ...owner, replicas: 2, sets: [{ ...set, available: 2, failed: 1 }] };
    expect(removed(planFor(view, [candidate('bad', { failed: true }), candidate('a'), candidate('b')]))).toEqual([
      'bad',
    ]);
  });

  it('[mcm 64] deletes the surplus in the order of the candidates', () => {
    const candidates = ['a', 'b', 'c'].map((name) => candidate(name));
    const plan = planFor({ ...owner, replicas: 1 }, candidates);
    expect(plan.scale).toEqual([{ set: 'pool-1', replicas: 1 }]);
    expect(removed(plan)).toEqual(['a', 'b']);
  });

  it('takes all that it may from older sets, and from the present one only what is more than the replicas', () => {
    const sets = ['old', 'new'].map((name) => ({ ...set, name, uid: name, current: name === 'new' }));
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

  it('makes no machine of an older template: what fails there is replaced by one of the present template', () => {
    const sets = [
      { ...set, name: 'old', current: false, active: 2, available: 2, replacing: 1 },
      { ...empty, replicas: 0 },
    ];
    const plan = planFor({ ...owner, sets });
    expect(plan.create).toMatchObject([{ set: 'pool-1', names: ['pool-1-1'] }]);
    expect(plan.scale).toMatchObject([
      { set: 'old', replicas: 2 },
      { set: 'pool-1', replicas: 1 },
    ]);
  });

  describe('while machines of an older template make way', () => {
    const old = { ...set, name: 'old', uid: 'old', current: false };
    const fresh = { ...set, name: 'new', uid: 'new' };
    /** A set with some machines that are available, some that start, and some that are neither. */
    const having = (of: SetView, available: number, starting = 0, unavailable = 0): SetView => {
      const total = available + starting + unavailable;
      return { ...of, replicas: total, total, active: total, available, starting };
    };
    const three = { ...owner, replicas: 3, maxSurge: 1, progress: 'MachineSetUpdated' };
    const sizes = (view: OwnerView) =>
      Object.fromEntries(planFor(view).sets.map(({ name, replicas }) => [name, replicas]));

    it('[mcm 71] makes the set of a new template with as many replicas as there is room for, and none where there is none', () => {
      expect(planFor({ ...three, sets: [old] }).createSet).toMatchObject({ replicas: 1 });
      expect(planFor({ ...three, maxSurge: 9, sets: [old] }).createSet).toMatchObject({ replicas: 3 });
      expect(planFor({ ...three, maxSurge: 0, sets: [old] }).createSet).toMatchObject({ replicas: 0 });
    });

    it('gives no machine away for a set that does not exist yet', () => {
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
        'a place that is free while another machine is still on its way out',
        { maxSurge: 1, maxUnavailable: 1 },
        [{ ...having(old, 2), total: 3 }, having(fresh, 0)],
        { old: 2, new: 1 },
      ],
      [
        '[mcm 73] old machines that never came up at once, whatever is available',
        {},
        [having(old, 0, 3), having(fresh, 0)],
        { old: 0, new: 1 },
      ],
      [
        '[mcm 73] an Unknown machine before one that is available',
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
          { ...having(old, 1), current: true },
          { ...having(fresh, 1), current: false },
        ],
        { old: 2, new: 1 },
      ],
      ['more replicas for the new set alone', { replicas: 5 }, [having(old, 3), having(fresh, 0)], { old: 3, new: 3 }],
      ['fewer replicas from the old set', { replicas: 2 }, [having(old, 3), having(fresh, 1)], { old: 1, new: 1 }],
      [
        '[invariant 7] as many marked machines of the new set as the replicas are fewer',
        { replicas: 2 },
        [having(old, 2), { ...having(fresh, 2), marked: 2, told: 3 }],
        { old: 1, new: 1 },
      ],
      [
        '[invariant 7] marked machines of the new set that a step before has asked for',
        { replicas: 2 },
        [having(old, 1), { ...having(fresh, 2), replicas: 1, marked: 1, told: 2 }],
        { old: 1, new: 1 },
      ],
      [
        '[invariant 7] no marked machine that a step before has asked for once the replicas are as they were',
        {},
        [having(old, 1), { ...having(fresh, 2), replicas: 1, marked: 1, told: 2 }],
        { old: 1, new: 3 },
      ],
      [
        '[invariant 7] no marked machine of the new set while the replicas are as they were',
        {},
        [having(old, 3), { ...having(fresh, 1), marked: 1, told: 3 }],
        { old: 2, new: 1 },
      ],
      [
        '[invariant 5] no marked machine of the new set while too few are available',
        { replicas: 2 },
        [having(old, 1, 0, 1), { ...having(fresh, 1), marked: 1, told: 3 }],
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

    it('[invariant 7] tells the new set what fewer replicas have asked for, as far as too few are available now', () => {
      const wishing = { ...having(fresh, 2), annotated: false, marked: 2, told: 5 };
      const asked = (gone: number) =>
        planFor({ ...three, sets: [having(old, 2 - gone, 0, gone), wishing] }).scale.find(
          (scale) => scale.set === 'new',
        );
      expect(asked(0)).toEqual({ set: 'new', replicas: 1, told: 4 });
      expect(asked(1)).toEqual({ set: 'new', replicas: 2, told: 5 });
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
        '[invariant 5] no available machine that a step was about to delete and that has become one of few',
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
      ['none', { replicas: 0 }, [having(old, 4), having(fresh, 2)], { old: 0, new: 0 }],
      [
        'fewer first where some are marked',
        { replicas: 4 },
        [having(old, 4), { ...having(fresh, 2), marked: 1 }],
        { old: 3, new: 1 },
      ],
      [
        'no surge once the replicas are others',
        { replicas: 5 },
        [{ ...having(old, 4), annotated: false }, having(fresh, 2)],
        { old: 3, new: 2 },
      ],
    ])('[mcm 78] asks for %s while paused', (_name, change, sets, expected) => {
      expect(sizes({ ...three, paused: true, ...change, sets })).toEqual(expected);
      expect(sizes({ ...three, strategy: 'InPlaceUpdate', ...change, sets })).toEqual(expected);
    });

    it('[mcm 78] replaces a machine in its own set while paused', () => {
      const lacking = { ...having(old, 2), replicas: 3 };
      const plan = planFor({ ...three, paused: true, sets: [lacking, having(fresh, 1)] });
      expect(plan.create).toMatchObject([{ set: 'old', names: ['old-1'] }]);
    });
  });

  it('[invariant 3] creates nothing in a set that lacks our finalizer', () => {
    const plan = planFor({ ...owner, sets: [{ ...empty, managed: false }] });
    expect(plan).toMatchObject({ addFinalizers: true, create: [] });
  });

  it('[mcm 69] deletes all machines of a deleted owner, then lets everything go', () => {
    const candidates = [candidate('a'), candidate('b')];
    expect(planFor({ ...owner, deleting: true }, candidates)).toMatchObject({ remove: candidates, release: false });
    expect(planFor({ ...owner, deleting: true, sets: [empty] })).toMatchObject({ remove: [], release: true });
    expect(planFor({ ...lone, deleting: true, sets: [empty] })).toMatchObject({ remove: [], release: true });
  });

  it('is at rest once a deleted owner is released, although others still hold it back', () => {
    const released = { ...empty, managed: false, deleting: true };
    for (const view of [owner, lone]) {
      expect(isEmpty(planFor({ ...view, deleting: true, managed: false, sets: [released] }))).toBe(true);
    }
  });

  it('empties a set that somebody deleted and lets it go before there is another one of its name', () => {
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

  it('says once what is wrong with an owner, and does nothing else but delete it', () => {
    const problem = 'spec.selector is missing';
    const wrong = { ...unreported, problem, managed: false, observed: false, sets: [{ ...set, failed: 1 }] };
    const plan = planFor(wrong, [candidate('bad', { failed: true })]);
    expect(plan.report).toEqual({ problem });
    const { report: _report, ...rest } = plan;
    expect(isEmpty(rest)).toBe(true);
    const told = { ...wrong, observed: true };
    expect([isEmpty(planFor(told)), deploymentNeeds(told)]).toEqual([true, []]);
    expect(removed(planFor({ ...told, deleting: true }, [candidate('a')]))).toEqual(['a']);
  });

  it('makes no set for a new template while paused, and scales the newest', () => {
    const older = { ...set, name: 'old', uid: 'old', current: false };
    const newest = { ...set, current: false, total: 2, active: 2, available: 2, replicas: 2 };
    const plan = planFor({ ...owner, paused: true, replicas: 9, sets: [older, newest] });
    expect(plan).not.toHaveProperty('createSet');
    expect(plan.scale).toEqual([{ set: 'pool-1', replicas: 6 }]);
    expect(planFor({ ...owner, paused: true, sets: [] })).toMatchObject({ scale: [], create: [] });
  });

  it('tells sets what their deployment asks for, without another change', () => {
    const plan = planFor({ ...owner, sets: [{ ...set, annotated: false }] });
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
    const plan = planFor({ ...lone, observed: false, replicas: 5, sets: [{ ...set, replicas: 5 }] });
    expect(created(plan)).toHaveLength(2);
    expect(plan).toMatchObject({ scale: [], report: {} });
    expect(plan).not.toHaveProperty('createSet');
  });

  it.each<[string, OwnerView, string | undefined]>([
    ['complete when all machines of the template run', { ...owner, progress: 'FoundNewMachineSet' }, rolloutComplete],
    [
      'complete when there are none to run',
      { ...unreported, replicas: 0, sets: [{ ...empty, replicas: 0 }] },
      rolloutComplete,
    ],
    [
      'not complete with a machine that does not run',
      { ...unreported, sets: [{ ...set, available: 2 }] },
      'FoundNewMachineSet',
    ],
    ['not complete with one that is leaving', { ...unreported, sets: [{ ...set, total: 4 }] }, 'FoundNewMachineSet'],
    ['still complete when a machine fails later', { ...owner, sets: [{ ...set, available: 2 }] }, undefined],
    ['still complete while it is scaled', { ...owner, replicas: 9 }, undefined],
    ['under way again with a new template', { ...owner, sets: [{ ...set, current: false }] }, 'NewMachineSetCreated'],
    [
      'under way with machines of an older template',
      {
        ...owner,
        sets: [
          { ...set, name: 'old', current: false },
          { ...empty, replicas: 0 },
        ],
      },
      'FoundNewMachineSet',
    ],
    [
      'moving on with the first machine',
      { ...owner, progress: 'NewMachineSetCreated', sets: [{ ...set, available: 0 }] },
      'MachineSetUpdated',
    ],
    ['[mcm 78] paused', { ...owner, paused: true }, 'DeploymentPaused'],
    ['paused, once', { ...owner, paused: true, progress: 'DeploymentPaused' }, undefined],
    ['late though it is paused', { ...owner, paused: true, progress: 'ProgressDeadlineExceeded' }, undefined],
    ['[mcm 78] resumed', { ...owner, progress: 'DeploymentPaused' }, 'DeploymentResumed'],
    ['complete after it was resumed', { ...owner, progress: 'DeploymentResumed' }, rolloutComplete],
    ['complete after it was late', { ...owner, progress: 'ProgressDeadlineExceeded' }, rolloutComplete],
    [
      '[mcm 80] moving on again after it was late',
      { ...owner, progress: 'ProgressDeadlineExceeded', sets: [{ ...set, available: 1 }] },
      'MachineSetUpdated',
    ],
  ])('says that a rollout is %s', (_name, view, progress) => {
    expect(planFor(view).report).toEqual(progress === undefined ? undefined : { progress });
  });
});
