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
 * Machines that may be created at once. A machine that is being deleted still holds quota, addresses and its name, so it
 * counts until it is gone. A Failed machine that is being replaced does not: its replacement need not wait.
 */
export function creationHeadroom({ sets, replicas, maxSurge }: OwnerView): number {
  return replicas + maxSurge - sumOf(sets, (set) => set.total - set.replacing);
}

/** Machines that have to stay available while others are deleted. All replicas do while the new set does not exist yet. */
export function minAvailable({ strategy, replicas, maxUnavailable }: OwnerView, newSet: SetView | undefined): number {
  if (strategy === 'Recreate') return 0;
  return newSet === undefined ? replicas : replicas - maxUnavailable;
}

/** Active machines that are deleted whatever else happens: Failed ones, and those that the autoscaler has scaled down. */
export function countDoomed({ failed, unneeded = 0 }: SetView): number {
  return failed + unneeded;
}

/** Active machines without those. */
export function countKept(set: SetView): number {
  return set.active - countDoomed(set);
}

/** Machines that were available and may be again: an Unknown machine returns when its network does. */
export function countUnavailable(set: SetView): number {
  return countKept(set) - set.starting - set.available;
}

/** Available machines without a mark: whoever marks a machine has made sure that nobody needs it. */
export function countNeeded({ available, unmarked = available }: SetView): number {
  return unmarked;
}
