/** The runs of a rollout's workflow, as Temporal keeps them until their retention ends. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import type { OwnerView } from '../api/model/owner.ts';
import { searchAttributes } from '../api/names.ts';
import { hasOldMachines } from '../api/owner/set-counts.ts';
import { workflowIdPrefix } from '../api/workflow-id.ts';
import { readFirst, readMessage } from './decode.ts';
import { ifKept } from './fetch-history.ts';
import type { Installation } from './workflows.ts';

/** A run of the workflow of a MachineDeployment. Times are RFC 3339. */
export interface RolloutRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly start: string;
  /** Left out while it is open. */
  readonly end?: string;
  /** Status in Temporal: `completed` is at rest, `continued_as_new` goes on in the next run. */
  readonly outcome: Lowercase<WorkflowExecutionInfo['status']['name']>;
  /** Name of the MachineSet of the template that it rolled out; left out where it never read the deployment. */
  readonly set?: string;
  /** Revision of this set at that time; left out with the set, and for runs of release 0.1.0. */
  readonly revision?: number;
  /** It completed because the rollout was paused, with machines of older templates left; left out otherwise. */
  readonly paused?: true;
  /** Message of its failure, on several lines; left out where it has not failed. */
  readonly failure?: string;
}

/** Most runs of one list: each takes up to two requests more. */
export const maxRuns = 50;
/** A run has read its deployment within its first events, else never; one that completed has within its last. */
const endEvents = 50;
/** How long all of it may take, ms. */
const defaultTimeoutMs = 30_000;

/**
 * The newest runs of all deployments that have had the name, the newest first, at most `most`. By a list of the server
 * that may be some seconds behind.
 */
export async function listRolloutRuns(
  { client, name: installation }: Installation,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  most: number = maxRuns,
  timeoutMs: number = defaultTimeoutMs,
): Promise<RolloutRun[]> {
  const ofDeployment = `${searchAttributes.installation} = '${installation}' AND ${searchAttributes.deployment} = '${name}'`;
  const query = `${ofDeployment} AND WorkflowType = 'rollout'`;
  return client.withDeadline(Date.now() + timeoutMs, async () => {
    const infos: WorkflowExecutionInfo[] = [];
    for await (const info of client.workflow.list({ query })) {
      if (info.workflowId.startsWith(workflowIdPrefix(installation, 'MachineDeployment', { namespace, name })))
        infos.push(info);
      if (infos.length === most) break;
    }
    const runs = await Promise.all(infos.map(async (info) => toRun(client, info)));
    return runs.toSorted((a, b) => (a.start < b.start ? 1 : -1));
  });
}

async function toRun(client: Client, info: WorkflowExecutionInfo): Promise<RolloutRun> {
  const { workflowId, runId, startTime, closeTime, status } = info;
  const outcome = status.name.toLowerCase() as RolloutRun['outcome'];
  const [first, last, failure] = await Promise.all([
    ifKept(findReading(client, info, 'first')),
    outcome === 'completed' ? ifKept(findReading(client, info, 'last')) : undefined,
    outcome === 'failed' ? ifKept(findFailure(client, info)) : undefined,
  ]);
  const { setName: set, revision } = first?.template ?? {};
  return {
    ...{ workflowId, runId, start: startTime.toISOString() },
    ...(closeTime !== undefined && { end: closeTime.toISOString() }),
    outcome,
    ...(set !== undefined && { set }),
    ...(revision !== undefined && { revision }),
    ...(last?.paused && hasOldMachines(last) && { paused: true as const }),
    ...(failure !== undefined && { failure }),
  };
}

type Execution = Pick<WorkflowExecutionInfo, 'workflowId' | 'runId'>;

function requestOf({ options }: Client, { workflowId, runId }: Execution) {
  return { namespace: options.namespace, execution: { workflowId, runId } };
}

/** The first or last reading of a run: what its activity `observeOwner` returned. */
async function findReading(client: Client, run: Execution, which: 'first' | 'last'): Promise<OwnerView | undefined> {
  const { workflowService } = client.connection;
  const page = { ...requestOf(client, run), maximumPageSize: endEvents };
  const { history } = await (which === 'first'
    ? workflowService.getWorkflowExecutionHistory(page)
    : workflowService.getWorkflowExecutionHistoryReverse(page));
  const events = history?.events ?? [];
  const reading = events.find(
    ({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.activityType?.name === 'observeOwner',
  );
  const completed = events
    .map(({ activityTaskCompletedEventAttributes: attributes }) => attributes)
    .find((attributes) => reading && String(attributes?.scheduledEventId) === String(reading.eventId));
  const answer = await readFirst<{ view: OwnerView } | null>(client, completed?.result?.payloads);
  return answer?.view;
}

async function findFailure(client: Client, run: Execution): Promise<string | undefined> {
  const { workflowService } = client.connection;
  const page = { ...requestOf(client, run), maximumPageSize: 1 };
  const { history } = await workflowService.getWorkflowExecutionHistoryReverse(page);
  return readMessage(client, history?.events?.[0]?.workflowExecutionFailedEventAttributes?.failure);
}
