import { expect } from '@jest/globals';

/** Whether a test file that is run in two sizes was loaded by its `*.long.test.ts`. */
export function isLong(): boolean {
  return expect.getState().testPath?.endsWith('.long.test.ts') ?? false;
}
