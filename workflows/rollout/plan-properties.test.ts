/**
 * What holds of every step of an owner, whatever happens between and during steps: a world in memory, thousands of
 * times.
 */
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerPlan, OwnerSnapshot, OwnerView } from '../../api/model/owner.ts';
import { names } from '../../api/names.ts';
import { replacementPolicies } from '../../api/owner/bounds.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { creationHeadroom, hasOldMachines } from '../../api/owner/set-counts.ts';
import { isOrphaning } from '../../api/owner/view.ts';
import { isActive, isAvailable } from '../../test/support/machine-facts.ts';
import { createWorld, phaseOf, template, type World, type WorldOptions } from '../../test/support/owner-world.ts';
import { isEmpty, maxPerStep, planOwner } from './plan.ts';

/** What may happen between two steps, and the steps themselves. Machines and sets are picked by number. */
type Happening =
  | { readonly kind: 'step'; readonly maxWrites?: number } // it is lost before its next write
  | { readonly kind: 'overlap'; readonly maxWrites: number } // it goes on after its run was lost and the next run has acted
  | { readonly kind: 'read' } // the next step acts on what is read here, whatever happens in between
  | { readonly kind: 'scale'; readonly replicas: number }
  | { readonly kind: 'template'; readonly className: string }
  | { readonly kind: 'phase'; readonly pick: number; readonly phase: string }
  | { readonly kind: 'addFinalizer'; readonly pick: number }
  | { readonly kind: 'delete'; readonly pick: number }
  | { readonly kind: 'gone'; readonly pick: number }
  | { readonly kind: 'preserve'; readonly pick: number }
  | { readonly kind: 'mark'; readonly pick: number }
  | { readonly kind: 'relabel'; readonly pick: number } // a machine, and a set
  | { readonly kind: 'restore'; readonly pick: number } // the labels of a machine
  | { readonly kind: 'pause'; readonly paused: boolean }
  | { readonly kind: 'keep'; readonly most: number } // Failed machines of each set
  | { readonly kind: 'freeze'; readonly pick: number; readonly frozen: boolean } // the deployment, or one of its sets
  | { readonly kind: 'deleteSet'; readonly pick: number }
  | { readonly kind: 'deleteOwner' }
  | { readonly kind: 'orphanSet'; readonly pick: number } // deleted with --cascade=orphan
  | { readonly kind: 'orphanOwner' }
  | { readonly kind: 'collectGarbage' };

const pick = fc.nat(20);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: 'step' } as const) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('step' as const), maxWrites: fc.nat(6) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('overlap' as const), maxWrites: fc.nat(6) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'read' } as const) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('scale' as const), replicas: fc.nat(6) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('template' as const), className: fc.constantFrom('a', 'b', 'c') }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pause' as const), paused: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('keep' as const), most: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('freeze' as const), pick, frozen: fc.boolean() }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('phase' as const),
      pick,
      phase: fc.constantFrom('Pending', 'Running', 'Running', 'Unknown', 'Failed', 'CrashLoopBackOff'),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('addFinalizer' as const, 'gone' as const), pick }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'delete' as const,
        'preserve' as const,
        'mark' as const,
        'deleteSet' as const,
        'relabel' as const,
        'restore' as const,
      ),
      pick,
    }),
  },
);
const happenings = fc.array(happening, { maxLength: 40, size: 'max' });
const orphaning: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 12, arbitrary: happening },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('orphanSet' as const), pick }) },
  { weight: 1, arbitrary: fc.constantFrom({ kind: 'orphanOwner' } as const, { kind: 'collectGarbage' } as const) },
);
interface Start extends WorldOptions {
  readonly before: readonly { className: string; replicas: number; hasOurFinalizer: boolean }[];
}
const start: fc.Arbitrary<Start> = fc.record({
  replicas: fc.nat(6),
  strategy: fc.constantFrom('RollingUpdate', 'RollingUpdate', 'Recreate'),
  maxSurge: fc.nat(2),
  maxUnavailable: fc.nat(2),
  replacementPolicy: fc.constantFrom(...replacementPolicies),
  /** Candidates of one reading: no fewer than there are sets, but fewer than machines. None may be left out forever. */
  limit: fc.constantFrom(5, 100),
  /** Sets that machine-controller-manager left behind. */
  before: fc.array(
    fc.record({ className: fc.constantFrom('a', 'b'), replicas: fc.nat(3), hasOurFinalizer: fc.boolean() }),
    {
      maxLength: 2,
    },
  ),
});

function begin({ before, ...options }: Start): World {
  const world = createWorld(options);
  for (const set of before) world.addSet(set.className, set.replicas, set.hasOurFinalizer);
  return world;
}

function picked(world: World, number: number): Machine | undefined {
  return world.machines[number % world.machines.length];
}

function setPhase(world: World, machine: Machine, phase: string): void {
  world.edit(machines, machine, { status: { currentStatus: { phase } } });
}

/** Its workflow adds the finalizer. */
function addFinalizer(world: World, machine: Machine): void {
  if (machine.metadata.deletionTimestamp !== undefined || machine.metadata.finalizers?.length) return;
  world.edit(machines, machine, { metadata: { finalizers: [finalizers.machine] } });
}

/** The VM is gone, and the finalizer with it. */
function finish(world: World, machine: Machine): void {
  if (machine.metadata.deletionTimestamp === undefined) return;
  world.edit(machines, machine, { metadata: { finalizers: [] } });
}

const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0);

/** Machines, but for those that were released: nobody owns them. */
function ownedMachines({ machines }: World): Machine[] {
  return machines.filter((machine) => controllerOf(machine) !== undefined);
}

/**
 * Machines that count against replicas + surge: active ones, and where the deployment asks for it those that are being
 * deleted and not replaced. Preserved machines of older templates do not count.
 * @param setAside preserved ones that did not count when the step was planned: their deletion since then makes no machine
 */
function countBoundedIn(
  world: World,
  { template }: OwnerView,
  countsLeaving: boolean,
  setAside: ReadonlySet<string>,
): number {
  const newSet = world.sets.find(({ metadata }) => metadata.name === template.setName);
  const isOld = (machine: Machine) => controllerOf(machine) !== newSet?.metadata.uid;
  const isReplaced = ({ metadata }: Machine) => metadata.annotations?.[names.replaced] !== undefined;
  return ownedMachines(world).filter((machine) => {
    if (isActive(machine)) return !(isOld(machine) && isKept(machine));
    return countsLeaving && !isReplaced(machine) && !(isOld(machine) && setAside.has(machine.metadata.uid));
  }).length;
}

/** Whether a machine is preserved: by itself, or as it has failed. */
function isKept({ metadata, status }: Machine): boolean {
  const { phase, preserveExpiryTime } = status?.currentStatus ?? {};
  const value = metadata.annotations?.[annotations.preserve];
  return preserveExpiryTime !== undefined || (phase === 'Failed' && value !== undefined && value !== 'false');
}

/**
 * A reading, with its active machines, those that it counts as available, those of them that somebody has marked, and
 * those that are preserved and not available.
 */
interface Look extends OwnerSnapshot {
  readonly active: readonly Machine[];
  readonly available: ReadonlySet<string>;
  readonly marked: ReadonlySet<string>;
  readonly setAside: ReadonlySet<string>;
}

async function look(world: World): Promise<Look | undefined> {
  const reading = await world.observe();
  const active = world.machines.filter(isActive);
  const good = active.filter(isAvailable);
  const setAside = uidsOf(active.filter((machine) => isKept(machine) && !isAvailable(machine)));
  return reading && { ...reading, active, available: uidsOf(good), marked: uidsOf(good.filter(isMarked)), setAside };
}

type Act = (plan: OwnerPlan) => Promise<void>;

/** Plans from a reading, acts on the world as it is now, and checks what one step may never do. */
async function step(
  world: World,
  seen: Look | undefined,
  act: Act = (plan) => world.act(plan),
): Promise<OwnerPlan | undefined> {
  if (seen === undefined) return undefined;
  const { view } = seen;
  const plan = planOwner(seen, world.newName);
  if (ownerNeeds(view).length === 0) expect(isEmpty(plan)).toBe(true);
  expect(sum(plan.create.map((batch) => batch.names.length))).toBeLessThanOrEqual(maxPerStep);
  if (!view.deleting) expectEnoughAvailable(seen, plan);
  if (!view.deleting && !view.paused) expectSafeSizes(seen, plan);
  if (!view.deleting) expectPreservedLast(seen, plan);
  const known = uidsOf(world.machines);
  const kept = uidsOf(keptMachines(world));
  await act(plan);
  expect(world.machines.filter((one) => kept.has(one.metadata.uid) && isActive(one))).toHaveLength(kept.size);
  if (world.machines.every(({ metadata }) => known.has(metadata.uid))) return plan;
  // The next run may have acted meanwhile, by a newer spec.
  const { spec } = world.deployment ?? {};
  const limits = [view, { ...view, replicas: spec?.replicas ?? 0 }].map((one) => one.replicas + view.maxSurge);
  const after = (await world.observe())?.view ?? view;
  const views = [view, after];
  const count = countBoundedIn(world, after, views.every(countsLeavingNow), seen.setAside);
  expect(count).toBeLessThanOrEqual(Math.max(...limits));
  const controllers = new Set(ownedMachines(world).map((machine) => controllerOf(machine)));
  if (view.strategy === 'Recreate' && !view.paused && !spec?.paused) expect(controllers.size).toBe(1);
  return plan;
}

/** Whether machines that are being deleted count against replicas + surge. */
function countsLeavingNow(view: OwnerView): boolean {
  return view.countsLeaving === 'inRollouts' && hasOldMachines(view) && !view.paused;
}

/** Active machines of what was deleted with `--cascade=orphan` and is not released yet. */
function keptMachines({ deployment, sets, machines }: World): Machine[] {
  const isKept = deployment !== undefined && isOrphaning(deployment);
  const keeping = new Set(sets.filter((set) => isKept || isOrphaning(set)).map(({ metadata }) => metadata.uid));
  return machines.filter((machine) => isActive(machine) && keeping.has(controllerOf(machine) ?? ''));
}

function uidsOf(machines: readonly Machine[]): Set<string> {
  return new Set(machines.map(({ metadata }) => metadata.uid));
}

function isMarked({ metadata }: Machine): boolean {
  return metadata.annotations?.[annotations.priority] === '1';
}

/**
 * As far as anybody could know when it was decided: what fails or is deleted later is in no precondition. What somebody
 * has marked goes when the replicas are fewer, whatever is left, and nothing else goes then unless enough is left.
 */
function expectEnoughAvailable({ view, active, available, marked }: Look, { remove }: OwnerPlan): void {
  const staying = view.sets.filter((set) => !set.deleting);
  const leaving = remove.filter(({ set, uid }) => available.has(uid) && staying.some(({ name }) => name === set));
  if (leaving.every(({ uid }) => marked.has(uid)) || view.strategy === 'Recreate') return;
  // Without a rollout a preserved machine goes last, whatever its phase, and an available one goes instead.
  const isRolling = hasOldMachines(view) && !view.paused;
  const instead = active.filter((machine) => !isRolling && isKept(machine) && !available.has(machine.metadata.uid));
  const left = sum(staying.map((set) => set.available)) - leaving.length;
  expect(left).toBeGreaterThanOrEqual(view.replicas - view.maxUnavailable - instead.length);
}

/**
 * Of all old sets the machines that are not preserved go first; of those of a paused owner all that are not available,
 * unless a rollout had given up all old sets before. Which Failed machines a set will have preserved in a moment is not
 * known yet.
 */
function expectPreservedLast({ view, active, available }: Look, { remove, preserve = [] }: OwnerPlan): void {
  const choosing = new Set(preserve.filter((change) => change.isKept).map(({ set }) => set));
  const undecided = new Set(view.sets.filter(({ name }) => choosing.has(name)).map(({ uid }) => uid));
  const areGivenUp = view.sets.every(({ isNew, replicas }) => isNew || replicas === 0);
  const losing = view.sets.filter(({ isNew, deleting }) => !deleting && (!isNew || (view.paused && !areGivenUp)));
  const leaving = new Set(remove.map(({ uid }) => uid));
  const own = active.filter((machine) => losing.some(({ uid }) => uid === controllerOf(machine)));
  const isLeaving = ({ metadata }: Machine) => leaving.has(metadata.uid);
  if (!own.some((machine) => isKept(machine) && isLeaving(machine))) return;
  const isUndecided = (machine: Machine) => phaseOf(machine) === 'Failed' && undecided.has(controllerOf(machine) ?? '');
  const staying = own.filter((machine) => !isKept(machine) && !isLeaving(machine) && !isUndecided(machine));
  expect(staying.filter(({ metadata }) => !view.paused || !available.has(metadata.uid))).toEqual([]);
}

/** Sets ask for no more than there is room for, so that whoever fills them stays within the bounds, too. */
function expectSafeSizes({ view }: Look, { sets, ownerChanges, mark }: OwnerPlan): void {
  if (ownerChanges !== undefined || mark !== undefined) return; // such a step changes no set
  if (view.sets.every((set) => set.isNew || set.total === 0)) return;
  const missing = sets.map(({ uid, replicas }) => {
    const set = view.sets.find((one) => one.uid === uid);
    return set === undefined || set.deleting ? 0 : Math.max(0, replicas - set.active);
  });
  expect(sum(missing)).toBeLessThanOrEqual(Math.max(0, creationHeadroom(view)));
}

/** No waves: while machines are replaced, nothing waits that one of the bounds allows. */
function expectBoundsUsed({ view }: Look): void {
  const newSet = view.sets.find((set) => set.isNew && !set.deleting);
  const old = view.sets.filter((set) => !set.isNew && !set.deleting && set.active > 0);
  if (view.deleting || view.paused || newSet === undefined || newSet.closed || old.length === 0) return;
  expect(sum(old.map((set) => set.starting + set.failed))).toBe(0);
  if (view.strategy === 'Recreate') throw new Error('machines of an older template are still there');
  if (newSet.active < view.replicas) expect(creationHeadroom(view)).toBeLessThanOrEqual(0);
  const available = sum([...old, newSet].map((set) => set.available));
  if (old.some((set) => set.available > 0)) expect(available).toBeLessThanOrEqual(view.replicas - view.maxUnavailable);
}

async function happen(world: World, event: Happening, memory: { reading?: Look | undefined }): Promise<void> {
  const { deployment, sets } = world;
  switch (event.kind) {
    case 'step':
    case 'overlap': {
      const seen = memory.reading ?? (await look(world));
      delete memory.reading;
      const next = async () => {
        await step(world, await look(world));
      };
      const { kind, maxWrites } = event;
      await step(world, seen, (plan) =>
        kind === 'overlap' ? world.actLate(plan, maxWrites, next) : world.act(plan, maxWrites),
      );
      return;
    }
    case 'read':
      memory.reading = await look(world);
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
    case 'keep':
      world.editSpec({ autoPreserveFailedMachineMax: event.most });
      return;
    case 'freeze':
      freeze(world, event.pick % (sets.length + 1), event.frozen);
      return;
    case 'deleteOwner':
      if (deployment !== undefined) world.remove(machineDeployments, deployment);
      return;
    case 'deleteSet': {
      // Without a finalizer it would vanish at once, and its machines be nobody's until they are collected.
      const set = sets[event.pick % sets.length];
      if (set?.metadata.finalizers?.length) world.remove(machineSets, set);
      return;
    }
    case 'relabel': {
      const change = { metadata: { labels: { name: 'neighbour' } } };
      const machine = picked(world, event.pick);
      if (machine !== undefined) world.edit(machines, machine, change);
      const set = sets[event.pick % sets.length];
      if (set !== undefined) world.edit(machineSets, set, change);
      return;
    }
    case 'orphanSet': {
      const set = sets[event.pick % sets.length];
      if (set !== undefined) world.orphan(machineSets, set);
      return;
    }
    case 'orphanOwner':
      if (deployment !== undefined) world.orphan(machineDeployments, deployment);
      return;
    case 'collectGarbage':
      world.collectGarbage();
      return;
    default:
      happenToMachine(world, event, picked(world, event.pick));
  }
}

async function happenAll(world: World, events: readonly Happening[], memory = {}): Promise<void> {
  for (const event of events) await happen(world, event, memory);
}

/** @param number 0 for the deployment, else the set with this number */
function freeze({ edit, deployment, sets }: World, number: number, frozen: boolean): void {
  const change = { metadata: { labels: { [labels.freeze]: frozen ? 'True' : 'False' } } };
  const set = sets[number - 1];
  if (set !== undefined) edit(machineSets, set, change);
  else if (deployment !== undefined) edit(machineDeployments, deployment, change);
}

function thaw(world: World): void {
  for (let number = 0; number <= world.sets.length; number++) freeze(world, number, false);
}

function happenToMachine(
  world: World,
  event: Extract<Happening, { pick: number }>,
  machine: Machine | undefined,
): void {
  if (machine === undefined) return;
  if (event.kind === 'phase') setPhase(world, machine, event.phase);
  if (event.kind === 'addFinalizer') addFinalizer(world, machine);
  if (event.kind === 'delete') world.remove(machines, machine);
  if (event.kind === 'gone') finish(world, machine);
  if (event.kind === 'preserve') preserve(world, machine);
  if (event.kind === 'restore') world.edit(machines, machine, { metadata: { labels: { name: 'pool' } } });
  if (event.kind === 'mark') annotate(world, machine, { [annotations.priority]: '1' });
}

/** Its workflow writes the end of the preservation. */
function preserve(world: World, machine: Machine): void {
  annotate(world, machine, { [annotations.preserve]: 'now' });
  world.edit(machines, machine, { status: { currentStatus: { preserveExpiryTime: '2999-01-01T00:00:00Z' } } });
}

function annotate(world: World, machine: Machine, more: Record<string, string>): void {
  world.edit(machines, machine, { metadata: { annotations: more } });
}

/** Steps until the plan is empty; every step that does something changes what is seen. Returns how many there were. */
async function actUntilIdle(world: World): Promise<number> {
  for (let steps = 0; ; steps++) {
    const seen = await look(world);
    const plan = await step(world, seen);
    if (seen !== undefined && plan !== undefined && isEmpty(plan)) expectBoundsUsed(seen);
    if (plan === undefined || isEmpty(plan)) return steps;
    expect(await look(world)).not.toEqual(seen);
    expect(steps).toBeLessThan(20);
  }
}

/** Nothing more happens but that machines come up and go away. */
async function settle(world: World): Promise<void> {
  for (let rounds = 0; await settleOnce(world); rounds++) expect(rounds).toBeLessThan(100);
}

/** What can be done is done, and machines come up and go away, once. Returns whether there was anything to do. */
async function settleOnce(world: World): Promise<boolean> {
  const steps = await actUntilIdle(world);
  const leaving = world.machines.filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  const coming = world.machines.filter(
    (machine) => isActive(machine) && !['Running', 'Failed'].includes(phaseOf(machine)),
  );
  for (const machine of leaving) finish(world, machine);
  for (const machine of coming) {
    addFinalizer(world, machine);
    setPhase(world, machine, 'Running');
  }
  return steps + leaving.length + coming.length > 0;
}

/** A step of a lost run goes on that was planned after a creation whose machine has failed and gone. */
const replacedBeforeTheRunWasLost = {
  from: {
    ...{ replicas: 3, strategy: 'RollingUpdate' as const, maxSurge: 0, maxUnavailable: 0, limit: 5 },
    before: [
      { className: 'a', replicas: 0, hasOurFinalizer: true },
      { className: 'a', replicas: 1, hasOurFinalizer: false },
    ],
  },
  events: [
    { kind: 'phase', pick: 0, phase: 'Running' },
    { kind: 'step', maxWrites: 5 },
    { kind: 'scale', replicas: 4 },
    { kind: 'step' },
    { kind: 'phase', pick: 15, phase: 'Failed' },
    { kind: 'step' },
    { kind: 'overlap', maxWrites: 0 },
  ] satisfies Happening[],
};

const scaledDownBesideAPreservedOne = {
  from: {
    ...{ replicas: 2, strategy: 'RollingUpdate' as const, maxSurge: 1, maxUnavailable: 0, limit: 5 },
    before: [],
  },
  events: [
    { kind: 'keep', most: 1 },
    { kind: 'step' },
    { kind: 'step' },
    { kind: 'phase', pick: 1, phase: 'Running' },
    { kind: 'phase', pick: 0, phase: 'Failed' },
    { kind: 'scale', replicas: 1 },
  ] satisfies Happening[],
};

/** Of two sets with the template one is the new one: a preserved machine of the other is set aside. */
const preservedInASetOfTheSameTemplate = {
  from: {
    ...{ replicas: 1, strategy: 'RollingUpdate', maxSurge: 0, maxUnavailable: 0, limit: 5 },
    replacementPolicy: 'TerminationStarted',
    before: [0, 1].map((replicas) => ({ className: 'a', replicas, hasOurFinalizer: false })),
  } satisfies Start,
  events: [{ kind: 'preserve', pick: 0 }] satisfies Happening[],
};

/** Two steps that overlap: one creates the new machine, the other deletes the preserved one, which it leaves for last. */
const preservedAndDeletedWhileAStepGoesOn = {
  from: {
    ...{ replicas: 0, strategy: 'RollingUpdate', maxSurge: 0, maxUnavailable: 0, limit: 5 },
    replacementPolicy: 'TerminationComplete',
    before: [{ className: 'b', replicas: 1, hasOurFinalizer: false }],
  } satisfies Start,
  events: [
    { kind: 'scale', replicas: 1 },
    { kind: 'addFinalizer', pick: 0 },
    { kind: 'preserve', pick: 0 },
    { kind: 'step' },
    { kind: 'overlap', maxWrites: 2 },
  ] satisfies Happening[],
};

/** Somebody deletes the preserved machine after the reading from which the new one is planned. */
const preservedAndDeletedAfterTheReading = {
  from: preservedAndDeletedWhileAStepGoesOn.from,
  events: [
    ...preservedAndDeletedWhileAStepGoesOn.events.slice(0, 4),
    { kind: 'read' },
    { kind: 'delete', pick: 0 },
    { kind: 'step' },
  ] satisfies Happening[],
};

/** A rollout has given up the preserved machine, as the new set has its machine, and is paused before it deletes it. */
const pausedBeforeThePreservedOneIsDeleted = {
  from: { ...preservedAndDeletedWhileAStepGoesOn.from, replacementPolicy: 'TerminationStarted' } satisfies Start,
  events: [
    { kind: 'preserve', pick: 0 },
    { kind: 'scale', replicas: 1 },
    { kind: 'step', maxWrites: 3 },
    { kind: 'step' },
    { kind: 'step', maxWrites: 1 },
    { kind: 'pause', paused: true },
    { kind: 'step' },
  ] satisfies Happening[],
};

/** A rollout is paused just after one of its old sets has begun to keep a Failed machine. */
const pausedAfterAFailedOneIsKept = {
  from: {
    ...{ replicas: 1, strategy: 'RollingUpdate', maxSurge: 1, maxUnavailable: 0, limit: 5 },
    replacementPolicy: 'TerminationStarted',
    before: [{ className: 'b', replicas: 1, hasOurFinalizer: false }],
  } satisfies Start,
  events: [
    { kind: 'phase', pick: 0, phase: 'Unknown' },
    { kind: 'step' },
    { kind: 'keep', most: 1 },
    { kind: 'step', maxWrites: 2 },
    { kind: 'template', className: 'c' },
    { kind: 'phase', pick: 1, phase: 'Failed' },
    { kind: 'step' },
    { kind: 'pause', paused: true },
    { kind: 'step' },
  ] satisfies Happening[],
};

describe('planOwner, whatever happens', () => {
  it('[invariant 5] bounds every act, and comes to rest with the machines that were asked for', () => {
    return fc.assert(
      fc.asyncProperty(start, happenings, async (from, events) => {
        const world = begin(from);
        const memory = {};
        await happenAll(world, events, memory);
        world.editSpec({ paused: false });
        thaw(world);
        await settle(world);

        const view = (await world.observe())?.view;
        if (view === undefined) throw new Error('the deployment is gone, and nobody deleted it');
        // What is preserved though it has Failed holds a rollout up, as it takes the place of one that is available.
        if (ownedMachines(world).some((machine) => phaseOf(machine) === 'Failed')) return;
        expect(ownerNeeds(view)).toEqual([]);
        expect(view.sets.filter((set) => set.isNew)).toMatchObject([{ total: view.replicas, replicas: view.replicas }]);
        expect(ownedMachines(world)).toHaveLength(view.replicas);
      }),
      {
        numRuns: 250,
        examples: [
          [replacedBeforeTheRunWasLost.from, replacedBeforeTheRunWasLost.events],
          [preservedInASetOfTheSameTemplate.from, preservedInASetOfTheSameTemplate.events],
          [preservedAndDeletedWhileAStepGoesOn.from, preservedAndDeletedWhileAStepGoesOn.events],
          [preservedAndDeletedAfterTheReading.from, preservedAndDeletedAfterTheReading.events],
          [pausedBeforeThePreservedOneIsDeleted.from, pausedBeforeThePreservedOneIsDeleted.events],
          [pausedAfterAFailedOneIsKept.from, pausedAfterAFailedOneIsKept.events],
        ],
      },
    );
  });

  it('[mcm 69 partly] a deletion ends with everything released, whenever it comes', () => {
    return fc.assert(
      fc.asyncProperty(start, happenings, happenings, async (from, before, after) => {
        const world = begin(from);
        const memory = {};
        await happenAll(world, before, memory);
        const wasManaged = world.deployment?.metadata.finalizers?.includes(finalizers.machine) === true;
        await happen(world, { kind: 'deleteOwner' }, memory);
        await happenAll(world, after, memory);
        await settle(world);
        expect(world.deployment).toBeUndefined();
        if (wasManaged) expect(world.sets).toEqual([]);
      }),
      { numRuns: 120 },
    );
  });

  it('deletes no machine of what is deleted with --cascade=orphan, and lets that go once its machines are released', () => {
    return fc.assert(
      fc.asyncProperty(start, fc.array(orphaning, { maxLength: 40, size: 'max' }), async (from, events) => {
        const world = begin(from);
        const memory = {};
        await happenAll(world, events, memory);
        await happen(world, { kind: 'orphanOwner' }, memory);
        await settle(world);
        const isStaying = ({ metadata }: Machine | MachineSet) => metadata.deletionTimestamp === undefined;
        const before = [...world.sets, ...world.machines].filter(isStaying).map(({ metadata }) => metadata.uid);
        await happen(world, { kind: 'collectGarbage' }, memory);
        await settle(world);
        expect(world.deployment).toBeUndefined();
        const left = [...world.sets, ...world.machines].map(({ metadata }) => metadata.uid);
        expect(left).toEqual(expect.arrayContaining(before));
      }),
      { numRuns: 120 },
    );
  });

  it('does nothing at rest, however often it is asked', () => {
    return fc.assert(
      fc.asyncProperty(start, happenings, async (from, events) => {
        const world = begin(from);
        await happenAll(world, events);
        await settle(world);
        const before = JSON.stringify([world.sets, world.machines, world.deployment]);
        expect(await actUntilIdle(world)).toBe(0);
        expect(JSON.stringify([world.sets, world.machines, world.deployment])).toBe(before);
      }),
      { numRuns: 120, examples: [[scaledDownBesideAPreservedOne.from, scaledDownBesideAPreservedOne.events]] },
    );
  });
});

describe('planOwner for fewer replicas', () => {
  const phases = fc.array(fc.constantFrom('Running', 'Running', 'Pending', 'Unknown', 'CrashLoopBackOff', 'Failed'), {
    minLength: 8,
    maxLength: 8,
  });
  const marks = fc.uniqueArray(fc.nat(7), { minLength: 1, maxLength: 4 });

  /** Machines are in any phase, some are marked, and the replicas fewer by as many: these are answered. */
  function markAndScale(world: World, all: readonly string[], numbers: readonly number[]): Machine[] {
    for (const [i, machine] of world.machines.entries()) setPhase(world, machine, all[i % all.length]!);
    const marked = [...new Set(numbers.map((number) => picked(world, number)!))].filter(
      (machine) => phaseOf(machine) !== 'Failed',
    );
    for (const machine of marked) annotate(world, machine, { [annotations.priority]: '1' });
    world.editSpec({ replicas: (world.deployment?.spec?.replicas ?? 0) - marked.length });
    return marked;
  }

  it('[invariant 7] takes exactly the machines that are marked, whatever is available, paused or not', () => {
    return fc.assert(
      fc.asyncProperty(start, phases, marks, fc.boolean(), async (from, all, numbers, paused) => {
        const world = createWorld({ ...from, replicas: 8, limit: 100 });
        await settle(world);
        world.editSpec({ paused });
        const marked = markAndScale(world, all, numbers);
        const seen = await look(world);
        const plan = await step(world, seen);
        const alive = plan?.remove.filter(({ failed }) => !failed).map(({ uid }) => uid) ?? [];
        expect(new Set(alive)).toEqual(uidsOf(marked));
        await settle(world);
        expect(world.machines).toHaveLength(8 - marked.length);
      }),
    );
  });

  it('[invariant 7] takes all machines that are marked while a rollout is paused, whatever is available', () => {
    return fc.assert(
      fc.asyncProperty(start, phases, marks, fc.nat(8), async (from, all, numbers, rounds) => {
        const world = createWorld({ ...from, strategy: 'RollingUpdate', replicas: 8, limit: 100 });
        await settle(world);
        world.editSpec({ template: template('new') });
        for (let round = 0; round < rounds; round++) await settleOnce(world);
        world.editSpec({ paused: true });
        await settle(world);
        const marked = uidsOf(markAndScale(world, all, numbers));
        await step(world, await look(world));
        expect(world.machines.filter((one) => isActive(one) && marked.has(one.metadata.uid))).toEqual([]);
      }),
    );
  });
});

describe('planOwner in the middle of a rollout', () => {
  it('[invariant 7] takes the machines that are marked for fewer replicas, of whichever template they are', () => {
    const bounds = fc.constantFrom({ maxSurge: 1, maxUnavailable: 0 }, { maxSurge: 3, maxUnavailable: 2 });
    return fc.assert(
      fc.asyncProperty(
        bounds,
        fc.nat(8),
        fc.integer({ min: 1, max: 3 }),
        fc.nat(2),
        async (from, rounds, fewer, away) => {
          const replicas = 6;
          const world = createWorld({ ...from, replicas, limit: 100 });
          await settle(world);
          world.editSpec({ template: template('new') });
          for (let round = 0; round < rounds; round++) await settleOnce(world);
          const available = world.machines.filter((one) => isActive(one) && isAvailable(one));
          const marked = available.slice(-fewer);
          for (const machine of marked) annotate(world, machine, { [annotations.priority]: '1' });
          // Too few may be available then: what is marked has to wait until they are back.
          const isNew = ({ spec }: Machine) => spec?.class?.name === 'new';
          const unmarked = available.slice(0, -fewer).filter(isNew);
          for (const machine of unmarked.slice(0, away)) setPhase(world, machine, 'Unknown');
          world.editSpec({ replicas: replicas - fewer });
          await settle(world);

          const left = new Set(world.machines.map(({ metadata }) => metadata.uid));
          expect(left.size).toBe(replicas - fewer);
          expect(marked.filter(({ metadata }) => left.has(metadata.uid))).toEqual([]);
        },
      ),
    );
  });
});

describe('planOwner while paused, whatever happens', () => {
  it('keeps the number of machines and makes no set', () => {
    return fc.assert(
      fc.asyncProperty(start, happenings, fc.nat(6), async (from, events, replicas) => {
        const world = begin(from);
        await happenAll(world, events);
        thaw(world);
        await settle(world);
        fc.pre(world.sets.length > 0);
        fc.pre(world.deployment?.spec?.replicas !== replicas); // else a surge stays
        world.editSpec({ template: template('new'), paused: true });
        await settle(world);
        const before = world.sets.map(({ metadata }) => metadata.uid);
        world.editSpec({ replicas });
        await settle(world);
        expect(world.sets.map(({ metadata }) => metadata.uid)).toEqual(before);
        expect(ownedMachines(world)).toHaveLength(replicas);
      }),
      { numRuns: 200 },
    );
  });
});
