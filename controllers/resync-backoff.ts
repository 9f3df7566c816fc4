/** When a workflow is signalled again although nothing has changed: it may have lost what it was signalled. */

/** How objects in need of something looked at the last resyncs, by key. */
export interface ResyncBackoff {
  /** Whether to signal now: it has looked like this since an earlier resync, and its pause is over. */
  isDue(key: string, text: string): boolean;
  /** Notes a resync at which it looked like this, and whether it was signalled. */
  note(key: string, text: string, isSignalled: boolean): void;
  forget(key: string): void;
}

/** The longest pause, in resyncs. Each signal costs four events of a history. */
const maxResyncs = 10;

/**
 * The pauses between two signals are 1, 2, 4, 8 and then always 10 resyncs. A change of the object starts with 1 again.
 */
export function createResyncBackoff(resyncMs: number): ResyncBackoff {
  const states = new Map<string, { readonly text: string; readonly signals: number; readonly nextAtMs: number }>();
  const find = (key: string, text: string) => {
    const state = states.get(key);
    return state?.text === text ? state : undefined;
  };
  return {
    isDue(key, text) {
      const state = find(key, text);
      return state !== undefined && performance.now() >= state.nextAtMs;
    },
    note(key, text, isSignalled) {
      const state = find(key, text);
      if (state !== undefined && !isSignalled) return;
      const signals = state === undefined ? 0 : state.signals + 1;
      // Half a resync early: timers are not exact.
      const pauseMs = (Math.min(2 ** signals, maxResyncs) - 0.5) * resyncMs;
      states.set(key, { text, signals, nextAtMs: performance.now() + pauseMs });
    },
    forget: (key) => void states.delete(key),
  };
}
