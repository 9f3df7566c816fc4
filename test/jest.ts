/** Running jest as `npm test`, `npm run test:long` and `npm run record` do. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { z } from 'zod';
import { spawnGuarded } from '../deploy/local/process.ts';
import type { Outcome } from './steps.ts';

/** The part of jest's JSON that is looked at. */
const JestResults = z.object({
  numPassedTests: z.int(),
  numFailedTests: z.int(),
  numPendingTests: z.int(),
  numTodoTests: z.int(),
  /** Files that could not even be loaded. */
  numRuntimeErrorTestSuites: z.int(),
  testResults: z.array(z.object({ name: z.string(), status: z.string() })),
});

export interface JestOutcome extends Outcome {
  /** Absolute paths of the test files in which nothing failed. */
  readonly passedFiles: readonly string[];
}

/**
 * Starts jest in a checkout; `env` is added to the environment. Node keeps the compiled code of jest and of the
 * processes that tests start by the path and the content of a file: a third of what their start costs.
 */
export function spawnJest(
  checkout: string,
  args: readonly string[],
  output: 'inherit' | 'pipe',
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  return spawnGuarded('TERM', process.execPath, ['node_modules/jest/bin/jest.js', ...args], {
    cwd: checkout,
    stdio: ['ignore', output, output],
    env: {
      ...process.env,
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --experimental-vm-modules --disable-warning=ExperimentalWarning`,
      NODE_COMPILE_CACHE: resolve(checkout, '.cache/compiled'),
      // Settings of the user for other servers must not affect tests. There is no such file.
      TEMPORAL_CONFIG_FILE: resolve(checkout, '.cache/temporal.toml'),
      ...env,
    },
  });
}

/** Runs jest with these arguments and shows what it says; `env` is added to the environment. */
export async function runJest(
  resultsFile: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<JestOutcome> {
  await mkdir('.cache', { recursive: true });
  await rm(resultsFile, { force: true });
  const child = spawnJest('.', ['--json', '--outputFile', resultsFile, ...args], 'inherit', env);
  const [exitCode, signal] = await once(child, 'exit');
  const code = exitCode ?? signal;
  const text = await readFile(resultsFile, 'utf8').catch(() => undefined);
  if (text === undefined) {
    console.error(`jest has ended (${code}) without results`);
    return { passed: 0, failed: 1, skipped: 0, passedFiles: [] };
  }
  const results = JestResults.parse(JSON.parse(text));
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
  return {
    passed: results.numPassedTests,
    // For example an obsolete snapshot under --ci, or a teardown that throws.
    failed: failed === 0 && code !== 0 ? 1 : failed,
    skipped: results.numPendingTests + results.numTodoTests,
    passedFiles: results.testResults.filter(({ status }) => status === 'passed').map(({ name }) => name),
  };
}

/** Prints the line with which every run ends, and has the process fail when something did or nothing was tested. */
export function conclude(outcomes: readonly Outcome[]): void {
  const sum = (key: keyof Outcome) => outcomes.reduce((total, outcome) => total + outcome[key], 0);
  const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')];
  if (failed > 0 || passed === 0) process.exitCode = 1;
  if (failed === 0 && passed === 0) console.error('no test has run: no title matches');
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
}
