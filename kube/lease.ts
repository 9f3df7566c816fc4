/**
 * Elects the one process that acts among all candidates: it holds a list of Leases.
 *
 * The election runs in a thread of its own (lease-thread.ts), as client-go's runs in a goroutine: a busy main thread
 * does not delay renewals. When the main thread has been stuck for the renew deadline, the thread ends the process: it
 * could wake up and act after it has lost the Leases. A process that loses the Leases ends for the same reason: only
 * then can none of its requests finish while the next holder acts.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { Worker } from 'node:worker_threads';
import { monotonicMs } from './lease-lock.ts';
import type { Logger } from './logger.ts';

/** What the thread is configured with: values that can be copied between threads. */
export interface ElectionConfig {
  /** Path of a kubeconfig, or `inClusterConfig`: the thread has connections of its own. */
  readonly kubeconfig: string;
  readonly userAgent: string;
  readonly namespace: string;
  /** Leases that are held together or not at all. All candidates give them in the same order. */
  readonly names: readonly string[];
  /** How long the others wait after the holder's last renewal. Above `renewDeadlineMs`. */
  readonly leaseMs: number;
  /** How long the holder continues without a renewal, and without a heartbeat of its main thread. */
  readonly renewDeadlineMs: number;
  /** Pause between two renewals; the others read the Leases after 1 to 2.2 times as long. */
  readonly retryMs: number;
}

export interface ElectionOptions extends ElectionConfig {
  readonly logger: Logger;
  /** Called at most once, when the Leases were lost before `stop`. Has to end the process at once. */
  readonly onLost: (reason: string) => void;
}

/** State of the election. */
export type ElectionState =
  /** `reason`: why it leads without the Leases; left out where it holds them. */
  | { readonly kind: 'leader'; readonly reason?: string }
  | { readonly kind: 'standby'; readonly lease: string; readonly holder: string }
  /** The API server has not answered. */
  | { readonly kind: 'unknown'; readonly reason: string };

export interface Election {
  /** `<host>_<uuid>_millwright`, as it is in the Leases. */
  readonly identity: string;
  /** Resolves when this process leads. Never when the election is stopped before. */
  readonly held: Promise<void>;
  standing(): ElectionState;
  /** Releases the Leases. Only when nothing is done under their protection any more. */
  stop(): Promise<void>;
}

/** No process of the system that is replaced has an identity with this suffix: theirs are `<host>_<uuid>`. */
const ourMark = '_millwright';

/** Whether the holder of a Lease is a process of Millwright, this one or another. */
export function isMillwright(holder: string): boolean {
  return holder.endsWith(ourMark);
}

/** The input of the thread. */
export interface ThreadInput extends ElectionConfig {
  readonly identity: string;
  readonly memory: SharedArrayBuffer;
}

/** What the thread posts. */
export type ThreadMessage =
  | ElectionState
  /** A renewal failed. There is time for more. */
  | { readonly kind: 'late'; readonly reason: string }
  | { readonly kind: 'lost'; readonly reason: string };

/**
 * What the threads share without messages, which a busy thread does not read: until when the Leases are held, 0 when
 * they are not, and when the main thread was last alive. Times of `monotonicMs`.
 */
export function sharedTimes(memory: SharedArrayBuffer) {
  const times = new BigInt64Array(memory);
  const slot = (index: number) => ({
    get: () => Number(Atomics.load(times, index)),
    set: (ms: number) => void Atomics.store(times, index, BigInt(Math.floor(ms))),
  });
  return { heldUntil: slot(0), aliveAt: slot(1) };
}

/** How often each thread checks the other. */
export function heartbeatMs(renewDeadlineMs: number): number {
  return renewDeadlineMs / 10;
}

/** Becomes a candidate. Waits for an API server that does not answer. */
export function startElection({ logger, onLost, ...config }: ElectionOptions): Election {
  const identity = `${hostname()}_${randomUUID()}${ourMark}`;
  const memory = new SharedArrayBuffer(16);
  const times = sharedTimes(memory);
  const input: ThreadInput = { ...config, identity, memory };
  const thread = new Worker(new URL('./lease-thread.ts', import.meta.url), { workerData: input });
  const exited = new Promise((resolve) => thread.once('exit', resolve));
  let standing: ElectionState = { kind: 'unknown', reason: 'not asked yet' };
  let isOver = false;

  function lose(reason: string): void {
    if (isOver) return;
    isOver = true;
    clearInterval(heart);
    onLost(reason);
  }

  function beat(): void {
    const heldUntil = times.heldUntil.get();
    // The whole process may have been paused, and this thread may be the first to continue.
    if (heldUntil > 0 && monotonicMs() > heldUntil) lose('the Leases were not renewed in time');
    else times.aliveAt.set(monotonicMs());
  }

  const held = new Promise<void>((resolve) => {
    thread.on('message', (message: ThreadMessage) => {
      if (message.kind === 'lost') return lose(message.reason);
      if (message.kind === 'late') return logger.warn({ reason: message.reason }, 'renewing the Leases failed');
      logChange(logger, standing, message);
      standing = message;
      if (message.kind === 'leader') resolve();
    });
  });
  thread.on('error', (error) => lose(`the election has failed: ${error instanceof Error ? error.message : error}`));
  beat();
  const heart = setInterval(beat, heartbeatMs(config.renewDeadlineMs));

  return {
    identity,
    held,
    standing: () => standing,
    async stop() {
      isOver = true;
      thread.postMessage('stop');
      await exited;
      clearInterval(heart);
    },
  };
}

function logChange(logger: Logger, before: ElectionState, now: ElectionState): void {
  if (JSON.stringify(before) === JSON.stringify(now)) return;
  const { kind, ...fields } = now;
  if (kind === 'leader')
    logger.info(fields, 'reason' in fields ? 'leading without the Leases' : 'holding the Leases: leading');
  else if (kind === 'standby') logger.info(fields, 'standing by: somebody else holds a Lease');
  else logger.warn(fields, 'asking for the Leases failed');
}
