/** `millwright rollout runs`: the runs of a deployment's workflow with their outcome. */
import { listRolloutRuns, maxRuns, type RolloutRun } from '../../../temporal/rollout-runs.ts';
import { columns } from '../../columns.ts';
import { commandLine } from '../../command-line.ts';
import { secondsOf, tookText } from '../../duration-text.ts';
import { withInstallation } from '../../installation.ts';
import { rendered } from '../../output.ts';
import type { RolloutTarget } from './target.ts';

/** The output of the command. Of deployments that are deleted, too: they have left runs. */
export async function runs({ key, options, rawFlags }: Omit<RolloutTarget, 'control'>): Promise<string> {
  const found = await withInstallation(options, (to) => listRolloutRuns(to, key));
  const replay = ({ workflowId, runId }: RolloutRun) =>
    commandLine(['replay', workflowId, runId], key.namespace, rawFlags);
  return rendered(found, options, () => runsText(found, replay));
}

/**
 * Runs as a table, each failure on the lines below its run, and below the runs of each workflow how to replay them.
 * @param replay the command line that replays a run
 */
export function runsText(runs: readonly RolloutRun[], replay: (run: RolloutRun) => string, nowMs = Date.now()): string {
  if (runs.length === 0) {
    return 'there are no runs: nothing was rolled out, or the retention of the Temporal namespace has ended';
  }
  // A deployment that was created again has another workflow.
  const ordered = [...Map.groupBy(runs, ({ workflowId }) => workflowId).values()];
  const rows = ordered
    .flat()
    .map((run) => [
      ...[secondsOf(run.start), tookText(run, nowMs), outcomeText(run), String(run.revision ?? ''), run.set ?? ''],
      run.runId,
    ]);
  const [header = '', ...lines] = columns([['START', 'TOOK', 'OUTCOME', 'REVISION', 'SET', 'RUN ID'], ...rows]);
  return [
    header,
    ...ordered.flatMap((own) => [
      ...own.flatMap(({ failure }) => [
        lines.shift() ?? '',
        ...(failure?.split('\n').map((line) => `  ${line}`) ?? []),
      ]),
      `to replay the newest of these runs, or another one by its RUN ID: ${replay(own[0]!)}`,
    ]),
    ...(runs.length === maxRuns ? [`only the newest ${maxRuns} are listed`] : []),
  ].join('\n');
}

function outcomeText({ outcome, paused }: RolloutRun): string {
  if (paused) return 'paused';
  return outcome === 'running' ? 'open' : outcome.replaceAll('_', ' ');
}
