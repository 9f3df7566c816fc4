/**
 * How many machines each set of an owner should have, and so how many are to go: pure. The workflow plans with it, and
 * the activity that reads picks the machines. Plain code: workflow code imports this file.
 */
import type { OwnerView, SetView } from './model.ts';

/**
 * spec.replicas that each set should have, by name; under '' that of a set which does not exist yet. One that is being
 * deleted should have none, and is not in it.
 */
export function desiredReplicas(view: OwnerView): Map<string, number> {
  let left = view.replicas;
  const desired = new Map<string, number>();
  const sets = view.sets.filter((set) => !set.deleting);
  const growing = growingSet(view, sets);
  for (const set of sets.filter((each) => each !== growing).toReversed()) {
    const kept = Math.min(set.active - set.failed, left);
    desired.set(set.name, kept);
    left -= kept;
  }
  return desired.set(growing?.name ?? '', left);
}

/** The set that gets what the others do not keep: that of the template, or the newest while a new template waits. */
function growingSet({ paused }: OwnerView, sets: readonly SetView[]): SetView | undefined {
  return sets.find((set) => set.current) ?? (paused ? sets.at(-1) : undefined);
}

/** Machines of each set that are to go beside the Failed ones, by name. Of an owner that is being deleted all of them. */
export function surplusOf(view: OwnerView): Map<string, number> {
  const desired = view.deleting ? new Map<string, number>() : desiredReplicas(view);
  return new Map(view.sets.map((set) => [set.name, set.active - set.failed - (desired.get(set.name) ?? 0)]));
}

/** Whether machines are to go. */
export function hasSurplus(view: OwnerView): boolean {
  if (view.problem !== undefined && !view.deleting) return false;
  return view.sets.some((set) => set.failed > 0) || [...surplusOf(view).values()].some((over) => over > 0);
}
