import { describe, expect, it } from '@jest/globals';
import { acceptanceDoc } from './acceptance.ts';

describe('acceptanceDoc', () => {
  it('lists every row of every system', () => {
    const rows = acceptanceDoc([]).match(/^\| \d+ \| .* \| none yet \|$/gm);

    expect(rows).toHaveLength(114 + 122 + 90);
  });

  it('names the tests that carry a row, in their order and without their tags', () => {
    const doc = acceptanceDoc([
      { file: 'workflows/a.test.ts', title: 'deletion [mcm 43] [capi 46] goes in order' },
      { file: 'workflows/b.test.ts', title: '[mcm 43 partly] resumes <here> | there' },
      { file: 'workflows/b.test.ts', title: '[mcm 7 partly] [invariant 3 partly] keeps it' },
      { file: 'workflows/c.test.ts', title: '[invariant 1] flies' },
    ]);

    expect(doc).toMatch(
      /^\| 43 \| .* \| \[workflows\/a\.test\.ts\]\(\.\.\/workflows\/a\.test\.ts\) deletion goes in order<br>\*partly\*: \[workflows\/b\.test\.ts\]\(\.\.\/workflows\/b\.test\.ts\) resumes \\<here> \\\| there \|$/m,
    );
    expect(doc).toContain('Rows `[mcm <number>]`: 1 of 114 have a test, 1 more have tests of parts only.');
    expect(doc).toContain('*partly*: [workflows/b.test.ts](../workflows/b.test.ts) keeps it |');
    expect(doc).toContain('Rows `[capi <number>]`: 1 of 90 have a test, 0 more have tests of parts only.');
    expect(doc).not.toContain('flies');
  });

  it('refuses a row that does not exist', () => {
    expect(() => acceptanceDoc([{ file: 'a.test.ts', title: '[kubermatic 123] drains' }])).toThrow(
      'the rows of kubermatic are 1 to 122',
    );
  });
});
