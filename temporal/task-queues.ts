/** What Temporal knows of the processes that poll a task queue. It forgets them five minutes after their last poll. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';

/** Kinds of tasks, with their numbers in Temporal's API. */
const kinds = { workflow: 1, activity: 2 } as const;

/** A process that polls, or has polled. */
export interface Poller {
  readonly identity: string;
  /** Start of its last poll by the clock of the server, ms since the epoch. A poll takes at most a minute. */
  readonly seenMs: number;
}

/** A process that has not polled for longer has ended, ms. */
export const silentMs = 75_000;

/** Those that still poll. @param nowMs by the clock of the server */
export function alivePollers(pollers: readonly Poller[], nowMs: number): Poller[] {
  return pollers.filter(({ seenMs }) => nowMs - seenMs <= silentMs);
}

/** Those of the last five minutes. Throws ServiceError. @param namespace of Temporal */
export async function listPollers(
  { workflowService }: ConnectionLike,
  namespace: string,
  name: string,
  kind: keyof typeof kinds,
): Promise<Poller[]> {
  const taskQueue = { name };
  const { pollers } = await workflowService.describeTaskQueue({ namespace, taskQueue, taskQueueType: kinds[kind] });
  return (pollers ?? []).map(({ identity, lastAccessTime }) => ({
    identity: identity ?? '',
    seenMs: tsToMs(lastAccessTime),
  }));
}

/** Tasks of a queue that wait for a worker, as far as the server knows. Throws ServiceError. */
export async function readBacklog(
  { workflowService }: ConnectionLike,
  namespace: string,
  name: string,
  kind: keyof typeof kinds,
): Promise<number> {
  const taskQueue = { name };
  const request = { namespace, taskQueue, taskQueueType: kinds[kind], reportStats: true };
  const { stats } = await workflowService.describeTaskQueue(request);
  return Number(stats?.approximateBacklogCount ?? 0);
}

/** Longest search for our own poll, ms. */
const timeoutMs = 2_000;

/**
 * By how much the clock of the server is ahead of ours, ms; negative: it is behind. The server notes the time of each
 * poll, so this polls a queue without tasks. undefined: the server noted nothing within 2 s.
 */
export async function measureClock(connection: ConnectionLike, namespace: string, queue: string) {
  const identity = randomUUID();
  const polling = new AbortController();
  const startMs = Date.now();
  // The server refuses a poll without a deadline, and one of less than 2 s.
  const poll = connection.withAbortSignal(polling.signal, () =>
    connection.withDeadline(startMs + 2 * timeoutMs, () =>
      connection.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: queue }, identity }),
    ),
  );
  poll.catch(() => undefined);
  try {
    while (Date.now() < startMs + timeoutMs) {
      const own = (await listPollers(connection, namespace, queue, 'workflow')).find(
        (each) => each.identity === identity,
      );
      if (own !== undefined) return own.seenMs - startMs;
      await sleep(20);
    }
    return undefined;
  } finally {
    polling.abort();
  }
}
