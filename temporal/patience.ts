/** Waiting for a Temporal server that is away. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../kube/logger.ts';
import { isAway, reasonOf } from './connection.ts';

export interface PatienceOptions {
  /** Ends the wait. Default: nothing does. */
  readonly stopping?: AbortSignal | undefined;
  readonly logger: Logger;
  /** Pause between two attempts, ms. Default 2 000. */
  readonly retryEveryMs?: number;
}

/** Shortest time between two lines of the log, ms. */
const lineEveryMs = 30_000;

/**
 * Makes an attempt until Temporal answers, with a line in the log every 30 s. Rejects with what is wrong besides that
 * it is away, and when the wait is ended.
 */
export async function untilTemporalAnswers<T>(
  attempt: () => Promise<T>,
  { stopping, logger, retryEveryMs = 2_000 }: PatienceOptions,
): Promise<T> {
  const startMs = performance.now();
  let lineMs = Number.NEGATIVE_INFINITY;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!isAway(error)) throw error;
      const nowMs = performance.now();
      if (nowMs - lineMs >= lineEveryMs) {
        const waitedSeconds = Math.round((nowMs - startMs) / 1_000);
        logger.warn({ reason: reasonOf(error), waitedSeconds }, 'waiting for Temporal');
        lineMs = nowMs;
      }
      await sleep(retryEveryMs, undefined, stopping && { signal: stopping });
    }
  }
}
