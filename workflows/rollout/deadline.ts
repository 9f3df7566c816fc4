/** The progress deadline of a rollout: when to read again, and what happens when it has passed. */
import { condition } from '@temporalio/workflow';
import type { OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { isActivityFailure } from '../calls/failure.ts';
import { actOnOwner, listBlockers } from './calls.ts';
import { afterOutage, deadlineMs, isDue, tick, withNewDeadline } from './clock.ts';
import { planLateReport } from './plan.ts';
import { showBlocker, toLateFailure, toLateNote } from './report.ts';
import { type OwnerRun, toRolloutState } from './state.ts';

/** A timer that fires this late means that Temporal or all workers were down, ms. */
const lateTimerMs = 30_000;

/**
 * While a rollout is under way and not late: asks for a reading when the deadline has passed, and ten times before that
 * if nothing moves. Otherwise an outage of the API server that nobody saw would count as time without progress. One
 * timer at a time, however often the workflow is woken.
 */
export async function watchDeadline(run: OwnerRun): Promise<void> {
  if (run.isDeadlineWatched) return;
  run.isDeadlineWatched = true;
  for (;;) {
    const { clock, deadlineMs: totalMs } = run;
    if (clock === undefined || clock.isLate) break;
    const startMs = Date.now();
    const leftMs = clock.sinceMs + totalMs - startMs;
    const tenthMs = totalMs / 10;
    const waitMs = Math.max(1_000, leftMs > 0 ? Math.min(leftMs, tenthMs) : tenthMs);
    if (await condition(() => run.deadlineMs !== totalMs, waitMs, { summary: 'progress deadline' })) continue;
    if (Date.now() > startMs + waitMs + lateTimerMs) run.clock = afterOutage(run.clock, Date.now());
    if (run.clock?.sinceMs === clock.sinceMs) run.refreshNow = true;
  }
  run.isDeadlineWatched = false;
}

/**
 * Sets the clock by a reading. When the deadline has passed, finds out what the rollout waits for. With a deadline in
 * the spec it also reports the rollout as late and throws the failure of the run. Throws what a step throws.
 */
export async function checkDeadline(run: OwnerRun, view: OwnerView): Promise<void> {
  const clock = withNewDeadline(tick(run.clock, view, Date.now()), view, Date.now());
  run.clock = clock;
  run.deadlineMs = deadlineMs(view);
  const isOver = clock !== undefined && isDue(clock, view, Date.now());
  if (!isOver && (!clock?.isLate || run.blockedBy !== undefined)) {
    if (!clock?.isLate) run.blockedBy = undefined;
    showBlocker(run);
    return;
  }
  const blockedBy = await readBlockers(run.ref);
  // The API server that does not answer may be the cause, and lets no machine be created or deleted.
  if (blockedBy === undefined) {
    if (isOver) run.clock = afterOutage(run.clock, Date.now());
    return;
  }
  // Meanwhile there may have been progress, or a change such as a pause: the next reading decides.
  if (run.clock !== clock || (run.observed?.generation ?? 0) > view.generation) return;
  const isFailed = isOver && view.progressDeadlineSeconds !== undefined;
  const lateReport = () => planLateReport(view, toLateNote(view, blockedBy ?? undefined));
  const { rolledBack, isVoid } = (isFailed && (await actOnOwner(run.ref, run.kind, lateReport()))) || {};
  if (isVoid) return; // neither reported nor taken back: the next reading decides
  const late = { ...clock, isLate: true };
  run.clock = late;
  run.blockedBy = blockedBy ?? undefined;
  showBlocker(run);
  if (!isFailed) return;
  throw toLateFailure(run.ref, { ...toRolloutState(run), clock: late }, { deadlineMs: run.deadlineMs, rolledBack });
}

/** What a rollout waits for; null when its deployment is gone, undefined while that cannot be read. */
async function readBlockers(ref: ObjectRef): Promise<RolloutBlockers | null | undefined> {
  try {
    return await listBlockers(ref);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return undefined;
  }
}
