import { expect } from '@jest/globals';
import { recordVariable } from '../replay/files.ts';

/** Whether jest runs a `*.long.test.ts`, which may import the test of the same name to run it in a bigger size. */
export function isLong(): boolean {
  return expect.getState().testPath?.endsWith('.long.test.ts') ?? false;
}

/**
 * Whether to run also what is too expensive for `npm test`: in a `*.long.test.ts`, and while histories are recorded.
 */
export function isThorough(): boolean {
  return isLong() || process.env[recordVariable] !== undefined;
}
