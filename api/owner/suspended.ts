/**
 * Replicas of the sets of a deployment that is paused: it scales and does not roll.
 * Kubernetes calls this proportional scaling. Pure.
 *
 * Example: an old set of 6 and a new set of 2, all available, maxSurge 0, maxUnavailable 1.
 *
 * | spec.replicas | old wanted | new wanted | because |
 * |---|---|---|---|
 * | 8 | 6 | 2 | the sum is right |
 * | 10 | 6 | 4 | the new set gets what is missing |
 * | 4 | 3 | 1 | both lose in proportion to their size |
 * | 7, one new machine marked | 6 | 1 | a marked machine goes first |
 * | 7, one new machine missing | 6 | 1 | none goes so that another one is made |
 */
import type { OwnerView, SetView } from '../model/owner.ts';
import { countKept, countNeeded, countWorking, countWorkingPreserved, sumOf } from './set-counts.ts';

/**
 * Sets keep what they have, and lose machines only as far as enough others stay available that are not marked: a step
 * that was about to delete machines may have been lost, or have ended with the pause, and others are available now.
 * @param sets those of the view that are not being deleted
 */
export function suspendedReplicas(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const desired = targetReplicas(view, sets);
  const excess = new Map(sets.map((set) => [set.name, countKept(set) - (desired.get(set.name) ?? 0)]));
  let spare = Math.max(0, sumOf(sets, countSure) - (view.replicas - view.maxUnavailable));
  for (const { set, size, needed } of [...othersOf(sets, countKept), ...preservedOf(sets, countKept)]) {
    const over = Math.max(0, excess.get(set.name) ?? 0);
    const taken = Math.min(over, size, size - needed + spare);
    excess.set(set.name, over - taken);
    spare -= Math.max(0, taken - (size - needed));
  }
  for (const [name, left] of excess) if (left > 0) desired.set(name, (desired.get(name) ?? 0) + left);
  return desired;
}

/** The preserved machines of a set, or its others: those of all sets go first. */
interface Part {
  readonly set: SetView;
  size: number;
  /** Available machines without a mark. */
  readonly needed: number;
}

/** @param count machines of a set that may go, preserved or not */
function preservedOf(sets: readonly SetView[], count: (set: SetView) => number): Part[] {
  return sets.map((set) => {
    const size = Math.min(count(set), (set.setAside ?? 0) + countWorkingPreserved(set));
    return { set, size, needed: Math.min(size, countWorkingPreserved(set)) };
  });
}

function othersOf(sets: readonly SetView[], count: (set: SetView) => number): Part[] {
  return preservedOf(sets, count).map(({ set, size: preserved }) => {
    const size = count(set) - preserved;
    return { set, size, needed: Math.min(size, countNeeded(set) - countWorkingPreserved(set)) };
  });
}

/**
 * A set that is alone follows spec.replicas. Of several the new one, or else the newest, gets what is missing; all lose
 * in proportion to their size. A surge that was there before stays until the replicas are changed.
 */
function targetReplicas(view: OwnerView, sets: readonly SetView[]): Map<string, number> {
  const { replicas, maxSurge } = view;
  const desired = new Map(sets.map((set) => [set.name, set.replicas]));
  const filled = sets.filter((set) => set.replicas > 0);
  const total = sumOf(filled, (set) => set.replicas);
  const isAnnounced = filled.every((set) => !set.outdated.includes('annotations'));
  const isSurge = filled.length > 1 && total <= replicas + maxSurge && isAnnounced;
  if (total < replicas) {
    const growing = growingSet(sets, filled);
    return desired.set(growing?.name ?? '', (growing?.replicas ?? 0) + replicas - total);
  }
  if (!isSurge) shrink(view, desired, filled, total);
  return desired;
}

function growingSet(sets: readonly SetView[], filled: readonly SetView[]): SetView | undefined {
  if (filled.length === 1) return filled[0];
  return sets.find((set) => set.isNew) ?? filled.at(-1) ?? sets.at(-1);
}

/**
 * Lowers the sets to spec.replicas in all: marked machines, then those that were not made yet, then the largest sets
 * first, while enough stay available. Of all sets preserved machines go last.
 */
function shrink(view: OwnerView, desired: Map<string, number>, filled: readonly SetView[], total: number): void {
  const bySize = filled.toSorted((a, b) => b.replicas - a.replicas);
  const sure = sumOf(filled, (set) => Math.min(countSure(set), set.replicas));
  let spare = Math.max(0, sure - (view.replicas - view.maxUnavailable));
  let rest = total - view.replicas;
  const take = (part: Part, most: number) => {
    const { set, size, needed } = part;
    const unneeded = Math.max(0, size - needed);
    const taken = Math.min(rest, most, size, unneeded + spare);
    desired.set(set.name, (desired.get(set.name) ?? 0) - taken);
    part.size -= taken;
    rest -= taken;
    spare -= Math.max(0, taken - unneeded);
  };
  const others = othersOf(bySize, ({ replicas }) => replicas);
  for (const each of others) take(each, countMarked(each.set));
  for (const each of others) take(each, Math.max(0, each.set.replicas - each.set.active));
  for (const each of others) take(each, each.set.replicas - Math.round((each.set.replicas * view.replicas) / total));
  for (const each of others) take(each, rest);
  for (const each of preservedOf(bySize, ({ replicas }) => replicas)) take(each, rest);
}

/**
 * Machines that nobody has marked and that stay available. Those that are updated in place do not, and a step may keep
 * these.
 */
function countSure(set: SetView): number {
  return Math.max(0, countNeeded(set) - (set.available - countWorking(set)));
}

/**
 * Marked machines that spec.replicas of the set includes: more machines than it says go anyway, and marked ones first.
 */
function countMarked({ replicas, active, failed, marked = 0, unneeded = 0 }: SetView): number {
  return Math.max(0, marked + unneeded - Math.max(0, active - failed - replicas));
}
