import { describe, expect, it } from '@jest/globals';
import { inPortions, jsonBytes, maxListBytes, maxSpecBytes, specSizeProblem } from './payloads.ts';

describe('jsonBytes', () => {
  it.each(['plain', 'Zürich', '漢字', '😀 "quoted"', '\ud800'])('is the length of %j as JSON in UTF-8', (text) => {
    const value = { text, list: [1, null] };
    expect(jsonBytes(value)).toBe(Buffer.byteLength(JSON.stringify(value)));
  });
});

describe('inPortions', () => {
  it('keeps the order, and cuts a list before it has too many items or bytes', () => {
    expect(inPortions([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
    expect(inPortions([])).toEqual([]);

    const items = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(maxListBytes / 2 - 10));
    const portions = inPortions(items);
    expect(portions.map((portion) => portion.map((item) => item[0]))).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ]);
    for (const portion of portions) expect(jsonBytes(portion)).toBeLessThanOrEqual(maxListBytes);
  });

  it('passes an item alone that is larger than a portion', () => {
    const large = 'x'.repeat(maxListBytes + 1);
    expect(inPortions(['a', large, 'b'])).toEqual([['a'], [large], ['b']]);
  });
});

it('a spec of more than 64 KiB is refused, with its size', () => {
  expect(specSizeProblem({ a: 'x'.repeat(maxSpecBytes - '{"a":""}'.length) })).toBeUndefined();
  expect(specSizeProblem({ a: 'x'.repeat(70_000) })).toBe(
    'providerSpec has 70008 bytes as JSON, and 65536 is the most: shorten it',
  );
});
