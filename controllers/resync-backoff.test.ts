import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { createResyncBackoff, type ResyncBackoff } from './resync-backoff.ts';

const resyncMs = 60_000;
let backoff: ResyncBackoff;

beforeEach(() => {
  jest.useFakeTimers();
  backoff = createResyncBackoff(resyncMs);
});
afterEach(() => {
  jest.useRealTimers();
});

/** Numbers of the resyncs at which an object is signalled that always looks the same. */
function signalsOf(resyncs: number): number[] {
  const signals: number[] = [];
  for (let number = 0; number < resyncs; number++) {
    const isDue = backoff.isDue('key', 'same');
    if (isDue) signals.push(number);
    backoff.note('key', 'same', isDue);
    jest.advanceTimersByTime(resyncMs);
  }
  return signals;
}

it('signals after 1, 2, 4 and 8 resyncs, then after every tenth', () => {
  expect(signalsOf(46)).toEqual([1, 3, 7, 15, 25, 35, 45]);
});

it.each([-3_600_000, 3_600_000])('signals at the same resyncs where the clock steps by %d ms', (ms) => {
  backoff.note('key', 'same', false);
  jest.setSystemTime(Date.now() + ms);
  expect(backoff.isDue('key', 'same')).toBe(false);

  expect(signalsOf(8)).toEqual([1, 3, 7]);
});

it('starts again when the object looks different, or was forgotten', () => {
  backoff.note('key', 'same', false);
  jest.advanceTimersByTime(resyncMs);

  expect([backoff.isDue('key', 'same'), backoff.isDue('key', 'other'), backoff.isDue('another', 'same')]).toEqual([
    true,
    false,
    false,
  ]);
  backoff.forget('key');
  expect(backoff.isDue('key', 'same')).toBe(false);
});
