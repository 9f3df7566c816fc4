/** Machines that are updated in place, as their owner reads them: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { InPlaceReading, OwnerView, SetView, UpdateCounts, UpdatedMachine } from '../model/owner.ts';
import { inPlaceOrders, names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { isAvailable } from './availability.ts';
import { byDeletionOrder, isActive } from './machines.ts';
import { groupByController } from './ownership.ts';

function orderOf({ metadata }: KubeObject): string | undefined {
  return metadata.annotations?.[names.inPlaceUpdate];
}

const isUpdated = (machine: KubeObject) => orderOf(machine) === inPlaceOrders.updated;
const isTurn = (machine: KubeObject) => isUpdated(machine) || orderOf(machine) === inPlaceOrders.selected;
/** Not one that is being updated: its agent may be at it. */
const isReleasable = (machine: KubeObject) => orderOf(machine) === inPlaceOrders.candidate;

function isReturning({ owner }: OwnerApi, { metadata }: KubeObject): boolean {
  return Object.keys(owner.inPlaceUpdate?.handedOver ?? {}).some((key) => metadata.labels?.[key] !== undefined);
}

interface SetTraits {
  readonly isNew: boolean;
  readonly isInPlace: boolean;
  readonly minReadySeconds: number;
}

/** Counts of the machines of a set; undefined where none is or has to be updated. */
export function countUpdates(
  api: OwnerApi,
  own: readonly KubeObject[],
  { isNew, isInPlace, minReadySeconds }: SetTraits,
): UpdateCounts | undefined {
  const active = own.filter((machine) => isActive(api, machine));
  const count = (is: (machine: KubeObject) => boolean) => active.filter(is).length;
  const isReady = (machine: KubeObject) => isAvailable(api, machine, minReadySeconds);
  const isSelectable = (machine: KubeObject) => isReleasable(machine) && isReady(machine);
  const isOld = isInPlace && !isNew;
  const counts = {
    unmarked: isOld ? count((machine) => orderOf(machine) === undefined) : 0,
    selectable: isOld ? count(isSelectable) : 0,
    selected: isOld ? count(isTurn) : 0,
    selectedAvailable: isOld ? count((machine) => isTurn(machine) && isReady(machine)) : 0,
    updated: isOld ? count(isUpdated) : 0,
    unreleased: isNew ? count(isReleasable) : 0,
    returning: isNew ? count((machine) => isReturning(api, machine) && isReady(machine)) : 0,
  };
  return Object.values(counts).some((number) => number > 0) ? counts : undefined;
}

/** The machines behind the counts, each list at most `limit`; those to be selected in the order of deletion. */
export function readUpdates(
  api: OwnerApi,
  view: OwnerView,
  machines: readonly KubeObject[],
  limit: number,
): InPlaceReading | undefined {
  if (!view.sets.some(({ updates }) => updates !== undefined)) return undefined;
  const bySet = groupByController(machines.filter((machine) => isActive(api, machine)));
  const order = byDeletionOrder(api, Date.now());
  const listOf = (isOfNew: boolean, is: (machine: KubeObject, set: SetView) => boolean): UpdatedMachine[] =>
    view.sets
      .filter(({ isNew, updates }) => isNew === isOfNew && updates !== undefined)
      .flatMap((set) =>
        (bySet.get(set.uid) ?? [])
          .filter((machine) => is(machine, set))
          .toSorted(order)
          .map((each) => toUpdated(each, set.name)),
      )
      .slice(0, limit);
  const isInPlace = view.strategy === 'InPlace';
  const isReady = (machine: KubeObject, { minReadySeconds }: SetView) => isAvailable(api, machine, minReadySeconds);
  return {
    candidates: isInPlace ? listOf(false, (machine) => orderOf(machine) === undefined) : [],
    selectable: isInPlace ? listOf(false, (each, set) => isReleasable(each) && isReady(each, set)) : [],
    updated: isInPlace ? listOf(false, isUpdated) : [],
    released: listOf(true, isReleasable),
  };
}

function toUpdated({ metadata: { name, uid, resourceVersion } }: KubeObject, set: string): UpdatedMachine {
  return { name, uid, resourceVersion, set };
}
