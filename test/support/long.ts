import { expect } from '@jest/globals';
import { recordVariable } from '../replay/files.ts';

/** Whether a test file that is run in two sizes was loaded by its `*.long.test.ts`. */
export function isLong(): boolean {
  return expect.getState().testPath?.endsWith('.long.test.ts') ?? false;
}

/** Whether the tests are run that `npm test` has no time for: in a `*.long.test.ts`, and while histories are recorded. */
export function isThorough(): boolean {
  return isLong() || process.env[recordVariable] !== undefined;
}
