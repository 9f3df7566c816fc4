import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { backoffMs } from './backoff.ts';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

it('pauses at least 0.6 s and at most 37.5 s, however many failures there were', () => {
  fc.assert(
    fc.property(fc.nat({ max: 100_000 }), random, (failures, chance) => {
      expect(backoffMs(failures, chance)).toBeGreaterThanOrEqual(600);
      expect(backoffMs(failures, chance)).toBeLessThanOrEqual(37_500);
    }),
  );
});

it('doubles from 0.8 s to 30 s', () => {
  const pauses = [1, 2, 3, 4, 5, 6, 7, 8].map((failures) => backoffMs(failures, 0.5));

  expect(pauses).toEqual([800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
});
