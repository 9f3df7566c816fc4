/** What the counts of an owner's sets say: pure, and the vocabulary of the rules in rolling.ts and suspended.ts. */
import type { OwnerView, SetView } from '../model/owner.ts';

export function sumOf(sets: readonly SetView[], count: (set: SetView) => number): number {
  return sets.reduce((sum, set) => sum + count(set), 0);
}

/** Whether an owner has sets to adopt, or its sets have machines to adopt or to release. */
export function hasOwnerChanges({ sets, adoptable }: OwnerView): boolean {
  return adoptable !== undefined || sets.some(({ ownerChanges = 0 }) => ownerChanges > 0);
}

/** The set of the current template, unless it is being deleted. */
export function newSetOf({ sets }: OwnerView): SetView | undefined {
  return sets.find((set) => set.isNew && !set.deleting);
}

/** Sets that lack machines, and in which none may be created as they or their deployment are frozen. */
export function frozenSets({ sets, deleting }: OwnerView): readonly SetView[] {
  return deleting ? [] : sets.filter((set) => set.closed && !set.deleting && set.active < set.replicas);
}

/** Whether a set of an older template, or one that is being deleted, has machines. */
export function hasOldMachines({ sets }: OwnerView): boolean {
  return sets.some((set) => (!set.isNew || set.deleting) && set.total > 0);
}

/** Whether machines of old sets stay as they are. */
export function isRolloutSuspended({ paused }: OwnerView): boolean {
  return paused;
}

/** Whether the new set may have no machine before all machines of old sets are gone. */
export function waitsForOldMachines(view: OwnerView): boolean {
  return view.strategy === 'Recreate' && !isRolloutSuspended(view) && hasOldMachines(view);
}

/**
 * Machines that may be created at once. As for machine-controller-manager and a ReplicaSet, one that is being deleted
 * does not count. A preserved machine of an old set does not either: the rollout goes on without it.
 */
export function creationHeadroom(view: OwnerView): number {
  return view.replicas + view.maxSurge - sumOf(view.sets, (set) => countBounded(view, set));
}

/**
 * Machines of a set that count against replicas + maxSurge. Where those that are being deleted do, because they hold
 * quota and addresses until they are gone, Failed ones that are being replaced do not: a replacement never waits.
 */
export function countBounded(view: OwnerView, set: SetView): number {
  const { countsLeaving } = view;
  const isRolling = hasOldMachines(view) && !isRolloutSuspended(view);
  const counts = countsLeaving === 'always' || (countsLeaving === 'inRollouts' && isRolling);
  return (counts ? set.total - set.replacing : set.active) - countSetAside(set);
}

/**
 * Machines of an old set that are preserved and not available: a rollout goes on without them, and deletes them last.
 */
export function countSetAside({ isNew, setAside = 0 }: SetView): number {
  return isNew ? 0 : setAside;
}

/**
 * Machines that have to stay available while others are deleted. All replicas do while the new set does not exist yet.
 */
export function minAvailable({ strategy, replicas, maxUnavailable }: OwnerView, newSet: SetView | undefined): number {
  if (strategy === 'Recreate') return 0;
  return newSet === undefined ? replicas : replicas - maxUnavailable;
}

/**
 * Active machines that are deleted whatever else happens: Failed ones, and those that the autoscaler has scaled down.
 */
export function countDoomed({ failed, unneeded = 0 }: SetView): number {
  return failed + unneeded;
}

/** Active machines without those. */
export function countKept(set: SetView): number {
  return set.active - countDoomed(set);
}

/**
 * Takes the preserved machines of old sets when no other one of these stays and the new set has all of its own, which
 * for Recreate are not made before.
 * @param desired replicas of the sets by name
 */
export function takeSetAside(view: OwnerView, desired: Map<string, number>, oldSets: readonly SetView[]): void {
  const isLast = oldSets.every((set) => desired.get(set.name) === countSetAside(set));
  const isFull = view.strategy === 'Recreate' || (newSetOf(view)?.active ?? 0) >= view.replicas;
  if (isLast && isFull) for (const { name } of oldSets) desired.set(name, 0);
}

/** Available machines that take pods: not those whose in-place update is next or under way. */
export function countWorking({ available, updates }: SetView): number {
  const { selectedAvailable = 0, returning = 0 } = updates ?? {};
  return available - selectedAvailable - returning;
}

/** Working machines of a set that are preserved: they go after the others of all old sets. */
export function countWorkingPreserved({ preservedAvailable = 0 }: SetView): number {
  return preservedAvailable;
}

/** Working machines of a set that are not preserved. */
export function countWorkingOthers(set: SetView): number {
  return countWorking(set) - countWorkingPreserved(set);
}

/** Machines that were available and may be again: an Unknown machine returns when its network does. */
export function countUnavailable(set: SetView): number {
  return countKept(set) - set.starting - countWorking(set) - countSetAside(set);
}

/** Available machines without a mark: whoever marks a machine has made sure that nobody needs it. */
export function countNeeded({ available, unmarked = available }: SetView): number {
  return unmarked;
}
