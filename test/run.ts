/**
 * `npm test`: everything that a change has to pass, and `npm test -- <arguments>`: jest alone, with these arguments.
 * The last line of a run of tests is `N passed, N failed, N skipped`. `--long` is `npm run test:long`. `--slowest`
 * prints what the files of the last whole run have cost, `--record-costs` takes that as the table of this repository.
 */
import { resolve } from 'node:path';
import { costsVariable, lastRunFile, printDearest, readCosts, recordCosts } from './costs/table.ts';
import { conclude, runJest } from './jest.ts';
import { checks, type Outcome, runStep } from './steps.ts';

// At the end of a command line: jest takes what follows for more of the same.
const longTests = ['--testMatch=<rootDir>/**/*.long.test.ts', '--testPathIgnorePatterns=/node_modules/'];

const args = process.argv.slice(2);
if (args[0] === '--slowest' || args[0] === '--record-costs') useLastRun(args[0]);
else conclude(await run());

function useLastRun(flag: '--slowest' | '--record-costs'): void {
  const costs = readCosts(lastRunFile);
  if (Object.keys(costs).length === 0) {
    console.error(`${flag} needs the costs of a whole run: run npm test without arguments first`);
    process.exitCode = 1;
  } else if (flag === '--slowest') printDearest(costs, 40);
  else recordCosts(costs);
}

async function run(): Promise<readonly Outcome[]> {
  if (args[0] === '--long') return runLong();
  if (args.length > 0) return [await runJest('.cache/selected-test-results.json', args)];

  const checked = await checks();
  const { prepare, preparations } = await import('./prepare.ts');
  await prepare(preparations);
  // `npm run acceptance` reads the file of the whole run.
  const [tests, demo] = await Promise.all([
    runJest('.cache/test-results.json', [], { [costsVariable]: resolve(lastRunFile) }),
    runStep('demo', ['deploy/local/demo.ts', '--exit']),
  ]);
  printDearest(readCosts(lastRunFile), 10);
  return [...checked, tests, demo];
}

/**
 * Without arguments also the end-to-end tests of `npm test` with workers that keep no workflow, in the SDK's sandbox:
 * each task is a replay.
 */
async function runLong(): Promise<readonly Outcome[]> {
  const selected = args.slice(1);
  if (selected.length === 0) {
    const { longPreparations, prepare, preparations } = await import('./prepare.ts');
    await prepare(preparations);
    await prepare(longPreparations);
  }
  // Each of them keeps the cores busy.
  const long = await runJest('.cache/long-test-results.json', [...selected, '--maxWorkers=2', ...longTests]);
  if (selected.length > 0) return [long];
  const env = { MILLWRIGHT_MAX_CACHED_WORKFLOWS: '0', MILLWRIGHT_FAST_WORKFLOW_SANDBOX: 'false' };
  return [long, await runJest('.cache/uncached-test-results.json', ['test/end-to-end', '--maxWorkers=3'], env)];
}
