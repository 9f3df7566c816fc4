/** Why the workflow tasks of a run fail. */
import type { Client } from '@temporalio/client';
import { optionalTsToDate } from '@temporalio/common/lib/time.js';
import { throwsInReplayMark } from '../api/names.ts';
import { readMessage } from './decode.ts';

/** Events at the end of a history that are searched for a failure. */
const lastEvents = 50;

/**
 * How the code of a run has failed the last time that its history says so; undefined: it does not say.
 * @param run the open one where it has no `runId`
 */
export async function findTaskFailure(client: Client, run: { readonly workflowId: string; readonly runId?: string }) {
  const { connection, options } = client;
  const { history } = await connection.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: options.namespace,
    execution: run,
    maximumPageSize: lastEvents,
  });
  const events = history?.events ?? [];
  const failed =
    events.find((event) => event.workflowTaskFailedEventAttributes) ??
    events.find((event) => event.workflowTaskTimedOutEventAttributes);
  const { workflowTaskFailedEventAttributes: attributes, workflowTaskTimedOutEventAttributes: timedOut } = failed ?? {};
  const message = timedOut
    ? 'its workflow task was not answered in time'
    : await readMessage(client, attributes?.failure);
  const at = optionalTsToDate(failed?.eventTime);
  return message && at ? { problem: message, since: at.toISOString() } : undefined;
}

/** What the SDK says of some histories that disagree with the code, and what workflows say of others. */
const disagreements = ['Fatal error in workflow machines', throwsInReplayMark];

/**
 * Whether a failure is not one of the code alone: some histories that disagree with it are reported like an exception,
 * with the cause `WorkflowWorkerUnhandledFailure`.
 */
export function isDisagreement(problem: string): boolean {
  return disagreements.some((mark) => problem.startsWith(mark));
}
