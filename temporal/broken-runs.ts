/**
 * Broken runs: each of their workflow tasks fails, because their history and their code disagree. A worker that
 * outlived a restore of Temporal may have written such a history. No build of the code can go on there, only another
 * run: ADR 47.
 */
import { randomUUID } from 'node:crypto';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { type Blocker, searchAttributes } from '../api/names.ts';
import { progressQuery } from '../workflows/orphansweep/messages.ts';
import { grpcCodeOf, grpcCodes } from './connection.ts';
import { sweepType } from './schedules.ts';
import { findTaskFailure, isDisagreement } from './task-failure.ts';
import type { Installation } from './workflows.ts';

/**
 * Search attribute that the server sets when five workflow tasks of a run have failed in a row. Older servers never do.
 */
export const reportedProblems = 'TemporalReportedProblems';

/**
 * Values of it that say so: the server refuses what a replay asks for, the SDK says it, or no task comes back. The SDK
 * answers none where an error of replay comes too late for it to fail the run.
 */
const brokenCauses = [
  'WorkflowTaskFailedCauseNonDeterministicError',
  'WorkflowTaskFailedCauseStartTimerDuplicateId',
  'WorkflowTaskFailedCauseBadCancelTimerAttributes',
  'WorkflowTaskFailedCauseScheduleActivityDuplicateId',
  'WorkflowTaskFailedCauseBadRequestCancelActivityAttributes',
  'WorkflowTaskFailedCauseBadUpdateWorkflowExecutionMessage',
  'WorkflowTaskTimedOutCauseStartToClose',
].map((cause) => `cause=${cause}`);

/** Whether the problems that the server reports of an open run mean that it is broken. */
export function isBroken(problems: readonly unknown[] = []): boolean {
  return problems.some((problem) => brokenCauses.includes(String(problem)));
}

/** The cause of an exception in the code. Some runs that have it are broken: the message of the failure says so. */
const exceptionCause = 'cause=WorkflowTaskFailedCauseWorkflowWorkerUnhandledFailure';

/** Most runs whose failure is read for one list: after a mistake in the code all runs may have this cause. */
const mostRead = 100;

export interface BrokenRun {
  readonly workflowId: string;
  readonly runId: string;
  /** Workflow type, such as `machine`. */
  readonly type: string;
}

/**
 * Search attribute of runs that a Schedule has started. It would not know of another one, and start the next beside it.
 */
const scheduledBy = 'TemporalScheduledById';

/** How long each call, and all pages of a list, may take, ms. */
const timeoutMs = 30_000;

function inTime<T>(client: Client, call: () => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + timeoutMs, call);
}

/**
 * The broken runs of an installation, by lists of the server that may be some seconds behind. Older servers list sweeps
 * alone.
 */
export async function listBrokenRuns(to: Installation): Promise<BrokenRun[]> {
  const causes = brokenCauses.map((cause) => `'${cause}'`).join(', ');
  const listReported = (condition: string) =>
    listOpen(to, `${reportedProblems} ${condition}`).catch((error: unknown) => {
      if (grpcCodeOf(error) === grpcCodes.invalidArgument) return []; // older servers do not know the search attribute
      throw error;
    });
  const reported = await listReported(`IN (${causes})`);
  const allThrown = await listReported(`= '${exceptionCause}'`);
  const from = Math.floor(Math.random() * allThrown.length); // else some would never be read
  const thrown = [...allThrown.slice(from), ...allThrown.slice(0, from)].slice(0, mostRead);
  const waiting = await listOpen(to, heldSweeps);
  const isReported = new Set(reported.map(({ runId }) => runId));
  const asked = waiting.filter(({ runId }) => !isReported.has(runId));
  const refused = await Promise.all(asked.map((run) => isReplayRefused(to.client, run)));
  const disagrees = await Promise.all(thrown.map((run) => hasDisagreement(to.client, run)));
  return [...reported, ...asked.filter((_, i) => refused[i]), ...thrown.filter((_, i) => disagrees[i])];
}

/** Whether the last failure of a run says that history and code disagree. A history that cannot be read says nothing. */
async function hasDisagreement(client: Client, { workflowId, runId }: BrokenRun): Promise<boolean> {
  const read = () => findTaskFailure(client, { workflowId, runId });
  const failure = await inTime(client, read).catch(() => undefined);
  return failure !== undefined && isDisagreement(failure.problem);
}

/** Sweeps that wait for approval: for a day they have no workflow task that could fail. */
const heldSweeps = `WorkflowType = '${sweepType}' AND ${searchAttributes.blockedOn} = '${'Brake' satisfies Blocker}'`;

async function listOpen({ client, name }: Installation, which: string): Promise<BrokenRun[]> {
  const query = `${searchAttributes.installation} = '${name}' AND ${which} AND ExecutionStatus = 'Running'`;
  const found: BrokenRun[] = [];
  await inTime(client, async () => {
    for await (const { workflowId, runId, type } of client.workflow.list({ query })) {
      found.push({ workflowId, runId, type });
    }
  });
  return found;
}

/** Whether a sweep cannot be replayed, as its answer to a query says. No answer says nothing. */
async function isReplayRefused(client: Client, { workflowId, runId, type }: BrokenRun): Promise<boolean> {
  if (type !== sweepType) return false;
  try {
    const handle = client.workflow.getHandle(workflowId, runId);
    await inTime(client, () => handle.query(progressQuery));
    return false;
  } catch (error) {
    return error instanceof Error && error.message.includes('[TMPRL1100]');
  }
}

/**
 * Terminates a run and starts the next one, with the first argument alone, as for a lost run. If this process ends in
 * between, whatever starts the workflow of a lost run starts this one. A run of a Schedule is followed by that alone.
 * @returns whether the run was still broken; otherwise nothing is done
 */
export async function replaceBrokenRun({ client }: Installation, run: BrokenRun): Promise<boolean> {
  const { workflowId, runId } = run;
  const handle = client.workflow.getHandle(workflowId, runId);
  try {
    const { searchAttributes: shown } = await inTime(client, () => handle.describe());
    const problems: readonly unknown[] = shown[reportedProblems] ?? [];
    const isStill =
      isBroken(problems) ||
      (problems.includes(exceptionCause) ? await hasDisagreement(client, run) : await isReplayRefused(client, run));
    if (!isStill) return false;
    const begin = await readBegin(client, { workflowId, runId });
    await inTime(client, () => handle.terminate('its history and its code disagree: a new run takes over'));
    // Whatever starts the workflow of a lost run starts the next one if this fails.
    if (!(scheduledBy in begin.attributes)) await startNext(client, workflowId, begin).catch(() => undefined);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** The first event of a run: its input as payloads, and with what it was started. */
async function readBegin(client: Client, execution: Omit<BrokenRun, 'type'>) {
  const { connection, options } = client;
  const which = { namespace: options.namespace, execution, maximumPageSize: 1 };
  const { history } = await inTime(client, () => connection.workflowService.getWorkflowExecutionHistory(which));
  const [event] = history?.events ?? [];
  const started = event?.workflowExecutionStartedEventAttributes;
  if (!started) throw new Error(`the history of ${execution.workflowId} does not begin with its start`);
  const { workflowType = null, taskQueue = null, retryPolicy = null, searchAttributes: attributes } = started;
  const { workflowExecutionTimeout = null, workflowTaskTimeout = null } = started;
  return {
    input: started.input?.payloads ?? [],
    attributes: attributes?.indexedFields ?? {},
    options: { workflowType, taskQueue, retryPolicy, workflowExecutionTimeout, workflowTaskTimeout },
    userMetadata: event?.userMetadata ?? null,
  };
}

async function startNext(
  client: Client,
  workflowId: string,
  { input, attributes, options, userMetadata }: Awaited<ReturnType<typeof readBegin>>,
): Promise<void> {
  const { namespace, identity } = client.options;
  const own = Object.entries(attributes).filter(([name]) => keptAttributes.includes(name));
  const next = {
    ...{ namespace, identity, requestId: randomUUID(), workflowId, ...options, userMetadata },
    input: { payloads: input.slice(0, 1) },
    searchAttributes: { indexedFields: Object.fromEntries(own) },
  };
  await inTime(client, () => client.connection.workflowService.startWorkflowExecution(next));
}

/** What blocks a run is its own to say; the server's own attributes are the server's. */
const keptAttributes: readonly string[] = Object.values(searchAttributes).filter(
  (name) => name !== searchAttributes.blockedOn,
);
