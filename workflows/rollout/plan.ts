/**
 * What an owner of machines does next: a pure decision over what was observed, the same in tests, in replay, and in the
 * watchers that wake the workflow.
 */
import type {
  Asking,
  Candidate,
  OwnerPlan,
  OwnerSnapshot,
  OwnerView,
  PendingCreation,
  PlannedCreation,
  PlannedScale,
  PreservationChange,
  RolloutProgress,
  SetView,
} from '../../api/model/owner.ts';
import { surplusSets } from '../../api/owner/history.ts';
import { hasUpdates, planInPlace } from '../../api/owner/in-place.ts';
import { isToBeRecorded, ownerNeeds } from '../../api/owner/needs.ts';
import { desiredReplicas, excessOf, hasExcess } from '../../api/owner/replicas.ts';
import { replicasToAnnounce } from '../../api/owner/rolling.ts';
import {
  creationHeadroom,
  hasOwnerChanges,
  isRolloutSuspended,
  newSetOf,
  waitsForOldMachines,
} from '../../api/owner/set-counts.ts';

/** The most machines that one step creates. A reading has at most as many candidates for deletion. */
export const maxPerStep = 100;

/** A prefix and a unique suffix. */
export type NewName = (prefix: string) => string;

/**
 * Plans one step, as much as the bounds allow: sets and machines to create, scale and delete. Nothing waits for the
 * rest of a batch: as soon as one machine may be created or deleted, it is.
 * @param newName called for each machine that gets no pending name, with the name of its set, and for each creation
 * with other names than the pending one
 * @param isLate whether the progress deadline has passed, and there was no progress since
 */
export function planOwner(
  {
    view,
    candidates,
    pendingCreations,
    ownerChanges = [],
    machinesBehind,
    preservations,
    updates,
    health,
  }: OwnerSnapshot,
  newName: NewName,
  isLate = false,
): OwnerPlan {
  if (view.deleting) return planDeletion(view, candidates);
  if (view.problem !== undefined) return planForInvalidOwner(view, view.problem);
  const addFinalizers = ownerNeeds(view).includes('finalizer');
  if (view.adoptable) return { ...emptyPlan(view, new Map()), addFinalizers, adopt: view.adoptable };
  // Counts are wrong until each machine has its owner, and nothing is deleted before it is known what is marked.
  if (ownerChanges.length > 0) return { ...emptyPlan(view, new Map()), addFinalizers, ownerChanges };
  if (view.isMarking) return { ...emptyPlan(view, new Map()), addFinalizers, mark: true };

  if (view.rollsBack && !view.paused) return { ...emptyPlan(view, new Map()), rollback: 'asked' };

  const desired = withKept(view, desiredReplicas(view), preservations);
  const report = reportOf(view, isLate);
  const replace = planReplacements(view, health);
  const update = planInPlace(view, updates);
  const forget = surplusSets(view).map(({ name, uid, resourceVersion }) => ({ name, uid, resourceVersion }));
  return {
    ...emptyPlan(view, desired),
    addFinalizers,
    ...(isSetMissing(view) && { createSet: { ...newSetFor(view), replicas: desired.get('') ?? 0 } }),
    scale: planScale(view, desired, pendingCreations),
    create: withPredecessors(planCreation(view, desired, pendingCreations, newName), health?.unfilled),
    remove: planRemoval(view, candidates, preservations),
    ...(replace.length > 0 && { replace }),
    ...(preservations && preservations.length > 0 && { preserve: preservations }),
    ...(update && { update }),
    ...(isToBeRecorded(view) && completedSet(view)),
    ...(machinesBehind && machinesBehind.length > 0 && { settings: machinesBehind }),
    ...(forget.length > 0 && { forget }),
    releaseSets: view.sets.filter(isEmptied).map(({ name, uid }) => ({ name, uid })),
    ...(report !== undefined && { report }),
  };
}

/**
 * Failed machines that an old set begins to keep in this step stay in its number. Without them, a pause before the next
 * step would end with their deletion.
 */
function withKept(
  view: OwnerView,
  desired: Map<string, number>,
  preservations: readonly PreservationChange[] = [],
): ReadonlyMap<string, number> {
  if (isRolloutSuspended(view)) return desired;
  const oldSets = new Set(view.sets.filter(({ isNew, deleting }) => !isNew && !deleting).map(({ name }) => name));
  for (const { set, isKept } of preservations) {
    if (isKept && oldSets.has(set)) desired.set(set, (desired.get(set) ?? 0) + 1);
  }
  return desired;
}

function completedSet(view: OwnerView): Pick<OwnerPlan, 'completed'> {
  const { name, uid } = newSetOf(view) ?? {};
  return name === undefined || uid === undefined ? {} : { completed: { name, uid } };
}

/**
 * Reports that the progress deadline has passed, and does nothing else that could fail but to go back, where that is
 * wanted.
 * @param late text of the Event
 */
export function planLateReport(view: OwnerView, late: string): OwnerPlan {
  const plan = emptyPlan({ ...view, sets: [] }, new Map());
  return { ...plan, report: { progress: 'late', late }, ...(view.rollsBackWhenLate && { rollback: 'late' }) };
}

/** A plan that changes nothing, yet. */
function emptyPlan(view: OwnerView, desired: ReadonlyMap<string, number>): OwnerPlan {
  const sets = view.sets.map(({ name, uid, generation, replicas }) => ({
    name,
    uid,
    generation,
    replicas: desired.get(name) ?? replicas,
  }));
  const { generation } = view;
  return { generation, sets, addFinalizers: false, scale: [], create: [], remove: [], releaseSets: [], release: false };
}

/** Whether a plan changes nothing. */
export function isEmpty(plan: OwnerPlan): boolean {
  const { addFinalizers, createSet, scale, create, remove, replace = [], preserve = [], settings = [] } = plan;
  const { adopt = [], ownerChanges = [], mark, forget = [], releaseSets, release, report } = plan;
  const changes = [adopt, ownerChanges, scale, create, remove, replace, preserve, settings, forget, releaseSets];
  const isIdle =
    changes.every(({ length }) => length === 0) &&
    mark === undefined &&
    plan.update === undefined &&
    !plan.rollback &&
    !plan.completed;
  return isIdle && !addFinalizers && createSet === undefined && !release && report === undefined;
}

/**
 * Whether what a watcher sees is worth reading everything by quorum: there would be something to do, or nothing more to
 * wait for. Watchers signal only that, so a stale cache can cause an unnecessary reading or a delay, never a wrong
 * deletion: plans use readings.
 * @param isLate as for `planOwner`; a watcher that does not know it finds every view of a late rollout worth a step
 */
export function isWorthAStep(view: OwnerView, isLate = false): boolean {
  const plan = planOwner({ view, candidates: [], pendingCreations: [] }, (prefix) => prefix, isLate);
  const areBehind = view.sets.some(
    ({ machinesBehind = 0, preservations = 0, deleting }) => machinesBehind + preservations > 0 && !deleting,
  );
  const isAsked = (view.health?.asking ?? 0) > 0;
  const isChanging = hasExcess(view) || hasOwnerChanges(view) || areBehind || isAsked || hasUpdates(view);
  return isChanging || ownerNeeds(view).length === 0 || !isEmpty(plan);
}

function newSetFor({ template }: OwnerView) {
  return { name: template.setName, hash: template.hash };
}

function planScale(
  view: OwnerView,
  desired: ReadonlyMap<string, number>,
  pendingCreations: readonly PendingCreation[],
): PlannedScale[] {
  const announced = replicasToAnnounce(view);
  const isOff = (set: SetView) =>
    desired.get(set.name) !== set.replicas || set.outdated.includes('annotations') || set.isBehind === true;
  return view.sets
    .filter((set) => !set.deleting && isOff(set))
    .map(({ name, isNew, isBehind, hasOldAttempts }) => {
      const completed = pendingCreations.find(({ set, missing }) => set === name && missing.length === 0);
      return {
        set: name,
        replicas: desired.get(name) ?? 0,
        ...(isNew && announced !== view.replicas && { announcedReplicas: announced }),
        ...(completed !== undefined && { completed: completed.id }),
        ...(isBehind && { settings: true as const }),
        ...(hasOldAttempts && { forgetsAttempts: true as const }),
      };
    });
}

/** A set that somebody deleted, and that only our finalizer keeps. */
function isEmptied(set: SetView): boolean {
  return set.deleting && set.hasOurFinalizer && set.total === 0;
}

/**
 * Whether the set of the template has to be created now. One that is being deleted still has the name, so it counts.
 */
function isSetMissing(view: OwnerView): boolean {
  return !view.paused && !view.sets.some((set) => set.isNew) && !waitsForOldMachines(view);
}

/**
 * The missing names of a pending creation are used first: a step that was thought lost may still run; it then
 * creates the same names, so no additional machines.
 */
function planCreation(
  view: OwnerView,
  desired: ReadonlyMap<string, number>,
  pendingCreations: readonly PendingCreation[],
  newName: NewName,
): PlannedCreation[] {
  let headroom = Math.min(maxPerStep, creationHeadroom(view));
  const create: PlannedCreation[] = [];
  for (const set of view.sets) {
    const count = Math.min((desired.get(set.name) ?? 0) - set.active, headroom);
    if (count <= 0 || set.deleting || set.closed || !set.hasOurFinalizer || set.failedAttempts?.isPaused) continue;
    headroom -= count;
    const pending = pendingCreations.find((creation) => creation.set === set.name);
    const names = Array.from({ length: count }, (_, i) => pending?.missing[i] ?? newName(set.name));
    // The same machines are the same creation: a step that is refused again and again changes no set. That of a lost
    // run gets another id, so that a step which would have followed it, and may still do so, finds that it comes too
    // late.
    const isSame = pending?.isOwn === true && pending.names.join() === names.join();
    const id = isSame ? pending.id : newName('creation');
    create.push({ set: set.name, uid: set.uid, id, names, ...(pending && { continues: pending.id }) });
  }
  return create;
}

/**
 * The unhealthy machines whose replacement begins now: the longest unhealthy first, as many as may be replaced at once.
 */
function planReplacements({ health: seen }: OwnerView, health: OwnerSnapshot['health']): readonly Asking[] {
  if (health === undefined) return [];
  return health.asking.slice(0, Math.max(0, health.most - (seen?.replacing ?? 0)));
}

/** Each of the first new machines is made in place of an unhealthy one that has none yet. */
function withPredecessors(creations: readonly PlannedCreation[], unfilled: readonly string[] = []): PlannedCreation[] {
  const rest = [...unfilled];
  return creations.map((creation) => {
    const pairs = creation.names.flatMap((name) => {
      const predecessor = rest.shift();
      return predecessor === undefined ? [] : [[name, predecessor] as const];
    });
    return pairs.length === 0 ? creation : { ...creation, replaces: Object.fromEntries(pairs) };
  });
}

/**
 * All Failed and unneeded machines; besides those, the excess of each set in the order of the candidates. The Failed
 * ones of a set that is about to keep some of them wait for the next step.
 */
function planRemoval(
  view: OwnerView,
  candidates: readonly Candidate[],
  preservations: readonly PreservationChange[] = [],
): Candidate[] {
  const excess = excessOf(view);
  const keeping = new Set(preservations.filter(({ isKept }) => isKept).map(({ set }) => set));
  return candidates.filter(({ set, failed, unneeded }) => {
    if (failed) return !keeping.has(set);
    if (unneeded) return true;
    const over = excess.get(set) ?? 0;
    excess.set(set, over - 1);
    return over > 0;
  });
}

function planDeletion(view: OwnerView, candidates: readonly Candidate[]): OwnerPlan {
  const hasMachines = view.sets.some((set) => set.total > 0);
  const plan = emptyPlan(view, new Map());
  if (view.orphans) return plan;
  if (hasMachines) return { ...plan, remove: candidates };
  return { ...plan, release: ownerNeeds(view).length > 0 };
}

/** Reports what is wrong, and changes nothing else. */
function planForInvalidOwner(view: OwnerView, problem: string): OwnerPlan {
  return { ...emptyPlan(view, new Map()), ...(view.outdated.length > 0 && { report: { problem } }) };
}

/** What the owner's status should say and does not say yet. */
function reportOf(view: OwnerView, isLate: boolean): OwnerPlan['report'] {
  const progress = view.kind === 'MachineDeployment' ? progressOf(view, isLate) : undefined;
  const outdated = isMoving(view) ? [view] : [view, ...view.sets.filter((set) => !isReleased(set))];
  const isReported = progress === view.progress && outdated.every((object) => !object.outdated.includes('status'));
  return isReported ? undefined : { ...(progress !== undefined && { progress }) };
}

/** A deleted set that others still hold back: it is not ours any more. */
function isReleased(set: SetView): boolean {
  return set.deleting && !set.hasOurFinalizer;
}

/** Whether sets change so often that their generations are recorded only at the end. */
function isMoving(view: OwnerView): boolean {
  return !isRolloutSuspended(view) && view.sets.some((set) => !set.isNew && set.total > 0);
}

/** What the condition Progressing should say. Once complete it stays so until machines are replaced again. */
function progressOf(view: OwnerView, isLate: boolean): RolloutProgress | undefined {
  const { sets, replicas, progress, paused } = view;
  if (paused) return progress === 'late' ? progress : 'paused';
  if (progress === 'paused') return 'resumed';
  if (isSetMissing(view)) return 'created';
  const newSet = newSetOf(view);
  const isAlone = newSet !== undefined && sets.every((set) => set === newSet || set.total === 0);
  if (isAlone && progress === 'complete') return progress;
  if (isAlone && newSet.total === replicas && newSet.available >= replicas) return 'complete';
  if (isLate) return 'late';
  const isFirst = progress === undefined || progress === 'complete';
  if (isFirst && newSet !== undefined) return 'found';
  return progress !== 'late' && newSet?.total === 0 ? progress : 'updated';
}
