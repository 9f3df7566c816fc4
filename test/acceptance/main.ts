/** `npm run acceptance`: shows which rows of the replaced systems the last `npm test` proved. */
import { readFileSync } from 'node:fs';
import { Command, Option } from 'commander';
import { brokenFiles, JestResults, type RowState, rowStates, type System, states, systems } from './table.ts';

const resultsFile = '.cache/test-results.json';

function main(): void {
  const program = new Command('npm run acceptance --')
    .description('Shows for each row of the acceptance tables whether the last `npm test` proved it.')
    .option('--json', 'print one line: an array of {system, row, state}')
    .addOption(new Option('--system <name>', 'show one system only').choices(Object.keys(systems)))
    .addHelpText(
      'after',
      '\nStates: passing, partly (each test asserts a part of the row), failing, none (no test carries the row, or one that does was skipped).',
    )
    .parse();
  const { json, system } = program.opts<{ json?: true; system?: System }>();

  const results = readResults();
  const rows = rowStates(results).filter((row) => system === undefined || row.system === system);
  for (const file of brokenFiles(results)) {
    process.stderr.write(`${file} could not be run: nothing is known of the rows of its tests\n`);
  }
  process.stdout.write(json ? `${JSON.stringify(rows)}\n` : forPeople(rows, results.startTime));
}

function readResults(): JestResults {
  let text: string;
  try {
    text = readFileSync(resultsFile, 'utf8');
  } catch (error) {
    throw new Error(`${resultsFile} cannot be read: run \`npm test\` first`, { cause: error });
  }
  const { success, data } = JestResults.safeParse(parseJson(text));
  if (!success) throw new Error(`${resultsFile} is not the result of a test run: run \`npm test\` again`);
  return data;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // cut off in mid-write, for example: refused like any other text that is no result
  }
}

function forPeople(rows: readonly RowState[], startTimeMs: number): string {
  const lines = rows.map(({ system, row, state }) => {
    const title = systems[system].find((each) => each.row === row)?.title;
    return `${state.padEnd(7)}  ${`${system} ${row}`.padEnd(14)}  ${title}`;
  });
  const counts = [...new Set(rows.map(({ system }) => system))].map((system) => {
    const count = (wanted: string) => rows.filter((row) => row.system === system && row.state === wanted).length;
    return `${system.padEnd(10)}  ${states.map((state) => `${count(state)} ${state}`).join(', ')}`;
  });
  return `${[...lines, '', `Test run of ${new Date(startTimeMs).toISOString()}`, ...counts].join('\n')}\n`;
}

try {
  main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
