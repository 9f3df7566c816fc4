/** Which machine of a set goes first, as machine-controller-manager decides it: pure. */
import type { Machine } from './machine.ts';
import { annotations, preserveValues, priorities } from './names.ts';

/** Of phases that differ the earlier goes first; a phase that is not here goes before all of them. */
const phaseOrder = ['Terminating', 'Failed', 'CrashLoopBackOff', 'Unknown', 'Pending', 'Available', 'Running'];

/**
 * Compares two machines for deletion: not preserved before preserved, lower priority, marked for deletion (earlier mark
 * first), worse phase, older. The first difference decides; the name breaks ties, so that every reader sees one order.
 */
export function byDeletionOrder(nowMs: number): (a: Machine, b: Machine) => number {
  return (a, b) =>
    Number(isPreservedUntilExpiry(a, nowMs)) - Number(isPreservedUntilExpiry(b, nowMs)) ||
    priorityOf(a) - priorityOf(b) ||
    compare(markedMsOf(a), markedMsOf(b)) ||
    phaseRank(a) - phaseRank(b) ||
    a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp) ||
    a.metadata.name.localeCompare(b.metadata.name);
}

/** Whether a Failed machine is kept instead of replaced: preserved until a time to come, or asked for by annotation. */
export function isPreserved(machine: Machine, nowMs: number): boolean {
  if (machine.status?.currentStatus?.preserveExpiryTime != null) return isPreservedUntilExpiry(machine, nowMs);
  const value = machine.metadata.annotations?.[annotations.preserve];
  return value !== undefined && value !== 'false' && Object.hasOwn(preserveValues, value);
}

function isPreservedUntilExpiry({ status }: Machine, nowMs: number): boolean {
  const expiry = status?.currentStatus?.preserveExpiryTime;
  return expiry != null && Date.parse(expiry) > nowMs;
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

function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

function phaseRank({ status }: Machine): number {
  return phaseOrder.indexOf(status?.currentStatus?.phase ?? '');
}
