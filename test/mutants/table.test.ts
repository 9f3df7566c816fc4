import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { mutants } from './table.ts';

describe('the table of mutants', () => {
  it('has an id for each', () => {
    expect(new Set(mutants.map(({ id }) => id)).size).toBe(mutants.length);
  });

  it('breaks pure functions and workflows in 60 ways at least', () => {
    expect(mutants.filter(({ file }) => /^(api|workflows)\//.test(file)).length).toBeGreaterThanOrEqual(60);
  });

  it.each(mutants)('breaks what is there once, and names tests that exist: $id', ({ file, text, tests }) => {
    expect(readFileSync(file, 'utf8').split(text)).toHaveLength(2);
    expect(tests.length).toBeGreaterThan(0);
    expect(tests.filter((test) => !existsSync(test))).toEqual([]);
  });
});
