/** With which keys the inputs of an installation's workflows are encrypted. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { searchAttributes } from '../api/names.ts';
import { keyIdOf } from './codec.ts';
import { reasonOf } from './connection.ts';
import { readFirst } from './decode.ts';
import { ifKept } from './fetch-history.ts';
import type { Installation } from './workflows.ts';

/** The input of an open workflow. */
export interface KeyUse {
  /** Id of the key of its input; left out where that is not encrypted. */
  readonly key?: string;
  /** Why its input cannot be read; left out where it can. */
  readonly problem?: string;
}

/** How long all of it may take, ms. */
const timeoutMs = 10_000;

/** The inputs of open workflows of the installation: at most `most`, and those that the server lists first. */
export async function readKeyUse({ client, name }: Installation, most: number): Promise<KeyUse[]> {
  const query = `${searchAttributes.installation} = '${name}' AND ExecutionStatus = 'Running'`;
  return client.withDeadline(Date.now() + timeoutMs, async () => {
    const runs: WorkflowExecutionInfo[] = [];
    for await (const run of client.workflow.list({ query, pageSize: most })) {
      runs.push(run);
      if (runs.length === most) break;
    }
    const uses = await Promise.all(runs.map((run) => ifKept(readUse(client, run))));
    return uses.flatMap((use) => use ?? []);
  });
}

async function readUse(client: Client, { workflowId, runId }: WorkflowExecutionInfo): Promise<KeyUse> {
  const { connection, options } = client;
  const { history } = await connection.workflowService.getWorkflowExecutionHistory({
    ...{ namespace: options.namespace, execution: { workflowId, runId }, maximumPageSize: 1 },
  });
  const { payloads } = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input ?? {};
  const key = keyIdOf(payloads?.[0] ?? {});
  const use = key === undefined ? {} : { key };
  return readFirst(client, payloads).then(
    () => use,
    (error: unknown) => ({ ...use, problem: reasonOf(error) }),
  );
}
