/**
 * The owner of machines: everything that creates or deletes the machines of a MachineDeployment, or of a MachineSet
 * without one, is decided here. A loop of observe, plan, act and wait, open while the owner needs something.
 */
import { ApplicationFailure, condition, continueAsNew, patched, setHandler, workflowInfo } from '@temporalio/workflow';
import type { OwnerKind } from '../../activities/owner/index.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { noteOrder } from '../orders.ts';
import { afterOutage, isReportedLate, tickForward } from './clock.ts';
import { watchDeadline } from './deadline.ts';
import { withRules } from './earlier-readings.ts';
import { describeOwnerQuery, ownerObservedSignal, progressDeadlineFailure, type RolloutState } from './messages.ts';
import { isWorthAStep } from './plan.ts';
import { heldMs, seesOther } from './repeats.ts';
import { doingOf, showBlocker } from './report.ts';
import { newOwnerRun, type OwnerRun, toRolloutState } from './state.ts';
import { countFailures, runStep, type StepOutcome } from './step.ts';

/**
 * Workflow type `rollout`. Owns the machines of a MachineDeployment. Completes when nothing is left to do. A run is one
 * rollout: another template starts another run. It fails past the progress deadline. Its retry policy opens the next
 * run, which continues the same rollout and does not fail before there was progress.
 */
export async function rollout(ref: ObjectRef, before?: RolloutState): Promise<void> {
  await runOwner(ref, 'MachineDeployment', workflowInfo().attempt === 1 ? before : stateOfLateRun());
}

/**
 * The state of the late run before this one. A run that failed otherwise leaves none: its arguments are out of date.
 */
function stateOfLateRun(): RolloutState | undefined {
  const { lastFailure } = workflowInfo();
  if (!(lastFailure instanceof ApplicationFailure) || lastFailure.type !== progressDeadlineFailure) return undefined;
  return lastFailure.details?.[0] as RolloutState | undefined;
}

/** Workflow type `machineSet`. Owns the machines of a MachineSet that no deployment owns. */
export async function machineSet(ref: ObjectRef, before?: RolloutState): Promise<void> {
  await runOwner(ref, 'MachineSet', before);
}

/**
 * How long after machines were created or deleted the next reading is made at the earliest, ms: some take effect by
 * then.
 */
const stepPauseMs = 1_000;

/** The same at the latest, although no watcher has reported something to do. */
const longestStepPauseMs = 2_000;

/** How often an owner looks again at unhealthy machines that an outage keeps, or whose Nodes are well by now, ms. */
const heldPauseMs = 10_000;

/**
 * How often an owner claims machines again that a limit of its namespace keeps from being created, if nobody tells it,
 * ms.
 */
const limitPauseMs = 60_000;

/** Above this many events a run continues as a new one. */
const maxEvents = 1_000;

async function runOwner(ref: ObjectRef, kind: OwnerKind, before?: RolloutState): Promise<void> {
  const run = newOwnerRun(ref, kind, before);
  handleMessages(run);
  await reportFailedRun(run);
  for (;;) {
    const { observed } = run;
    delete run.observed;
    run.refreshNow = false;
    const outcome = await runStep(run, observed);
    if (outcome === 'gone') return;
    if (outcome === 'done' && run.observed === undefined && !run.refreshNow) return;
    // The next run starts with a reading, so signals that this run has not handled are not lost.
    if (outcome === 'replaced' || isLong()) {
      forgetBlocks(run);
      await continueAsNew<typeof rollout>(ref, toRolloutState(run));
    }
    countFailures(run, outcome === 'requestFailed' ? run.failuresInARow + 1 : 0);
    const wait = waitAfter(run, outcome);
    if (wait !== undefined) await wait;
    // Who waits for others is not late because of that.
    if (outcome === 'queued') run.clock = afterOutage(run.clock, Date.now());
  }
}

/** The wait for the next step, until it is due or there is something to do; undefined: it follows at once. */
function waitAfter(run: OwnerRun, outcome: StepOutcome): Promise<unknown> | undefined {
  const isAwake = () => run.refreshNow || asksForStep(run);
  switch (outcome) {
    case 'requestFailed':
      return condition(() => run.refreshNow, Math.min(500 * 2 ** run.failuresInARow, 5_000), {
        summary: 'next reading after a failed request',
      });
    case 'changing':
      run.nextStepMs = Date.now() + stepPauseMs;
      return condition(isAwake, longestStepPauseMs, { summary: 'machines are created or deleted' });
    case 'held':
      return condition(isAwake, heldPauseMs, { summary: 'next look at unhealthy machines' });
    case 'limited':
    case 'queued':
      return condition(isAwake, limitPauseMs, { summary: 'next claim of machines that the namespace limits' });
    case 'notKept':
      void watchDeadline(run).catch(() => undefined); // cancelled together with the wait below
      return condition(() => run.refreshNow || seesOther(run) || isLong(), heldStepMs(run), {
        summary: 'next try to write what is not kept',
      });
    case 'waiting':
      void watchDeadline(run).catch(() => undefined);
      return untilNews(run, () => isAwake() || isLong());
    default:
      return undefined;
  }
}

/** How long a step that is not kept waits: no longer than until the next attempt of a set, ms. */
function heldStepMs(run: OwnerRun): number {
  const isSooner = run.nextAttemptMs < Date.now() + heldMs(run) && patched('next-attempt-of-a-held-step');
  return isSooner ? Math.max(1, run.nextAttemptMs - Date.now()) : heldMs(run);
}

/** Until a watcher sees something to do, or a set that waits is due for its next attempt. */
function untilNews({ nextAttemptMs }: OwnerRun, isAwake: () => boolean): Promise<unknown> {
  if (nextAttemptMs === Number.POSITIVE_INFINITY) return condition(isAwake);
  return condition(isAwake, Math.max(1, nextAttemptMs - Date.now()), { summary: 'next attempt to make machines' });
}

/** The next run finds out by itself, and knows nothing of the search attribute. */
function forgetBlocks(run: OwnerRun): void {
  if (!run.isInvalid && !run.isRefused && !run.isHeld && !run.isFrozen && !run.notKept) return;
  delete run.notKept;
  Object.assign(run, { isInvalid: false, isRefused: false, isHeld: false, isFrozen: false });
  showBlocker(run);
}

function handleMessages(run: OwnerRun): void {
  setHandler(describeOwnerQuery, () => run.description, { description: 'What is being done for the machines.' });
  setHandler(
    ownerObservedSignal,
    (seen) => {
      const view = withRules(seen);
      run.observed = view;
      run.clock = tickForward(run.clock, view, Date.now());
    },
    { description: 'A watcher saw a change of the owner or its machines.' },
  );
  const refreshNow = () => {
    run.refreshNow = true;
  };
  const retryNow = (by?: string) => {
    noteOrder(by, { command: 'rollout retry', kind: run.kind, ref: run.ref });
    delete run.lastStep;
    run.isRetry = true;
    refreshNow();
  };
  setHandler(retryNowSignal, retryNow, { description: 'Read everything again now.' });
  setHandler(refreshSignal, refreshNow, { description: 'The owner may be gone: read it live.' });
}

async function reportFailedRun(run: OwnerRun): Promise<void> {
  const { ref, kind } = run;
  const failed = findFailedRun();
  if (failed === undefined || failed.reason === progressDeadlineFailure) return;
  run.description = { ...run.description, failedRun: failed };
  run.shownBlocker = 'unknown';
  await reportRun(failed, { kind, ref });
}

function isLong(): boolean {
  return workflowInfo().historyLength > maxEvents;
}

/** Whether what a watcher saw asks for the next step, also by what only the run knows. */
function asksForStep({ observed, clock, blockedBy, description }: OwnerRun): boolean {
  if (observed === undefined) return false;
  if (observed.orphans && description.doing !== doingOf(observed, true)) return true; // the description has to change
  if (clock?.isLate === false && blockedBy !== undefined) return true; // it was late, and its deadline is watched again
  return isWorthAStep(observed, isReportedLate(clock, observed));
}
