/** Which machine of a set goes first, as machine-controller-manager decides it: pure. */

import { annotations, preserveValues, priorities } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';

/** Of phases that differ the earlier goes first; a phase that is not here ranks as Terminating. */
const phaseOrder = ['Terminating', 'Failed', 'CrashLoopBackOff', 'Unknown', 'Pending', 'Available', 'Running'];

/**
 * Compares two machines for deletion: not preserved before auto-preserved before preserved, earlier expiry, lower
 * priority, marked for deletion (earlier mark first), worse phase, older. The first difference decides; the name breaks
 * ties, so that every reader sees one order.
 */
export function byDeletionOrder(nowMs: number): (a: Machine, b: Machine) => number {
  return (a, b) =>
    preservationRank(a, nowMs) - preservationRank(b, nowMs) ||
    (isPreservedUntilExpiry(a, nowMs) ? compare(expiryMsOf(a), expiryMsOf(b)) : 0) ||
    priorityOf(a) - priorityOf(b) ||
    compare(markedMsOf(a), markedMsOf(b)) ||
    phaseRank(a) - phaseRank(b) ||
    compare(Date.parse(a.metadata.creationTimestamp), Date.parse(b.metadata.creationTimestamp)) ||
    compare(a.metadata.name, b.metadata.name);
}

/** Whether a Failed machine is kept instead of replaced: preserved until a time to come, or asked for by annotation. */
export function isPreserved(machine: Machine, nowMs: number): boolean {
  if (machine.status?.currentStatus?.preserveExpiryTime != null) return isPreservedUntilExpiry(machine, nowMs);
  const value = machine.metadata.annotations?.[annotations.preserve];
  return value !== undefined && value !== 'false' && Object.hasOwn(preserveValues, value);
}

/** Whether the autoscaler or a person wants a machine gone before others of its set. */
export function isMarked(machine: Machine, nowMs: number): boolean {
  return priorityOf(machine) < Number(priorities.default) && !isPreservedUntilExpiry(machine, nowMs);
}

function isPreservedUntilExpiry(machine: Machine, nowMs: number): boolean {
  return expiryMsOf(machine) > nowMs;
}

/** NaN for a machine that is not preserved. */
function expiryMsOf({ status }: Machine): number {
  return Date.parse(status?.currentStatus?.preserveExpiryTime ?? '');
}

/** Of equal rank are machines that are all preserved until an expiry to come, or none of them. */
function preservationRank(machine: Machine, nowMs: number): number {
  if (!isPreservedUntilExpiry(machine, nowMs)) return 0;
  return machine.metadata.annotations?.[annotations.preserve] === 'auto-preserved' ? 1 : 2;
}

function priorityOf({ metadata }: Machine): number {
  const text = metadata.annotations?.[annotations.priority];
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : Number(priorities.default);
}

/** Infinity for a machine that is not marked: it goes after all that are. */
function markedMsOf({ metadata }: Machine): number {
  const ms = Date.parse(metadata.annotations?.[annotations.markedForDeletionTime] ?? '');
  return Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms;
}

/** Texts by code unit: the language of the machine that this runs on has no say in the order. */
function compare<T extends number | string>(a: T, b: T): number {
  return a < b ? -1 : Number(a > b);
}

function phaseRank({ status }: Machine): number {
  return Math.max(0, phaseOrder.indexOf(status?.currentStatus?.phase ?? ''));
}
