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
        await sleep(Math.min(Math.max(timeoutMs, 0), longestTimerMs), undefined, { signal: ends }).catch(
          () => undefined,
        );
        end = undefined;
      }
      isWoken = false;
      signal.throwIfAborted();
    },
  };
}
