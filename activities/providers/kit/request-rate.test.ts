import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ProviderError } from '../provider.ts';
import { createRequestRate, type Priority } from './request-rate.ts';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

const never = new AbortController().signal;
const now = () => performance.now();

/** Asks for turns that may be any time within an hour, and says in which order they came. */
function queueUp(rate: ReturnType<typeof createRequestRate>, priorities: readonly Priority[]) {
  const order: Priority[] = [];
  for (const priority of priorities)
    void rate.turn(priority, now() + 3_600_000, never).then(() => order.push(priority));
  return order;
}

/** How many of 1,000 waiting requests get their turns within a second. */
async function countTurns(rate: ReturnType<typeof createRequestRate>): Promise<number> {
  const order = queueUp(
    rate,
    Array.from({ length: 1_000 }, () => 'create'),
  );
  await jest.advanceTimersByTimeAsync(1_000);
  return order.length;
}

describe('turn', () => {
  it('lets a burst go at once and then as many a second as the limit says', async () => {
    const rate = createRequestRate({ perSecond: 10, burst: 20 });
    const order = queueUp(
      rate,
      Array.from({ length: 100 }, () => 'create'),
    );

    await jest.advanceTimersByTimeAsync(0);
    expect(order).toHaveLength(20);
    await jest.advanceTimersByTimeAsync(3_000);
    expect(order).toHaveLength(50);
    expect(rate.state.waiting).toBe(50);
  });

  it('lets deletions go first, then creations, then the sweep', async () => {
    const rate = createRequestRate({ perSecond: 1, burst: 1 });
    const order = queueUp(rate, ['create', 'sweep', 'create', 'delete', 'delete']);

    await jest.advanceTimersByTimeAsync(10_000);

    expect(order).toEqual(['create', 'delete', 'delete', 'create', 'sweep']);
  });

  it('refuses at once what would wait too long, and says how long', async () => {
    const rate = createRequestRate({ perSecond: 1, burst: 1 });
    queueUp(
      rate,
      Array.from({ length: 11 }, () => 'delete'),
    );

    const refusal = rate.turn('create', now() + 5_000, never);

    await expect(refusal).rejects.toThrow(ProviderError);
    await expect(refusal).rejects.toMatchObject({ code: 'Unavailable', retryAfterMs: 11_000 });
    expect(rate.state.waiting).toBe(10);
  });

  it('refuses a request whose turn is put off while it waits', async () => {
    const rate = createRequestRate({ perSecond: 1, burst: 1 });
    await rate.turn('create', now(), never);
    const refusal = rate.turn('create', now() + 5_000, never).catch((error: unknown) => error);

    rate.throttled(now(), 60_000);
    await jest.advanceTimersByTimeAsync(5_000);

    expect(await refusal).toMatchObject({ code: 'Unavailable' });
    expect(rate.state.waiting).toBe(0);
  });

  it('forgets a request that is cancelled', async () => {
    const rate = createRequestRate({ perSecond: 1, burst: 1 });
    await rate.turn('create', now(), never);
    const controller = new AbortController();
    const cancelled = rate.turn('create', now() + 5_000, controller.signal).catch((error: unknown) => error);

    controller.abort('enough');

    expect(await cancelled).toBe('enough');
    expect(rate.state.waiting).toBe(0);
  });
});

describe('throttling', () => {
  it('halves the rate, once for all requests that were sent before', async () => {
    const rate = createRequestRate({ perSecond: 100, burst: 100 });
    const sentMs = now();
    await jest.advanceTimersByTimeAsync(100);

    for (let request = 0; request < 50; request++) rate.throttled(sentMs);

    expect(rate.state).toEqual({ perSecond: 50, waiting: 0, throttled: 50 });
    expect(await countTurns(rate)).toBe(50);
  });

  it('sends nothing before the cloud wants it', async () => {
    const rate = createRequestRate({ perSecond: 100, burst: 100 });
    rate.throttled(now(), 3_000);
    const order = queueUp(
      rate,
      Array.from({ length: 200 }, () => 'delete'),
    );

    await jest.advanceTimersByTimeAsync(3_000);
    expect(order).toEqual([]);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(order).toHaveLength(50); // and no burst: the cloud has just had too many
  });

  it('asks again after ten seconds though the cloud wants nothing for a day', async () => {
    const rate = createRequestRate({ perSecond: 100, burst: 100 });
    rate.throttled(now(), 86_400_000);
    const order = queueUp(rate, ['delete']);

    await jest.advanceTimersByTimeAsync(9_900);
    expect(order).toEqual([]);
    await jest.advanceTimersByTimeAsync(200);

    expect(order).toEqual(['delete']);
  });

  it('never stops: a cloud that throttles everything is asked 64 times less', async () => {
    const rate = createRequestRate({ perSecond: 64, burst: 64 });

    for (let second = 0; second < 100; second++) {
      rate.throttled(now());
      await jest.advanceTimersByTimeAsync(1_000);
    }

    expect(rate.state.perSecond).toBe(1);
    expect(await countTurns(rate)).toBe(2); // one that it had saved up, and one
  });

  it('is forgotten in equal steps within a minute in which the cloud takes requests', async () => {
    const rate = createRequestRate({ perSecond: 60, burst: 60 });
    rate.throttled(now());

    const seen: number[] = [];
    for (let step = 0; step < 4; step++) {
      await jest.advanceTimersByTimeAsync(10_000);
      rate.taken();
      seen.push(rate.state.perSecond);
    }

    expect(seen).toEqual([40, 50, 60, 60]);
  });
});

describe('an allowance', () => {
  it('that is a quarter left or more changes nothing', () => {
    const rate = createRequestRate({ perSecond: 40, burst: 40 });
    rate.allowed({ kind: 'writes', left: 50, most: 200 });
    expect(rate.state.perSecond).toBe(40);
  });

  it('that is scarce slows the rate down in proportion, and the burst to what is left', async () => {
    const rate = createRequestRate({ perSecond: 40, burst: 40 });
    rate.allowed({ kind: 'writes', left: 25, most: 200 });
    expect(rate.state.perSecond).toBe(20);
    expect(await countTurns(rate)).toBe(25 + 20);
  });

  it('that is used up leaves a 64th of the limit', () => {
    const rate = createRequestRate({ perSecond: 64, burst: 64 });
    rate.allowed({ kind: 'writes', left: 0, most: 200 });
    expect(rate.state.perSecond).toBe(1);
  });

  it('is compared with the most that was seen of its kind', () => {
    const rate = createRequestRate({ perSecond: 40, burst: 40 });
    rate.allowed({ kind: 'vms', left: 1_000 });
    rate.allowed({ kind: 'disks', left: 100 });
    expect(rate.state.perSecond).toBe(40);
    rate.allowed({ kind: 'vms', left: 125 });
    expect(rate.state.perSecond).toBe(20);
  });

  it('that has grown again lets the rate grow as after throttling', async () => {
    const rate = createRequestRate({ perSecond: 60, burst: 60 });
    rate.allowed({ kind: 'writes', left: 0, most: 200 });
    rate.taken();
    await jest.advanceTimersByTimeAsync(30_000);
    rate.allowed({ kind: 'writes', left: 200, most: 200 });
    rate.taken();
    expect(rate.state.perSecond).toBeCloseTo(30.9, 1);
  });
});
