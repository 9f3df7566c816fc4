/** Workers that pause while another program manages the same machines. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { FailureCode } from '../api/failures.ts';
import type { Holder } from '../kube/foreign-holder.ts';
import type { Logger } from '../kube/logger.ts';

/** Running workers. */
export interface Workers {
  /** What is not ready yet; empty when everything is. */
  missing(): string[];
  /** Rejects when a worker ends by itself, and when Temporal was restored from a backup. Never resolves. */
  readonly failed: Promise<never>;
  /** Takes no new work, gives activities 20 s to end before they are cancelled, and writes queued Events. */
  stop(): Promise<void>;
}

/** Why no activity may start now; undefined while all may. */
export type Refusal = () => string | undefined;

export interface PausableOptions {
  /** Finds a process other than Millwright that holds a Lease. */
  readonly findForeignHolder: () => Promise<Holder | undefined>;
  /** Pause between two checks of the Leases, ms. */
  readonly lookEveryMs: number;
  /** Starts the workers; called after every pause. They refuse activities while `refusal` gives a reason. */
  readonly start: (refusal: Refusal) => Promise<Workers>;
  readonly logger: Logger;
}

export interface PausableWorkers extends Workers {
  isPaused(): boolean;
}

/**
 * Starts workers, and stops them while there is a foreign holder: they stop polling, and their work waits in Temporal.
 * Running activities may end. While the Leases cannot be read nothing changes. `failed` rejects when workers cannot
 * start after a pause, and when they end by themselves.
 */
export async function startPausableWorkers(options: PausableOptions): Promise<PausableWorkers> {
  const { findForeignHolder, lookEveryMs, start, logger } = options;
  const stopping = new AbortController();
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => undefined); // callers that await it later still get the error
  let holder: Holder | undefined;
  let isUnknown = false;
  let workers: Workers | undefined;

  const refusal = () =>
    holder &&
    `the workers pause: the Lease ${holder.lease} is held by ${holder.holder}, which is not a Millwright process; ` +
      'they go on when it is released or expires. Stop that process if Millwright should work';

  async function check(): Promise<void> {
    try {
      holder = await findForeignHolder();
      isUnknown = false;
    } catch (err) {
      if (!isUnknown) logger.warn({ err }, 'cannot read who holds the Leases: the workers stay as they are');
      isUnknown = true;
    }
  }

  async function resume(): Promise<void> {
    workers = await start(refusal);
    workers.failed.catch(fail);
  }

  async function pause(running: Workers): Promise<void> {
    logger.warn(holder ?? {}, 'workers pause: a process other than Millwright holds a Lease');
    await running.stop();
    workers = undefined;
    logger.info({}, 'workers paused');
  }

  async function keepChecking(): Promise<void> {
    for (;;) {
      await sleep(lookEveryMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      await check();
      if (holder !== undefined && workers !== undefined) await pause(workers);
      if (holder === undefined && workers === undefined) {
        logger.info({}, 'workers resume: no other process holds a Lease');
        await resume();
      }
    }
  }

  await check();
  if (holder === undefined) await resume();
  else logger.warn(holder, 'workers pause: a process other than Millwright holds a Lease');
  const checking = keepChecking();
  checking.catch(fail);

  return {
    missing() {
      const paused = refusal();
      return paused === undefined ? (workers?.missing() ?? ['workers']) : [paused];
    },
    failed,
    isPaused: () => holder !== undefined,
    async stop() {
      stopping.abort();
      await checking.catch(() => undefined); // `failed` has it
      await workers?.stop();
    },
  };
}

/** Refuses tasks that stopping workers had already taken when the holder was found. Temporal retries them later. */
export function refuseActivities(refusal: Refusal): ActivityInterceptorsFactory {
  return () => ({
    inbound: {
      async execute(input, next) {
        const message = refusal();
        if (message !== undefined)
          throw ApplicationFailure.create({ type: 'Unavailable' satisfies FailureCode, message });
        return next(input);
      },
    },
  });
}
