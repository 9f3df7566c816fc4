import { describe, expect, it } from '@jest/globals';
import { sameQuantity } from './quantity.ts';

describe('sameQuantity', () => {
  // On the right as an API server stores it.
  it.each([
    ['1000', '1k'],
    ['1024Mi', '1Gi'],
    ['0.5', '500m'],
    ['.5', '500m'],
    ['5.', '5'],
    ['1e3', '1k'],
    ['1E3', '1k'],
    ['2E', '2000P'],
    ['1.5Gi', '1536Mi'],
    ['0', '0'],
    ['+1', '1'],
    ['0.0000000001', '1n'],
    ['-1000', '-1k'],
    ['500000u', '500m'],
  ])('%s is %s', (text, stored) => {
    expect(sameQuantity(text, stored)).toBe(true);
  });

  it.each([
    ['1000', '1Ki'],
    ['1', '-1'],
    ['1k', '1000k'],
    ['', '0'],
    ['.', '0'],
    ['1kk', '1k'],
    ['one', 'two'],
    ['1m', '1M'],
  ])('%s is not %s', (a, b) => {
    expect(sameQuantity(a, b)).toBe(false);
  });

  it('compares what is no quantity as text', () => {
    expect(sameQuantity('one', 'one')).toBe(true);
  });
});
