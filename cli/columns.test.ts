import { expect, it } from '@jest/globals';
import { columns } from './columns.ts';

it('aligns columns, and leaves no trailing spaces', () => {
  expect(columns([['NAME', 'REPLICAS', 'CLASS'], ['a-long-name', '1', ''], ['b']])).toEqual([
    'NAME         REPLICAS  CLASS',
    'a-long-name  1',
    'b',
  ]);
  expect(columns([])).toEqual([]);
});

it('is as wide as a control character that is shown', () => {
  expect(
    columns([
      ['\u001b[8m', 'a'],
      ['plain', 'b'],
    ]),
  ).toEqual(['\\u001b[8m  a', 'plain      b']);
});
