import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { leaveNothing } from './cases/deletion.ts';
import { cases } from './cases.ts';
import { mutants } from './mutants.ts';

const contract = readFileSync(new URL('../../docs/providers.md', import.meta.url), 'utf8');

describe('the cases', () => {
  it('name sections that docs/providers.md has', () => {
    const headings = [...contract.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);

    expect(
      [...cases, leaveNothing].filter(({ section }) => !headings.includes(section)).map(({ title }) => title),
    ).toEqual([]);
  });

  it('have titles of their own, which the mutants name', () => {
    const titles = cases.map(({ title }) => title);

    expect(new Set(titles).size).toBe(titles.length);
    expect(mutants.filter(({ caughtBy }) => !titles.includes(caughtBy))).toEqual([]);
  });
});
