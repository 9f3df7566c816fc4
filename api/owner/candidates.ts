/** Which machines of an owner a step may delete or change next: pure. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import type { Candidate, MachineBehind, OwnerView, SetView } from '../model/owner.ts';
import type { KubeObject } from '../objects.ts';
import { isAvailable, isSetAside } from './availability.ts';
import { failureToJoin } from './failed-attempts.ts';
import { isLeaving } from './health.ts';
import { byDeletionOrder, isActive, isStarting, isToBeReplaced, isUnneeded } from './machines.ts';
import type { OwnerSet } from './objects.ts';
import { groupByController } from './ownership.ts';
import { excessOf, hasExcess } from './replicas.ts';
import { isRolloutSuspended } from './set-counts.ts';
import { isBehind } from './settings.ts';
import { isUpdating } from './updated-machines.ts';

/**
 * At most `limit` active machines of the owner's sets that may be deleted: first those that go whatever else happens,
 * which are Failed or unneeded, then the excess, one of each set in turn, so that no set waits for another. Old sets of
 * a rollout lose first what nobody will miss: machines that are starting, then unavailable ones.
 * @param owner the deployment, or the set that is its own owner
 */
export function toCandidates(
  api: OwnerApiAt,
  owner: KubeObject,
  view: OwnerView,
  machines: readonly KubeObject[],
  limit: number,
): Candidate[] {
  if (!hasExcess(view)) return [];
  const bySet = groupByController(machines.filter((machine) => isActive(api, machine)));
  const order = byDeletionOrder(api);
  const excess = excessOf(view);
  const losing = view.sets.filter(({ name }) => excess.has(name));
  const ranked = losing.flatMap((set) => {
    const inOrder = set.isNew || set.deleting || isRolloutSuspended(view) ? order : byUse(api, set, order);
    const own = (bySet.get(set.uid) ?? [])
      .toSorted(inOrder)
      .map((machine) => toCandidate(api, owner, machine, set.name));
    const doomed = own.filter(isDoomed).map((candidate) => ({ rank: -1, candidate }));
    const others = own.filter((candidate) => !isDoomed(candidate)).slice(0, Math.max(0, excess.get(set.name) ?? 0));
    return [...doomed, ...others.map((candidate, rank) => ({ rank, candidate }))];
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

/** What is preserved goes last, then what works, whatever else speaks for deleting it first. */
function byUse(api: OwnerApiAt, { minReadySeconds }: SetView, order: Order): Order {
  const rank = (machine: KubeObject) => {
    if (isSetAside(api, machine, minReadySeconds)) return 3;
    if (isAvailable(api, machine, minReadySeconds)) return isUpdating(api, machine) ? 1 : 2;
    return isStarting(api, machine) ? 0 : 1;
  };
  return (a, b) => rank(a) - rank(b) || order(a, b);
}

function isDoomed({ failed, unneeded }: Candidate): boolean {
  return failed || unneeded === true;
}

function toCandidate(api: OwnerApiAt, owner: KubeObject, machine: KubeObject, set: string): Candidate {
  const { name, uid, resourceVersion } = machine.metadata;
  const failed = isToBeReplaced(api, machine);
  const failedToJoin = failed ? failureToJoin(api, machine) : undefined;
  return {
    ...{ name, uid, resourceVersion, set, failed },
    ...(!failed && isUnneeded(api, owner, machine) && { unneeded: true as const }),
    ...(isLeaving(api, machine) && { isOfReplacement: true as const }),
    ...(failedToJoin && { failedToJoin }),
  };
}
