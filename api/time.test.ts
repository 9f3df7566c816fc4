import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { toKubernetesTime } from './time.ts';

describe('toKubernetesTime', () => {
  it('writes RFC 3339 in whole seconds, never later than it is', () => {
    const dates = fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true });
    fc.assert(
      fc.property(dates, (date) => {
        const text = toKubernetesTime(date);
        expect(text).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
        expect(Math.floor(date.getTime() / 1000)).toBe(Date.parse(text) / 1000);
      }),
    );
  });
});
