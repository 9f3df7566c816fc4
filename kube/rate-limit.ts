/** Client-side rate limit: a token bucket, so that one busy loop cannot overload the API server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { RateLimitError } from './errors.ts';

/** A token bucket. Times are milliseconds of one monotonic clock. */
export interface TokenBucket {
  /** Takes a token and returns how long to wait until it is there, 0 when it is there now. First come, first served. */
  reserve(nowMs: number): number;
  /** How long a reservation made now would have to wait. */
  waitMs(nowMs: number): number;
  /** Returns a reservation that will not be used. */
  returnToken(): void;
}

/** Starts full with `burst` tokens and gains `perSecond` tokens a second up to `burst`. */
export function createTokenBucket(perSecond: number, burst: number): TokenBucket {
  let tokens = burst;
  let filledAt: number | undefined;
  const fill = (nowMs: number) => {
    const elapsedMs = Math.max(0, nowMs - (filledAt ?? nowMs));
    tokens = Math.min(burst, tokens + (elapsedMs / 1000) * perSecond);
    filledAt = Math.max(nowMs, filledAt ?? nowMs);
  };
  const deficitMs = (wanted: number) => Math.max(0, ((wanted - tokens) / perSecond) * 1000);
  return {
    reserve(nowMs) {
      fill(nowMs);
      const waitMs = deficitMs(1);
      tokens -= 1;
      return waitMs;
    },
    waitMs(nowMs) {
      fill(nowMs);
      return deficitMs(1);
    },
    returnToken() {
      tokens = Math.min(burst, tokens + 1);
    },
  };
}

/** Longest wait that a `failFast` caller accepts. */
const failFastMs = 1000;

/** Resolves when the caller may send one request. */
export type RateLimiter = (options: { signal: AbortSignal; failFast: boolean }) => Promise<void>;

/**
 * `qps` requests a second on average, `burst` at once. With `failFast` it throws RateLimitError instead of
 * waiting more than a second; an aborted wait rejects with an AbortError and costs no token.
 */
export function createRateLimiter(qps: number, burst: number): RateLimiter {
  if (!(qps > 0)) throw new Error(`qps is ${qps}: give a number above 0`);
  if (!(burst >= 1)) throw new Error(`burst is ${burst}: give a number of at least 1`);
  const bucket = createTokenBucket(qps, burst);
  return async ({ signal, failFast }) => {
    const now = performance.now();
    const expected = bucket.waitMs(now);
    if (failFast && expected > failFastMs) throw new RateLimitError(expected - failFastMs);
    const waitMs = bucket.reserve(now);
    if (waitMs === 0) return;
    try {
      await sleep(waitMs, undefined, { signal });
    } catch (error) {
      bucket.returnToken();
      throw error;
    }
  };
}
