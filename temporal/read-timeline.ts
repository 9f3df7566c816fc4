/** The timeline of a machine, from the histories that Temporal keeps. */
import type { Client } from '@temporalio/client';
import { workflowIdPrefix } from '../api/workflow-id.ts';
import { decodeHistory } from './decode.ts';
import { fetchHistory, ifKept } from './fetch-history.ts';
import { readable } from './history.ts';
import { type Timeline, toTimeline } from './timeline.ts';
import type { Installation } from './workflows.ts';

/** Of a machine that has had more, the newest: each is a request. */
const maxRuns = 100;

/** Of the newest machine that has had the name, with its last run; undefined: Temporal keeps no history of one. */
export async function readTimeline(
  { client, name: installation }: Installation,
  machine: { readonly namespace: string; readonly name: string },
): Promise<(Timeline & { readonly workflowId: string; readonly runId: string }) | undefined> {
  const runs = await listRuns(client, workflowIdPrefix(installation, 'Machine', machine));
  const newest = runs.at(-1);
  if (newest === undefined) return undefined;
  const { workflowId, runId } = newest;
  const own = runs.filter((run) => run.workflowId === workflowId).slice(-maxRuns);
  const { loadedDataConverter } = client.options;
  const histories = await Promise.all(
    own.map(async (run) => {
      const history = await ifKept(fetchHistory(client, run.workflowId, run.runId));
      return history === undefined ? [] : [readable(await decodeHistory(loadedDataConverter, history))];
    }),
  );
  return { workflowId, runId, ...toTimeline(histories.flat()) };
}

interface ListedRun {
  readonly workflowId: string;
  readonly runId: string;
  /** ms since the epoch. */
  readonly start: number;
}

/**
 * All runs of the machines that have had a name, the oldest first. By a list of the server that may be some seconds
 * behind.
 */
async function listRuns(client: Client, prefix: string): Promise<ListedRun[]> {
  const runs: ListedRun[] = [];
  for await (const run of client.workflow.list({ query: `WorkflowId STARTS_WITH '${prefix}'` })) {
    runs.push({ workflowId: run.workflowId, runId: run.runId, start: run.startTime.getTime() });
  }
  return runs.toSorted((a, b) => a.start - b.start);
}
