/**
 * The owner of machines: everything that creates or deletes the machines of a MachineDeployment, or of a MachineSet
 * without one, is decided here. A loop of observe, plan, act and wait, open while the owner needs something.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  condition,
  continueAsNew,
  patched,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { OwnerKind } from '../../activities/owner/index.ts';
import type { OwnerView } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { maxLabelLength, safeAlphabet } from '../../api/names.ts';
import { nextAttemptMs, withoutPauses } from '../../api/owner/failed-attempts.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { frozenSets, sumOf } from '../../api/owner/set-counts.ts';
import { isOutage, toFailure } from '../calls/failure.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { actOnOwner, observeOwner } from './calls.ts';
import { afterOutage, isReportedLate, tickForward } from './clock.ts';
import { checkDeadline, watchDeadline } from './deadline.ts';
import { withRules } from './earlier-readings.ts';
import { describeOwnerQuery, ownerObservedSignal, progressDeadlineFailure, type RolloutState } from './messages.ts';
import { isEmpty, isWorthAStep, planOwner } from './plan.ts';
import { heldMs, isStepHeld, noteStep, seesOther } from './repeats.ts';
import { doingOf, report, reportError, showBlocker, showHolds } from './report.ts';
import { newOwnerRun, type OwnerRun, toRolloutState, withOwnCreations, withOwnReplacements } from './state.ts';

/**
 * Workflow type `rollout`. Owns the machines of a MachineDeployment. Completes when nothing is left to do. A run is one
 * rollout: another template starts another run. It fails past the progress deadline. Its retry policy opens the next run,
 * which continues the same rollout and does not fail before there was progress.
 */
export async function rollout(ref: ObjectRef, before?: RolloutState): Promise<void> {
  await runOwner(ref, 'MachineDeployment', workflowInfo().attempt === 1 ? before : stateOfLateRun());
}

/** The state of the late run before this one. A run that failed otherwise leaves none: its arguments are out of date. */
function stateOfLateRun(): RolloutState | undefined {
  const { lastFailure } = workflowInfo();
  if (!(lastFailure instanceof ApplicationFailure) || lastFailure.type !== progressDeadlineFailure) return undefined;
  return lastFailure.details?.[0] as RolloutState | undefined;
}

/** Workflow type `machineSet`. Owns the machines of a MachineSet that no deployment owns. */
export async function machineSet(ref: ObjectRef, before?: RolloutState): Promise<void> {
  await runOwner(ref, 'MachineSet', before);
}

/** Readings start this far apart, so that one step handles all changes in between. */
const readingPauseMs = 300;

/** How long after machines were created or deleted the next reading is made at the earliest, ms: some take effect by then. */
const stepPauseMs = 1_000;

/** The same at the latest, although no watcher has reported something to do. */
const longestStepPauseMs = 2_000;

/** How often an owner looks again at unhealthy machines that an outage keeps, or whose Nodes are well by now, ms. */
const heldPauseMs = 10_000;

/** How often an owner claims machines again that a limit of its namespace keeps from being created, if nobody tells it, ms. */
const limitPauseMs = 60_000;

/** A reading that took longer than this, ms, is discarded: all workers may have been down since it began. */
const maxReadingAgeMs = 60_000;

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
    if (outcome === 'requestFailed')
      await condition(() => run.refreshNow, Math.min(500 * 2 ** run.failuresInARow, 5_000), {
        summary: 'next reading after a failed request',
      });
    if (outcome === 'changing') {
      run.nextStepMs = Date.now() + stepPauseMs;
      await condition(() => run.refreshNow || asksForStep(run), longestStepPauseMs, {
        summary: 'machines are created or deleted',
      });
    }
    if (outcome === 'held')
      await condition(() => run.refreshNow || asksForStep(run), heldPauseMs, {
        summary: 'next look at unhealthy machines',
      });
    if (outcome === 'limited' || outcome === 'queued')
      await condition(() => run.refreshNow || asksForStep(run), limitPauseMs, {
        summary: 'next claim of machines that the namespace limits',
      });
    // Who waits for others is not late because of that.
    if (outcome === 'queued') run.clock = afterOutage(run.clock, Date.now());
    if (outcome === 'notKept') {
      void watchDeadline(run).catch(() => undefined);
      const isSooner = run.nextAttemptMs < Date.now() + heldMs(run) && patched('next-attempt-of-a-held-step');
      const pauseMs = isSooner ? Math.max(1, run.nextAttemptMs - Date.now()) : heldMs(run);
      await condition(() => run.refreshNow || seesOther(run) || isLong(), pauseMs, {
        summary: 'next try to write what is not kept',
      });
    }
    if (outcome === 'waiting') {
      void watchDeadline(run).catch(() => undefined); // cancelled together with the wait below
      const isAwake = () => run.refreshNow || asksForStep(run) || isLong();
      if (run.nextAttemptMs === Number.POSITIVE_INFINITY) await condition(isAwake);
      else
        await condition(isAwake, Math.max(1, run.nextAttemptMs - Date.now()), {
          summary: 'next attempt to make machines',
        });
    }
  }
}

/** So many failed requests in a row, with growing pauses between them, are no short outage any more. */
const failuresUntilBlocked = 4;

/** Notes how many requests have failed in a row. When they go on to fail a search for blocked workflows finds the owner. */
function countFailures(run: OwnerRun, failuresInARow: number): void {
  run.failuresInARow = failuresInARow;
  const isOfLimits = run.description.blockedOn === 'WorkflowTask';
  const isRefused = failuresInARow >= failuresUntilBlocked && !isOfLimits;
  if (isRefused === run.isRefused || !patched('refusals-in-search-attributes')) return;
  run.isRefused = isRefused;
  showBlocker(run);
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
  const retryNow = () => {
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

/** gone: the owner does not exist. replaced: it has another template. outdated: the reading is too old. held: by an outage, or until machines have seen what was decided. changing: machines were created or deleted. limited: by the namespace. queued: the same, and only others use the limit. notKept: the last step for the same has changed nothing. */
type StepOutcome =
  | 'gone'
  | 'done'
  | 'replaced'
  | 'outdated'
  | 'acted'
  | 'changing'
  | 'held'
  | 'limited'
  | 'queued'
  | 'notKept'
  | 'requestFailed'
  | 'waiting';

/** One round of observe, plan and act. Throws the failure of the run when its deadline has passed. */
async function runStep(run: OwnerRun, observed: OwnerView | undefined): Promise<StepOutcome> {
  const { ref, kind } = run;
  const askedMs = Date.now();
  try {
    const last = { ...(run.reader !== undefined && { reader: run.reader }), ...(observed && countsOf(observed)) };
    const answer = await observeOwner(ref, kind, run.nextStepMs, last);
    run.nextStepMs = Date.now() + readingPauseMs;
    if (answer === null) return 'gone';
    const reading = { ...answer, view: withRules(answer.view) };
    run.reader = reading.reader;
    if (Date.now() > askedMs + maxReadingAgeMs) {
      run.clock = afterOutage(run.clock, Date.now());
      return 'outdated';
    }
    const { view } = reading;
    run.hash ??= view.template.hash;
    if (run.hash !== view.template.hash) return 'replaced';
    const isInvalid = view.problem !== undefined && !view.deleting;
    if (isInvalid !== run.isInvalid && patched('invalid-owners-are-blocked')) run.isInvalid = isInvalid;
    const isFrozen = frozenSets(view).length > 0;
    if (isFrozen !== run.isFrozen && patched('blocked-on-a-freeze')) run.isFrozen = isFrozen;
    await checkDeadline(run, view);
    const isComplete = sumOf(view.sets, ({ active }) => active) >= view.replicas;
    if (isComplete) run.unfilled.clear(); // nothing has to be made in their place
    const seen = withOwnReplacements(run, withOwnCreations(run, reading));
    const known = run.isRetry ? { ...seen, view: withoutPauses(seen.view) } : seen;
    run.nextAttemptMs = nextAttemptMs(known.view);
    const plan = planOwner(known, newName, isReportedLate(run.clock, view));
    if (isEmpty(plan)) countFailures(run, 0);
    if (isEmpty(plan) && run.isHeld && patched('an-outage-that-is-over')) run.isHeld = false;
    const isHeld = isStepHeld(run, view);
    report(run, view, doingOf(view, isEmpty(plan)));
    if (isEmpty(plan)) return ownerNeeds(view).length === 0 && !run.isInvalid ? 'done' : 'waiting';
    if (isHeld) return 'notKept';
    run.isRetry = false;
    for (const { set, id } of plan.create) run.planned.set(set, id);
    const { isVoid, notKept, outage, replaced = [], limited } = (await actOnOwner(ref, kind, plan)) ?? {};
    const refused = new Set(limited?.names);
    for (const { set, id, names, replaces = {} } of plan.create) {
      run.created.set(set, id);
      run.refused.set(
        set,
        names.filter((name) => refused.has(name)),
      );
      for (const [name, old] of Object.entries(replaces)) if (!refused.has(name)) run.unfilled.delete(old);
    }
    for (const name of replaced) run.unfilled.add(name);
    showHolds(run, outage, limited);
    run.isHeld = outage !== undefined && patched('blocked-on-an-outage');
    if (run.isHeld) showBlocker(run);
    if (outage !== undefined) return 'held';
    if (limited !== undefined) return limited.isOwn ? 'limited' : 'queued';
    // Nothing was written for a machine whose Node is well by now. What was written comes back as a signal.
    if (isEmpty({ ...plan, replace: [] })) return 'held';
    if (!isVoid) noteStep(run, view, notKept);
    return plan.create.length > 0 || plan.remove.length > 0 ? 'changing' : 'acted';
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    const failure = toFailure(error);
    // A rollout whose machines the API server refuses is late, too.
    if (isOutage(failure) || (failure.isThrottled && !patched('a-pause-is-no-outage')))
      run.clock = afterOutage(run.clock, Date.now());
    reportError(run, failure, isOutage(failure) || failure.isThrottled === true);
    return 'requestFailed';
  }
}

function countsOf({ sets }: OwnerView) {
  return { sets: sets.length, machines: sumOf(sets, ({ total }) => total) };
}

/** Whether what a watcher saw asks for the next step, also by what only the run knows. */
function asksForStep({ observed, clock, blockedBy, description }: OwnerRun): boolean {
  if (observed === undefined) return false;
  if (observed.orphans && description.doing !== doingOf(observed, true)) return true; // the description has to change
  if (clock?.isLate === false && blockedBy !== undefined) return true; // it was late, and its deadline is watched again
  return isWorthAStep(observed, isReportedLate(clock, observed));
}

/**
 * `<prefix>-` and five characters, from the workflow's own seeded random. As an API server does for `generateName`, it cuts
 * the prefix: a Node has the name of its Machine as a label.
 */
function newName(prefix: string): string {
  const suffix = Array.from({ length: 5 }, randomCharacter).join('');
  return `${`${prefix}-`.slice(0, maxLabelLength - suffix.length)}${suffix}`;
}

function randomCharacter(): string {
  return safeAlphabet.charAt(Math.floor(Math.random() * safeAlphabet.length));
}
