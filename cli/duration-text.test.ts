import { expect, it } from '@jest/globals';
import { atText, durationText, sinceText } from './duration-text.ts';

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

const nowMs = Date.parse('2026-11-25T16:50:36.400Z');

it.each([
  ['2026-11-25T16:58:36.131Z', 'in 8 min (16:58:36Z)'],
  ['2026-11-25T16:50:24.400Z', '12 s ago (16:50:24Z)'],
  ['2026-11-24T14:50:36.131Z', '1 d 2 h ago (2026-11-24 14:50:36Z)'],
])('shows when %s is or was as %s', (time, expected) => {
  expect(atText(time, nowMs)).toBe(expected);
});

it('shows since when something is so', () => {
  expect(sinceText('2026-11-25T16:50:24.400Z', nowMs)).toBe('for 12 s (since 16:50:24Z)');
});
