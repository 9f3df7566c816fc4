/** Where recorded histories are: a folder for each scenario, and in it a file for each history. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fromText, type RecordedHistory } from './history.ts';

export const historiesFolder = fileURLToPath(new URL('../histories', import.meta.url));

/** Environment variable with the folder in which tests record their scenarios. Without it they record nothing. */
export const recordVariable = 'MILLWRIGHT_TEST_RECORD';

export interface HistoryFile {
  /** `<scenario>/<workflow type>-<number>.json` */
  readonly name: string;
  readonly history: RecordedHistory;
}

/** Names of the scenarios that were recorded. */
export function scenariosIn(folder: string): string[] {
  return readdirSync(folder).toSorted();
}

export function filesOf(folder: string, scenario: string): HistoryFile[] {
  return readdirSync(join(folder, scenario))
    .toSorted()
    .map((file) => join(scenario, file))
    .map((name) => ({ name, history: fromText(readFileSync(join(folder, name), 'utf8')) }));
}
