/** Workflows that wait for something that a person or another system has to provide, and those whose code fails. */
import { type Blocker, searchAttributes } from '../api/names.ts';
import { isBroken, reportedProblems } from './broken-runs.ts';
import { grpcCodeOf, grpcCodes } from './connection.ts';
import type { Installation } from './workflows.ts';

/** An open workflow that is stuck. */
export interface BlockedWorkflow {
  readonly workflowId: string;
  /** Workflow type, such as `machine` or `rollout`. */
  readonly type: string;
  /** `WorkflowTask`: its own tasks fail. */
  readonly blockedOn: Blocker;
  /** Its history and its code disagree, so the controllers end its run; left out otherwise. */
  readonly isBroken?: true;
  /** Name of the MachineDeployment that it belongs to; left out where there is none. */
  readonly deployment?: string;
  /** When its open run began, RFC 3339. */
  readonly start: string;
}

/** How long the list may take, ms. */
const timeoutMs = 30_000;

/**
 * All of an installation, those first whose run is the oldest. By lists of the server that may be some seconds behind.
 */
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
      const cause = attribute === blockedOn ? attributes[blockedOn]?.[0] : ('WorkflowTask' satisfies Blocker);
      const [owner] = attributes[deployment] ?? [];
      if (cause === undefined) continue;
      found.push({
        ...{ workflowId, type, start: startTime.toISOString() },
        blockedOn: String(cause) as Blocker,
        ...(isBroken(attributes[reportedProblems]) && { isBroken: true as const }),
        ...(owner && { deployment: String(owner) }), // null where it was removed
      });
    }
  });
  return found;
}
