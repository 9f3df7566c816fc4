/**
 * Election of the one process that acts, among all that want to: it holds a list of Leases.
 *
 * The election runs in a thread of its own (lease-thread.ts), as client-go's does in a goroutine: while the main thread is
 * busy the Leases are renewed all the same. But a process whose main thread has been stuck for the renew deadline is
 * ended by that thread, for it must not wake up as the holder that it is no more. For the same reason whoever
 * loses the Leases ends: nothing less makes sure that what is under way is not finished beside the next holder.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { Worker } from 'node:worker_threads';
import { monotonicMs } from './lease-lock.ts';
import type { Logger } from './logger.ts';

/** What the thread needs to know: nothing but values that can be copied. */
export interface Candidacy {
  /** Path of a kubeconfig, or `inClusterConfig`: the thread has connections of its own. */
  readonly kubeconfig: string;
  readonly userAgent: string;
  readonly namespace: string;
  /** Leases that are held together or not at all. All candidates give them in the same order. */
  readonly names: readonly string[];
  /** How long the others wait for a holder that says no more. Above `renewDeadlineMs`. */
  readonly leaseMs: number;
  /** How long the holder goes on without a renewal, and without a sign of life of its main thread. */
  readonly renewDeadlineMs: number;
  /** How often the holder renews; the others look 1 to 2.2 times as far apart. */
  readonly retryMs: number;
}

export interface ElectionOptions extends Candidacy {
  readonly logger: Logger;
  /** Called at most once, when we hold the Leases no more and were not told to stop. Has to end the process at once. */
  readonly onLost: (reason: string) => void;
}

/** How the election stands. */
export type Standing =
  | { readonly kind: 'leader' }
  | { readonly kind: 'standby'; readonly lease: string; readonly holder: string }
  /** Nothing is known, for want of an answer. */
  | { readonly kind: 'unknown'; readonly reason: string };

export interface Election {
  /** `<host>_<uuid>_millwright`, as it is in the Leases. */
  readonly identity: string;
  /** Resolves when all Leases are held. Never when the election is stopped before. */
  readonly held: Promise<void>;
  standing(): Standing;
  /** Gives the Leases back. Only when nothing is done under their protection any more. */
  stop(): Promise<void>;
}

/** Of machine-controller-manager's processes, which are `<host>_<uuid>`, none ends so. */
const ourMark = '_millwright';

/** Whether the holder of a Lease is a process of Millwright, this or another. */
export function isMillwright(holder: string): boolean {
  return holder.endsWith(ourMark);
}

/** What the thread is given. */
export interface ThreadInput extends Candidacy {
  readonly identity: string;
  readonly memory: SharedArrayBuffer;
}

/** What the thread says. */
export type ThreadMessage =
  | Standing
  /** A renewal failed. There is time for more. */
  | { readonly kind: 'late'; readonly reason: string }
  | { readonly kind: 'lost'; readonly reason: string };

/**
 * What the threads tell each other without messages, which a busy thread does not read: until when the Leases are held,
 * 0 when they are not, and when the main thread was last alive. Times of `monotonicMs`.
 */
export function sharedTimes(memory: SharedArrayBuffer) {
  const times = new BigInt64Array(memory);
  const slot = (index: number) => ({
    get: () => Number(Atomics.load(times, index)),
    set: (ms: number) => void Atomics.store(times, index, BigInt(Math.floor(ms))),
  });
  return { heldUntil: slot(0), aliveAt: slot(1) };
}

/** How often the threads look at each other. */
export function heartbeatMs(renewDeadlineMs: number): number {
  return renewDeadlineMs / 10;
}

/** Becomes a candidate. An API server that does not answer is waited for. */
export function startElection({ logger, onLost, ...candidacy }: ElectionOptions): Election {
  const identity = `${hostname()}_${randomUUID()}${ourMark}`;
  const memory = new SharedArrayBuffer(16);
  const times = sharedTimes(memory);
  const input: ThreadInput = { ...candidacy, identity, memory };
  const thread = new Worker(new URL('./lease-thread.ts', import.meta.url), { workerData: input });
  const exited = new Promise((resolve) => thread.once('exit', resolve));
  let standing: Standing = { kind: 'unknown', reason: 'not asked yet' };
  let isOver = false;

  function lose(reason: string): void {
    if (isOver) return;
    isOver = true;
    clearInterval(heart);
    onLost(reason);
  }

  function beat(): void {
    const heldUntil = times.heldUntil.get();
    // The whole process may have stood still, and this thread may be the first to move again.
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
  const heart = setInterval(beat, heartbeatMs(candidacy.renewDeadlineMs));

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

function logChange(logger: Logger, before: Standing, now: Standing): void {
  if (JSON.stringify(before) === JSON.stringify(now)) return;
  const { kind, ...fields } = now;
  if (kind === 'leader') logger.info(fields, 'holding the Leases: leading');
  else if (kind === 'standby') logger.info(fields, 'standing by: somebody else holds a Lease');
  else logger.warn(fields, 'asking for the Leases failed');
}
