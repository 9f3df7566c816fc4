/** Asking a workflow what it is doing. */
import {
  Client,
  QueryRejectedError,
  ServiceError,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { MachineDescription } from '../workflows/machine/messages.ts';
import type { OwnerDescription } from '../workflows/rollout/messages.ts';
import { grpcCodeOf, grpcCodes, reasonOf } from './connection.ts';
import { readMessage } from './decode.ts';

type PendingActivity = NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>[number];

/** Result of asking a workflow. */
export type WorkflowAnswer<D> =
  | { readonly state: 'open'; readonly description: D; readonly retries: readonly Retry[] }
  /** No workflow is open: the object is at rest, or its last change was not handled yet. */
  | { readonly state: 'none' }
  /** The workflow is open and no worker answers, or Temporal does not answer. */
  | { readonly state: 'silent'; readonly reason: string };

/** An activity that has failed and that Temporal retries; the workflow does not know. */
export interface Retry {
  /** Type of the activity. */
  readonly activity: string;
  /** Number of the attempt that runs or comes next. */
  readonly attempt: number;
  /** Code and message of the last failure. */
  readonly failure: string;
}

/** How long a worker may take to answer, ms. It may have to replay the workflow first. */
const timeoutMs = 5_000;

/** Queries the open workflow of this id. That there is none, or that it does not answer, is a result and no error. */
export async function describeWorkflow<D extends MachineDescription | OwnerDescription>(
  client: Client,
  workflowId: string,
): Promise<WorkflowAnswer<D>> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    const [description, { raw }] = await client.withDeadline(Date.now() + timeoutMs, () =>
      Promise.all([handle.query<D>('describe'), handle.describe()]),
    );
    const retries = await Promise.all((raw.pendingActivities ?? []).map((pending) => toRetries(client, pending)));
    return { state: 'open', description, retries: retries.flat() };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || error instanceof QueryRejectedError) return { state: 'none' };
    if (!(error instanceof ServiceError)) throw error;
    const isLate = grpcCodeOf(error) === grpcCodes.cancelled || grpcCodeOf(error) === grpcCodes.deadlineExceeded;
    return { state: 'silent', reason: isLate ? `no worker within ${timeoutMs / 1000} s` : reasonOf(error) };
  }
}

async function toRetries(
  client: Client,
  { activityType, attempt, lastFailure }: PendingActivity,
): Promise<readonly Retry[]> {
  if (!lastFailure) return [];
  const message = await readMessage(client, lastFailure);
  const { applicationFailureInfo, timeoutFailureInfo } = lastFailure;
  const code = applicationFailureInfo?.type ?? (timeoutFailureInfo ? 'DeadlineExceeded' : 'Unknown');
  return [{ activity: activityType?.name ?? '', attempt: attempt ?? 1, failure: `${code}: ${message}` }];
}

/** A client like this one, whose queries only open workflows answer. */
export function openOnly({ options, connection }: Client): Client {
  return new Client({ ...options, connection, workflow: { queryRejectCondition: 'NOT_OPEN' } });
}
