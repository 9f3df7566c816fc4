/** Calls to the provider of a machine, which is any worker that polls its task queue. */
import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Place } from '../../api/model/source.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { ProviderActivities, VmDeletion } from '../../api/provider.ts';
import type { Life } from '../machine/life.ts';
import { readVmDeletion } from './answers.ts';
import { type Failure, isActivityFailure, toFailure, withProvider } from './failure.ts';

export interface CloudCallOptions {
  /** From 1, the first, to 5. Default: 3. */
  readonly priorityKey?: number;
  /** Default: `cloudTries`. */
  readonly maximumAttempts?: number;
}

/** How often a call is tried, within seconds, before its failure is an answer. */
export const cloudTries = 4;

/** Cloud activities of a provider. Quick retries are here, the rest is a wait. */
export function cloudActivities(
  provider: string,
  { priorityKey, maximumAttempts = cloudTries }: CloudCallOptions = {},
) {
  return proxyActivities<ProviderActivities>({
    taskQueue: providerTaskQueue(workflowInfo().taskQueue, provider),
    startToCloseTimeout: '5 minutes',
    scheduleToStartTimeout: '1 minute',
    heartbeatTimeout: '10 seconds',
    retry: { initialInterval: '1 second', maximumInterval: '10 seconds', maximumAttempts },
    // The SDK's default, TRY_CANCEL, would go on to delete while the create call still runs.
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    ...(priorityKey !== undefined && { priority: { priorityKey } }),
  });
}

/**
 * One call to delete all VMs of the Machine in a place, with what belongs to them. With `nodeNames` a VM whose Node has
 * another name waits for the next call, which knows it. A refusal is an answer; only a cancellation throws.
 */
export async function deleteVm(
  life: Life,
  { provider, credentials, ...scope }: Place,
  nodeNames?: readonly string[],
): Promise<Pick<VmDeletion, 'state' | 'nodeNames'> | Failure> {
  const { uid, namespace, name } = life.ref;
  const { providerID, lastKnownState } = life.machine;
  try {
    const answer = await cloudActivities(provider).deleteVm({
      ...scope,
      credentials: [...credentials],
      machine: { uid, namespace, name },
      ...(providerID !== undefined && { providerID }),
      ...(nodeNames !== undefined && { nodeNames: [...nodeNames] }),
      ...(lastKnownState !== undefined && { lastKnownState }),
      outcomeUnknown: life.outcomeUnknown,
    });
    return readVmDeletion(answer);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = withProvider(toFailure(error), provider);
    // Also while a create call may still take effect: it promises what `gone` does, after settleSeconds.
    return failure.code === 'NotFound' ? { state: 'gone', nodeNames: [] } : failure;
  }
}
