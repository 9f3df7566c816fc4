/** Asking a workflow what it is doing. */
import {
  type Client,
  QueryRejectedError,
  ServiceError,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { MachineDescription } from '../workflows/machine/messages.ts';
import type { OwnerDescription } from '../workflows/rollout/messages.ts';
import { grpcCodeOf, grpcCodes, reasonOf } from './connection.ts';

export type { MachineDescription, OwnerDescription };

type PendingActivity = NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>[number];

/** What became of the question. */
export type WorkflowAnswer<D> =
  | { readonly state: 'open'; readonly description: D; readonly retries: readonly Retry[] }
  /** There is no open workflow: nothing has to be done, or nobody has seen yet that something has. */
  | { readonly state: 'none' }
  /** It is open and no worker answers, or Temporal does not. */
  | { readonly state: 'silent'; readonly reason: string };

/** A call that has failed and is made again without the workflow having heard of it. */
export interface Retry {
  /** Type of the activity. */
  readonly activity: string;
  /** Number of the try that runs or comes next. */
  readonly attempt: number;
  /** Code and words of the failure before it. */
  readonly failure: string;
}

/** How long a worker may take to answer, ms. It may have to replay the workflow first. */
const timeoutMs = 5_000;

/** Asks the open workflow of this id, if there is one. What keeps it from answering is an answer, too. */
export async function describeWorkflow<D extends MachineDescription | OwnerDescription>(
  client: Client,
  workflowId: string,
): Promise<WorkflowAnswer<D>> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    const [description, { raw }] = await client.withDeadline(Date.now() + timeoutMs, () =>
      Promise.all([handle.query<D>('describe'), handle.describe()]),
    );
    return { state: 'open', description, retries: (raw.pendingActivities ?? []).flatMap(toRetry) };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || error instanceof QueryRejectedError) return { state: 'none' };
    if (!(error instanceof ServiceError)) throw error;
    const isLate = grpcCodeOf(error) === grpcCodes.cancelled || grpcCodeOf(error) === grpcCodes.deadlineExceeded;
    return { state: 'silent', reason: isLate ? `no worker within ${timeoutMs / 1000} s` : reasonOf(error) };
  }
}

function toRetry({ activityType, attempt, lastFailure }: PendingActivity): Retry[] {
  if (!lastFailure) return [];
  const { message, applicationFailureInfo, timeoutFailureInfo } = lastFailure;
  const code = applicationFailureInfo?.type ?? (timeoutFailureInfo ? 'DeadlineExceeded' : 'Unknown');
  return [{ activity: activityType?.name ?? '', attempt: attempt ?? 1, failure: `${code}: ${message}` }];
}

/** Options of a client whose questions only open workflows answer: those of a closed one tell of the past. */
export const openOnly = { workflow: { queryRejectCondition: 'NOT_OPEN' } } as const;
