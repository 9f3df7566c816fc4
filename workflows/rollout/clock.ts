/** Whether a rollout moves on: pure. */
import { ownerNeeds, rolloutLate } from '../../api/attention.ts';
import type { OwnerView } from '../../api/model/owner.ts';
import { isRolloutSuspended } from '../../api/owner/replicas.ts';

/** How far a rollout has come, and since when it has come no further. */
export interface ProgressClock {
  /** The template and the replicas that it is about: others begin anew. */
  readonly about: string;
  /** Machines of the template: the most that there were at once, and the most that were available. */
  readonly updated: number;
  readonly available: number;
  /** The fewest machines that others had, those on their way out included. */
  readonly others: number;
  /** When it last got further, or an outage ended, ms since the epoch. */
  readonly sinceMs: number;
  /** Whether it has taken too long since, and that has been dealt with. */
  readonly isLate: boolean;
}

/** Without a deadline nothing fails, but this long without progress is worth a look, seconds. */
const patienceSeconds = 15 * 60;

/**
 * The clock after `view` was seen; undefined while no rollout is under way: it is complete, paused, or not for us.
 *
 * As machine-controller-manager, more machines of the template, more available ones and fewer others are progress. Unlike
 * there it takes more than ever before: a machine that fails and is replaced again and again is none.
 */
export function tick(before: ProgressClock | undefined, view: OwnerView, nowMs: number): ProgressClock | undefined {
  if (!isTimed(view)) return undefined;
  const about = aboutOf(view);
  const reached = reachedBy(view);
  if (before?.about !== about) {
    // What the status says is of a run that is over or was terminated. It was about this template, if that has a set.
    const isLate = before === undefined && view.progress === rolloutLate && view.sets.some((set) => set.current);
    return { about, ...reached, sinceMs: nowMs, isLate };
  }
  const updated = Math.max(before.updated, reached.updated);
  const available = Math.max(before.available, reached.available);
  const others = Math.min(before.others, reached.others);
  const hasMoved = updated > before.updated || available > before.available || others < before.others;
  return hasMoved ? { about, updated, available, others, sinceMs: nowMs, isLate: false } : before;
}

/** The same for a view from a cache, which may be behind: it tells of progress alone. */
export function tickForward(
  before: ProgressClock | undefined,
  view: OwnerView,
  nowMs: number,
): ProgressClock | undefined {
  const isAboutIt = before !== undefined && before.about === aboutOf(view);
  return isAboutIt ? (tick(before, view, nowMs) ?? before) : before;
}

/**
 * The clock by a live view: one that was late by our patience alone, which the status does not tell, begins anew when its
 * owner gets a deadline.
 */
export function toNewDeadline(
  clock: ProgressClock | undefined,
  { progressDeadlineSeconds, progress }: OwnerView,
  nowMs: number,
): ProgressClock | undefined {
  const isNew = clock?.isLate === true && progressDeadlineSeconds !== undefined && progress !== rolloutLate;
  return isNew ? { ...clock, sinceMs: nowMs, isLate: false } : clock;
}

/** The clock after an outage, which ended just now: it begins anew. */
export function afterOutage(clock: ProgressClock | undefined, nowMs: number): ProgressClock | undefined {
  return clock && { ...clock, sinceMs: nowMs };
}

/** How long a rollout may take to get further, ms. */
export function deadlineMs({ progressDeadlineSeconds = patienceSeconds }: OwnerView): number {
  return progressDeadlineSeconds * 1_000;
}

/** Whether the deadline has passed, which it does once until there is progress. */
export function isDue(clock: ProgressClock, view: OwnerView, nowMs: number): boolean {
  return !clock.isLate && nowMs >= clock.sinceMs + deadlineMs(view);
}

/** Whether a rollout is one that the condition Progressing should call late. */
export function isToldLate(clock: ProgressClock | undefined, view: OwnerView): boolean {
  return clock?.isLate === true && view.progressDeadlineSeconds !== undefined;
}

function isTimed(view: OwnerView): boolean {
  return !view.deleting && !isRolloutSuspended(view) && ownerNeeds(view).includes('progress');
}

function aboutOf({ template, replicas }: OwnerView): string {
  return `${template.hash}/${replicas}`;
}

function reachedBy({ sets }: OwnerView) {
  const current = sets.find((set) => set.current && !set.deleting);
  const others = sets.filter((set) => set !== current).reduce((sum, set) => sum + set.total, 0);
  return { updated: current?.active ?? 0, available: current?.available ?? 0, others };
}
