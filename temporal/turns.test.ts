import { describe, expect, it } from '@jest/globals';
import { createTurns } from './turns.ts';

const idsOf = (count: number) => Array.from({ length: count }, (_, index) => `run-${index}`);

describe('turns', () => {
  it.each([1, 13, 100, 450])('are had by all of %i within a round, and again within the next one', (count) => {
    const turns = createTurns();
    for (const id of idsOf(count)) turns.add(id);
    for (let round = 0; round < 2; round++) {
      const had = new Set<string>();
      for (let check = 0; check < 100; check++) {
        for (const id of turns.next(100)) {
          had.add(id);
          turns.pass(id);
        }
      }
      expect(had.size).toBe(count);
    }
  });

  it('are kept by those that have not passed', () => {
    const turns = createTurns();
    for (const id of idsOf(3)) turns.add(id);
    expect([turns.next(3), turns.next(3)]).toEqual([['run-0'], ['run-0']]);
    turns.pass('run-0');
    expect(turns.next(3)).toEqual(['run-1']);
  });

  it('are lost by what is removed, which does not come back when it passes', () => {
    const turns = createTurns();
    for (const id of idsOf(2)) turns.add(id);
    turns.remove('run-0');
    turns.pass('run-0');
    expect(turns.next(1)).toEqual(['run-1']);
  });
});
