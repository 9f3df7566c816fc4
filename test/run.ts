/**
 * `npm test`: everything that a change has to pass, and `npm test -- <arguments>`: jest alone, with these arguments.
 * The last line is always `N passed, N failed, N skipped`.
 */
import { once } from 'node:events';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { z } from 'zod';
import { spawnGuarded } from '../deploy/local/process.ts';
import { checks, type Outcome } from './steps.ts';

const longTests = ['--testMatch', '<rootDir>/**/*.long.test.ts', '--testPathIgnorePatterns', '/node_modules/'];

/** The part of jest's JSON that is counted. */
const JestResults = z.object({
  numPassedTests: z.int(),
  numFailedTests: z.int(),
  numPendingTests: z.int(),
  numTodoTests: z.int(),
  /** Files that could not even be loaded. */
  numRuntimeErrorTestSuites: z.int(),
});

const outcomes = await run(process.argv.slice(2));
const passed = sum(outcomes.map((outcome) => outcome.passed));
const failed = sum(outcomes.map((outcome) => outcome.failed));
const skipped = sum(outcomes.map((outcome) => outcome.skipped));
// A run that tested nothing has proved nothing.
if (failed > 0 || passed === 0) process.exitCode = 1;
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);

async function run(args: readonly string[]): Promise<readonly Outcome[]> {
  if (args[0] === '--long') return [await jest('.cache/long-test-results.json', [...longTests, ...args.slice(1)])];
  if (args.length > 0) return [await jest('.cache/selected-test-results.json', args)];

  // `npm run acceptance` reads the file of the whole run.
  return [...(await checks()), await jest('.cache/test-results.json', []), await runDemo()];
}

async function jest(resultsFile: string, args: readonly string[]): Promise<Outcome> {
  await mkdir('.cache', { recursive: true });
  await rm(resultsFile, { force: true });
  const code = await show(['node_modules/jest/bin/jest.js', '--json', '--outputFile', resultsFile, ...args], {
    NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --experimental-vm-modules --disable-warning=ExperimentalWarning`,
  });
  const text = await readFile(resultsFile, 'utf8').catch(() => undefined);
  if (text === undefined) {
    console.error(`jest has ended (${code}) without results`);
    return { passed: 0, failed: 1, skipped: 0 };
  }
  const results = JestResults.parse(JSON.parse(text));
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
  return {
    passed: results.numPassedTests,
    // For example an obsolete snapshot under --ci, or a teardown that throws.
    failed: failed === 0 && code !== 0 ? 1 : failed,
    skipped: results.numPendingTests + results.numTodoTests,
  };
}

async function runDemo(): Promise<Outcome> {
  const code = await show(['deploy/local/demo.ts', '--exit'], {});
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 };
}

async function show(args: readonly string[], env: Readonly<Record<string, string>>): Promise<number | string> {
  const child = spawnGuarded('TERM', process.execPath, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...env },
  });
  const [code, signal] = await once(child, 'exit');
  return code ?? signal;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
