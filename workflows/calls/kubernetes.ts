/** Calls to a Kubernetes API server, which may be away for hours. */
import { type Failure, isActivityFailure, toFailure } from './failure.ts';

/** What a person can do about a request that is refused or not answered. */
export const checkApiServers = 'Check that the API servers answer Millwright and that its account may do this.';

/**
 * What a person can do about writes that are not kept.
 * @param what which objects were written
 * @param retry command line that tries again
 */
export function findWhoChanges(what: string, retry: string): string {
  return `Find the webhook, policy or controller that changes ${what} back. \`${retry}\` tries at once.`;
}

/** How an outage is waited for. */
export interface OutageOptions {
  readonly firstPauseMs: number;
  readonly maxPauseMs: number;
  /** Called after each failed attempt. Shows the failure and waits for `pauseMs`, or less when something changes. */
  readonly pause: (failure: Failure, pauseMs: number) => Promise<unknown>;
}

/**
 * Makes a call until it is answered. The pause doubles with each failed attempt, is at least as long as the API server
 * asks for, and at most `maxPauseMs`. Throws what is no failure of an activity, and what `pause` throws.
 */
export async function untilAnswered<T>(call: () => Promise<T>, options: OutageOptions): Promise<T> {
  const { firstPauseMs, maxPauseMs, pause } = options;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
    try {
      return await call();
    } catch (error) {
      if (!isActivityFailure(error)) throw error;
      const failure = toFailure(error);
      await pause(failure, Math.min(Math.max(pauseMs, failure.retryAfterMs ?? 0), maxPauseMs));
    }
  }
}
