/** Waiting for Kubernetes: what cannot be read or written now is tried until it can. */
import { type Failure, isActivityFailure, toFailure } from './failure.ts';

/** How long to pause between attempts: twice as long each time, ms. */
export interface Pauses {
  readonly firstMs: number;
  readonly longestMs: number;
}

/**
 * Repeats a request until it is answered.
 * @param wait waits after a failure, no longer than `pauseMs`. What it throws ends the attempts.
 */
export async function untilAnswered<T>(
  request: () => Promise<T>,
  { firstMs, longestMs }: Pauses,
  wait: (failure: Failure, pauseMs: number) => Promise<void>,
): Promise<T> {
  for (let pauseMs = firstMs; ; pauseMs = Math.min(pauseMs * 2, longestMs)) {
    try {
      return await request();
    } catch (error) {
      if (!isActivityFailure(error)) throw error;
      await wait(toFailure(error), pauseMs);
    }
  }
}
