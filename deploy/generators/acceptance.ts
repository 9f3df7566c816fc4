/** docs/acceptance.md: the rows of the replaced systems and the tests that carry them. */
import { rowsIn, systems, type Tag } from '../../test/acceptance/table.ts';
import type { TestTitle } from '../../test/acceptance/titles.ts';

const sections = [
  ['mcm', "Gardener's machine-controller-manager"],
  ['kubermatic', 'Kubermatic machine-controller'],
  ['capi', 'Cluster API'],
] as const;

/**
 * Content of docs/acceptance.md. It depends on the sources of the tests and on no run of them, so it says which tests
 * carry a row; whether they pass is for `npm run acceptance`. Throws on a tag that is no row of its system.
 */
export function acceptanceDoc(tests: readonly TestTitle[]): string {
  const carried = tests.flatMap((test) => rowsIn(test.title).map((row) => ({ ...row, ...test })));

  const tables = sections.map(([system, heading]) => {
    const rows = systems[system];
    const carriers = carried.filter((test) => test.system === system);
    const whole = new Set(carriers.filter(({ partly }) => !partly).map(({ row }) => row));
    const parts = new Set(carriers.map(({ row }) => row)).size - whole.size;
    const lines = rows.map(({ row, title }) => {
      const proofs = carriers.filter((test) => test.row === row).map(proof);
      return `| ${row} | ${cell(title)} | ${proofs.join('<br>') || 'none yet'} |`;
    });
    return `## ${heading}

Rows \`[${system} <number>]\`: ${whole.size} of ${rows.length} have a test, ${parts} more have tests of parts only.

| row | what a passing test proves | proved by |
|---:|---|---|
${lines.join('\n')}
`;
  });
  return `<!-- Made from test/acceptance and the titles of all tests by \`npm run generate\`. Do not edit. -->
# Acceptance table

What the replaced systems can do, a row each, and the tests whose titles carry the row. A row marked "better than the
original" is one where matching the original is not enough. A test asserts all of the sentence, or all tests of its
\`describe\` do together; one that asserts a part is marked *partly*. This page says which tests there are; after
\`npm test\`, \`npm run acceptance\` says which of them pass.

${tables.join('\n')}`;
}

/** The title without its tags, which are in the first column. */
function proof({ file, title, partly }: TestTitle & Tag): string {
  const words = title.replaceAll(/\[\w+ \d+( partly)?\] ?/g, '');
  return `${partly ? '*partly*: ' : ''}[${file}](../${file}) ${cell(words)}`;
}

function cell(text: string): string {
  return text.replaceAll(/[|<\\]/g, '\\$&');
}
