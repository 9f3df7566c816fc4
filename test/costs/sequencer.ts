/** The order of the test files: those that took longest begin first, so that none runs alone at the end. */
import { relative } from 'node:path';
import { readCosts, tableFile } from './table.ts';

interface Test {
  readonly path: string;
}

export default class CostSequencer {
  /** A file that is not in the table is new: it begins first. */
  sort<T extends Test>(tests: readonly T[]): T[] {
    const costs = readCosts(tableFile);
    const wallOf = ({ path }: T) => costs[relative('.', path)]?.wall ?? Infinity;
    return tests.toSorted((a, b) => wallOf(b) - wallOf(a) || (a.path < b.path ? -1 : 1));
  }

  cacheResults(): void {}

  allFailedTests<T extends Test>(tests: readonly T[]): readonly T[] {
    return tests;
  }

  shard<T extends Test>(tests: readonly T[], { shard }: { shard: { shardIndex: number; shardCount: number } }): T[] {
    return tests.filter((_, i) => i % shard.shardCount === shard.shardIndex - 1);
  }
}
