/** A small seeded generator, and the acts that it draws: pure. The same seed draws the same acts. */

/** Random choices. */
export interface Dice {
  /** A whole number from 0, below n. */
  below(n: number): number;
  /** A whole number from `least` to `most`. */
  between(least: number, most: number): number;
  /** One of these; undefined where there is none. */
  pick<T>(items: readonly T[]): T | undefined;
}

/** An act before anybody knows what it will be for. */
export interface PlannedAct {
  readonly name: string;
  /** Since the start, ms. */
  readonly atMs: number;
  /** Of the dice of the act: how many choices one makes has no effect on the others. */
  readonly seed: number;
}

/** From one act to the next, ms. */
const pauseMs = { least: 300, most: 2_500 };

/** Choices that follow from the seed alone: Mulberry32. */
export function createDice(seed: number): Dice {
  let state = seed >>> 0;
  const unit = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(unit() * n);
  return {
    below,
    between: (least, most) => least + below(most - least + 1),
    pick: (items) => items[below(items.length)],
  };
}

/**
 * The acts of so many minutes, in the order of their times.
 * @param weights how often each act comes, compared with the others
 */
export function drawActs(seed: number, minutes: number, weights: Readonly<Record<string, number>>): PlannedAct[] {
  const dice = createDice(seed);
  const tickets = Object.entries(weights).flatMap(([name, weight]) => Array.from({ length: weight }, () => name));
  const acts: PlannedAct[] = [];
  for (let atMs = 0; ; ) {
    atMs += dice.between(pauseMs.least, pauseMs.most);
    const name = dice.pick(tickets);
    if (name === undefined || atMs >= minutes * 60_000) return acts;
    acts.push({ name, atMs, seed: dice.below(2 ** 32) });
  }
}
