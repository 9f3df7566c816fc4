/** How a drain waits for news. */
import { setTimeout as sleep } from 'node:timers/promises';

/** What Node's timers can wait for. */
const longestTimerMs = 2 ** 31 - 1;

/** Waits for a while or until woken; a wake-up between two waits is not lost. */
export function createWaiter() {
  let isWoken = false;
  let end: (() => void) | undefined;
  return {
    wake(): void {
      isWoken = true;
      end?.();
    },
    /** @param timeoutMs may be infinite. Rejects when the signal aborts */
    async wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
      if (!isWoken) {
        const done = new AbortController();
        end = () => done.abort();
        const ends = AbortSignal.any([done.signal, signal]);
        await sleep(Math.min(timeoutMs, longestTimerMs), undefined, { signal: ends }).catch(() => undefined);
        end = undefined;
      }
      isWoken = false;
      signal.throwIfAborted();
    },
  };
}

/** A signal that aborts with another one, or at a time, ms since the epoch. */
export function until(deadlineMs: number, signal: AbortSignal): AbortSignal {
  const leftMs = Math.min(Math.max(deadlineMs - Date.now(), 0), longestTimerMs);
  return AbortSignal.any([signal, AbortSignal.timeout(leftMs)]);
}
