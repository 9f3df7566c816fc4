/** The workflow of a machine: one for each Machine object, open while the object exists. */
import { CancellationScope, isCancellation, setHandler, sleep } from '@temporalio/workflow';
import type { ObjectRef } from '../../api/model/ref.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { describeQuery } from './messages.ts';
import { listen } from './observe.ts';
import { again, done, hasJoined, isPastCreation, type PhaseOutcome } from './outcome.ts';
import { recoverCreation } from './phases/creation.ts';
import { deprovision } from './phases/deprovision.ts';
import { abortDeletion, drain } from './phases/drain.ts';
import { followNode } from './phases/follow-node.ts';
import { join } from './phases/join.ts';
import { provision } from './phases/provision.ts';
import { run } from './phases/run.ts';
import { validate } from './phases/validate.ts';
import { describe, show } from './progress.ts';
import {
  MachineGoneError,
  type MachineState,
  newState,
  type PersistedState,
  StaleStateError,
  timeIn,
} from './state.ts';
import { continueAsNewRun, isHistoryLong, refresh, throwIfCancelled, waitForChange } from './wait.ts';

type Phase = (state: MachineState) => Promise<PhaseOutcome>;

const phases: readonly Phase[] = [validate, followNode, provision, join, startShortRun, run];
const deletionPhases: readonly Phase[] = [drain, deprovision];

/**
 * Workflow type `machine`. Its input is a reference; the object is read live. `persisted` is what its own continue-as-new
 * passes on; a run that takes over from a failed one ignores it, and derives the progress from the objects. Completes
 * when the Machine is gone, also when it never existed or another object has its name.
 */
export async function machine(ref: ObjectRef, persisted?: PersistedState): Promise<void> {
  const failed = findFailedRun();
  const state = newState(ref, failed === undefined ? persisted : undefined);
  setHandler(describeQuery, () => describe(state), { description: 'What the machine is doing and waits for.' });
  try {
    listen(state); // first: signals that have arrived must reach the next run
    if (failed !== undefined) {
      state.failedRun = failed;
      await reportRun(failed, { kind: 'Machine', ref });
    }
    if (!state.wasRead) await readFirst(state);
    else if (state.stale) await refresh(state);
    let isDeleted: boolean;
    do {
      if (!isDeleting(state) && state.mayBeCordoned) await abortDeletion(state);
      if (!isDeleting(state)) await runUntilDeleted(state, () => runPhases(state, phases));
      isDeleted = !state.machine.managed || (await runDeletion(state));
    } while (!isDeleted);
  } catch (error) {
    if (!(error instanceof MachineGoneError)) throw error;
  }
}

function isDeleting({ machine: { deletingSince } }: MachineState): boolean {
  return deletingSince !== undefined;
}

/** Runs the phases one after the other, from the first one again after each wait: what is done already passes at once. */
async function runPhases(state: MachineState, list: readonly Phase[], isOver = () => false): Promise<void> {
  for (let i = 0; i < list.length; ) {
    if (state.stale) await refresh(state);
    if (isOver()) return;
    const before = state.changes;
    const outcome = await runPhase(state, list[i]!);
    throwIfCancelled();
    if (outcome.kind === 'wait') await waitForChange(state, before, outcome.timeoutMs);
    if (outcome.kind === 'again' && isHistoryLong()) await continueAsNewRun(state);
    if (outcome.kind === 'failed') i = list.indexOf(run);
    else if (outcome.kind === 'done') i++;
    else i = 0;
  }
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
 * A machine at rest has a short history: the events of its creation are left behind. Not at once, as many machines may be
 * created together, and a new run costs as much as a fifth of a creation. At most twice the creation timeout later.
 */
async function startShortRun(state: MachineState): Promise<PhaseOutcome> {
  if (!state.hasCreation) return done;
  const longestMs = Math.min(2_000 * state.machine.limits.creationSeconds, longestBeforeShortRunMs);
  state.shortRunAtMs ??= Date.now() + longestMs * (0.5 + Math.random() / 2);
  return Date.now() < state.shortRunAtMs ? done : continueAsNewRun(state);
}

/**
 * How long a call of a lost run may go on, ms. Its worker learns that the run is gone with its next heartbeat or from the
 * missing answer: 10 s, and 5 s that the SDK adds.
 */
const lostCallMs = 15_000;

/** Reads the Machine for the first time. What an earlier run that was lost may have done follows from the object. */
async function readFirst(state: MachineState): Promise<void> {
  await refresh(state);
  const { managed, providerID, stage } = state.machine;
  const isNamed = providerID !== undefined;
  state.creation = recoverCreation(managed, isNamed, hasJoined(stage));
  state.hasCreation = !isPastCreation(stage);
  state.mayHaveUserData = managed;
  state.outageEndMs = Date.now();
  state.wasRead = true;
  if (!managed || isNamed) return;
  show(state, {
    doing: 'waiting until calls of an earlier run have certainly ended',
    until: timeIn(lostCallMs),
  });
  await sleep(lostCallMs);
}
