/**
 * How many machines each set of an owner should have, and so how many are to go: pure. The workflow plans with it, and
 * the activity that reads picks the machines. Plain code: workflow code imports this file.
 */
import type { OwnerView, SetView } from '../model/owner.ts';

/**
 * spec.replicas that each set should have now, by name; under '' that of a set which does not exist yet. One that is being
 * deleted should have none, and is not in it. While machines of older templates make way it is what the bounds allow at
 * this moment: whoever acts upon it at any time stays within them.
 */
export function desiredReplicas(view: OwnerView): Map<string, number> {
  const sets = view.sets.filter((set) => !set.deleting);
  return isRolloutSuspended(view) ? heldReplicas(view, sets) : rolledReplicas(view, sets);
}

/** Whether machines of older templates stay: while paused, and where they are updated in place. */
export function isRolloutSuspended({ paused, strategy }: OwnerView): boolean {
  return paused || strategy === 'InPlaceUpdate';
}

/** Whether the set of the template has to wait until all machines of others are gone. */
export function waitsForOldMachines(view: OwnerView): boolean {
  return view.strategy === 'Recreate' && !isRolloutSuspended(view) && hasOldMachines(view);
}

/**
 * Machines that may be created at once. Those on their way out still hold quota, addresses and names: they count until
 * they are gone. Only a Failed one that is being replaced does not make its replacement wait.
 */
export function creationHeadroom({ sets, replicas, maxSurge }: OwnerView): number {
  return replicas + maxSurge - sumOf(sets, (set) => set.total - set.replacing);
}

/**
 * Machines of each set that are to go beside the Failed ones, by name. Of an owner that is being deleted all of them. A set
 * whose machines stay although it or its owner is deleted, the Failed ones, too, is not in it.
 */
export function excessOf(view: OwnerView): Map<string, number> {
  const desired = view.deleting ? new Map<string, number>() : desiredReplicas(view);
  const giving = view.orphans ? [] : view.sets.filter((set) => !set.orphans);
  const isRolling = hasOldMachines(view) && !isRolloutSuspended(view);
  const surplus = (set: SetView) => {
    const over = set.active - (desired.get(set.name) ?? 0);
    // Fewer replicas take what is marked for them: a Failed machine, which goes by itself, takes the place of none.
    return Math.max(over - set.failed, isRolling ? 0 : Math.min(set.marked ?? 0, over));
  };
  return new Map(giving.map((set) => [set.name, surplus(set)]));
}

/** Whether machines are to go. */
export function hasExcess(view: OwnerView): boolean {
  if (view.problem !== undefined && !view.deleting) return false;
  const surplus = excessOf(view);
  return view.sets.some(({ name, failed }) => (surplus.get(name) ?? 0) > 0 || (failed > 0 && surplus.has(name)));
}

/** Active machines but for the Failed ones that go whatever else happens. */
function countKept({ active, failed }: SetView): number {
  return active - failed;
}

/**
 * Replicas that the present set is told its deployment asks for. In the middle of a rollout more, by as many as fewer
 * replicas have asked for and this step cannot take: so whoever goes on knows that a mark still has to be obeyed.
 */
export function replicasToAnnounce(view: OwnerView): number {
  const current = view.sets.find((set) => set.current);
  if (current === undefined || isRolloutSuspended(view)) return view.replicas;
  const taken = countKept(current) - (desiredReplicas(view).get(current.name) ?? 0);
  return view.replicas + Math.max(0, markedForScaleDown(view, current) - Math.max(0, taken));
}

/**
 * Machines of the present set that the autoscaler or a person has marked, and that fewer replicas take in the middle of a
 * rollout. Only as many as the replicas have become fewer: a mark alone takes none.
 */
function markedForScaleDown(view: OwnerView, current: SetView): number {
  if (!hasOldMachines(view)) return 0;
  const lowered = (current.told ?? view.replicas) - view.replicas;
  // What a step before this one has asked for, and may not have deleted.
  const pendingCreations = Math.max(0, countKept(current) - current.replicas);
  return Math.max(0, Math.min(current.marked ?? 0, lowered + pendingCreations));
}

/** Machines that were available and may be again: what is Unknown now comes back when its network does. */
function unavailableOf(set: SetView): number {
  return countKept(set) - set.starting - set.available;
}

/** Available machines but for those that somebody has marked: whoever marks one has seen to it that nobody needs it. */
function neededOf({ available, unmarked = available }: SetView): number {
  return unmarked;
}

export function sumOf(sets: readonly SetView[], count: (set: SetView) => number): number {
  return sets.reduce((sum, set) => sum + count(set), 0);
}

/** Whether there are machines of sets that are not the present one, or of one that is being deleted. */
export function hasOldMachines({ sets }: OwnerView): boolean {
  return sets.some((set) => (!set.current || set.deleting) && set.total > 0);
}

/**
 * Older sets give what the bounds allow: what never was available; then, oldest set first, what is not available now, as
 * long as enough is left that is or may be again; then what is more than has to be available. They get nothing. The
 * present set gets what there is room for, but where fewer replicas take machines of it that somebody has marked.
 */
function rolledReplicas(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const current = sets.find((set) => set.current);
  const old = sets.filter((set) => set !== current);
  const present = current === undefined ? 0 : countKept(current);
  const most = sumOf(sets, (set) => set.available) - minAvailable(view, current);
  const wished = current === undefined ? 0 : Math.max(0, Math.min(markedForScaleDown(view, current), most));
  const leaving = Math.max(0, present - view.replicas, wished);
  // At worst all that goes from the present set is available.
  const spare = most - Math.min(leaving, current?.available ?? 0);

  const left = new Map(old.map((set) => [set.name, countKept(set) - set.starting]));
  take(left, old, spare + sumOf(old, unavailableOf), unavailableOf);
  take(left, old, spare, (set) => set.available);
  const grown = grownReplicas(view, current);
  return left.set(current?.name ?? '', wished > 0 ? Math.min(grown, present - wished) : grown);
}

/** Machines that have to stay available while others make way. Nothing is given away for a set that does not exist yet. */
export function minAvailable({ strategy, replicas, maxUnavailable }: OwnerView, current: SetView | undefined): number {
  if (strategy === 'Recreate') return 0;
  return current === undefined ? replicas : replicas - maxUnavailable;
}

function grownReplicas(view: OwnerView, current: SetView | undefined): number {
  const active = current?.active ?? 0;
  if (!hasOldMachines(view)) return view.replicas;
  const room = waitsForOldMachines(view) ? 0 : Math.max(0, creationHeadroom(view));
  return Math.min(view.replicas, active + room);
}

/** Takes at most `count` from the sets in their order, of each at most what it may give. */
function take(
  from: Map<string, number>,
  sets: readonly SetView[],
  count: number,
  mayGive: (set: SetView) => number,
): void {
  let wanted = Math.max(0, count);
  for (const set of sets) {
    const given = Math.min(wanted, mayGive(set));
    from.set(set.name, (from.get(set.name) ?? 0) - given);
    wanted -= given;
  }
}

/**
 * Sets keep what they have, and give what they are told to only as far as enough stays available beside what is marked: a
 * step that was about to delete machines may have been lost, or have ended with the pause, and others are available now.
 */
function heldReplicas(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const desired = targetReplicasWhileSuspended(view, sets);
  let spare = Math.max(0, sumOf(sets, neededOf) - (view.replicas - view.maxUnavailable));
  for (const set of sets) {
    const unneeded = countKept(set) - neededOf(set);
    const over = countKept(set) - (desired.get(set.name) ?? 0);
    const given = Math.min(over, unneeded + spare);
    if (given < over) desired.set(set.name, countKept(set) - given);
    spare -= Math.max(0, given - unneeded);
  }
  return desired;
}

/**
 * What sets are told to have. As machine-controller-manager scales what does not roll: a set that is alone follows the
 * replicas; of several the present one, or else the newest, gets what is missing, and all give in proportion to their
 * size. A surge that was there before stays until the replicas are changed.
 */
function targetReplicasWhileSuspended(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const { replicas, maxSurge } = view;
  const desired = new Map(sets.map((set) => [set.name, set.replicas]));
  const active = sets.filter((set) => set.replicas > 0);
  const total = sumOf(active, (set) => set.replicas);
  const isSurge = active.length > 1 && total <= replicas + maxSurge && active.every((set) => set.annotated);
  if (total < replicas) {
    const growing = growingSet(sets, active);
    return desired.set(growing?.name ?? '', (growing?.replicas ?? 0) + replicas - total);
  }
  if (!isSurge) shrink(view, desired, active, total);
  return desired;
}

function growingSet(sets: readonly SetView[], active: readonly SetView[]): SetView | undefined {
  if (active.length === 1) return active[0];
  return sets.find((set) => set.current) ?? active.at(-1) ?? sets.at(-1);
}

/** Brings the sets down to the replicas: what is marked, then the largest first, as far as enough others stay available. */
function shrink(view: OwnerView, desired: Map<string, number>, active: readonly SetView[], total: number): void {
  const bySize = active.toSorted((a, b) => b.replicas - a.replicas);
  const needed = sumOf(active, (set) => Math.min(neededOf(set), set.replicas));
  let spare = Math.max(0, needed - (view.replicas - view.maxUnavailable));
  let wanted = total - view.replicas;
  const give = (set: SetView, most: number) => {
    const present = desired.get(set.name) ?? 0;
    const unneeded = Math.max(0, present - neededOf(set));
    const given = Math.min(wanted, most, present, unneeded + spare);
    desired.set(set.name, present - given);
    wanted -= given;
    spare -= Math.max(0, given - unneeded);
  };
  for (const set of bySize) give(set, set.marked ?? 0);
  for (const set of bySize) give(set, set.replicas - Math.round((set.replicas * view.replicas) / total));
  for (const set of bySize) give(set, wanted);
}
