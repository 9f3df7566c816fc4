/** What each test file has cost in the last whole run, and the table of it in this repository. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const FileCost = z.object({
  /** Seconds from its start to its end. */
  wall: z.number(),
  /** CPU seconds of the process that ran it, of the processes that it started, and its share of the shared servers. */
  own: z.number(),
  children: z.number(),
  servers: z.number(),
});
export type FileCost = z.infer<typeof FileCost>;
const Table = z.record(z.string(), FileCost);

/** Environment variable with the file that a run of jest writes its costs to. Without it it writes none. */
export const costsVariable = 'MILLWRIGHT_TEST_COSTS';

/** Where the files that have ended are noted until the run has. */
export const notesOf = (costs: string): string => `${costs}.notes`;

/** Written by each whole run at its end. By the path of the file, relative to the checkout. */
export const lastRunFile = '.cache/test-costs.json';

/** The one that the sequencer sorts by. */
export const tableFile = fileURLToPath(new URL('table.json', import.meta.url));

/** The costs in a file; none where there is no such file. */
export function readCosts(file: string): Readonly<Record<string, FileCost>> {
  return existsSync(file) ? Table.parse(JSON.parse(readFileSync(file, 'utf8'))) : {};
}

/** Takes the costs of a whole run as the table. */
export function recordCosts(costs: Readonly<Record<string, FileCost>>): void {
  const rounded = Object.entries(costs)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([file, cost]) => [file, Object.fromEntries(Object.entries(cost).map(([key, s]) => [key, Math.round(s)]))]);
  writeFileSync(tableFile, `${JSON.stringify(Object.fromEntries(rounded), undefined, 2)}\n`);
}

/** CPU seconds of a file, with its share of the servers. */
export function cpuOfFile({ own, children, servers }: FileCost): number {
  return own + children + servers;
}

/** Prints the test files that cost the most CPU, and what all cost. */
export function printDearest(costs: Readonly<Record<string, FileCost>>, count: number): void {
  const rows = Object.entries(costs).toSorted(([, a], [, b]) => cpuOfFile(b) - cpuOfFile(a));
  const number = (seconds: number) => seconds.toFixed(0).padStart(8);
  console.log('\nThe dearest test files, s:\n     CPU = process + started + servers    wall  file');
  for (const [file, cost] of rows.slice(0, count)) {
    const { own, children, servers, wall } = cost;
    console.log([cpuOfFile(cost), own, children, servers, wall].map(number).join(''), '', file);
  }
  const total = rows.reduce((sum, [, cost]) => sum + cpuOfFile(cost), 0);
  console.log(`${number(total)}  all ${rows.length} files`);
}
