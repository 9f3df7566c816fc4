import { describe, expect, it } from '@jest/globals';
import { parseDuration, sameDuration } from './duration.ts';

describe('parseDuration', () => {
  for (const [text, seconds] of [
    ['1h30m', 5400],
    ['90s', 90],
    ['500ms', 0.5],
    ['20m0s', 1200],
    ['96h', 345_600],
    ['1.5h', 5400],
    ['.5s', 0.5],
    ['1.s', 1],
    ['250us', 0.00025],
    ['250µs', 0.00025],
    ['1m0.1s', 60.1],
    ['0', 0],
    ['0s', 0],
    ['+5s', 5],
    ['-5m', -300],
  ] as const) {
    it(`reads '${text}' as ${seconds} seconds`, () => {
      expect(parseDuration(text)).toBe(seconds);
    });
  }

  for (const text of ['', '90', '5 minutes', '1d', 'PT5M', '1h-5m', '.s', '-', ' 5m', '5m\n', '5M']) {
    it(`refuses ${JSON.stringify(text)} and names it`, () => {
      expect(() => parseDuration(text)).toThrow(`duration '${text}' is not valid: write numbers with units`);
    });
  }
});

describe('sameDuration', () => {
  it.each([
    ['20m', '20m0s', true],
    ['1.5h', '1h30m', true],
    ['1h', '2h', false],
    ['soon', 'soon', true],
    ['soon', 'later', false],
  ])('of %s and %s is %s', (a, b, expected) => {
    expect(sameDuration(a, b)).toBe(expected);
  });
});
