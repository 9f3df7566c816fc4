/** Which machines of an owner are to go: pure. */

import type { Machine } from '../gardener/schema/machine.ts';
import type { Candidate, OwnerView } from '../model/owner.ts';
import { byDeletionOrder } from './deletion-order.ts';
import { excessOf, hasExcess, isRolloutSuspended } from './replicas.ts';
import { groupByController, isActive, isAvailable, isStarting, isToBeReplaced } from './view.ts';

/**
 * At most `limit` active machines of the owner's sets that are to go: the Failed ones first, then in turn of each set with
 * a surplus the one that goes next. So no set has to wait until another one has nothing left to go. In a set that makes
 * way, whose machines go in the end whatever their order, those go first that nobody will miss.
 */
export function toCandidates(view: OwnerView, machines: readonly Machine[], limit: number): Candidate[] {
  if (!hasExcess(view)) return [];
  const bySet = groupByController(machines.filter(isActive));
  const order = byDeletionOrder(Date.now());
  const surplus = excessOf(view);
  const giving = view.sets.filter(({ name }) => surplus.has(name));
  const ranked = giving.flatMap((set) => {
    const inOrder = set.current || set.deleting || isRolloutSuspended(view) ? order : byUse(order);
    const own = (bySet.get(set.uid) ?? []).toSorted(inOrder).map((machine) => toCandidate(machine, set.name));
    const failed = own.filter((candidate) => candidate.failed).map((candidate) => ({ rank: -1, candidate }));
    const others = own.filter((candidate) => !candidate.failed).slice(0, Math.max(0, surplus.get(set.name) ?? 0));
    return [...failed, ...others.map((candidate, rank) => ({ rank, candidate }))];
  });
  return ranked
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, limit)
    .map(({ candidate }) => candidate);
}

type Order = (a: Machine, b: Machine) => number;

function byUse(order: Order): Order {
  const rank = (machine: Machine) => (isStarting(machine) ? 0 : 1 + Number(isAvailable(machine)));
  return (a, b) => rank(a) - rank(b) || order(a, b);
}

function toCandidate(machine: Machine, set: string): Candidate {
  const { name, uid, resourceVersion } = machine.metadata;
  return { name, uid, resourceVersion, set, failed: isToBeReplaced(machine) };
}
