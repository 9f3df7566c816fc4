/** The work queue of a controller. */
import { isUnreachable } from '../kube/errors.ts';
import type { Logger } from '../kube/logger.ts';
import { grpcCodeOf, grpcCodes } from '../temporal/connection.ts';

export interface Queue {
  /** Queues a key; a key that waits already is not added again. */
  add(key: string): void;
  /** Starts no handler any more; resolves when the running ones have ended. */
  stop(): Promise<void>;
}

/** Hears what becomes of the keys of a queue, for metrics. */
export interface QueueObserver {
  /** The key waits for a free place. */
  onReady(key: string): void;
  onStarted(key: string): void;
  onEnded(key: string): void;
  /** Handling it has failed, and it is handled again after a pause. */
  onRetry(key: string): void;
}

/** What a handler was to do is not due yet: its key is handled again then, and at once after a change. */
export class NotDueError extends Error {
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super('what is to be written is not due yet');
    this.retryAfterMs = retryAfterMs;
  }
}

export interface QueueOptions {
  /** Handles a key by the state of that moment. An error is logged, and the key is handled again later. */
  readonly handle: (key: string) => Promise<void>;
  /** When a key that was handled has to be handled again although nobody adds it, ms from now; undefined: never. */
  readonly againInMs?: ((key: string) => number | undefined) | undefined;
  /** Keys that are handled at once; a key never runs twice at once. */
  readonly concurrency: number;
  /** How long a key waits before it is handled, ms. */
  readonly delayMs: number;
  /**
   * The shortest time between two starts of handling a key, ms. A retry after an error does not wait for it. Default:
   * 0.
   */
  readonly restMs?: number | undefined;
  readonly observer?: QueueObserver | undefined;
  readonly logger: Logger;
}

const firstRetryMs = 500;
const maxRetryMs = 30_000;
/** Node fires a timer of more ms at once. */
const maxTimerMs = 2 ** 31 - 1;
/** Longest turn of the event loop, ms: all objects of a fleet can be queued at once. */
const turnMs = 10;
/** Longest pause while a server does not answer, ms: everything waits for it. */
const maxOutageRetryMs = 5_000;

/** Stores only that a key is dirty: however often it is added while it is handled, it is handled once more. */
export function createQueue(options: QueueOptions): Queue {
  const { handle, againInMs, concurrency, delayMs, restMs = 0, observer, logger } = options;
  const timers = new Map<string, NodeJS.Timeout>();
  /** Of the keys that were handled and have to be again; a change of one does not wait for them. */
  const laterTimers = new Map<string, NodeJS.Timeout>();
  const ready = new Set<string>();
  const running = new Map<string, Promise<void>>();
  const failures = new Map<string, number>();
  /** When a key has rested, by performance.now(). */
  const restedAt = new Map<string, number>();
  let isStopped = false;
  /** When this turn of the event loop ends, by performance.now(). */
  let turnEndsAt: number | undefined;

  function schedule(key: string, ms: number): void {
    if (isStopped || timers.has(key) || ready.has(key)) return;
    const timer = setTimeout(() => {
      timers.delete(key);
      ready.add(key);
      observer?.onReady(key);
      fill();
    }, ms);
    timers.set(key, timer);
  }

  function fill(): void {
    for (const key of ready) {
      if (isStopped || running.size >= concurrency) return;
      if (running.has(key)) continue;
      if (!hasTime()) return;
      ready.delete(key);
      running.set(key, run(key));
    }
  }

  function hasTime(): boolean {
    if (turnEndsAt === undefined) {
      turnEndsAt = performance.now() + turnMs;
      setImmediate(() => {
        turnEndsAt = undefined;
        fill();
      });
    }
    return performance.now() < turnEndsAt;
  }

  async function run(key: string): Promise<void> {
    observer?.onStarted(key);
    if (restMs > 0) rest(key);
    clearTimeout(laterTimers.get(key));
    laterTimers.delete(key);
    try {
      await handle(key);
      failures.delete(key);
      handleLater(key, againInMs?.(key));
    } catch (err) {
      if (err instanceof NotDueError) {
        failures.delete(key);
        handleLater(key, err.retryAfterMs);
        return;
      }
      const count = (failures.get(key) ?? 0) + 1;
      failures.set(key, count);
      const isOutage = isUnreachable(err) || grpcCodeOf(err) === grpcCodes.unavailable;
      const mostMs = isOutage ? maxOutageRetryMs : maxRetryMs;
      const retryMs = Math.min(firstRetryMs * 2 ** (count - 1), mostMs) * (0.8 + 0.4 * Math.random());
      logger.warn({ err, key, retryMs: Math.round(retryMs) }, 'handling an object failed');
      observer?.onRetry(key);
      schedule(key, retryMs);
    } finally {
      running.delete(key);
      observer?.onEnded(key);
      fill();
    }
  }

  function handleLater(key: string, ms: number | undefined): void {
    if (isStopped || ms === undefined) return;
    const timer = setTimeout(() => add(key), Math.min(ms, maxTimerMs));
    laterTimers.set(key, timer);
  }

  function add(key: string): void {
    schedule(key, Math.max(delayMs, (restedAt.get(key) ?? 0) - performance.now()));
  }

  function rest(key: string): void {
    const untilMs = performance.now() + restMs;
    restedAt.set(key, untilMs);
    setTimeout(() => {
      if (restedAt.get(key) === untilMs) restedAt.delete(key);
    }, restMs).unref();
  }

  return {
    add,
    async stop() {
      isStopped = true;
      for (const timer of [...timers.values(), ...laterTimers.values()]) clearTimeout(timer);
      ready.clear();
      await Promise.all(running.values());
    },
  };
}
