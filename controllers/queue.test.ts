import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { recordingLogger } from '../test/support/kube.ts';
import { createQueue } from './queue.ts';

const logger = recordingLogger();

it('leaves time to the event loop while very many keys are handled', async () => {
  let handled = 0;
  const queue = createQueue({
    concurrency: 20,
    delayMs: 0,
    logger,
    async handle() {
      for (const endsAt = performance.now() + 0.5; performance.now() < endsAt; );
      handled += 1;
    },
  });
  for (let key = 0; key < 1_000; key += 1) queue.add(`${key}`);

  const seen: number[] = [];
  while (handled < 1_000) {
    await turn();
    seen.push(handled);
  }
  // A turn of the event loop handles those of 10 ms, and takes up what else has come.
  expect(seen.length).toBeGreaterThan(10);
  await queue.stop();
});

describe('on a clock that the test sets', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('handles a key once more that was added meanwhile, and never twice at once', async () => {
    const steps: string[] = [];
    const queue = createQueue({
      concurrency: 20,
      delayMs: 0,
      logger,
      async handle(key) {
        steps.push(`start ${key}`);
        if (steps.length === 1) for (let repeat = 0; repeat < 3; repeat += 1) queue.add(key);
        await new Promise((done) => setTimeout(done, 20));
        steps.push(`end ${key}`);
      },
    });
    queue.add('a');
    await jest.advanceTimersByTimeAsync(1_000);
    await queue.stop();

    expect(steps).toEqual(['start a', 'end a', 'start a', 'end a']);
  });

  it('handles a key at once, and then all that comes while it rests in one go', async () => {
    let handled = 0;
    const queue = createQueue({
      concurrency: 20,
      delayMs: 0,
      restMs: 300,
      logger,
      async handle(key) {
        handled += 1;
        if (handled === 1) queue.add(key);
      },
    });
    queue.add('a');
    await jest.advanceTimersByTimeAsync(0);
    for (let repeat = 0; repeat < 3; repeat += 1) queue.add('a');

    await jest.advanceTimersByTimeAsync(299);
    expect(handled).toBe(1);
    await jest.advanceTimersByTimeAsync(1);
    expect(handled).toBe(2);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(handled).toBe(2);
    await queue.stop();
  });

  it('handles a key again when it is time, and earlier where it was added', async () => {
    const hourMs = 3_600_000;
    const handled: string[] = [];
    const queue = createQueue({
      concurrency: 20,
      delayMs: 0,
      logger,
      handle: async (key) => void handled.push(key),
      againInMs: (key) => (key === 'never' ? undefined : key === 'soon' && handled.length < 4 ? 10 : hourMs),
    });
    queue.add('never');
    queue.add('soon');
    await jest.advanceTimersByTimeAsync(hourMs - 1);
    expect(handled).toEqual(['never', 'soon', 'soon', 'soon']);
    queue.add('soon');
    await jest.advanceTimersByTimeAsync(hourMs - 1);
    await queue.stop();

    expect(handled).toEqual(['never', 'soon', 'soon', 'soon', 'soon']);
  });
});
