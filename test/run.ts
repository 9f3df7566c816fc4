/**
 * `npm test`: everything that a change has to pass, and `npm test -- <arguments>`: jest alone, with these arguments.
 * The last line is always `N passed, N failed, N skipped`.
 */
import { conclude, printSlowest, runJest } from './jest.ts';
import { checks, type Outcome, runStep } from './steps.ts';

// At the end of a command line: jest takes what follows for more of the same.
const longTests = ['--testMatch=<rootDir>/**/*.long.test.ts', '--testPathIgnorePatterns=/node_modules/'];

conclude(await run(process.argv.slice(2)));

async function run(args: readonly string[]): Promise<readonly Outcome[]> {
  if (args[0] === '--long') return runLong(args.slice(1));
  if (args.length > 0) return [await runJest('.cache/selected-test-results.json', args)];

  const checked = await checks();
  const { prepare, preparations } = await import('./prepare.ts');
  await prepare(preparations);
  // `npm run acceptance` reads the file of the whole run.
  const [tests, demo] = await Promise.all([
    runJest('.cache/test-results.json', []),
    runStep('demo', ['deploy/local/demo.ts', '--exit']),
  ]);
  printSlowest(tests);
  return [...checked, tests, demo];
}

/** Without arguments also the end-to-end tests with workers that keep no workflow: each task is a replay from the start. */
async function runLong(args: readonly string[]): Promise<readonly Outcome[]> {
  if (args.length === 0) {
    const { longPreparations, prepare, preparations } = await import('./prepare.ts');
    await prepare(preparations);
    await prepare(longPreparations);
  }
  // Each of them keeps the cores busy.
  const long = await runJest('.cache/long-test-results.json', [...args, '--maxWorkers=2', ...longTests]);
  if (args.length > 0) return [long];
  const env = { MILLWRIGHT_MAX_CACHED_WORKFLOWS: '0' };
  return [long, await runJest('.cache/uncached-test-results.json', ['test/end-to-end', '--maxWorkers=1'], env)];
}
