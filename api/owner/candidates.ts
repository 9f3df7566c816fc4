/** Which machines of an owner a step may delete or change next: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { Candidate, MachineBehind, OwnerView } from '../model/owner.ts';
import type { KubeObject } from '../objects.ts';
import { isLeaving } from './health.ts';
import { byDeletionOrder, isActive, isAvailable, isStarting, isToBeReplaced } from './machines.ts';
import type { OwnerSet } from './objects.ts';
import { groupByController } from './ownership.ts';
import { excessOf, hasExcess } from './replicas.ts';
import { isRolloutSuspended } from './set-counts.ts';
import { isBehind } from './settings.ts';

/**
 * At most `limit` active machines of the owner's sets that may be deleted: the Failed ones first, then the excess, one of
 * each set in turn, so that no set waits for another. Old sets of a rollout lose first what nobody will miss: machines that
 * are starting, then unavailable ones.
 */
export function toCandidates(
  api: OwnerApi,
  view: OwnerView,
  machines: readonly KubeObject[],
  limit: number,
): Candidate[] {
  if (!hasExcess(view)) return [];
  const bySet = groupByController(machines.filter((machine) => isActive(api, machine)));
  const order = byDeletionOrder(api, Date.now());
  const excess = excessOf(view);
  const losing = view.sets.filter(({ name }) => excess.has(name));
  const ranked = losing.flatMap((set) => {
    const inOrder = set.isNew || set.deleting || isRolloutSuspended(view) ? order : byUse(api, order);
    const own = (bySet.get(set.uid) ?? []).toSorted(inOrder).map((machine) => toCandidate(api, machine, set.name));
    const failed = own.filter((candidate) => candidate.failed).map((candidate) => ({ rank: -1, candidate }));
    const others = own.filter((candidate) => !candidate.failed).slice(0, Math.max(0, excess.get(set.name) ?? 0));
    return [...failed, ...others.map((candidate, rank) => ({ rank, candidate }))];
  });
  return ranked
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, limit)
    .map(({ candidate }) => candidate);
}

/** At most `limit` machines of the owner's sets that lack what the templates of these say by now. */
export function machinesBehind(
  api: OwnerApi,
  view: OwnerView,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
  limit: number,
): MachineBehind[] {
  const behind = view.sets.filter(({ machinesBehind: count = 0 }) => count > 0);
  if (behind.length === 0) return [];
  const bySet = groupByController(machines);
  return behind
    .flatMap(({ uid, name }) => {
      const set = sets.find(({ metadata }) => metadata.uid === uid);
      const own = (bySet.get(uid) ?? []).filter((machine) => set !== undefined && isBehind(api, set, machine));
      return own.map(({ metadata }) => ({ set: name, name: metadata.name, uid: metadata.uid }));
    })
    .slice(0, limit);
}

type Order = (a: KubeObject, b: KubeObject) => number;

function byUse(api: OwnerApi, order: Order): Order {
  const rank = (machine: KubeObject) => (isStarting(api, machine) ? 0 : 1 + Number(isAvailable(api, machine)));
  return (a, b) => rank(a) - rank(b) || order(a, b);
}

function toCandidate(api: OwnerApi, machine: KubeObject, set: string): Candidate {
  const { name, uid, resourceVersion } = machine.metadata;
  return {
    ...{ name, uid, resourceVersion, set, failed: isToBeReplaced(api, machine) },
    ...(isLeaving(api, machine) && { isOfReplacement: true as const }),
  };
}
