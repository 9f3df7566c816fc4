/** Writes of a Machine's status, each with what it means for the search attributes. */
import type { MachineOperation, MachinePhase, StatusChange } from '../../api/model.ts';
import type { Failure } from './failure.ts';
import { kubernetes, type Life, now, untilAnswered } from './life.ts';
import { failed, type PhaseOutcome, retryPauseMs, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** Writes a status and shows the new phase. An Event goes with every change of phase. */
export async function writeStatus(life: Life, change: Omit<StatusChange, 'phaseSince'>): Promise<void> {
  const entered = change.phase !== life.machine.phase;
  const full: StatusChange = { ...change, ...(entered && { phaseSince: now() }) };
  life.machine = await untilAnswered(life, 'writing the status', () => kubernetes.writeStatus(life.ref, full));
  showPhase(life);
}

/**
 * A creation step was refused: says so on the Machine, in `describe` and in the UI, and waits for news or a while. Past
 * the creation timeout the machine has failed instead.
 */
export async function creationRefused(life: Life, doing: string, failure: Failure): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  const deadlineMs = creationDeadlineMs(life);
  const isLate = Date.now() >= deadlineMs;
  const phase: MachinePhase = isLate ? 'Failed' : 'CrashLoopBackOff';
  const pauseMs = Math.min(retryPauseMs(code, 'creation'), deadlineMs - Date.now());
  showProgress(life, {
    doing: isLate ? 'waiting to be replaced' : doing,
    ...(!isLate && { waitingFor: 'a change that helps, or the next try', until: timeIn(pauseMs), blockedOn }),
    lastError: { code, message, at: now() },
    unblock: remedy[blockedOn] ?? 'See the last error.',
  });
  const operation: MachineOperation = { type: 'Create', state: 'Failed', description: message, errorCode: code };
  const event = { type: 'Warning', reason: isLate ? 'CreationTimeout' : 'FailedCreate' } as const;
  await writeStatus(life, { phase, operation, timeoutActive: !isLate, event });
  return isLate ? failed : waitFor(pauseMs);
}

/** When the machine has to have joined, ms since the epoch. */
export function creationDeadlineMs({ machine }: Life): number {
  return Date.parse(machine.createdAt) + machine.limits.creationSeconds * 1_000;
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
