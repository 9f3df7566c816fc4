/**
 * `npm run mutants`: whether the tests notice each mutant of table.ts; `-- <id>...`: only these. Everything happens in
 * a copy of the checkout. Its tests share one stack, and have to pass before anything is broken.
 */
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { removeWhenOrphaned } from '../../deploy/local/process.ts';
import { startStack } from '../../deploy/local/stack.ts';
import { spawnJest } from '../jest.ts';
import { firstFailureFile } from './first-failure.ts';
import { type Mutant, mutants } from './table.ts';

const checkout = resolve('.');

/** What a run of tests has come to: `failed` is the name of the first test that does; `broken` says why none could. */
type Outcome = { readonly passed: true } | { readonly failed: string } | { readonly broken: string };

/** A mutant may keep jest busy for good: that is noticed as well. */
const limitMs = 15 * 60_000;

const chosen = choose(process.argv.slice(2));
const copy = await mkdtemp(join(tmpdir(), 'millwright-mutants-'));
const releaseCopy = removeWhenOrphaned(copy);
try {
  await copyCheckout();
  if (process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS) await run();
  else await withStack(run);
} finally {
  await rm(copy, { recursive: true, force: true });
  releaseCopy();
}

/** Starts the servers of the tests once for all runs of jest. */
async function withStack(body: () => Promise<void>): Promise<void> {
  const stack = await startStack({ clusters: 2 });
  const [first, second] = stack.clusters;
  process.env.MILLWRIGHT_TEST_KUBECONFIG = first.kubeconfig;
  process.env.MILLWRIGHT_TEST_KUBECONFIG_2 = second?.kubeconfig;
  process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS = stack.temporalAddress;
  process.env.MILLWRIGHT_TEST_TEMPORAL_UI = stack.uiUrl;
  try {
    await body();
  } finally {
    await stack.stop();
  }
}

function choose(ids: readonly string[]): readonly Mutant[] {
  const unknown = ids.filter((id) => !mutants.some((each) => each.id === id));
  if (unknown.length === 0) return ids.length === 0 ? mutants : mutants.filter(({ id }) => ids.includes(id));
  console.error(`no mutant ${unknown.join(', ')}: there are ${mutants.map(({ id }) => id).join(', ')}`);
  process.exit(1);
}

/** The packages are linked: nothing is written to them. */
async function copyCheckout(): Promise<void> {
  const left = new Set(['.git', '.cache', 'node_modules']);
  await cp(checkout, copy, { recursive: true, filter: (source) => !left.has(relative(checkout, source)) });
  await symlink(join(checkout, 'node_modules'), join(copy, 'node_modules'));
  await mkdir(join(copy, '.cache'));
}

async function run(): Promise<void> {
  process.exitCode = 1;
  for (const test of new Set(chosen.flatMap(({ tests }) => tests))) {
    const unchanged = await runTests([test]);
    if ('passed' in unchanged) continue;
    console.error(`✗ ${test} fails without a mutant: ${'failed' in unchanged ? unchanged.failed : unchanged.broken}`);
    return;
  }
  let killed = 0;
  for (const mutant of chosen) if (await isKilled(mutant)) killed += 1;
  console.log(`${chosen.length} mutants: ${killed} killed, ${chosen.length - killed} not`);
  if (killed === chosen.length) process.exitCode = 0;
}

async function isKilled({ id, file, text: before, replacement, breaks, tests }: Mutant): Promise<boolean> {
  const since = performance.now();
  const source = await readFile(join(copy, file), 'utf8');
  await writeFile(
    join(copy, file),
    source.replace(before, () => replacement),
  );
  const outcome = await runTests(tests);
  await writeFile(join(copy, file), source);
  const seconds = ((performance.now() - since) / 1_000).toFixed(0);
  if ('failed' in outcome) {
    console.log(`✓ ${id} (${file}, ${seconds} s) is killed by: ${outcome.failed}`);
    return true;
  }
  console.log(`✗ ${id} (${file}, ${seconds} s) ${'passed' in outcome ? `lives: ${breaks}` : outcome.broken}`);
  return false;
}

async function runTests(tests: readonly string[]): Promise<Outcome> {
  const failureFile = join(copy, firstFailureFile);
  await rm(failureFile, { force: true });
  const reporters = ['--reporters=default', `--reporters=${join(copy, 'test/mutants/first-failure.ts')}`];
  const child = spawnJest(copy, ['--runInBand', ...reporters, '--runTestsByPath', ...tests], 'pipe');
  if (!child.stdout || !child.stderr) throw new Error('jest has no output to read');
  const limit = setTimeout(() => child.kill('SIGKILL'), limitMs);
  const [[code, signal], ...output] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  clearTimeout(limit);
  if (code === 0) return { passed: true };
  if (signal === 'SIGKILL') return { failed: `a run that does not end within ${limitMs / 60_000} minutes` };
  const failed = await readFile(failureFile, 'utf8').catch(() => undefined);
  return failed === undefined ? { broken: `runs no test:\n${output.join('')}` } : { failed };
}
