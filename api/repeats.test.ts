import { describe, expect, it } from '@jest/globals';
import { nextRepeat, type Repeat, repeatedAtMs } from './repeats.ts';

/** When the same is done, s, if each time is as early as it may be, or so much later, ms. */
function times(count: number, lastsMs = 0): number[] {
  const at: number[] = [];
  let last: Repeat | undefined;
  let nowMs = 0;
  while (at.length < count) {
    last = nextRepeat(last, 'a', nowMs, 1_000);
    at.push(nowMs / 1_000);
    nowMs = Math.max(repeatedAtMs(last), nowMs + lastsMs);
  }
  return at;
}

describe('what has no effect', () => {
  it('is done a few times at once, and then with pauses that double', () => {
    expect(times(9)).toEqual([0, 0, 0, 0, 1, 3, 7, 15, 31]);
  });

  it('is done every ten minutes in the end', () => {
    const [before = 0, last = 0] = times(40).slice(-2);
    expect(last - before).toBe(600);
  });

  it('has pauses, too, where it lasts for a moment', () => {
    expect(times(8, 100)).toEqual([0, 0.1, 0.2, 0.3, 1.3, 3.3, 7.3, 15.3]);
  });

  it('has none where it lasts for longer', () => {
    expect(times(20, 1_000).at(-1)).toBe(19);
  });

  it('is another thing when it is done from something else', () => {
    let last = nextRepeat(undefined, 'a', 0, 1_000);
    for (const text of ['a', 'a', 'b', 'a', 'a', 'a']) last = nextRepeat(last, text, 0, 1_000);
    expect(last).toEqual({ text: 'a', atMs: 0, times: 3 });
  });
});
