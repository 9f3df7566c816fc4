import { expect, it } from '@jest/globals';
import { durationText } from './duration-text.ts';

it.each([
  [40, '0.0 s'],
  [9_900, '9.9 s'],
  [9_990, '10 s'],
  [59_700, '1 min'],
  [125_000, '2 min 5 s'],
  [3 * 3_600_000 + 59_000, '3 h'],
  [49 * 3_600_000, '2 d 1 h'],
  [-5, '0.0 s'],
])('shows %i ms as %s', (ms, expected) => {
  expect(durationText(ms)).toBe(expected);
});
