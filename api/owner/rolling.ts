/**
 * Replicas of the sets of a deployment while its template rolls out (RollingUpdate and Recreate): pure.
 *
 * Example: 3 replicas, maxSurge 1, maxUnavailable 0. Every line is what one step sees and asks for; `x/y`: the set
 * has x machines, and y of them are available.
 *
 * | old set | new set | old wanted | new wanted | because |
 * |---|---|---|---|---|
 * | 3/3 | none | 3 | 1 | 4 machines may exist, and 3 have to be available |
 * | 3/3 | 1/0 | 3 | 1 | the new machine is not available yet |
 * | 3/3 | 1/1 | 2 | 1 | 4 are available, 3 have to be: one old machine may go |
 * | 2/2, 1 being deleted | 1/1 | 2 | 2 | what is being deleted does not count: there is room for one more |
 * | 2/2 | 2/1 | 2 | 2 | the second new machine is not available yet |
 * | 1/1 | 3/3 | 0 | 3 | all new machines are available |
 *
 * Recreate asks for 0 old machines at once, and for new ones when no old machine is left.
 */
import type { OwnerView, SetView } from '../model/owner.ts';
import {
  countKept,
  countUnavailable,
  countWorking,
  countWorkingOthers,
  countWorkingPreserved,
  creationHeadroom,
  hasOldMachines,
  isRolloutSuspended,
  minAvailable,
  sumOf,
  takeSetAside,
  waitsForOldMachines,
} from './set-counts.ts';

/**
 * Old sets never grow. They lose, oldest set first: 1. machines that never were available; 2. unavailable machines, as
 * long as the minimum stays reachable; 3. available machines above the minimum, of all sets those that are not
 * preserved before those that are; 4. preserved machines that are not available, when no other is left. The new set
 * gets what there is room for, or loses machines that are marked for a scale-down.
 * @param sets those of the view that are not being deleted
 */
export function rollingReplicas(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const newSet = sets.find((set) => set.isNew);
  const oldSets = sets.filter((set) => set !== newSet);
  const kept = newSet === undefined ? 0 : countKept(newSet);
  const aboveMinimum = sumOf(sets, countWorking) - minAvailable(view, newSet);
  const marked = newSet === undefined ? 0 : Math.max(0, Math.min(markedForScaleDown(view, newSet), aboveMinimum));
  const toLose = Math.max(0, kept - view.replicas, marked);
  // At worst all machines that the new set loses are available.
  const spare = aboveMinimum - Math.min(toLose, newSet ? countWorking(newSet) : 0);

  const desired = new Map(oldSets.map((set) => [set.name, countKept(set) - set.starting]));
  take(desired, oldSets, spare + sumOf(oldSets, countUnavailable), countUnavailable);
  const rest = take(desired, oldSets, spare, countWorkingOthers);
  take(desired, oldSets, rest, countWorkingPreserved);
  takeSetAside(view, desired, oldSets);
  const grown = grownReplicas(view, newSet);
  return desired.set(newSet?.name ?? '', marked > 0 ? Math.min(grown, kept - marked) : grown);
}

function grownReplicas(view: OwnerView, newSet: SetView | undefined): number {
  if (!hasOldMachines(view)) return view.replicas;
  const room = waitsForOldMachines(view) ? 0 : Math.max(0, creationHeadroom(view));
  return Math.min(view.replicas, (newSet?.active ?? 0) + room);
}

/**
 * Takes `count` machines from the sets in their order, at most `mostOf(set)` of each. Returns how many it found too
 * few.
 */
function take(
  desired: Map<string, number>,
  sets: readonly SetView[],
  count: number,
  mostOf: (set: SetView) => number,
): number {
  let rest = Math.max(0, count);
  for (const set of sets) {
    const taken = Math.min(rest, mostOf(set));
    desired.set(set.name, (desired.get(set.name) ?? 0) - taken);
    rest -= taken;
  }
  return rest;
}

/**
 * Value of the annotation desired-replicas of the new set. During a rollout it stays higher than spec.replicas by the
 * number of marked machines that a scale-down asked for and that this step cannot delete yet.
 */
export function replicasToAnnounce(view: OwnerView): number {
  const newSet = view.sets.find((set) => set.isNew);
  if (newSet === undefined || isRolloutSuspended(view)) return view.replicas;
  const sets = view.sets.filter((set) => !set.deleting);
  const taken = countKept(newSet) - (rollingReplicas(view, sets).get(newSet.name) ?? 0);
  return view.replicas + Math.max(0, markedForScaleDown(view, newSet) - Math.max(0, taken));
}

/**
 * Marked machines of the new set that a scale-down deletes during a rollout: only as many as the replicas have become
 * fewer. A mark alone deletes no machine.
 */
function markedForScaleDown(view: OwnerView, newSet: SetView): number {
  if (!hasOldMachines(view)) return 0;
  const lowered = (newSet.announcedReplicas ?? view.replicas) - view.replicas;
  // What an earlier step has asked for, and may not have deleted.
  const pending = Math.max(0, countKept(newSet) - newSet.replicas);
  return Math.max(0, Math.min(newSet.marked ?? 0, lowered + pending));
}
