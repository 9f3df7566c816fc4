/** The timeline of a machine, from the histories that Temporal keeps. */
import type { Client } from '@temporalio/client';
import { workflowIdPrefix } from '../api/workflow-id.ts';
import { readEvents } from './fetch-history.ts';
import { type Timeline, toTimeline } from './timeline.ts';
import type { Installation } from './workflows.ts';

/** What a reading of histories may cost. */
export interface HistoryLimits {
  /** Of a machine that has had more, the newest are read: each is a request. */
  readonly maxRuns: number;
  /** For the list of the runs, and for each history, ms. */
  readonly timeoutMs: number;
}

const defaults: HistoryLimits = { maxRuns: 100, timeoutMs: 60_000 };

/** The timeline of a workflow with its last run. */
export interface FoundTimeline extends Timeline {
  readonly workflowId: string;
  readonly runId: string;
  /** Number of earlier runs that were not read. */
  readonly omittedRuns: number;
}

/** Of the newest machine that has had the name, with its last run; undefined: Temporal keeps no history of one. */
export async function readTimeline(
  { client, name: installation }: Installation,
  machine: { readonly namespace: string; readonly name: string },
  { maxRuns, timeoutMs } = defaults,
): Promise<FoundTimeline | undefined> {
  const prefix = workflowIdPrefix(installation, 'Machine', machine);
  const runs = await client.withDeadline(Date.now() + timeoutMs, () => listRuns(client, prefix));
  const newest = runs.at(-1);
  if (newest === undefined) return undefined;
  const { workflowId, runId } = newest;
  const all = runs.filter((run) => run.workflowId === workflowId);
  const own = all.slice(-maxRuns);
  const histories = await Promise.all(own.map((run) => readEvents(client, run, timeoutMs)));
  const timeline = toTimeline(histories.filter((each) => each !== undefined));
  return { workflowId, runId, ...timeline, omittedRuns: all.length - own.length };
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
