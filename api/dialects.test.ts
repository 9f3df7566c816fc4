import { describe, expect, it } from '@jest/globals';
import { allDialects, dialectOf, registerDialect } from './dialects.ts';
import { gardener } from './gardener/index.ts';

describe('dialectOf', () => {
  it('finds a dialect by its name, also one that was registered later', () => {
    const other = { ...gardener, name: 'other' };
    registerDialect(other);
    expect(dialectOf('gardener')).toBe(gardener);
    expect(dialectOf('other')).toBe(other);
    expect(allDialects()).toEqual([gardener, other]);
  });

  it('names the known ones', () => {
    expect(() => dialectOf('nobody')).toThrow(/no dialect is named "nobody": there are gardener/);
  });
});
