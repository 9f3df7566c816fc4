/** Machines that are updated in place, as their owner reads them: pure. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import { countedOrderOf, orderOf } from '../in-place-order.ts';
import type { InPlaceReading, OwnerView, SetView, UpdateCounts, UpdatedMachine } from '../model/owner.ts';
import { inPlaceOrders } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { isAvailable } from './availability.ts';
import { byDeletionOrder, isActive } from './machines.ts';
import { groupByController } from './ownership.ts';

const isCandidate = (machine: KubeObject) => orderOf(machine) === inPlaceOrders.candidate;
const isUpdated = (machine: KubeObject) => orderOf(machine) === inPlaceOrders.updated;

/** Whether it is the turn of a machine: its owner has said so, or whoever was at it before this owner. */
function isTurn({ owner }: OwnerApi, machine: KubeObject): boolean {
  const isAlready = orderOf(machine) !== inPlaceOrders.released && owner.inPlaceUpdate?.isUnderWay(machine) === true;
  const order = countedOrderOf(machine);
  return order === inPlaceOrders.updated || order === inPlaceOrders.selected || isAlready;
}

function isWaiting(api: OwnerApi, machine: KubeObject): boolean {
  return isCandidate(machine) && !isTurn(api, machine);
}

/** Whether a machine may go back to what it was: it is not drained yet, or else its agent may be at it. */
export function isReleasable({ owner }: OwnerApi, machine: KubeObject): boolean {
  const isSelected = orderOf(machine) === inPlaceOrders.selected;
  return isCandidate(machine) || (isSelected && owner.machines.stageOf(machine) !== 'updating');
}

/** Whether a machine was handed over and its Node does not take pods again yet. */
function isReturning({ owner }: OwnerApi, { metadata }: KubeObject): boolean {
  return Object.keys(owner.inPlaceUpdate?.handedOver ?? {}).some((key) => metadata.labels?.[key] !== undefined);
}

/**
 * Whether a machine of an old set does not know yet that it is to be updated. One that is returning learns it
 * afterwards.
 */
function isUnmarked(api: OwnerApi, machine: KubeObject): boolean {
  return countedOrderOf(machine) === undefined && !isReturning(api, machine);
}

/** Whether the Node of a machine is about to be drained for its update, is drained, or does not take pods again yet. */
export function isUpdating(api: OwnerApi, machine: KubeObject): boolean {
  return isTurn(api, machine) || isReturning(api, machine);
}

interface SetTraits {
  readonly isNew: boolean;
  readonly isInPlace: boolean;
  readonly minReadySeconds: number;
}

/** Counts of the machines of a set; undefined where none is or has to be updated. */
export function countUpdates(
  api: OwnerApiAt,
  own: readonly KubeObject[],
  { isNew, isInPlace, minReadySeconds }: SetTraits,
): UpdateCounts | undefined {
  const active = own.filter((machine) => isActive(api, machine));
  const count = (is: (machine: KubeObject) => boolean) => active.filter(is).length;
  const isThere = (machine: KubeObject) => isAvailable(api, machine, minReadySeconds);
  const isOld = isInPlace && !isNew;
  const counts = {
    unmarked: isOld ? count((machine) => isUnmarked(api, machine)) : 0,
    selectable: isOld ? count((machine) => isWaiting(api, machine) && isThere(machine)) : 0,
    selected: isOld ? count((machine) => isTurn(api, machine)) : 0,
    selectedAvailable: count((machine) => isTurn(api, machine) && isThere(machine)),
    updated: isOld || isNew ? count(isUpdated) : 0,
    unreleased: isNew ? count((machine) => isReleasable(api, machine)) : 0,
    returning: count((machine) => isReturning(api, machine) && !isTurn(api, machine) && isThere(machine)),
  };
  return Object.values(counts).some((number) => number > 0) ? counts : undefined;
}

/** The machines behind the counts, each list at most `limit`; those to be selected in the order of deletion. */
export function readUpdates(
  api: OwnerApiAt,
  view: OwnerView,
  machines: readonly KubeObject[],
  limit: number,
): InPlaceReading | undefined {
  if (!view.sets.some(({ updates }) => updates !== undefined)) return undefined;
  const bySet = groupByController(machines.filter((machine) => isActive(api, machine)));
  const order = byDeletionOrder(api);
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
    candidates: isInPlace ? listOf(false, (machine) => isUnmarked(api, machine)) : [],
    selectable: isInPlace ? listOf(false, (each, set) => isWaiting(api, each) && isReady(each, set)) : [],
    updated: [...listOf(true, isUpdated), ...(isInPlace ? listOf(false, isUpdated) : [])].slice(0, limit),
    released: listOf(true, (machine) => isReleasable(api, machine)),
  };
}

function toUpdated({ metadata: { name, uid, resourceVersion } }: KubeObject, set: string): UpdatedMachine {
  return { name, uid, resourceVersion, set };
}
