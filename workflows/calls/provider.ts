/** Calls to the provider of a machine, which is any worker that polls its task queue. */
import type { Duration } from '@temporalio/common';
import { ApplicationFailure, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { FailureCode } from '../../api/failures.ts';
import type { Place } from '../../api/model/source.ts';
import { canHaveWorkers, providerTaskQueue } from '../../api/names.ts';
import type {
  DeleteVmRequest,
  EnsureVmRequest,
  ProviderActivities,
  UpdateVmRequest,
  Vm,
  VmDeletion,
  VolumeIdsRequest,
} from '../../api/provider.ts';
import { readClassVerdict, readInterruptions, readVm, readVmDeletion, readVolumeIds } from './answers.ts';
import { type Failure, isActivityFailure, toFailure, withProvider } from './failure.ts';

export interface CloudCallOptions {
  /** From 1, the first, to 5. Default: 3. */
  readonly priorityKey?: number;
  /** Default: 4, within seconds. */
  readonly maximumAttempts?: number;
  /** How long a call may wait for a worker. Default: 1 minute. */
  readonly scheduleToStartTimeout?: Duration;
  /** How long all attempts may take. Default: no limit. */
  readonly scheduleToCloseTimeout?: Duration;
  /** One line beside the call in the Temporal UI. */
  readonly summary?: string;
}

/**
 * Cloud activities of a provider. What takes longer than quick retries is a wait of the workflow. Throws as a refused
 * call where no worker can serve the provider: a task queue that Temporal refuses would fail the workflow task forever.
 */
export function cloudActivities(
  provider: string,
  {
    priorityKey,
    maximumAttempts = 4,
    scheduleToStartTimeout = '1 minute',
    scheduleToCloseTimeout,
    summary,
  }: CloudCallOptions = {},
) {
  const { taskQueue: installation } = workflowInfo();
  if (!canHaveWorkers(installation, provider)) {
    const message = `provider has ${provider.length} characters, which is too long for the task queue of its workers`;
    const details = [{ nothingMade: true }];
    throw ApplicationFailure.create({ type: 'InvalidArgument' satisfies FailureCode, message, details });
  }
  return proxyActivities<Required<ProviderActivities>>({
    taskQueue: providerTaskQueue(installation, provider),
    startToCloseTimeout: '5 minutes',
    scheduleToStartTimeout,
    heartbeatTimeout: '10 seconds',
    retry: { initialInterval: '1 second', maximumInterval: '10 seconds', maximumAttempts },
    // The SDK's default, TRY_CANCEL, would go on to delete while the create call still runs.
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    ...(scheduleToCloseTimeout !== undefined && { scheduleToCloseTimeout }),
    ...(priorityKey !== undefined && { priority: { priorityKey } }),
    ...(summary !== undefined && { summary }),
  });
}

/**
 * One attempt to have the VM of a Machine. It is not retried here: of several attempts Temporal returns only the last
 * failure, and an earlier one may have made a VM. A failure is an answer; only a cancellation throws.
 */
export async function ensureVm(provider: string, request: EnsureVmRequest): Promise<Vm | Failure> {
  try {
    const maybe = request.outcomeUnknown ? ', which an earlier call may have made' : '';
    const summary = `VM of ${request.machine.name}${maybe}`;
    return readVm(await cloudActivities(provider, { maximumAttempts: 1, summary }).ensureVm(request));
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return withProvider(toFailure(error), provider);
  }
}

/** What a provider has to know of a Machine whose VMs it deletes in a place. */
export type VmDeletionScope = Omit<DeleteVmRequest, keyof Place | 'only'>;

/**
 * One call to delete all VMs of the Machine in a place, with what belongs to them. With `nodeNames` a VM whose Node has
 * another name is left to the next call, which names that Node, too. A failure is an answer; only a cancellation
 * throws.
 */
export async function deleteVm(
  { provider, credentials, ...place }: Place,
  scope: VmDeletionScope,
): Promise<VmDeletion | Failure> {
  if (!canHaveWorkers(workflowInfo().taskQueue, provider)) return { state: 'gone', nodeNames: [] }; // nobody was ever asked for one
  try {
    const request = { ...place, ...scope, credentials: [...credentials] };
    const summary = `all VMs of ${scope.machine.name}`;
    return readVmDeletion(await cloudActivities(provider, { summary }).deleteVm(request));
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = withProvider(toFailure(error), provider);
    // Also while a create call may still take effect: NotFound promises what `gone` does, after settleSeconds.
    return failure.code === 'NotFound' ? { state: 'gone', nodeNames: [] } : failure;
  }
}

/** What the provider says of a place in which VMs are to be made. A failure is an answer. */
export async function validateClass({ provider, credentials, ...place }: Place) {
  try {
    const request = { ...place, credentials: [...credentials] };
    return readClassVerdict(await cloudActivities(provider).validateClass(request));
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return withProvider(toFailure(error), provider);
  }
}

/** A page of the VMs in a place that the cloud is about to take away. A failure is an answer. */
export async function listInterruptions({ provider, credentials, ...place }: Place, page: string | undefined) {
  try {
    const request = { ...place, credentials: [...credentials], ...(page !== undefined && { page }) };
    const { listInterruptions: list } = cloudActivities(provider, { maximumAttempts: 2 });
    return readInterruptions(await list(request), page);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return withProvider(toFailure(error), provider);
  }
}

/** Changes the tags of a VM, behind what machines wait for. Answers with the failure, if there is one. */
export async function updateVm(
  { provider, credentials, ...place }: Place,
  change: Omit<UpdateVmRequest, keyof Place | 'removedTags'> & { readonly removedTags: readonly string[] },
): Promise<Failure | undefined> {
  try {
    const request = { ...place, ...change, removedTags: [...change.removedTags], credentials: [...credentials] };
    // It comes after everything that machines wait for.
    await cloudActivities(provider, { priorityKey: 5, scheduleToStartTimeout: '10 minutes' }).updateVm(request);
    return undefined;
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return withProvider(toFailure(error), provider);
  }
}

/** The IDs of the volumes that are the cloud's, by name; undefined where the provider does not say within seconds. */
export async function volumeIds(
  provider: string | undefined,
  volumes: readonly VolumeIdsRequest['volumes'][number][],
): Promise<Readonly<Record<string, string>> | undefined> {
  if (provider === undefined) return undefined;
  try {
    const calls = cloudActivities(provider, { maximumAttempts: 2, scheduleToCloseTimeout: '15 seconds' });
    return readVolumeIds(await calls.volumeIds({ volumes: [...volumes] }));
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return undefined;
  }
}
