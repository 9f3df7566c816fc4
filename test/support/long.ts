import { expect } from '@jest/globals';
import { recordVariable } from '../replay/files.ts';

/** Whether a `*.long.test.ts` imports this file. Such a file runs in two sizes. */
export function isLong(): boolean {
  return expect.getState().testPath?.endsWith('.long.test.ts') ?? false;
}

/** Whether to run also what is too expensive for `npm test`: in a `*.long.test.ts`, and while histories are recorded. */
export function isThorough(): boolean {
  return isLong() || process.env[recordVariable] !== undefined;
}
