/**
 * How many machines each set of an owner should have, and so how many will be deleted: pure. The workflow plans with
 * it, and the activity that reads picks the machines. Plain code: workflow code imports this file.
 */
import type { OwnerView, SetView } from '../model/owner.ts';
import { inPlaceReplicas } from './in-place.ts';
import { rollingReplicas } from './rolling.ts';
import { countDoomed, hasOldMachines, isRolloutSuspended } from './set-counts.ts';
import { suspendedReplicas } from './suspended.ts';

/**
 * spec.replicas that each set should have now, by name; under '' that of a set which does not exist yet. Sets that are
 * being deleted are left out. During a rollout it is what the bounds allow at this moment: acting on it at any time
 * stays within them.
 */
export function desiredReplicas(view: OwnerView): Map<string, number> {
  const sets = view.sets.filter((set) => !set.deleting);
  if (isRolloutSuspended(view)) return suspendedReplicas(view, sets);
  return view.strategy === 'InPlace' ? inPlaceReplicas(view, sets) : rollingReplicas(view, sets);
}

/**
 * Machines of each set that will be deleted besides those that go whatever else happens, by name. All others of an
 * owner that is being deleted. A set whose machines stay after `--cascade=orphan`, all of them, is left out.
 */
export function excessOf(view: OwnerView): Map<string, number> {
  const desired = view.deleting ? new Map<string, number>() : desiredReplicas(view);
  const losing = view.orphans ? [] : view.sets.filter((set) => !set.orphans);
  const isRolling = hasOldMachines(view) && !isRolloutSuspended(view);
  const excess = (set: SetView) => {
    const over = set.active - (desired.get(set.name) ?? 0);
    // A scale-down deletes what is marked for it: Failed machines do not count against the marked ones.
    const marked = isRolling ? 0 : Math.min(set.marked ?? 0, over - (set.unneeded ?? 0));
    return Math.max(over - countDoomed(set), marked);
  };
  return new Map(losing.map((set) => [set.name, excess(set)]));
}

/** Whether machines will be deleted. */
export function hasExcess(view: OwnerView): boolean {
  if (view.problem !== undefined && !view.deleting) return false;
  const excess = excessOf(view);
  return view.sets.some((set) => (excess.get(set.name) ?? 0) > 0 || (countDoomed(set) > 0 && excess.has(set.name)));
}
