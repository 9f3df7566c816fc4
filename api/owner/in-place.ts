/**
 * Machines of a deployment that are updated in place: how many each set has, whose turn it is, and who is handed over
 * to the set of the current template. Pure. Plain code: workflow code imports this file.
 *
 * Example: 3 replicas, maxSurge 0, maxUnavailable 1, Auto. Every line is what one step sees and does; `x/y`: the set
 * has x machines, and y of them are available.
 *
 * | old set | new set | does | because |
 * |---|---|---|---|
 * | 3/3 | 0/0 | selects one | 3 are available, 2 have to be |
 * | 3/2, one is selected and drained | 0/0 | nothing | 2 have to stay available |
 * | 3/2, its agent has succeeded | 0/0 | hands it over | its VM stays, and it belongs to the new set |
 * | 2/2 | 1/1 | selects another one | 3 are available again |
 */
import type { InPlacePlan, InPlaceReading, OwnerView, SetView } from '../model/owner.ts';
import {
  countKept,
  countSetAside,
  countWorking,
  countWorkingPreserved,
  creationHeadroom,
  hasOldMachines,
  minAvailable,
  newSetOf,
  sumOf,
  takeSetAside,
} from './set-counts.ts';

/**
 * Old sets never grow: what is missing comes as a machine of the new set. They lose what the new set has too much of
 * altogether, as far as enough stay available, and all when the new set has its replicas. Preserved machines of all old
 * sets go last.
 * @param sets those of the view that are not being deleted
 */
export function inPlaceReplicas(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const newSet = sets.find((set) => set.isNew);
  const oldSets = sets.filter((set) => set !== newSet);
  const kept = newSet === undefined ? 0 : countKept(newSet);
  const room = Math.max(0, creationHeadroom(view));
  const desired = new Map(oldSets.map((set) => [set.name, countKept(set)]));
  const most = kept >= view.replicas ? 0 : Math.max(0, view.replicas + view.maxSurge - kept);
  let rest = Math.max(0, sumOf(oldSets, countOld) - most);
  let spare = Math.max(0, spareOf(view, sets));
  const take = (set: SetView, most: number, idle: number) => {
    const taken = Math.min(rest, most, idle + spare);
    desired.set(set.name, (desired.get(set.name) ?? 0) - taken);
    rest -= taken;
    spare -= Math.max(0, taken - idle);
  };
  for (const set of oldSets) take(set, countOld(set) - countWorkingPreserved(set), countOld(set) - countWorking(set));
  for (const set of oldSets) take(set, countWorkingPreserved(set), 0);
  takeSetAside(view, desired, oldSets);
  const grown = hasOldMachines(view) ? Math.min(view.replicas, kept + room) : view.replicas;
  return desired.set(newSet?.name ?? '', grown);
}

/** Machines of an old set that a scale-down may take. */
function countOld(set: SetView): number {
  return countKept(set) - countSetAside(set);
}

/** Working machines above the minimum. At worst all machines that the new set has too many of are working. */
function spareOf(view: OwnerView, sets: readonly SetView[]): number {
  const newSet = sets.find((set) => set.isNew);
  const surplus = newSet === undefined ? 0 : Math.max(0, countKept(newSet) - view.replicas);
  const lost = newSet === undefined ? 0 : Math.min(surplus, countWorking(newSet));
  return sumOf(sets, countWorking) - lost - minAvailable(view, newSet);
}

/**
 * How many more machines may be updated at once. Those whose turn it is count as unavailable from the moment on that
 * they are selected until their Nodes take pods again, and also when their update has failed: whoever repairs them
 * decides how it goes on. What the same step deletes is not available any more either.
 */
export function selectionRoom(view: OwnerView): number {
  const { replicas, selectsManually, paused, strategy } = view;
  const newSet = newSetOf(view);
  if (strategy !== 'InPlace' || selectsManually || paused || newSet === undefined) return 0;
  const sets = view.sets.filter((set) => !set.deleting);
  const desired = inPlaceReplicas(view, sets);
  const deleted = sumOf(sets, (set) => {
    const taken = set === newSet ? 0 : countKept(set) - (desired.get(set.name) ?? 0);
    return Math.max(0, taken - (countKept(set) - countWorking(set)));
  });
  const selected = sumOf(view.sets, ({ updates }) => updates?.selected ?? 0);
  const missing = replicas - countKept(newSet) - selected;
  return Math.max(0, Math.min(spareOf(view, sets) - deleted, missing));
}

/** What a step does for in-place updates; undefined: nothing. */
export function planInPlace(view: OwnerView, reading: InPlaceReading | undefined): InPlacePlan | undefined {
  if (reading === undefined || view.paused) return undefined;
  const { candidates, selectable, updated, released } = reading;
  const newSet = newSetOf(view);
  const plan = {
    mark: candidates,
    select: selectable.slice(0, selectionRoom(view)),
    handOver: newSet?.hasOurFinalizer === true ? updated : [],
    release: released,
  };
  const isIdle = Object.values(plan).every(({ length }) => length === 0);
  return isIdle ? undefined : { ...plan, ...(newSet && { newSet: { name: newSet.name, uid: newSet.uid } }) };
}

/** Whether a reading would find something to do. */
export function hasUpdates(view: OwnerView): boolean {
  if (view.paused) return false;
  const count = sumOf(view.sets, ({ updates }) => {
    const { unmarked = 0, updated = 0, unreleased = 0 } = updates ?? {};
    return unmarked + updated + unreleased;
  });
  const isSelectable = view.sets.some(({ updates }) => (updates?.selectable ?? 0) > 0);
  return count > 0 || (isSelectable && selectionRoom(view) > 0);
}
