/** Writes of a Machine's status, each with what it means for the search attributes. */
import type { FailureCode } from '../../api/failures.ts';
import type { MachineOperation, StatusChange } from '../../api/model.ts';
import type { Failure } from './failure.ts';
import { kubernetes, type Life, look, now, takeMachine, untilAnswered } from './life.ts';
import { isJoinable } from './node.ts';
import { again, failed, type PhaseOutcome, retryPauseMs, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** Writes a status and shows the new phase. An Event goes with every change of phase. */
export async function writeStatus(life: Life, change: Omit<StatusChange, 'phaseSince'>): Promise<void> {
  const entered = change.phase !== life.machine.phase;
  const full: StatusChange = { ...change, ...(entered && { phaseSince: now() }) };
  const { resourceVersion } = life.machine;
  const step = () => kubernetes.writeStatus(life.ref, resourceVersion, full);
  takeMachine(life, await untilAnswered(life, 'writing the status', step));
  showPhase(life);
}

/**
 * A creation step was refused: says so on the Machine, in `describe` and in the UI, and waits for news or a while. Past
 * the creation timeout the machine has failed instead; but not because of an outage of the cloud, which no other machine
 * would help.
 */
export async function creationRefused(life: Life, doing: string, failure: Failure): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  const late = await failIfLate(life, () => failure);
  if (late !== undefined) return late;

  const pauseMs = Math.min(retryPauseMs(code, 'creation'), creationDeadlineMs(life) - Date.now());
  showProgress(life, {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    lastError: { code, message, at: now() },
    unblock: remedy[blockedOn] ?? 'See the last error.',
  });
  const operation: MachineOperation = { type: 'Create', state: 'Failed', description: message, errorCode: code };
  const event = { type: 'Warning', reason: 'FailedCreate' } as const;
  await writeStatus(life, { phase: 'CrashLoopBackOff', operation, timeoutActive: true, event });
  return waitFor(pauseMs);
}

/** When the machine has to have joined, ms since the epoch. An outage stops the clock, and it begins anew after it. */
export function creationDeadlineMs({ machine, outageEndMs }: Life): number {
  return Math.max(Date.parse(machine.createdAt), outageEndMs) + machine.limits.creationSeconds * 1_000;
}

/**
 * Past the creation timeout the machine has failed, and its owner replaces it. Before that everything is read live: what
 * is known may be older than an outage that nobody noticed.
 */
export async function failIfLate(
  life: Life,
  reason: () => { code: FailureCode; message: string },
): Promise<PhaseOutcome | undefined> {
  if (Date.now() < creationDeadlineMs(life)) return undefined;
  await look(life);
  const hasNode = life.machine.providerID !== undefined && isJoinable(life);
  if (hasNode || Date.now() < creationDeadlineMs(life)) return again;
  return fail(life, reason(), 'CreationTimeout');
}

/** Writes that the machine will not make it. */
export async function fail(
  life: Life,
  { code, message }: { code: FailureCode; message: string },
  reason: string,
): Promise<PhaseOutcome> {
  showProgress(life, { doing: 'waiting to be replaced', lastError: { code, message, at: now() } });
  await writeStatus(life, {
    phase: 'Failed',
    operation: { type: 'Create', state: 'Failed', description: message, errorCode: code },
    timeoutActive: false,
    event: { type: 'Warning', reason },
  });
  return failed;
}

/** RFC 3339 time in so many ms. */
export function timeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

/** What a person can do about a blocker. */
export const remedy: Partial<Record<string, string>> = {
  Class: 'Correct the MachineClass or its Secret; the change is picked up at once.',
  MachineSpec: 'Correct the Machine; the change is picked up at once.',
  Credentials: 'Correct the credentials in the Secret of the MachineClass; the change is picked up at once.',
  CloudCapacity: 'Raise the quota or choose another machine type or zone, then send the signal retryNow.',
  ProviderWorker: 'Start a worker for this provider, or correct `provider` in the MachineClass.',
};
