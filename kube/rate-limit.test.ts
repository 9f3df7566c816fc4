import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { RateLimitError } from './errors.ts';
import { createRateLimiter, createTokenBucket } from './rate-limit.ts';

const rates = fc.record({
  perSecond: fc.double({ min: 0.1, max: 500, noNaN: true }),
  burst: fc.integer({ min: 1, max: 50 }),
});
const gapsMs = fc.array(fc.double({ min: 0, max: 2_000, noNaN: true }), { minLength: 1, maxLength: 200 });

/** When each caller may start, by the pauses between the callers in milliseconds. */
function grants({ perSecond, burst }: { perSecond: number; burst: number }, gaps: readonly number[]): number[] {
  const bucket = createTokenBucket(perSecond, burst);
  let now = 0;
  return gaps.map((gap) => {
    now += gap;
    return now + bucket.reserve(now);
  });
}

describe('a token bucket', () => {
  it('never grants more than burst and rate allow in any span of time', () => {
    fc.assert(
      fc.property(rates, gapsMs, (rate, gaps) => {
        const times = grants(rate, gaps);

        for (const [first, from] of times.entries()) {
          for (let last = first; last < times.length; last += 1) {
            const seconds = ((times[last] ?? 0) - from) / 1000;
            expect(last - first + 1).toBeLessThanOrEqual(rate.burst + seconds * rate.perSecond + 1e-6);
          }
        }
      }),
      { numRuns: 50 },
    );
  });

  it('grants in order, and at once after a long pause', () => {
    fc.assert(
      fc.property(rates, gapsMs, (rate, gaps) => {
        const times = grants(rate, gaps);

        expect(times).toEqual([...times].sort((a, b) => a - b));
        expect(times[0]).toBe(gaps[0]);
      }),
    );
  });

  it('is unchanged when a reservation is returned at once', () => {
    fc.assert(
      fc.property(rates, fc.integer({ min: 0, max: 100 }), (rate, taken) => {
        const bucket = createTokenBucket(rate.perSecond, rate.burst);
        for (let index = 0; index < taken; index += 1) bucket.reserve(0);
        const before = bucket.waitMs(0);

        bucket.reserve(0);
        bucket.returnToken();

        expect(bucket.waitMs(0)).toBeCloseTo(before, 6);
      }),
    );
  });
});

describe('a rate limiter', () => {
  const { signal } = new AbortController();

  it('refuses a failFast caller that would wait more than a second, and costs it no token', async () => {
    const wait = createRateLimiter(0.5, 1);
    await wait({ signal, failFast: true });

    const refusals = await Promise.allSettled([wait({ signal, failFast: true }), wait({ signal, failFast: true })]);

    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ status: 'rejected', reason: expect.any(RateLimitError) });
      expect(refusal).toHaveProperty('reason.retryAfterMs', expect.any(Number));
    }
  });

  it('gives the token of an aborted wait to the next caller', async () => {
    const wait = createRateLimiter(0.001, 1);
    await wait({ signal, failFast: false });
    const aborting = new AbortController();

    const waiting = wait({ signal: aborting.signal, failFast: false });
    aborting.abort();

    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    const refusal = wait({ signal, failFast: true }).catch((error: RateLimitError) => error.retryAfterMs);
    expect(await refusal).toBeLessThanOrEqual(1_000_000);
  });

  it('names a limit that makes no sense', () => {
    expect(() => createRateLimiter(0, 10)).toThrow('qps is 0: give a number above 0');
    expect(() => createRateLimiter(10, 0)).toThrow('burst is 0: give a number of at least 1');
  });
});
