/** Preservation of Machines, whatever their API calls it: what watchers and activities see of it. */
import type { Dialect, PreservationMoment, PreservationPlan, PreservedNode } from './dialect.ts';
import type { PreservationDue } from './model/machine.ts';
import { isOfAnother, type NodeLike } from './node.ts';
import type { KubeObject } from './objects.ts';

/** What the preservation of a Machine needs next; undefined: nothing. The Node of another VM is not its Node. */
export function preservationPlan(
  { machine: of }: Pick<Dialect, 'machine'>,
  machine: KubeObject,
  node: (NodeLike & PreservedNode) | undefined,
  providerID: string | undefined,
  moment: PreservationMoment,
): PreservationPlan | undefined {
  const isOwn = node !== undefined && !isOfAnother(node, providerID);
  return of.planPreservation?.(machine, isOwn ? node : undefined, moment);
}

/** The same in a word, for workflows. */
export function preservationDue(plan: PreservationPlan | undefined): PreservationDue | undefined {
  if (plan === undefined) return undefined;
  const { machine, status, node, condition, mustDrain } = plan;
  const isWritten = [machine, status, node, condition].every((each) => each === undefined);
  return isWritten && mustDrain ? 'drain' : 'write';
}
