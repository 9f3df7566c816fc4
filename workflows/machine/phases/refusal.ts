/** How a creation ends that does not succeed: refused for now, or failed for good. */
import type { MachineEvent } from '../../../api/events.ts';
import { isPastCreation, type MachineStep } from '../../../api/model/machine.ts';
import type { Failure } from '../../calls/failure.ts';
import { isJoinable } from '../node.ts';
import { again, failed, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { findRemedy, type Refusal, report, reportRefusal, seeLastError } from '../report.ts';
import { creationDeadlineMs, type MachineState, StaleStateError, timeIn } from '../state.ts';
import { refresh } from '../wait.ts';

/**
 * A creation step was refused: that is reported, and the workflow waits for a change or a while. Past the creation
 * timeout the machine has failed instead, but not because of an outage of the cloud: another machine would have the
 * same.
 */
export async function creationRefused(
  state: MachineState,
  doing: string,
  failure: Pick<Failure, 'code' | 'message' | 'blockedOn' | 'retryAfterMs' | 'requestId'>,
  from: Pick<MachineStep, 'isFromCloud'> = {},
): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  if (isPastCreation(state.machine.stage)) throw new StaleStateError();
  const step = { kind: 'create', code, message, ...from } as const;
  const late = await failIfLate(state, () => step);
  if (late !== undefined) return late;

  const { noRoomSeconds = 600 } = state.machine.limits;
  const retryMs = retryPauseMs(failure, 'creation', { noRoomMs: noRoomSeconds * 1_000 });
  const pauseMs = Math.min(retryMs, creationDeadlineMs(state) - Date.now());
  const activity = {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    error: failure,
    unblock: findRemedy(state, blockedOn) ?? seeLastError,
  };
  await reportRefusal(state, activity, { stage: 'creating', reason: 'FailedCreate', step, isTimed: true });
  return waitFor(pauseMs);
}

/**
 * Past the creation timeout the machine has failed, and its owner replaces it. Before that everything is read again:
 * what is known may be older than an outage that nobody noticed.
 */
export async function failIfLate(
  state: MachineState,
  reason: () => Refusal['step'],
): Promise<PhaseOutcome | undefined> {
  if (Date.now() < creationDeadlineMs(state)) return undefined;
  await refresh(state);
  const hasNode = state.machine.providerID !== undefined && isJoinable(state);
  if (hasNode || Date.now() < creationDeadlineMs(state)) return again;
  return fail(state, reason(), 'CreationTimeout');
}

/** Reports that the machine has failed for good. */
export async function fail(state: MachineState, step: Refusal['step'], reason: MachineEvent): Promise<PhaseOutcome> {
  const { code, message } = step;
  const activity = { doing: 'waiting to be replaced', error: { code, message } };
  const event = { reason, note: `${code}: ${message}` };
  await report(state, activity, { stage: 'failed', step: { ...step, state: 'failed' }, isTimed: false, event });
  return failed;
}
