import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { machines } from '../api/gardener/resources.ts';
import type { KubeClient } from '../kube/client.ts';
import { ConnectionError, StatusError } from '../kube/errors.ts';
import { mergePatch, type Patch } from '../kube/patch.ts';
import { recordingLogger } from '../test/support/kube.ts';
import { withKeptWrites } from './kept-writes.ts';
import { createQueue, NotDueError } from './queue.ts';

const minute = 60_000;
const hour = 60 * minute;

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['setImmediate'] }));
afterEach(() => void jest.useRealTimers());

/** A client whose writes are counted. */
function setUp() {
  const patched: unknown[] = [];
  const failing: { error?: Error | undefined } = {};
  const client = {
    patch: async (_resource: object, _key: object, { body }: Patch) => {
      if (failing.error !== undefined) throw failing.error;
      patched.push(body);
    },
  } as unknown as KubeClient;
  const logger = recordingLogger();
  const { patch } = withKeptWrites(client, logger);
  const write = (body: object, name = 'm') => patch(machines, { namespace: 'n', name }, mergePatch(body));
  return { patched, write, logger, failing };
}

describe('a write that is not kept', () => {
  it('is made again with growing pauses, whatever version and time it is of', async () => {
    const { patched, write } = setUp();
    for (let seconds = 0; seconds < 3_600; seconds++) {
      const status = { at: new Date().toISOString() };
      await write({ metadata: { resourceVersion: String(seconds) }, status }).catch(() => undefined);
      await jest.advanceTimersByTimeAsync(1_000);
    }
    expect(patched.length).toBeGreaterThan(10);
    expect(patched.length).toBeLessThan(20);
  });

  it('keeps no other one, of this object or another', async () => {
    const { patched, write } = setUp();
    for (let times = 0; times < 4; times++) await write({ spec: 1 });
    await expect(write({ spec: 1 })).rejects.toThrow(NotDueError);
    await write({ spec: 2 });
    await write({ spec: 1 }, 'other');
    expect(patched).toHaveLength(6);
  });

  it('is no repetition where the last one lasted', async () => {
    const { patched, write } = setUp();
    for (let times = 0; times < 20; times++) {
      await write({ spec: 1 });
      await jest.advanceTimersByTimeAsync(2 * minute);
    }
    expect(patched).toHaveLength(20);
  });

  it.each([
    ['an outage', new ConnectionError('away', { cause: 0, notSent: true })],
    ['a conflict', new StatusError('PATCH /', 409, { reason: 'Conflict' })],
  ])('is none that has failed: after %s it is made at once', async (_, error) => {
    const { patched, write, logger, failing } = setUp();
    failing.error = error;
    for (let times = 0; times < 10; times++) await expect(write({ spec: 1 })).rejects.toBe(error);
    failing.error = undefined;
    await write({ spec: 1 });
    expect(patched).toHaveLength(1);
    expect(logger.lines).toEqual([]);
  });

  it.each([-hour, hour])('is made again after the same pause where the clock steps by %d ms', async (ms) => {
    const { patched, write } = setUp();
    for (let times = 0; times < 4; times++) await write({ spec: 1 });
    jest.setSystemTime(Date.now() + ms);
    await expect(write({ spec: 1 })).rejects.toMatchObject({ retryAfterMs: 1_000 });
    await jest.advanceTimersByTimeAsync(1_000);
    await write({ spec: 1 });
    expect(patched).toHaveLength(5);
  });

  it('is handled again by a queue when its pause is over, and at once after a change', async () => {
    const { patched, write, logger } = setUp();
    let body = { spec: 1 };
    const handle = async () => void (await write(body));
    const queue = createQueue({ handle, concurrency: 1, delayMs: 0, logger });
    const add = async () => {
      queue.add('key');
      await jest.advanceTimersByTimeAsync(0);
      await turn();
    };
    for (let times = 0; times < 6; times++) await add();
    expect(patched).toHaveLength(4);
    body = { spec: 2 };
    await add();
    expect(patched).toHaveLength(5);
    body = { spec: 1 };
    for (let times = 0; times < 6; times++) await add();
    await jest.advanceTimersByTimeAsync(1_100);
    await turn();
    expect(patched).toHaveLength(10);
    await queue.stop();
  });
});
