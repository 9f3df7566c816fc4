/** `millwright rollout runs`: the runs of a deployment's workflow with their outcome. */
import type { OwnerSet } from '../../../api/owner/objects.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { listRolloutRuns, maxRuns, type RolloutRun } from '../../../temporal/rollout-runs.ts';
import { columns } from '../../columns.ts';
import { dialect } from '../../dialect.ts';
import { secondsOf, tookText } from '../../duration-text.ts';
import { withInstallation } from '../../installation.ts';
import { rendered } from '../../output.ts';
import type { RolloutTarget } from './target.ts';

/** A run with the revision of its template; left out where the MachineSet does not exist any more. */
export interface ListedRun extends RolloutRun {
  readonly revision?: number;
}

/** The output of the command. Of deployments that are deleted, too: they have left runs. */
export async function runs({ control, key, options }: RolloutTarget): Promise<string> {
  const found = await withInstallation(options, (to) => listRolloutRuns(to, key));
  const { items } = await control.list(dialect.kinds.set, { namespace: key.namespace });
  const listed = withRevisions(found, items);
  return rendered(listed, options, () => runsText(listed));
}

/** Runs with the revisions of their templates. @param sets those of the namespace */
export function withRevisions(runs: readonly RolloutRun[], sets: readonly OwnerSet[]): ListedRun[] {
  return runs.map((run) => {
    const set = sets.find(({ metadata }) => metadata.name === run.set);
    return set === undefined ? run : { ...run, revision: revisionOf(dialect, set) };
  });
}

/** Runs as a table, each failure on the lines below its run. */
export function runsText(runs: readonly ListedRun[], nowMs = Date.now()): string {
  if (runs.length === 0) {
    return 'there are no runs: nothing was rolled out, or the retention of the Temporal namespace has ended';
  }
  const rows = runs.map(({ start, end, outcome, revision = '', set = '', runId }) => [
    ...[secondsOf(start), tookText({ start, end }, nowMs), outcomeText(outcome), String(revision), set, runId],
  ]);
  const [header = '', ...lines] = columns([['START', 'TOOK', 'OUTCOME', 'REVISION', 'SET', 'RUN ID'], ...rows]);
  const failures = runs.map(({ failure }) => failure?.split('\n').map((line) => `  ${line}`) ?? []);
  const ids = [...new Set(runs.map(({ workflowId }) => workflowId))];
  return [
    header,
    ...lines.flatMap((line, i) => [line, ...failures[i]!]),
    ...(runs.length === maxRuns ? [`only the newest ${maxRuns} are listed`] : []),
    ...ids.map((id) => `to replay one: millwright replay ${id} <run id>`),
  ].join('\n');
}

function outcomeText(outcome: ListedRun['outcome']): string {
  return outcome === 'running' ? 'open' : outcome.replaceAll('_', ' ');
}
