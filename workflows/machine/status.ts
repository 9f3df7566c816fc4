/** Writes of a Machine's status, each with what it means for the search attributes. */
import type { MachineEvent } from '../../api/events.ts';
import type { MachineOperation, MachinePhase, StatusChange } from '../../api/model/machine.ts';
import { type Failure, isSameError } from '../calls/failure.ts';
import { kubernetes, type Life, look, now, StaleStateError, takeMachine, untilAnswered } from './life.ts';
import { isJoinable } from './node.ts';
import { again, failed, isPastCreation, type PhaseOutcome, retryPauseMs, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** A refusal as it stands on the Machine: what goes into its status, and the Event that tells of it. */
export interface Refusal extends Pick<Failure, 'code' | 'message'> {
  readonly phase: MachinePhase;
  readonly reason: MachineEvent;
  readonly operation: MachineOperation;
  readonly timeoutActive?: boolean;
  readonly lastKnownState?: string;
}

/** As machine-controller-manager: an error that goes on is written again after that long, so that it does not look old. */
const refusalAgeMs = 30 * 60_000;

/**
 * Writes a status and shows the new phase. An Event goes with every change of phase. Throws StaleStateError when the Machine is
 * in a phase that nobody here knows of.
 */
export async function writeStatus(life: Life, change: Omit<StatusChange, 'phaseSince'>): Promise<void> {
  const entered = change.phase !== life.machine.phase;
  const full: StatusChange = { ...change, ...(entered && { phaseSince: now() }) };
  const { resourceVersion, phase, deletingSince } = life.machine;
  const known = { resourceVersion, phase, ...(deletingSince !== undefined && { deletingSince }) };
  const step = () => kubernetes.writeStatus(life.ref, known, full);
  takeMachine(life, await untilAnswered(life, 'writing the status', step));
  if (life.machine.phase !== change.phase) throw new StaleStateError();
  showPhase(life);
}

/**
 * Writes that a step was refused, with an Event that carries the code and what `describe` says would help. The same
 * refusal again, but for the id of its request and the like, writes no status and counts up its Event.
 */
export async function writeRefusal(life: Life, { reason, code, message, ...change }: Refusal): Promise<void> {
  const isSame = life.refusal?.reason === reason && isSameError(life.refusal, { code, message });
  const told = isSame ? life.refusal : undefined;
  const { unblock } = life.progress;
  const event = { reason, note: `${code}: ${told?.message ?? message}${unblock ? `. ${unblock}` : ''}` };
  if (told !== undefined && change.phase === life.machine.phase && Date.now() < told.writtenAt + refusalAgeMs) {
    return writeStatus(life, { phase: change.phase, event });
  }
  await writeStatus(life, { ...change, event });
  life.refusal = { reason, code, message: told?.message ?? message, writtenAt: Date.now() };
}

/**
 * A creation step was refused: says so on the Machine, in `describe` and in the UI, and waits for news or a while. Past
 * the creation timeout the machine has failed instead; but not because of an outage of the cloud, which no other machine
 * would help.
 */
export async function creationRefused(
  life: Life,
  doing: string,
  failure: Failure,
  description = failure.message,
): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  if (isPastCreation(life.machine.phase)) throw new StaleStateError();
  const late = await failIfLate(life, () => ({ code, message, description }));
  if (late !== undefined) return late;

  const pauseMs = Math.min(retryPauseMs(failure, 'creation'), creationDeadlineMs(life) - Date.now());
  showProgress(life, {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    error: failure,
    unblock: remedy[blockedOn] ?? 'See the last error.',
  });
  const operation: MachineOperation = { type: 'Create', state: 'Failed', description, errorCode: code };
  await writeRefusal(life, {
    ...{ phase: 'CrashLoopBackOff', reason: 'FailedCreate', code, message, operation, timeoutActive: true },
  });
  return waitFor(pauseMs);
}

/**
 * When the machine has to have joined, ms since the epoch: so long after this life first saw it, or after the last outage.
 * Not after `createdAt`, which is another clock's.
 */
export function creationDeadlineMs({ machine, outageEndMs }: Life): number {
  return outageEndMs + machine.limits.creationSeconds * 1_000;
}

/**
 * Past the creation timeout the machine has failed, and its owner replaces it. Before that everything is read live: what
 * is known may be older than an outage that nobody noticed.
 */
export async function failIfLate(life: Life, reason: () => FinalError): Promise<PhaseOutcome | undefined> {
  if (Date.now() < creationDeadlineMs(life)) return undefined;
  await look(life);
  const hasNode = life.machine.providerID !== undefined && isJoinable(life);
  if (hasNode || Date.now() < creationDeadlineMs(life)) return again;
  return fail(life, reason(), 'CreationTimeout');
}

/** Why a machine will not make it, with the description of its last operation where that is not the message. */
type FinalError = Pick<Failure, 'code' | 'message'> & { readonly description?: string };

/** Writes that the machine will not make it. */
export async function fail(life: Life, error: FinalError, reason: MachineEvent): Promise<PhaseOutcome> {
  const { code, message, description = message } = error;
  showProgress(life, { doing: 'waiting to be replaced', error });
  await writeStatus(life, {
    phase: 'Failed',
    operation: { type: 'Create', state: 'Failed', description, errorCode: code },
    timeoutActive: false,
    event: { reason, note: `${code}: ${message}` },
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
  CloudApi: 'An outage needs nothing: it is tried again. Once the cause is away, the signal retryNow tries at once.',
  ProviderWorker: 'Start a worker for this provider, or correct `provider` in the MachineClass.',
};
