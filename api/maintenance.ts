/** What the preservation and the in-place update of Machines write and need, for watchers and activities. */
import type { Dialect, MaintainedNode, MaintenanceMoment, MaintenancePlan } from './dialect.ts';
import type { MaintenanceDue, MaintenancePurpose } from './model/machine.ts';
import type { NodeLike } from './node.ts';
import type { KubeObject } from './objects.ts';

/** A plan, and what it is for. */
export interface DuePlan extends MaintenancePlan {
  readonly of: MaintenancePurpose;
}

/**
 * What the preservation of a Machine needs next, or else its in-place update; undefined: nothing.
 * @param node its own; undefined: it does not exist
 * @param drained what a drain that has ended was for: `isDrained` of the moment counts for nothing else
 */
export function planMaintenance(
  { machine: of }: Pick<Dialect, 'machine'>,
  machine: KubeObject,
  node: (NodeLike & MaintainedNode) | undefined,
  { isDrained, ...moment }: MaintenanceMoment,
  drained?: MaintenancePurpose,
): DuePlan | undefined {
  const momentOf = (purpose: MaintenancePurpose) =>
    isDrained !== undefined && purpose === drained ? { ...moment, isDrained } : moment;
  const kept = of.planPreservation?.(machine, node, momentOf('preservation'));
  if (kept !== undefined) return { ...kept, of: 'preservation' };
  const update = of.planUpdateInPlace?.(machine, node, momentOf('inPlaceUpdate'));
  return update && { ...update, of: 'inPlaceUpdate' };
}

/** The same in a word, for workflows. */
export function maintenanceDue(plan: DuePlan | undefined): MaintenanceDue | undefined {
  if (plan === undefined) return undefined;
  const { machine, status, node, condition, mustDrain } = plan;
  const isWritten = [machine, status, node, condition].every((each) => each === undefined);
  if (!isWritten || !mustDrain) return 'write';
  return plan.of === 'preservation' ? 'drain' : 'drainForUpdate';
}
