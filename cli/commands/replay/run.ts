/**
 * `millwright replay`: replays a run from the Temporal server or a file, and reports the first decision that differs.
 */

import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { decodeHistory } from '../../../temporal/decode.ts';
import { fetchHistory } from '../../../temporal/fetch-history.ts';
import { replayRun } from '../../../temporal/replay.ts';
import { NegativeAnswer } from '../../command.ts';
import { dataConverterOf } from '../../data-converter.ts';
import type { namespaceFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import { type Options, UsageError } from '../../options.ts';
import { rendered } from '../../output.ts';
import { complain, say } from '../../terminal.ts';
import { replayText } from './report.ts';

type ReplayOptions = Options<
  'export' | 'output' | 'installation' | (typeof temporalFlags)[number] | (typeof namespaceFlags)[number]
>;

/**
 * Replays a run and prints the report. Throws NegativeAnswer when a decision differs, and another Error when the run
 * cannot be read or replayed.
 * @param given id of a workflow, or the path of a file that exists
 */
export async function replay(given: string, runId: string | undefined, options: ReplayOptions): Promise<void> {
  const isFile = existsSync(given);
  if (!isFile && /^[./~]|\.json$/.test(given)) throw new Error(`there is no file ${given}: correct the path`);
  if (isFile && runId !== undefined) throw new UsageError(`run is '${runId}': leave it out, a file has one run`);
  const text = isFile
    ? await readFile(given, 'utf8')
    : await withInstallation(options, ({ client }) => fetchHistory(client, given, runId));
  if (options.export !== undefined) {
    await writeFile(options.export, text);
    complain(`wrote the history to ${options.export}`);
  }
  const report = await replayRun(await decodeHistory(dataConverterOf(options), text), given);
  say(rendered(report, options, () => replayText(report)));
  if (!report.same) throw new NegativeAnswer('this version decides otherwise: see above');
}
