/** The acceptance table: which rows of the replaced systems a run of the tests proves. Pure functions. */
import { z } from 'zod';
import { capi } from './cluster-api.ts';
import { kubermatic } from './kubermatic.ts';
import { mcm } from './mcm.ts';

/** The rows of each system, under the name that titles of tests use for it. */
export const systems = { mcm, kubermatic, capi } as const;
export type System = keyof typeof systems;

/** What is read of the file that `jest --json --outputFile` writes. */
export const JestResults = z.object({
  startTime: z.number().describe('Start of the run in ms since 1970.'),
  testResults: z.array(
    z.object({
      name: z.string().describe('Path of the test file.'),
      status: z.string().describe('`failed` also when the file could not be run, and so has no assertionResults.'),
      assertionResults: z.array(
        z.object({
          fullName: z.string().describe('Titles of the test and of every describe around it.'),
          status: z.string().describe('passed, failed, or one of several words for a test that did not run.'),
        }),
      ),
    }),
  ),
});
export type JestResults = z.infer<typeof JestResults>;

/** A row of the table. Its number counts from 1, as in the table of its system. */
export interface Row {
  readonly system: System;
  readonly row: number;
}

/** A row in the title of a test. */
export interface Tag extends Row {
  /** Whether the test asserts a part of the row's sentence only, as in `[mcm 43 partly]`. */
  readonly partly: boolean;
}

export const states = ['passing', 'partly', 'failing', 'none'] as const;

/**
 * State of a row. passing: all tests that carry it passed, and at least one of them asserts all of it. partly: all
 * passed, and each asserts a part. failing: one of them failed. none: no test carries it, or one that does was skipped.
 */
export interface RowState extends Row {
  readonly state: (typeof states)[number];
}

/**
 * The rows that a title carries, as in `[mcm 43] [mcm 44 partly] deletes the VM`.
 * Throws on a tag that is not of this form and on a row that its system does not have: it would count for nothing.
 */
export function rowsIn(title: string): Tag[] {
  return [...title.matchAll(/\[((?:mcm|kubermatic|capi|cluster-api)\b[^\]]*)\]/gi)].map(([tag, content = '']) => {
    const [, system, digits, partly] = /^(mcm|kubermatic|capi) ([1-9]\d*)( partly)?$/.exec(content) ?? [];
    if (!isSystem(system)) {
      const forms = 'write one tag for each row, like [mcm 11] or [mcm 11 partly]';
      throw new Error(`${tag} in the test title "${title}" is no row: ${forms}`);
    }
    const row = Number(digits);
    const last = systems[system].length;
    if (row > last) {
      throw new Error(`${tag} in the test title "${title}" is unknown: the rows of ${system} are 1 to ${last}`);
    }
    return { system, row, partly: partly !== undefined };
  });
}

/** The state of every row of every system, in the order of the tables. Throws as `rowsIn` does. */
export function rowStates(results: JestResults): RowState[] {
  const carried = results.testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .flatMap(({ fullName, status }) => rowsIn(fullName).map((row) => ({ ...row, status })));

  return Object.keys(systems)
    .filter(isSystem)
    .flatMap((system) => {
      return systems[system].map(({ row }) => {
        const tests = carried.filter((test) => test.system === system && test.row === row);
        return { system, row, state: stateOf(tests) };
      });
    });
}

function stateOf(tests: readonly { status: string; partly: boolean }[]): RowState['state'] {
  if (tests.some(({ status }) => status === 'failed')) return 'failing';
  if (tests.length === 0 || tests.some(({ status }) => status !== 'passed')) return 'none';
  return tests.every(({ partly }) => partly) ? 'partly' : 'passing';
}

/** Test files that could not be run, so that nothing is known of the rows of their tests. */
export function brokenFiles(results: JestResults): string[] {
  return results.testResults
    .filter(({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0)
    .map(({ name }) => name);
}

function isSystem(name: string | undefined): name is System {
  return name !== undefined && Object.hasOwn(systems, name);
}
