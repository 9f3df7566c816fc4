import { describe, expect, it } from '@jest/globals';
import { createDice, drawActs } from './dice.ts';

const weights = { kill: 1, scale: 3, never: 0 };

describe('the acts of a seed', () => {
  it('are the same each time, and others than those of another seed', () => {
    expect(drawActs(7, 2, weights)).toEqual(drawActs(7, 2, weights));
    expect(drawActs(7, 2, weights)).not.toEqual(drawActs(8, 2, weights));
  });

  it('begin the same way whether the run is short or long', () => {
    const short = drawActs(7, 1, weights);

    expect(drawActs(7, 5, weights).slice(0, short.length)).toEqual(short);
  });

  it('come in the order of their times, within the minutes, as often as their weights say', () => {
    const acts = drawActs(1, 60, weights);
    const times = acts.map(({ atMs }) => atMs);
    const share = (name: string) => acts.filter((act) => act.name === name).length / acts.length;

    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.at(-1)).toBeLessThan(60 * 60_000);
    expect(share('kill')).toBeCloseTo(0.25, 1);
    expect(share('scale')).toBeCloseTo(0.75, 1);
    expect(share('never')).toBe(0);
  });
});

describe('dice', () => {
  it('take every number of a range, and none besides', () => {
    const dice = createDice(3);
    const numbers = new Set(Array.from({ length: 200 }, () => dice.between(2, 5)));

    expect([...numbers].toSorted()).toEqual([2, 3, 4, 5]);
  });

  it('pick nothing where there is nothing', () => {
    expect(createDice(3).pick([])).toBeUndefined();
  });
});
