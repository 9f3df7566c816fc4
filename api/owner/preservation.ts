/** Which Failed machines a set keeps by itself instead of replacing them, and which it lets go: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { OwnerView, PreservationChange } from '../model/owner.ts';
import type { KubeObject } from '../objects.ts';
import { isActive } from './machines.ts';
import type { OwnerSet } from './objects.ts';
import { groupByController } from './ownership.ts';

/**
 * The machines of a set that are kept from now on, the youngest first, or the oldest that are no more, as the set keeps
 * more than it may: the order of MCM. Those that people have decided about are left alone.
 */
export function changedPreservations(api: OwnerApi, set: OwnerSet, own: readonly KubeObject[]): readonly KubeObject[] {
  const { autoPreservation, machines } = api.owner;
  if (autoPreservation === undefined || set.metadata.deletionTimestamp !== undefined) return [];
  const active = own.filter((machine) => isActive(api, machine)).toSorted(byAge);
  const kept = active.filter((machine) => autoPreservation.isKept(machine));
  const room = autoPreservation.most(set) - kept.length;
  if (room <= 0) return kept.slice(0, -room);
  const failed = active.filter((machine) => machines.stageOf(machine) === 'failed');
  return failed.filter((machine) => autoPreservation.isUndecided(machine)).slice(-room);
}

/** The same for all sets of an owner, at most `limit`. */
export function readPreservations(
  api: OwnerApi,
  view: OwnerView,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
  limit: number,
): PreservationChange[] {
  const names = new Set(view.sets.filter(({ preservations }) => preservations !== undefined).map(({ name }) => name));
  if (names.size === 0) return [];
  const bySet = groupByController(machines);
  return sets
    .filter(({ metadata }) => names.has(metadata.name))
    .flatMap((set) => {
      const changed = changedPreservations(api, set, bySet.get(set.metadata.uid) ?? []);
      return changed.map((machine) => toChange(api, set, machine));
    })
    .slice(0, limit);
}

function toChange({ owner }: OwnerApi, { metadata: { name: set } }: OwnerSet, machine: KubeObject): PreservationChange {
  const { name, uid } = machine.metadata;
  return { set, name, uid, isKept: owner.autoPreservation?.isKept(machine) !== true };
}

function byAge(a: KubeObject, b: KubeObject): number {
  const [first, second] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp} ${metadata.name}`);
  return (first ?? '') < (second ?? '') ? -1 : 1;
}
