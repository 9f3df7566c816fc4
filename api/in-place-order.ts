/**
 * The annotation by which a Machine and its owner take part in an in-place update: an order, and for which set. Pure.
 */
import { inPlaceOrders, names } from './names.ts';
import type { KubeObject } from './objects.ts';
import { controllerOf } from './owner/ownership.ts';

/** The annotation for a machine that the set with this UID controls. @param order one of `inPlaceOrders` */
export function toOrder(order: string, setUid: string): string {
  return `${order}@${setUid}`;
}

/**
 * One of `inPlaceOrders`; undefined where the machine takes no part in an update. An order for another set than the one
 * that controls the machine is void: somebody else has completed that update. So is one of release 0.1.0, which names
 * no set.
 */
export function orderOf(machine: KubeObject): string | undefined {
  const { order, setUid } = readOrder(machine) ?? {};
  const isOwn = setUid !== undefined && setUid === controllerOf(machine);
  return isOwn || isUnboundRelease(order, setUid) ? order : undefined;
}

/** The same, and an order without a set: it counts until the workflow of the machine has bound or removed it. */
export function countedOrderOf(machine: KubeObject): string | undefined {
  const { order, setUid } = readOrder(machine) ?? {};
  return setUid === undefined ? order : orderOf(machine);
}

/** Whether there is an order, and it is void. */
export function isVoid(machine: KubeObject): boolean {
  return readOrder(machine) !== undefined && orderOf(machine) === undefined;
}

/** To release a Node from an update does no harm, whichever update it was. */
function isUnboundRelease(order: string | undefined, setUid: string | undefined): boolean {
  return setUid === undefined && order === inPlaceOrders.released;
}

function readOrder({ metadata }: KubeObject): { readonly order: string; readonly setUid?: string } | undefined {
  const text = metadata.annotations?.[names.inPlaceUpdate];
  if (text === undefined) return undefined;
  const [order = '', setUid] = text.split('@');
  return { order, ...(setUid !== undefined && { setUid }) };
}
