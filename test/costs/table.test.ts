/** The budget of test files. */
import { existsSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { reasons } from './reasons.ts';
import { cpuOfFile, readCosts, tableFile } from './table.ts';

/** What a file may cost without a reason, CPU seconds. */
const budget = 20;

const costs = readCosts(tableFile);
const above = (seconds: number) =>
  Object.keys(costs)
    .filter((file) => cpuOfFile(costs[file]!) > seconds)
    .toSorted();

describe('test/costs/table.json', () => {
  it('is about files that exist', () => {
    expect(Object.keys(costs).filter((file) => !existsSync(file))).toEqual([]);
  });

  it('has no file above 20 CPU-seconds that reasons.ts says nothing about', () => {
    expect(above(budget).filter((file) => reasons[file] === undefined)).toEqual([]);
  });

  it('has no file of reasons.ts far below that', () => {
    expect(Object.keys(reasons).filter((file) => !above(budget / 2).includes(file))).toEqual([]);
  });
});
