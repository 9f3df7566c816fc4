/** `millwright timeline`: the steps of a machine's life, from the histories of its workflow. */

import type { Client } from '@temporalio/client';
import { workflowIdPrefix } from '../../../api/workflow-id.ts';
import { readable } from '../../../temporal/history.ts';
import { fetchHistory } from '../../../temporal/replay.ts';
import { toTimeline } from '../../../temporal/timeline.ts';
import type { temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { timelineText } from './text.ts';

type TimelineOptions = Options<'namespace' | 'installation' | 'output' | (typeof temporalFlags)[number]>;

/** Of a machine that has had more, the newest: each is a request. */
const maxRuns = 100;

/** The output of the command. Throws an Error when Temporal keeps no history of such a machine. */
export async function timeline(name: string, options: TimelineOptions): Promise<string> {
  const { namespace } = options;
  const { workflowId, histories } = await withInstallation(options, async ({ client, name: installation }) => {
    const runs = await listRuns(client, workflowIdPrefix(installation, 'Machine', { namespace, name }));
    const newest = runs.at(-1)?.workflowId;
    const own = runs.filter((run) => run.workflowId === newest).slice(-maxRuns);
    const texts = await Promise.all(own.map((run) => fetchHistory(client, run.workflowId, run.runId)));
    return { workflowId: newest, histories: texts.map(readable) };
  });
  if (workflowId === undefined) {
    const why = 'it had nothing to do since the retention of the Temporal namespace began, or correct the name';
    throw new Error(`Temporal knows no machine ${namespace}/${name}: ${why}, --namespace or --installation`);
  }
  const lived = toTimeline(histories);
  return rendered({ workflowId, ...lived }, options, () => timelineText(lived, Date.now()));
}

/** All runs of the machines that have had a name, the oldest first. By a list of the server that may be some seconds behind. */
async function listRuns(client: Client, prefix: string) {
  const runs: { readonly workflowId: string; readonly runId: string; readonly start: number }[] = [];
  for await (const run of client.workflow.list({ query: `WorkflowId STARTS_WITH '${prefix}'` })) {
    runs.push({ workflowId: run.workflowId, runId: run.runId, start: run.startTime.getTime() });
  }
  return runs.toSorted((a, b) => a.start - b.start);
}
