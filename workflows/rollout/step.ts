/** One round of an owner: observe, plan and act. */
import { ActivityFailure, patched } from '@temporalio/workflow';
import type { StepResult } from '../../activities/owner/index.ts';
import type { OwnerPlan, OwnerReading, OwnerSnapshot, OwnerView } from '../../api/model/owner.ts';
import { maxLabelLength, safeAlphabet } from '../../api/names.ts';
import { nextAttemptMs, withoutPauses } from '../../api/owner/failed-attempts.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { frozenSets, sumOf } from '../../api/owner/set-counts.ts';
import { isOutage, toFailure } from '../calls/failure.ts';
import { actOnOwner, observeOwner } from './calls.ts';
import { afterOutage, isReportedLate } from './clock.ts';
import { checkDeadline } from './deadline.ts';
import { withRules } from './earlier-readings.ts';
import { isEmpty, planOwner } from './plan.ts';
import { isStepHeld, noteStep } from './repeats.ts';
import { doingOf, report, reportError, showBlocker, showHolds } from './report.ts';
import { type OwnerRun, withOwnCreations, withOwnReplacements } from './state.ts';

/** Readings start this far apart, so that one step handles all changes in between. */
const readingPauseMs = 300;

/** A reading that took longer than this, ms, counts as a failed request: all workers may have been down since. */
const maxReadingAgeMs = 60_000;

/** So many failed requests in a row, with growing pauses between them, are no short outage any more. */
const failuresUntilBlocked = 4;

/** How a step ended. */
export type StepOutcome =
  | 'gone' // the owner does not exist
  | 'replaced' // the owner has another template: another run rolls it out
  | 'outdated' // the reading took too long; only in histories from before this counted as a failed request
  | 'done' // nothing is left to do
  | 'waiting' // nothing can be done before a machine has changed
  | 'acted'
  | 'changing' // machines were created or deleted
  | 'held' // by an outage, or until machines have seen what was decided
  | 'limited' // by the namespace
  | 'queued' // the same, and only others use the limit
  | 'notKept' // the last step for the same view has changed nothing
  | 'requestFailed'; // or its answer took too long

/** Runs one step. Throws the failure of the run when its progress deadline has passed. */
export async function runStep(run: OwnerRun, observed: OwnerView | undefined): Promise<StepOutcome> {
  try {
    const askedMs = Date.now();
    const answer = await readOwner(run, observed);
    const reading = takeReading(run, answer, askedMs);
    if (typeof reading === 'string') return reading;
    noteBlocks(run, reading.view);
    await checkDeadline(run, reading.view);
    return await changeOwner(run, reading);
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    noteFailure(run, error);
    return 'requestFailed';
  }
}

/**
 * Notes how many requests have failed in a row. When they go on to fail a search for blocked workflows finds the owner.
 */
export function countFailures(run: OwnerRun, failuresInARow: number): void {
  run.failuresInARow = failuresInARow;
  const isOfLimits = run.description.blockedOn === 'WorkflowTask';
  const isRefused = failuresInARow >= failuresUntilBlocked && !isOfLimits;
  if (isRefused === run.isRefused || !patched('refusals-in-search-attributes')) return;
  run.isRefused = isRefused;
  showBlocker(run);
}

function readOwner(run: OwnerRun, observed: OwnerView | undefined) {
  const { ref, kind, nextStepMs, reader } = run;
  const last = {
    ...(reader !== undefined && { reader }),
    ...(observed && countsOf(observed)),
    ...knownAttempts(run),
  };
  return observeOwner(ref, kind, nextStepMs, last);
}

/** What was read, by the rules of this release, or why nothing is done with it. */
function takeReading(
  run: OwnerRun,
  answer: OwnerReading | null,
  askedMs: number,
): OwnerSnapshot | 'gone' | 'outdated' | 'replaced' | 'requestFailed' {
  run.nextStepMs = Date.now() + readingPauseMs;
  if (answer === null) return 'gone';
  const view = withRules(answer.view);
  run.reader = answer.reader;
  const tookMs = Date.now() - askedMs;
  if (tookMs > maxReadingAgeMs) {
    run.clock = afterOutage(run.clock, Date.now());
    if (!patched('outdated-readings-are-failures')) return 'outdated';
    const message = `reading its machines took ${Math.round(tookMs / 1_000)} s with the wait for a worker, so nothing is decided by it`;
    reportError(run, { code: 'DeadlineExceeded', message, blockedOn: 'KubernetesApi' }, true);
    return 'requestFailed';
  }
  run.hash ??= view.template.hash;
  return run.hash === view.template.hash ? { ...answer, view } : 'replaced';
}

/** Notes what keeps the owner from being changed, by its spec and its sets. */
function noteBlocks(run: OwnerRun, view: OwnerView): void {
  const isInvalid = view.problem !== undefined && !view.deleting;
  if (isInvalid !== run.isInvalid && patched('invalid-owners-are-blocked')) run.isInvalid = isInvalid;
  const isFrozen = frozenSets(view).length > 0;
  if (isFrozen !== run.isFrozen && patched('blocked-on-a-freeze')) run.isFrozen = isFrozen;
}

/** Plans with the reading and with what only the run knows, and does what is planned. */
async function changeOwner(run: OwnerRun, reading: OwnerSnapshot): Promise<StepOutcome> {
  const { view } = reading;
  const isComplete = sumOf(view.sets, ({ active }) => active) >= view.replicas;
  if (isComplete) run.unfilled.clear(); // nothing has to be made in their place
  const sets = new Set(view.sets.flatMap(({ name, deleting }) => (deleting ? [] : [name])));
  for (const set of run.attempts.keys()) if (!sets.has(set)) run.attempts.delete(set);
  const seen = withOwnReplacements(run, withOwnCreations(run, reading));
  const known = run.isRetry ? { ...seen, view: withoutPauses(seen.view) } : seen;
  run.nextAttemptMs = nextAttemptMs(known.view);
  const plan = planOwner(known, newName, isReportedLate(run.clock, view));
  if (isEmpty(plan)) countFailures(run, 0);
  if (isEmpty(plan) && run.isHeld && patched('an-outage-that-is-over')) run.isHeld = false;
  const isHeld = isStepHeld(run, view);
  report(run, view, doingOf(view, isEmpty(plan)));
  if (isEmpty(plan)) return needsNothing(run, view) ? 'done' : 'waiting';
  if (isHeld) return 'notKept';
  run.isRetry = false;
  return carryOut(run, view, plan);
}

/** The next run of an owner that needs nothing begins without what this run knows. */
function needsNothing(run: OwnerRun, view: OwnerView): boolean {
  if (ownerNeeds(view).length > 0 || run.isInvalid) return false;
  return run.attempts.size === 0 || !patched('attempts-keep-a-run-open');
}

/** Does what is planned, and notes what the next step has to know of it. */
async function carryOut(run: OwnerRun, view: OwnerView, plan: OwnerPlan): Promise<StepOutcome> {
  for (const { set, id } of plan.create) run.planned.set(set, id);
  const result = (await actOnOwner(run.ref, run.kind, { ...plan, ...knownAttempts(run) })) ?? {};
  const { isVoid, notKept, attempts, outage, replaced = [], limited } = result;
  noteAttempts(run, attempts);
  noteCreations(run, plan, new Set(limited?.names));
  for (const name of replaced) run.unfilled.add(name);
  showHolds(run, outage, limited);
  run.isHeld = outage !== undefined && patched('blocked-on-an-outage');
  if (run.isHeld) showBlocker(run);
  if (outage !== undefined) return 'held';
  if (limited !== undefined) return limited.isOwn ? 'limited' : 'queued';
  // Nothing was written for a machine whose Node is well by now. What was written comes back as a signal.
  if (notKept === undefined && isEmpty({ ...plan, replace: [] })) return 'held';
  if (!isVoid) noteStep(run, view, notKept);
  return plan.create.length > 0 || plan.remove.length > 0 ? 'changing' : 'acted';
}

/** The failed attempts that the run knows, for an activity. */
function knownAttempts({ attempts }: OwnerRun) {
  return attempts.size === 0 ? {} : { attempts: Object.fromEntries(attempts) };
}

function noteAttempts({ attempts }: OwnerRun, recorded: StepResult['attempts'] = {}): void {
  for (const [set, each] of Object.entries(recorded)) {
    if (each === null) attempts.delete(set);
    else attempts.set(set, each);
  }
}

/** Notes the creations that are over. @param refused names of machines that a limit has kept from being created */
function noteCreations(run: OwnerRun, { create }: OwnerPlan, refused: ReadonlySet<string>): void {
  for (const { set, id, names, replaces = {} } of create) {
    run.created.set(set, id);
    const kept = names.filter((name) => refused.has(name));
    run.refused.set(set, kept);
    for (const [name, old] of Object.entries(replaces)) if (!refused.has(name)) run.unfilled.delete(old);
  }
}

function noteFailure(run: OwnerRun, error: ActivityFailure): void {
  const failure = toFailure(error);
  // A rollout whose machines the API server refuses is late, too.
  if (isOutage(failure) || (failure.isThrottled && !patched('a-pause-is-no-outage')))
    run.clock = afterOutage(run.clock, Date.now());
  reportError(run, failure, isOutage(failure) || failure.isThrottled === true);
}

function countsOf({ sets }: OwnerView) {
  return { sets: sets.length, machines: sumOf(sets, ({ total }) => total) };
}

/**
 * `<prefix>-` and five characters, from the workflow's own seeded random. As an API server does for `generateName`, it
 * cuts the prefix: a Node has the name of its Machine as a label.
 */
function newName(prefix: string): string {
  const suffix = Array.from({ length: 5 }, randomCharacter).join('');
  return `${`${prefix}-`.slice(0, maxLabelLength - suffix.length)}${suffix}`;
}

function randomCharacter(): string {
  return safeAlphabet.charAt(Math.floor(Math.random() * safeAlphabet.length));
}
