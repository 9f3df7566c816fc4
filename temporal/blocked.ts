/** Workflows that wait for something that a person or another system has to provide. */
import { type Blocker, searchAttributes } from '../api/names.ts';
import type { Installation } from './workflows.ts';

/** An open workflow with a blocker. */
export interface BlockedWorkflow {
  readonly workflowId: string;
  /** Workflow type, such as `machine` or `rollout`. */
  readonly type: string;
  readonly blockedOn: Blocker;
  /** Name of the MachineDeployment that it belongs to; left out where there is none. */
  readonly deployment?: string;
  /** When its open run began, RFC 3339. */
  readonly start: string;
}

/** How long the list may take, ms. */
const timeoutMs = 30_000;

/** All of an installation, those first whose run is the oldest. By a list of the server that may be some seconds behind. */
export async function listBlocked({ client, name }: Installation): Promise<BlockedWorkflow[]> {
  const { installation, blockedOn: blocker } = searchAttributes;
  const query = `${installation} = '${name}' AND ${blocker} IS NOT NULL AND ExecutionStatus = 'Running'`;
  const blocked: BlockedWorkflow[] = [];
  await client.withDeadline(Date.now() + timeoutMs, async () => {
    for await (const { workflowId, type, startTime, searchAttributes: attributes } of client.workflow.list({ query })) {
      const [blockedOn] = attributes[blocker] ?? [];
      const [deployment] = attributes[searchAttributes.deployment] ?? [];
      if (blockedOn === undefined) continue;
      blocked.push({
        ...{ workflowId, type, start: startTime.toISOString() },
        blockedOn: String(blockedOn) as Blocker,
        ...(deployment !== undefined && { deployment: String(deployment) }),
      });
    }
  });
  return blocked.toSorted((a, b) => (a.start < b.start ? -1 : 1));
}
