/** The workflow of a machine: one for each Machine object, open while the object exists. */
import { CancellationScope, isCancellation, patched, setHandler } from '@temporalio/workflow';
import type { MachineObservation } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { isActivityFailure } from '../calls/failure.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { kubernetes } from './kubernetes.ts';
import { describeQuery } from './messages.ts';
import { isNodeDeleted } from './node.ts';
import { listen } from './observe.ts';
import { again, done, type PhaseOutcome } from './outcome.ts';
import { confirm } from './phases/confirm.ts';
import { mayHaveVm } from './phases/creation.ts';
import { deprovision } from './phases/deprovision.ts';
import { abortDeletion, drain } from './phases/drain.ts';
import { followNode } from './phases/follow-node.ts';
import { followInterruption } from './phases/interruption.ts';
import { join } from './phases/join.ts';
import { maintain } from './phases/maintain.ts';
import { provision } from './phases/provision.ts';
import { run } from './phases/run.ts';
import { validate } from './phases/validate.ts';
import { describe } from './progress.ts';
import { heldUntilMs, isHeld, isMaintenanceHeld, noteStatus, noteWrite, waitForWrite } from './repeats.ts';
import {
  MachineGoneError,
  type MachineState,
  newState,
  type PersistedState,
  StaleStateError,
  textOf,
} from './state.ts';
import { continueAsNewRun, isHistoryLong, refresh, throwIfCancelled, waitForChange } from './wait.ts';

type Phase = (state: MachineState) => Promise<PhaseOutcome>;

const phases: readonly Phase[] = [
  validate,
  followInterruption,
  followNode,
  confirm,
  maintain,
  provision,
  join,
  startShortRun,
  run,
];
const deletionPhases: readonly Phase[] = [drain, deprovision];

/**
 * Workflow type `machine`. Keeps one Machine, from its creation to its deletion. Completes when the Machine is gone,
 * also when it never existed or another object has its name. A run that takes over from a failed one knows the
 * reference alone, and derives the progress from the objects.
 * @param seen a new Machine as a watcher saw it: if it is still so, it is not read
 * @param persisted what a run passes on to the next one
 */
export async function machine(ref: ObjectRef, seen?: MachineObservation, persisted?: PersistedState): Promise<void> {
  const failed = findFailedRun();
  const state = failed === undefined ? newState(ref, persisted ?? undefined, seen ?? undefined) : newState(ref);
  setHandler(describeQuery, () => describe(state), { description: 'What the machine is doing and waits for.' });
  try {
    listen(state); // first: signals that have arrived must reach the next run
    if (failed !== undefined) {
      state.failedRun = failed;
      await reportRun(failed, { kind: 'Machine', ref });
    }
    if (state.stale) await refresh(state);
    let isDeleted: boolean;
    do {
      if (!isDeleting(state) && state.mayBeCordoned) await abortDeletion(state);
      if (!isDeleting(state)) await runUntilDeleted(state, () => runPhases(state, phases));
      isDeleted = !state.machine.managed || (await runDeletion(state));
    } while (!isDeleted);
    if (!state.machine.managed && patched('a-finalizer-that-was-removed')) await noteLoss(state);
  } catch (error) {
    if (!(error instanceof MachineGoneError)) throw error;
    await noteLoss(state);
  }
}

/**
 * The Machine is gone, or about to be, without its deletion: somebody has removed our finalizer, or a backup was
 * restored. Nobody has made sure that its VM is gone, so its source has to stay until a sweep has looked. User data
 * that was made for it alone is of no use any more.
 */
async function noteLoss({ ref, machine, creation, mayHaveUserData, wasRead }: MachineState): Promise<void> {
  const { source, providerID } = machine;
  const lost = wasRead ? { ...(providerID !== undefined && { providerID }) } : undefined; // else it may have been deleted
  if (source !== '' && mayHaveVm(creation)) await tryOnce(() => kubernetes.noteLostMachine(ref, source, lost));
  if (wasRead && mayHaveUserData && patched('user-data-of-a-lost-machine'))
    await tryOnce(() => kubernetes.removeUserData(ref));
}

/** For what has to be no more than likely: a sweep looks without a note, too, and bootstrap tokens expire. */
async function tryOnce(step: () => Promise<unknown>): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
  }
}

function isDeleting({ machine: { deletingSince } }: MachineState): boolean {
  return deletingSince !== undefined;
}

/**
 * Runs the phases one after the other, from the first one again after each wait: what is done already passes at once.
 */
async function runPhases(state: MachineState, list: readonly Phase[], isOver = () => false): Promise<void> {
  for (let i = 0; i < list.length; ) {
    if (state.stale) await refresh(state);
    if (isOver()) return;
    const before = state.changes;
    const from = beginningOf(state, i);
    const isReverted = isHeld(state, 'status', from);
    state.hasWritten = false;
    let outcome = isReverted ? waitForWrite(state, state.progress) : await runPhase(state, list[i]!);
    throwIfCancelled();
    if (state.hasWritten) noteStatus(state, from);
    // A later phase has learned what an earlier one acts on. A signal that repeats it is no change, and ends no wait.
    const isDue = i > list.indexOf(followNode) && isNodeDeleted(state);
    if (outcome.kind === 'wait' && list === phases && isDue && patched('due-in-an-earlier-phase')) outcome = again;
    if (outcome.kind === 'wait' && i > list.indexOf(maintain) && list === phases && isWriteLeft(state)) outcome = again;
    if (outcome.kind === 'again') outcome = againOrWait(state, i);
    else if (outcome.kind === 'wait' && !isReverted) delete state.repeats.phase; // it has a pause of its own
    if (outcome.kind === 'wait') {
      const timeoutMs = Math.min(outcome.timeoutMs ?? Infinity, heldUntilMs(state) - Date.now());
      await waitForChange(state, before, timeoutMs);
      if (!isReverted && state.changes === before) delete state.repeats.status; // nobody has reverted it in that pause
    }
    if (outcome.kind === 'again' && isHistoryLong()) await continueAsNewRun(state);
    if (outcome.kind === 'failed') i = list.indexOf(run);
    else if (outcome.kind === 'done') i++;
    else i = 0;
  }
}

/** What a phase begins with, as text. That an attempt of a creation was refused for certain is no progress. */
function beginningOf(state: MachineState, phase: number): string {
  const { creation } = state;
  const same = creation.state === 'none' ? { ...creation, ordinal: 0 } : creation;
  return `${phase} ${textOf({ ...state, creation: same })}`;
}

/**
 * Whether a watcher has said, while something was written, that more is to be written. It says no more than it repeats.
 */
function isWriteLeft(state: MachineState): boolean {
  return state.maintenance === 'write' && !isMaintenanceHeld(state) && patched('maintenance-due-while-written');
}

/** A phase that leaves everything as it was, again and again, writes what is not kept. */
function againOrWait(state: MachineState, phase: number): PhaseOutcome {
  const text = `${phase} ${textOf(state)}`;
  noteWrite(state, 'phase', text);
  return isHeld(state, 'phase', text) ? waitForWrite(state, state.progress) : again;
}

async function runPhase(state: MachineState, phase: Phase): Promise<PhaseOutcome> {
  try {
    return await phase(state);
  } catch (error) {
    if (!(error instanceof StaleStateError)) throw error;
    throwIfCancelled();
    await refresh(state);
    return again;
  }
}

/** Answers false when the Machine is not deleted any more: a backup from before its deletion was restored. */
async function runDeletion(state: MachineState): Promise<boolean> {
  await runPhases(state, deletionPhases, () => !isDeleting(state));
  if (isDeleting(state)) return true;
  await abortDeletion(state);
  return false;
}

/** Runs until the Machine is deleted, which interrupts every wait. A create call under way is waited for. */
async function runUntilDeleted(state: MachineState, body: () => Promise<void>): Promise<void> {
  const scope = new CancellationScope();
  let wasDeleted = false; // stays true even if a later, older answer lacks the deletion
  state.onChange = () => {
    wasDeleted ||= isDeleting(state);
    if (wasDeleted) scope.cancel();
  };
  try {
    await scope.run(body);
  } catch (error) {
    // A workflow that is cancelled by hand ends: only a deleted Machine loses its VM.
    if (!wasDeleted || !isCancellation(error)) throw error;
  } finally {
    delete state.onChange;
  }
}

/** The longest time after its creation until a machine at rest has a short history, ms. At least half of it passes. */
const longestBeforeShortRunMs = 40 * 60_000;

/**
 * A machine at rest has a short history: the events of its creation are left behind. Not at once, as many machines may
 * be created together, and a new run costs as much as a fifth of a creation. At most twice the creation timeout later.
 */
async function startShortRun(state: MachineState): Promise<PhaseOutcome> {
  if (!state.hasCreation) return done;
  const longestMs = Math.min(2_000 * state.machine.limits.creationSeconds, longestBeforeShortRunMs);
  state.shortRunAtMs ??= Date.now() + longestMs * (0.5 + Math.random() / 2);
  return Date.now() < state.shortRunAtMs ? done : continueAsNewRun(state);
}
