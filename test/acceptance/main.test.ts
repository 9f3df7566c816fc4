import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const main = fileURLToPath(new URL('main.ts', import.meta.url));
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-acceptance-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function writeResults(text: string): Promise<void> {
  await mkdir(join(folder, '.cache'));
  await writeFile(join(folder, '.cache', 'test-results.json'), text);
}

/** Results as jest writes them: one file that ran and one that could not be loaded. */
const results = JSON.stringify({
  success: false,
  startTime: Date.parse('2026-11-21T08:00:00Z'),
  testResults: [
    {
      name: '/checkout/a.test.ts',
      status: 'failed',
      assertionResults: [
        { fullName: 'machines [mcm 11] [mcm 12] are made', status: 'passed', ancestorTitles: ['machines'] },
        { fullName: '[mcm 43 partly] drains', status: 'passed' },
        { fullName: '[capi 3] pauses', status: 'failed' },
      ],
    },
    { name: '/checkout/b.test.ts', status: 'failed', assertionResults: [], message: 'SyntaxError' },
  ],
});

function acceptance(...args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { cwd: folder }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe('npm run acceptance', () => {
  it('prints one line of JSON with the state of all rows', async () => {
    await writeResults(results);

    const { code, stdout } = await acceptance('--json');

    expect(code).toBe(0);
    expect(stdout.trimEnd()).not.toContain('\n');
    const rows: unknown = JSON.parse(stdout);
    expect(rows).toHaveLength(114 + 122 + 90);
    expect(rows).toContainEqual({ system: 'mcm', row: 12, state: 'passing' });
    expect(rows).toContainEqual({ system: 'mcm', row: 43, state: 'partly' });
    expect(rows).toContainEqual({ system: 'capi', row: 3, state: 'failing' });
    expect(rows).toContainEqual({ system: 'kubermatic', row: 122, state: 'none' });
  });

  it('shows the rows of one system with titles and counts, and names files that could not be run', async () => {
    await writeResults(results);

    const { code, stdout, stderr } = await acceptance('--system', 'mcm');

    expect(code).toBe(0);
    expect(stdout).toMatch(/^passing {2}mcm 11 {10}One new Machine/m);
    expect(stdout).toMatch(/^none {5}mcm 10 {10}Deleting a Node/m);
    expect(stdout).toContain(
      'Test run of 2026-11-21T08:00:00.000Z\nmcm         2 passing, 1 partly, 0 failing, 111 none\n',
    );
    expect(stdout).not.toContain('capi');
    expect(stderr).toBe('/checkout/b.test.ts could not be run: nothing is known of the rows of its tests\n');
  });

  it('says how to get results when there are none', async () => {
    const { code, stdout, stderr } = await acceptance('--json');

    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toBe('.cache/test-results.json cannot be read: run `npm test` first\n');
  });

  it.each(['{"testResults":', '{"testResults": 4}'])('refuses results that read %s', async (text) => {
    await writeResults(text);

    const { code, stderr } = await acceptance();

    expect(code).toBe(1);
    expect(stderr).toBe('.cache/test-results.json is not the result of a test run: run `npm test` again\n');
  });

  it('refuses a system that it does not know and names those that it does', async () => {
    const { code, stderr } = await acceptance('--system', 'nomad');

    expect(code).toBe(1);
    expect(stderr).toContain("'nomad' is invalid. Allowed choices are mcm, kubermatic, capi.");
  });
});
