/** What the log says of a machine: a line for each change of its phase, and for each refusal. Pure. */
import { machineEvents } from '../../api/events.ts';
import type { MachineReport, MachineSnapshot } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';

/** A line of the log, with the machine under the same names as everywhere. */
export interface LogLine {
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

type Seen = Pick<MachineSnapshot, 'phase' | 'stage' | 'createdAt' | 'stageSince'>;

/**
 * The line for a report that was written; undefined where it is neither a change of the phase nor a refusal.
 * @param seen the machine before, `after` as the write has left it
 */
export function lineOf(
  ref: ObjectRef,
  seen: Seen,
  report: MachineReport,
  after: MachineSnapshot,
  nowMs: number,
): LogLine | undefined {
  const isChange = after.phase !== seen.phase;
  const { event, step, provider, deployment } = report;
  const isRefusal = event !== undefined && machineEvents[event.reason].type === 'Warning';
  if (!isChange && !isRefusal) return undefined;
  const fields = {
    ...machineFields(ref, after, deployment),
    ...(provider !== undefined && { provider }),
    phase: after.phase,
    ...(isChange && { before: seen.phase, seconds: secondsInPhase(seen, nowMs) }),
    ...(isRefusal && { reason: event.reason, code: step?.code, note: event.note }),
  };
  return { message: isChange ? 'the machine has another phase' : 'a step of the machine was refused', fields };
}

/** How long a machine was in its phase, to a tenth of a second. */
export function secondsInPhase(
  { stageSince, createdAt }: Pick<Seen, 'stageSince' | 'createdAt'>,
  nowMs: number,
): number {
  return secondsSince(stageSince ?? createdAt, nowMs);
}

/** How long the deletion of a machine took, to a tenth of a second. */
export function secondsOfDeletion({ deletingSince }: Pick<MachineSnapshot, 'deletingSince'>, nowMs: number) {
  return deletingSince === undefined ? undefined : secondsSince(deletingSince, nowMs);
}

function secondsSince(time: string, nowMs: number): number {
  return Math.max(0, Math.round((nowMs - Date.parse(time)) / 100) / 10);
}

/** The line for a machine of which nothing is left. */
export function goneLine(ref: ObjectRef, seen: MachineSnapshot, nowMs: number, deployment?: string): LogLine {
  const seconds = secondsOfDeletion(seen, nowMs);
  return { message: 'the machine is gone', fields: { ...machineFields(ref, seen, deployment), seconds } };
}

function machineFields({ namespace, name }: ObjectRef, { nodeName, providerID }: MachineSnapshot, deployment?: string) {
  return {
    ...{ namespace, machine: name },
    ...(deployment !== undefined && { deployment }),
    ...(nodeName !== undefined && { node: nodeName }),
    ...(providerID !== undefined && { providerID }),
  };
}
