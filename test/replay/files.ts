/** Where recorded histories are: a folder for each scenario, and in it a file for each history. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fromText, type RecordedHistory } from './history.ts';

/** A folder for each release, whose histories never change, and `next` for what was recorded since the last one. */
export const historiesFolder = fileURLToPath(new URL('../histories', import.meta.url));

/** Name of the folder that a recording writes to. */
export const next = 'next';

/** Environment variable with the folder in which tests record their scenarios. Without it they record nothing. */
export const recordVariable = 'MILLWRIGHT_TEST_RECORD';

export interface HistoryFile {
  /** `<scenario>/<workflow type>-<number>.json`, in test/histories behind `<release>/` */
  readonly name: string;
  readonly history: RecordedHistory;
}

/** Names of the scenarios in a folder; none where there is no such folder. */
export function scenariosIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).toSorted() : [];
}

/** All scenarios of test/histories, as `<release>/<scenario>`. */
export function allScenarios(): string[] {
  return readdirSync(historiesFolder)
    .toSorted()
    .flatMap((release) => scenariosIn(join(historiesFolder, release)).map((scenario) => `${release}/${scenario}`));
}

export function filesOf(folder: string, scenario: string): HistoryFile[] {
  return readdirSync(join(folder, scenario))
    .toSorted()
    .map((file) => join(scenario, file))
    .map((name) => ({ name, history: fromText(readFileSync(join(folder, name), 'utf8')) }));
}
