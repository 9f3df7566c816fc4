/** When a workflow is told again what has not changed, as it may have forgotten. */

/** What objects in need of something looked like at the last rechecks, by key. */
export interface Reminders {
  /** Whether to tell it now: it has looked like this at the recheck before, or at so many that it is time again. */
  isDue(key: string, text: string): boolean;
  /** Counts a recheck at which it looked like this. */
  count(key: string, text: string): void;
  forget(key: string): void;
}

/** Rechecks after which everything that waits is told again at the latest. Each time costs four events of its history. */
const mostRechecks = 10;

/** Each object is told after 1, 2, 4, 8 … rechecks without a change: what waits for hours costs little. */
export function createReminders(): Reminders {
  const rechecked = new Map<string, { readonly text: string; readonly times: number }>();
  const timesOf = (key: string, text: string) => {
    const last = rechecked.get(key);
    return last?.text === text ? last.times : 0;
  };
  return {
    isDue(key, text) {
      const times = timesOf(key, text);
      return times > 0 && (isPowerOfTwo(times) || times % mostRechecks === 0);
    },
    count: (key, text) => void rechecked.set(key, { text, times: timesOf(key, text) + 1 }),
    forget: (key) => void rechecked.delete(key),
  };
}

function isPowerOfTwo(times: number): boolean {
  return (times & (times - 1)) === 0;
}
