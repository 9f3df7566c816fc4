/** Workflows that wait for something that a person or another system has to provide, and those whose code fails. */
import type { Client } from '@temporalio/client';
import { optionalTsToDate } from '@temporalio/common/lib/time.js';
import { type Blocker, blockers, searchAttributes } from '../api/names.ts';
import { grpcCodeOf, grpcCodes } from './connection.ts';
import type { Installation } from './workflows.ts';

/** What a workflow waits for: a blocker, or a version of Millwright whose code does not fail in it. */
export type BlockedOn = Blocker | 'WorkflowTask';

/** What each means, as a clause. */
export const meanings: Readonly<Record<BlockedOn, string>> = {
  ...blockers,
  WorkflowTask: 'the code of the workflow fails, and Temporal tries it again and again',
};

/** An open workflow that is stuck. */
export interface BlockedWorkflow {
  readonly workflowId: string;
  /** Workflow type, such as `machine` or `rollout`. */
  readonly type: string;
  readonly blockedOn: BlockedOn;
  /** Name of the MachineDeployment that it belongs to; left out where there is none. */
  readonly deployment?: string;
  /** When its open run began, RFC 3339. */
  readonly start: string;
}

/** How long the list may take, ms. */
const timeoutMs = 30_000;

/** The server sets it when the code of a workflow has failed several times in a row. */
const reportedProblems = 'TemporalReportedProblems';

/** All of an installation, those first whose run is the oldest. By lists of the server that may be some seconds behind. */
export async function listBlocked(to: Installation): Promise<BlockedWorkflow[]> {
  const [failing, waiting] = await Promise.all([
    // Older servers do not know the search attribute.
    list(to, reportedProblems).catch((error: unknown) => {
      if (grpcCodeOf(error) === grpcCodes.invalidArgument) return [];
      throw error;
    }),
    list(to, searchAttributes.blockedOn),
  ]);
  const ids = new Set(failing.map(({ workflowId }) => workflowId));
  const others = waiting.filter(({ workflowId }) => !ids.has(workflowId));
  return [...failing, ...others].toSorted((a, b) => (a.start < b.start ? -1 : 1));
}

/** The open workflows that have a search attribute. */
async function list({ client, name }: Installation, attribute: string): Promise<BlockedWorkflow[]> {
  const { installation, blockedOn, deployment } = searchAttributes;
  const query = `${installation} = '${name}' AND ${attribute} IS NOT NULL AND ExecutionStatus = 'Running'`;
  const found: BlockedWorkflow[] = [];
  await client.withDeadline(Date.now() + timeoutMs, async () => {
    for await (const { workflowId, type, startTime, searchAttributes: attributes } of client.workflow.list({ query })) {
      const cause = attribute === blockedOn ? attributes[blockedOn]?.[0] : 'WorkflowTask';
      const [owner] = attributes[deployment] ?? [];
      if (cause === undefined) continue;
      found.push({
        ...{ workflowId, type, start: startTime.toISOString() },
        blockedOn: String(cause) as BlockedOn,
        ...(owner !== undefined && { deployment: String(owner) }),
      });
    }
  });
  return found;
}

/** Events at the end of a history that are searched for a failure. */
const lastEvents = 50;

/** How the code of a workflow has failed the last time that its history says so; undefined: it does not say. */
export async function findTaskFailure({ connection, options }: Client, workflowId: string) {
  const { history } = await connection.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: options.namespace,
    execution: { workflowId },
    maximumPageSize: lastEvents,
  });
  const failed = history?.events?.find((event) => event.workflowTaskFailedEventAttributes);
  const message = failed?.workflowTaskFailedEventAttributes?.failure?.message;
  const at = optionalTsToDate(failed?.eventTime);
  return message && at ? { problem: message, since: at.toISOString() } : undefined;
}
