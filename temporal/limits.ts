/** Claims of machines where their namespace limits them: asked of the one workflow that grants them. */
import { type Client, WithStartWorkflowOperation } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { ClaimMachines } from '../activities/owner/step.ts';
import type { FailureCode } from '../api/failures.ts';
import type { LimitScope } from '../api/model/limits.ts';
import type { Blocker } from '../api/names.ts';
import { limitsWorkflowId } from '../api/workflow-id.ts';
import { claimUpdate } from '../workflows/limits/messages.ts';
import { reasonOf } from './connection.ts';
import { withSearchAttributes } from './search-attributes.ts';
import { type Installation, installationKey, ofInstallation, retryOfFailedRun } from './workflows.ts';

/** How long an answer may take, ms: the workflow reads the namespace before it answers. */
const timeoutMs = 30_000;

/** The same for the question why there was none. */
const describeMs = 5_000;

/** The workflow is started where it is not open. The failure of a claim names the reason. */
export function createClaimMachines(to: Installation): ClaimMachines {
  const { client, name } = to;
  return async ({ dialect, namespace }, claim) => {
    const scope: LimitScope = ofInstallation(to, { dialect, namespace });
    const workflowId = limitsWorkflowId(name, namespace);
    const ask = () =>
      client.workflow.executeUpdateWithStart(claimUpdate, {
        args: [claim],
        startWorkflowOperation: new WithStartWorkflowOperation('machineLimits', {
          taskQueue: name,
          workflowId,
          workflowIdConflictPolicy: 'USE_EXISTING',
          workflowIdReusePolicy: 'ALLOW_DUPLICATE',
          args: [scope],
          staticSummary: `limits of machines in ${namespace}`,
          retry: retryOfFailedRun,
          typedSearchAttributes: [{ key: installationKey, value: name }],
        }),
      });
    try {
      return await withSearchAttributes(client, () => client.withDeadline(Date.now() + timeoutMs, ask));
    } catch (error) {
      const type: FailureCode = 'Unavailable';
      const message = `the limits of namespace ${namespace} do not answer: ${reasonOf(error)}`;
      if (!(await isFailing(client, workflowId))) throw ApplicationFailure.create({ type, message });
      throw ApplicationFailure.create({
        type,
        message: `${message}. The tasks of workflow ${workflowId} fail: \`millwright stuck\` says why, and what happens`,
        details: [{ blockedOn: 'WorkflowTask' satisfies Blocker }],
      });
    }
  };
}

/** Whether the last task of a workflow has failed, and is tried again. */
async function isFailing(client: Client, workflowId: string): Promise<boolean> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    const { raw } = await client.withDeadline(Date.now() + describeMs, () => handle.describe());
    return (raw.pendingWorkflowTask?.attempt ?? 1) > 1;
  } catch {
    return false; // then the first error is what there is to say
  }
}
