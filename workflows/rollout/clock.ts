/** Whether a rollout makes progress: pure. */
import type { OwnerView } from '../../api/model/owner.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { isRolloutSuspended, newSetOf } from '../../api/owner/set-counts.ts';

/** The progress of a rollout, and since when there was none. */
export interface ProgressClock {
  /** The template and the replicas that it is about: a change of them starts a new clock. */
  readonly about: string;
  /** Machines of the new set: the most that there were at once, and the most that were available. */
  readonly updated: number;
  readonly available: number;
  /** The fewest machines that the old sets had, those being deleted included. */
  readonly old: number;
  /** Last progress, or end of an outage, ms since the epoch. */
  readonly sinceMs: number;
  /** Whether the deadline has passed since, and that was handled. */
  readonly isLate: boolean;
}

/** Without a deadline no run fails, but `describe` says what blocks a rollout after this long, seconds. */
const defaultDeadlineSeconds = 15 * 60;

/**
 * The clock after `view` was seen; undefined while no rollout is under way: it is complete, paused, or being deleted.
 *
 * More new machines, more available ones and fewer old ones are progress, as in Kubernetes. Unlike there it takes more
 * than ever before: a machine that fails and is replaced again and again is no progress.
 */
export function tick(before: ProgressClock | undefined, view: OwnerView, nowMs: number): ProgressClock | undefined {
  if (!isTimed(view)) return undefined;
  const about = aboutOf(view);
  const reached = reachedBy(view);
  if (before?.about !== about) {
    // The status is that of a run that is over or was terminated. It was about this template, if that has a set.
    const isLate = before === undefined && view.progress === 'late' && view.sets.some((set) => set.isNew);
    return { about, ...reached, sinceMs: nowMs, isLate };
  }
  const updated = Math.max(before.updated, reached.updated);
  const available = Math.max(before.available, reached.available);
  const old = Math.min(before.old, reached.old);
  const hasMoved = updated > before.updated || available > before.available || old < before.old;
  return hasMoved ? { about, updated, available, old, sinceMs: nowMs, isLate: false } : before;
}

/** The same for a view from a cache, which may be behind: it only adds progress. */
export function tickForward(
  before: ProgressClock | undefined,
  view: OwnerView,
  nowMs: number,
): ProgressClock | undefined {
  const isAboutIt = before !== undefined && before.about === aboutOf(view);
  return isAboutIt ? (tick(before, view, nowMs) ?? before) : before;
}

/**
 * The clock by a live view. Without a deadline the status never says late: when such an owner gets a deadline, its
 * clock starts again.
 */
export function withNewDeadline(
  clock: ProgressClock | undefined,
  { progressDeadlineSeconds, progress }: OwnerView,
  nowMs: number,
): ProgressClock | undefined {
  const isNew = clock?.isLate === true && progressDeadlineSeconds !== undefined && progress !== 'late';
  return isNew ? { ...clock, sinceMs: nowMs, isLate: false } : clock;
}

/** The clock after an outage that ended just now: it starts again. */
export function afterOutage(clock: ProgressClock | undefined, nowMs: number): ProgressClock | undefined {
  return clock && { ...clock, sinceMs: nowMs };
}

/** How long a rollout may take to make progress, ms. */
export function deadlineMs({ progressDeadlineSeconds = defaultDeadlineSeconds }: OwnerView): number {
  return progressDeadlineSeconds * 1_000;
}

/** Whether the deadline has passed; only once, until there is progress. */
export function isDue(clock: ProgressClock, view: OwnerView, nowMs: number): boolean {
  return !clock.isLate && nowMs >= clock.sinceMs + deadlineMs(view);
}

/** Whether the condition Progressing should say that the rollout is late. */
export function isReportedLate(clock: ProgressClock | undefined, view: OwnerView): boolean {
  return clock?.isLate === true && view.progressDeadlineSeconds !== undefined;
}

/** Nobody knows when people select the machines of an in-place update. */
function isTimed(view: OwnerView): boolean {
  if (view.selectsManually) return false;
  return !view.deleting && !isRolloutSuspended(view) && ownerNeeds(view).includes('progress');
}

function aboutOf({ template, replicas }: OwnerView): string {
  return `${template.hash}/${replicas}`;
}

function reachedBy(view: OwnerView) {
  const newSet = newSetOf(view);
  const old = view.sets.filter((set) => set !== newSet).reduce((sum, set) => sum + set.total, 0);
  return { updated: newSet?.active ?? 0, available: newSet?.available ?? 0, old };
}
