import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { findTestTitles, titlesIn } from './titles.ts';

describe('titlesIn', () => {
  it('gives the title of each test with the titles of the describes around it', () => {
    const source = `
      describe('machines', () => {
        describe("deletion", () => {
          it('drains', async () => { await it('is not reached'); });
        });
        test(\`waits\`, () => {});
      });
      it.only('counts', () => {});
    `;

    expect(titlesIn(source)).toEqual(['machines deletion drains', 'machines waits', 'counts']);
  });

  it('puts an ellipsis for what only a run can tell', () => {
    const source = `
      for (const size of sizes) it(\`[mcm 61] takes \${size} at once\`, () => {});
      it(title, () => {});
    `;

    expect(titlesIn(source)).toEqual(['[mcm 61] takes … at once', '…']);
  });

  it('sees through tables of cases', () => {
    const source = `
      it.each([1, 2])('[mcm 8] keeps %i', (count: number) => {});
      describe.each([{ kind: 'set' }] as const)('a $kind', ({ kind }) => { it('goes', () => {}); });
    `;

    expect(titlesIn(source)).toEqual(['[mcm 8] keeps %i', 'a $kind goes']);
  });

  it('takes no comment and no other call for a test', () => {
    const source = `
      // it('[mcm 1] sleeps')
      if (/x/.test('[mcm 2]') && pattern.test('[mcm 3]')) expect(describeOf('[mcm 4]')).toBe('[mcm 5]');
    `;

    expect(titlesIn(source)).toEqual([]);
  });
});

describe('findTestTitles', () => {
  it('finds the tests of the repository and leaves installed packages out', () => {
    const found = findTestTitles(fileURLToPath(new URL('../..', import.meta.url)));

    expect(found).toContainEqual({
      file: 'test/acceptance/titles.test.ts',
      title: 'findTestTitles finds the tests of the repository and leaves installed packages out',
    });
    expect(found.filter(({ file }) => file.includes('node_modules'))).toEqual([]);
  });
});
