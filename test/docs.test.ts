/** What documents say about the repository is true of it. */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { blockers } from '../api/names.ts';
import { failingCode, stuckCauses } from './support/stuck-causes.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const documents = ['*.md', 'docs/**/*.md', 'deploy/**/*.md', 'activities/**/*.md']
  .flatMap((pattern) => globSync(pattern, { cwd: root }))
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
const packageJson = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));

describe.each(documents)('$file', ({ file, text }) => {
  it('has no link into the repository that leads nowhere', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)];

    const broken = links.filter(([, target = '', anchor]) => {
      const path = target === '' ? file : join(dirname(file), target);
      return !existsSync(join(root, path)) || (anchor !== undefined && !anchorsOf(path).includes(anchor));
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });

  it('names no npm command that there is not', () => {
    const commands = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name);

    expect(commands.filter((name) => !Object.hasOwn(packageJson.scripts, name))).toEqual([]);
  });
});

it('docs/README.md has a link to every page for users', () => {
  const index = readFileSync(join(root, 'docs/README.md'), 'utf8');
  const pages = globSync(['*.md', '{how-to,reference,providers}/*.md'], { cwd: join(root, 'docs') });

  expect(pages.filter((page) => page !== 'README.md' && !index.includes(`](${page})`))).toEqual([]);
});

it('README.md counts the rows of the acceptance table that have a test', () => {
  const acceptance = readFileSync(join(root, 'docs/acceptance.md'), 'utf8');
  const [, whole, all, partly] = /\[mcm <number>\]`: (\d+) of (\d+) have a test, (\d+) more/.exec(acceptance) ?? [];
  const readme = readFileSync(join(root, 'README.md'), 'utf8').replaceAll(/\s+/g, ' ');

  expect(readme).toContain(
    `are ${all} rows of our [acceptance table](docs/acceptance.md): tests prove ${whole} of them, and parts of the other ${partly}`,
  );
  expect(Number(whole) + Number(partly)).toBe(Number(all));
});

it('docs/contributing.md has a row for every long test, and none for another', () => {
  const contributing = readFileSync(join(root, 'docs/contributing.md'), 'utf8');
  const [, table = ''] = /^### What only `npm run test:long` proves$(.*?)^### /ms.exec(contributing) ?? [];
  const rows = [...table.matchAll(/^\| ([\w/, -]+) \|/gm)].flatMap(([, files = '']) => files.split(', '));
  const named = rows.filter((row) => row !== 'file' && !row.includes(' '));
  const files = globSync('{activities,api,cli,controllers,deploy,kube,temporal,test,workflows}/**/*.long.test.ts', {
    cwd: root,
  });

  const isOf = (row: string, file: string) =>
    [`${row}.long.test.ts`, `${row}/index.long.test.ts`].some((end) => file.endsWith(end));
  expect(files.filter((file) => !named.some((row) => isOf(row, file)))).toEqual([]);
  expect(named.filter((row) => !files.some((file) => isOf(row, file)))).toEqual([]);
});

it('docs/security.md names a test in each row of who is trusted with what', () => {
  const text = readFileSync(join(root, 'docs/security.md'), 'utf8');
  const [, table = ''] = /^## Who is trusted with what$(.*?)^## /ms.exec(text) ?? [];
  const [, , ...rows] = table.trim().split('\n');

  expect(rows.length).toBeGreaterThan(0);
  expect(rows.filter((row) => !/\| [^|]*\.test\.ts\)[^|]* \|$/.test(row))).toEqual([]);
});

describe('docs/how-to/find-out-why.md', () => {
  const text = readFileSync(join(root, 'docs/how-to/find-out-why.md'), 'utf8');

  it('says what to do about everything that a workflow may be blocked on', () => {
    const [, advice = ''] = text.split('## What to do about it');

    expect(Object.keys(blockers).filter((blocker) => !advice.includes(`\`${blocker}\``))).toEqual([]);
  });
});

describe('docs/stuck-machines.md', () => {
  const sections = readFileSync(join(root, 'docs/stuck-machines.md'), 'utf8').split(/^## /m);

  it.each([...stuckCauses, failingCode])('quotes what the page of a machine shows: $title', (cause) => {
    const { name, title, blockedOn, shows } = cause;
    const section = sections.find((each) => each.startsWith(`${title}\n`)) ?? '';

    const quotes = section.match(/`[^`]+`/g) ?? [];
    const missing = [blockedOn, ...shows].filter((text) => !quotes.some((quote) => quote.includes(text)));
    expect(missing).toEqual([]);
    expect(section).toContain(`(images/${name}.png)`);
    expect(statSync(join(root, `docs/images/${name}.png`)).size).toBeLessThan(100_000);
  });
});

/** Anchors that GitHub makes from the headings of a document. */
function anchorsOf(path: string): string[] {
  const seen = new Map<string, number>();
  const prose = readFileSync(join(root, path), 'utf8').replaceAll(/^```.*?^```/gms, '');
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => {
    const anchor = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{Letter}\p{Number}_ -]/gu, '')
      .replaceAll(' ', '-');
    const count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  });
}
