/** Which old sets of a deployment are not needed for a rollback any more: pure. Workflow code imports this file. */
import type { OwnerView, SetView } from '../model/owner.ts';
import { hasOldMachines, newSetOf } from './set-counts.ts';

/**
 * The oldest of the old sets, as many as there are beyond the history limit, but for those that have machines. As MCM:
 * none in the middle of a rollout, and none whose generation is not observed yet.
 */
export function surplusSets(view: OwnerView): readonly SetView[] {
  const { historyLimit, sets, paused, progress, deleting } = view;
  const isComplete = progress === 'complete' && newSetOf(view) !== undefined && !hasOldMachines(view);
  if (historyLimit === undefined || deleting || !(paused || isComplete)) return [];
  const isEmpty = (set: SetView) => set.replicas === 0 && set.total === 0 && !set.outdated.includes('status');
  const old = sets.filter((set) => !set.isNew && !set.deleting);
  return old.slice(0, Math.max(0, old.length - historyLimit)).filter(isEmpty);
}
