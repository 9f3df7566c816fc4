/**
 * What has no effect, or is undone at once, is done again with growing pauses. Plain code: workflow code imports this
 * file.
 */

/** What was done last. */
export interface Repeat {
  /** What it was done from: only the same again is a repetition. */
  readonly text: string;
  /** ms, by any clock: the same one for all times of this file. */
  readonly atMs: number;
  /** How often in a row, each time soon after the last. */
  readonly times: number;
}

const firstPauseMs = 1_000;
const maxPauseMs = 10 * 60_000;
/** So many come without a pause: somebody may only have been faster. */
const free = 3;

/** Whether there was a pause before what was done last: it is known to have no effect. */
export function isPaced({ times }: Repeat): boolean {
  return times > free;
}

/** When the same may be done again, ms. */
export function repeatedAtMs({ atMs, times }: Repeat): number {
  return atMs + pauseMs(times);
}

/**
 * What is done now, as the last of its kind. What has lasted for twice its last pause had an effect.
 * @param soonMs how soon after the last it is a repetition where that has no pause, ms: a busy process may need some
 * seconds
 */
export function nextRepeat(last: Repeat | undefined, text: string, nowMs: number, soonMs = 60_000): Repeat {
  const isSoon = last !== undefined && nowMs < last.atMs + Math.max(2 * pauseMs(last.times), soonMs);
  return { text, atMs: nowMs, times: isSoon && last.text === text ? last.times + 1 : 1 };
}

function pauseMs(times: number): number {
  return times <= free ? 0 : Math.min(firstPauseMs * 2 ** (times - free - 1), maxPauseMs);
}
