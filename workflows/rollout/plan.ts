/** What an owner of machines does next: a pure decision over what was observed, the same in tests and in replay. */
import { ownerNeeds, rolloutComplete, rolloutLate, rolloutPaused } from '../../api/attention.ts';
import type { Candidate, OwnerPlan, OwnerSnapshot, OwnerView, SetView } from '../../api/model/owner.ts';
import {
  creationHeadroom,
  desiredReplicas,
  excessOf,
  isRolloutSuspended,
  replicasToAnnounce,
  waitsForOldMachines,
} from '../../api/owner/replicas.ts';

/** Machines that one step creates or deletes at most. */
export const maxPerStep = 100;

/**
 * Plans one step, as much as the bounds allow: sets and machines to make, scale and delete. Nothing waits for the rest of
 * a batch: as soon as one machine may come or go, it does.
 * @param newName makes a machine name for a set; it is asked once for each machine
 * @param isLate whether the progress deadline has passed, and there was no progress since
 */
export function planOwner(
  { view, candidates, pendingCreations }: OwnerSnapshot,
  newName: (set: string) => string,
  isLate = false,
): OwnerPlan {
  if (view.deleting) return planDeletion(view, candidates);
  if (view.problem !== undefined) return planRefusal(view, view.problem);

  const desired = desiredReplicas(view);
  const needs = ownerNeeds(view);
  // A set of this template that somebody deleted still has the name, and machines that count.
  const isMissing = isWithoutSet(view);
  const scale = view.sets
    .filter((set) => !set.deleting && (desired.get(set.name) !== set.replicas || !set.annotated))
    .map((set) => ({
      set: set.name,
      replicas: desired.get(set.name) ?? 0,
      ...(set.current && toldIn(view)),
      ...finishedIn(set, pendingCreations),
    }));
  const report = reportOf(view, isLate);
  return {
    ...nothingFor(view, desired),
    addFinalizers: needs.includes('finalizer'),
    ...(isMissing && { createSet: { ...newSet(view), replicas: desired.get('') ?? 0 } }),
    scale,
    create: planCreation(view, desired, pendingCreations, newName),
    remove: planRemoval(view, candidates),
    releaseSets: view.sets.filter(isEmptied).map(({ name, uid }) => ({ name, uid })),
    ...(report !== undefined && { report }),
  };
}

/** Says that the progress deadline has passed, and does nothing else that could fail. @param late what people are told */
export function planLateReport(view: OwnerView, late: string): OwnerPlan {
  return { ...nothingFor({ ...view, sets: [] }, new Map()), report: { progress: rolloutLate, late } };
}

/** A plan that changes nothing, yet. */
function nothingFor(view: OwnerView, desired: ReadonlyMap<string, number>): OwnerPlan {
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
  const { addFinalizers, createSet, scale, create, remove, releaseSets, release, report } = plan;
  const isIdle = scale.length + create.length + remove.length + releaseSets.length === 0;
  return isIdle && !addFinalizers && createSet === undefined && !release && report === undefined;
}

function newSet({ template }: OwnerView) {
  return { name: template.setName, hash: template.hash };
}

function toldIn(view: OwnerView) {
  const told = replicasToAnnounce(view);
  return told === view.replicas ? {} : { told };
}

/** A creation of which no machine can be on its way any more. */
function finishedIn({ name }: SetView, pendingCreations: OwnerSnapshot['pendingCreations']) {
  const finished = pendingCreations.find(({ set, left }) => set === name && left.length === 0)?.text;
  return finished === undefined ? {} : { finished };
}

/** A set that somebody deleted, and that only our finalizer keeps. */
function isEmptied(set: SetView): boolean {
  return set.deleting && set.managed && set.total === 0;
}

/** Whether the set of the template is to be made now. */
function isWithoutSet(view: OwnerView): boolean {
  return !view.paused && !view.sets.some((set) => set.current) && !waitsForOldMachines(view);
}

/**
 * The names of a creation that was begun are taken first: whoever has begun it, and may not have heard yet that nobody
 * waits for it any more, then makes the same machines and none beside them.
 */
function planCreation(
  view: OwnerView,
  desired: ReadonlyMap<string, number>,
  pendingCreations: OwnerSnapshot['pendingCreations'],
  newName: (set: string) => string,
) {
  let left = Math.min(maxPerStep, creationHeadroom(view));
  const create: OwnerPlan['create'][number][] = [];
  for (const set of view.sets) {
    const missing = Math.min((desired.get(set.name) ?? 0) - set.active, left);
    if (missing <= 0 || set.deleting || set.closed || !set.managed) continue;
    left -= missing;
    const before = pendingCreations.find((creation) => creation.set === set.name);
    const names = Array.from({ length: missing }, (_, i) => before?.left[i] ?? newName(set.name));
    create.push({ set: set.name, uid: set.uid, names, ...(before !== undefined && { after: before.text }) });
  }
  return create;
}

/** All Failed machines; beyond those, of each set the surplus in the order of the candidates. */
function planRemoval(view: OwnerView, candidates: readonly Candidate[]) {
  const surplus = excessOf(view);
  return candidates.filter(({ set, failed }) => {
    if (failed) return true;
    const over = surplus.get(set) ?? 0;
    surplus.set(set, over - 1);
    return over > 0;
  });
}

function planDeletion(view: OwnerView, candidates: readonly Candidate[]): OwnerPlan {
  const hasMachines = view.sets.some((set) => set.total > 0);
  const plan = nothingFor(view, new Map());
  if (view.orphans) return plan;
  if (hasMachines) return { ...plan, remove: candidates };
  return { ...plan, release: ownerNeeds(view).length > 0 };
}

/** Says what is wrong, and touches nothing. */
function planRefusal(view: OwnerView, problem: string): OwnerPlan {
  return { ...nothingFor(view, new Map()), ...(!view.observed && { report: { problem } }) };
}

/** What the owner's status has to say and does not say yet. */
function reportOf(view: OwnerView, isLate: boolean): OwnerPlan['report'] {
  const progress = view.kind === 'MachineDeployment' ? progressOf(view, isLate) : undefined;
  // A set without our finalizer that is deleted is not ours any more: nothing else is done for it either.
  const isNoted = isMoving(view) || view.sets.every((set) => set.observed || (set.deleting && !set.managed));
  const isTold = progress === view.progress && view.observed && isNoted;
  return isTold ? undefined : { ...(progress !== undefined && { progress }) };
}

/** Whether sets change so often that their generations are taken note of at the end alone. */
function isMoving(view: OwnerView): boolean {
  return !isRolloutSuspended(view) && view.sets.some((set) => !set.current && set.total > 0);
}

/**
 * Reason that the condition Progressing should have, as machine-controller-manager gives it: once complete it stays so
 * until machines make way again.
 */
function progressOf(view: OwnerView, isLate: boolean): string | undefined {
  const { sets, replicas, progress, paused } = view;
  if (paused) return progress === rolloutLate ? progress : rolloutPaused;
  if (progress === rolloutPaused) return 'DeploymentResumed';
  if (isWithoutSet(view)) return 'NewMachineSetCreated';
  const current = sets.find((set) => set.current && !set.deleting);
  const isAlone = current !== undefined && sets.every((set) => set === current || set.total === 0);
  if (isAlone && progress === rolloutComplete) return progress;
  if (isAlone && current.total === replicas && current.available >= replicas) return rolloutComplete;
  if (isLate) return rolloutLate;
  const isNew = progress === undefined || progress === rolloutComplete;
  if (isNew && current !== undefined) return 'FoundNewMachineSet';
  return progress !== rolloutLate && current?.total === 0 ? progress : 'MachineSetUpdated';
}
