/** The one way to report: what is being done, what the Machine's status says of it, and the Event that goes with it. */
import type { MachineEvent } from '../../api/events.ts';
import { type FailureCode, remedyOf } from '../../api/failures.ts';
import type { MachineReport, MachineStep } from '../../api/model/machine.ts';
import type { Blocker } from '../../api/names.ts';
import { isSameError } from '../calls/failure.ts';
import { commandLine } from '../command-line.ts';
import { kubernetes } from './kubernetes.ts';
import { setMachine } from './observe.ts';
import { isWrittenRecently } from './outcome.ts';
import { type Activity, show, showSearchAttributes } from './progress.ts';
import { type MachineState, now, StaleStateError } from './state.ts';
import { untilAnswered } from './wait.ts';

/** What is reported about a Machine: the time of a new stage, the provider and the deployment are added here. */
export type Facts = Omit<MachineReport, 'stageSince' | 'provider' | 'deployment'>;

/** A step that was refused, as it is reported. */
export interface Refusal extends Pick<Facts, 'stage' | 'isTimed' | 'lastKnownState'> {
  readonly reason: MachineEvent;
  readonly step: Omit<MachineStep, 'state'> & { readonly code: FailureCode; readonly message: string };
}

/** What a person can do about a blocker; undefined where only the error says it. */
export function findRemedy({ ref }: Pick<MachineState, 'ref'>, blockedOn: Blocker): string | undefined {
  return remedyOf(blockedOn, commandLine('retry', ref));
}

/** What to do where nothing better is known. */
export const seeLastError = 'See the last error.';

/**
 * Shows the activity (undefined: what is shown stays), writes the Machine's status, and updates the search attributes.
 * Throws StaleStateError when the Machine is in a stage that this workflow does not know of.
 */
export async function report(state: MachineState, activity: Activity | undefined, facts: Facts): Promise<void> {
  if (activity !== undefined) show(state, activity);
  const { resourceVersion, createdAt, stage, stageSince, phase, deletingSince } = state.machine;
  const known = {
    ...{ resourceVersion, createdAt, stage, phase },
    ...(stageSince !== undefined && { stageSince }),
    ...(deletingSince !== undefined && { deletingSince }),
  };
  const complete = withContext(state, facts);
  const step = () => kubernetes.writeStatus(state.ref, known, complete);
  const machine = await untilAnswered(state, 'writing the status', step);
  setMachine(state, machine);
  state.hasWritten = true;
  if (machine.stage !== facts.stage) throw new StaleStateError();
  showSearchAttributes(state);
}

/** The report with the time of the stage, if that is a new one, and with what the log says of the machine besides. */
export function withContext({ machine, reading, deployment }: MachineState, facts: Facts): MachineReport {
  const isNew = facts.stage !== machine.stage;
  const provider = reading?.cloud?.provider;
  const isLogged = isNew || facts.event !== undefined;
  return {
    ...facts,
    ...(isNew && { stageSince: now() }),
    ...(isLogged && provider !== undefined && { provider }),
    ...(isLogged && deployment !== undefined && { deployment }),
  };
}

/**
 * Reports a refusal, with an Event that has its code and what helps. When the same refusal repeats, but for request ids
 * and the like, the status is not written again and the Event is counted up.
 */
export async function reportRefusal(state: MachineState, activity: Activity, refusal: Refusal): Promise<void> {
  const { reason, step, ...facts } = refusal;
  const { code, message } = step;
  const isSame = state.refusal?.reason === reason && isSameError(state.refusal, step);
  const reported = isSame ? state.refusal : undefined;
  const { unblock } = activity;
  const event = { reason, note: `${code}: ${reported?.message ?? message}${unblock ? `. ${unblock}` : ''}` };
  const isRecent = reported !== undefined && isWrittenRecently(reported.writtenMs, Date.now());
  if (isRecent && facts.stage === state.machine.stage) {
    return report(state, activity, { stage: facts.stage, event });
  }
  await report(state, activity, { ...facts, step: { ...step, state: 'failed' }, event });
  state.refusal = { reason, code, message: reported?.message ?? message, writtenMs: Date.now() };
}
