/** Phase provision: exactly one VM backs the Machine, and the Machine says which. */
import { isCancellation, proxyActivities, workflowInfo } from '@temporalio/workflow';
import { failures } from '../../api/failures.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { ProviderActivities, Vm } from '../../api/provider.ts';
import { readVm } from './answer.ts';
import { type Failure, isActivityFailure, toFailure, toOperationText, withProvider } from './failure.ts';
import { type CreationAttempt, kubernetes, type Life, takeMachine, untilAnswered } from './life.ts';
import { isJoinable } from './node.ts';
import { done, firstAskPauseMs, isPastCreation, nextAskPauseMs, type PhaseOutcome, retryPauseMs } from './phase.ts';
import { forgetError, showProgress, showRetry } from './progress.ts';
import { creationRefused, fail, writeStatus } from './status.ts';

/**
 * Asks the cloud for the VM until the Machine has an identity, and again with growing pauses until the node has joined:
 * a VM that failed or vanished is noticed. Safe to repeat: the VM is found by the Machine's UID.
 */
export async function provision(life: Life): Promise<PhaseOutcome> {
  if (isPastCreation(life.machine.phase)) return done;
  const isKnown = life.machine.providerID !== undefined;
  if (isKnown && (Date.now() < life.askAt || isJoinable(life))) return done;

  const doing = isKnown ? 'asking the cloud about the VM' : 'creating the VM';
  showRetry(life, { doing });
  const vm = await ensureVm(life, doing);
  if ('kind' in vm) return vm;

  await storeIdentity(life, vm);
  if (vm.state === 'failed') {
    const message = `the VM ${vm.providerID} failed: ${vm.message ?? 'the cloud gives no reason'}`;
    return fail(life, { code: 'Internal', message }, 'VmFailed');
  }
  life.isUninitialized = vm.state === 'uninitialized';
  scheduleAsk(life);
  await writePending(life, vm);
  return done;
}

/** One call for the VM with its outcome remembered. A refusal is written to the Machine. */
async function ensureVm(life: Life, doing: string): Promise<Vm | PhaseOutcome> {
  const attempt = await prepareAttempt(life, doing);
  if ('kind' in attempt) return attempt;
  life.attempt = attempt;
  life.mayHaveVm = true;
  const { lastKnownState } = life.machine;
  const state = { outcomeUnknown: life.outcomeUnknown, ...(lastKnownState !== undefined && { lastKnownState }) };
  try {
    const answer = readVm(await cloudActivities(attempt.provider).ensureVm({ ...attempt.request, ...state }));
    noteCloud(life, false);
    if ('code' in answer) return await refused(life, doing, answer);
    forgetError(life);
    return answer;
  } catch (error) {
    if (isCancellation(error)) life.outcomeUnknown = true;
    if (!isActivityFailure(error)) throw error;
    return refused(life, doing, withProvider(toFailure(error), attempt.provider));
  }
}

/** Remembers whether there may be a VM. A Machine that has an identity waits for its node all the same. */
async function refused(life: Life, doing: string, failure: Failure): Promise<PhaseOutcome> {
  life.outcomeUnknown ||= failure.outcomeUnknown;
  noteCloud(life, failures[failure.code].transient);
  if (life.machine.providerID === undefined) {
    noteRefusal(life, failure);
    return creationRefused(life, doing, failure, `Cloud provider message - ${toOperationText(failure)}`);
  }
  scheduleAsk(life);
  showProgress(life, { doing, error: failure });
  const note = `${failure.code}: ${failure.message}`;
  await writeStatus(life, { phase: life.machine.phase, event: { reason: 'FailedLookup', note } });
  return done;
}

/** While the cloud does not answer no time-out counts: another machine would fare no better. */
function noteCloud(life: Life, isOut: boolean): void {
  if (isOut || life.isCloudOut) life.outageEndMs = Date.now();
  life.isCloudOut = isOut;
}

/** Nothing came of this call, for certain: where the same holds for those before it, the next is another creation. */
function noteRefusal(life: Life, failure: Failure): void {
  if (life.attempt !== undefined) life.attempt.isRefused = !failure.outcomeUnknown;
  if (!life.outcomeUnknown) giveUpAttempt(life);
}

/** The next create is another one, with another token, and may ask for something else. */
function giveUpAttempt(life: Life): void {
  delete life.attempt;
  life.ordinal++;
}

/**
 * The creation under way, or a new one from the class as it is now. While a call may have made a VM the same is asked for
 * again, so that a cloud can compare the requests of a token; only a correction of what was refused ends that.
 */
async function prepareAttempt(life: Life, doing: string): Promise<CreationAttempt | PhaseOutcome> {
  if (isOutdated(life)) giveUpAttempt(life);
  if (life.attempt !== undefined) return life.attempt;
  const { namespace, name, uid } = life.ref;
  const { class: machineClass, limits } = life.machine;
  const read = () => kubernetes.readClass(life.ref, machineClass.name);
  const reading = life.reading ?? (await untilAnswered(life, doing, read));
  life.reading = reading;
  const { cloud, userData } = reading;
  if (cloud === undefined || userData === undefined) {
    const message = reading.problem ?? 'the MachineClass cannot be used';
    return creationRefused(life, doing, {
      code: 'InvalidArgument',
      message,
      outcomeUnknown: false,
      blockedOn: 'Class',
    });
  }
  const { provider, credentials, ...scope } = cloud;
  if (userData.personal) life.mayHaveUserData = true;
  const rendered = userData.personal
    ? await untilAnswered(life, 'rendering the user data', () =>
        kubernetes.ensureUserData(life.ref, userData, limits.creationSeconds),
      )
    : { namespace: userData.namespace, name: userData.name, key: userData.key };
  const request = {
    ...scope,
    credentials: [...credentials],
    machine: { uid, namespace, name },
    userData: rendered,
    token: `${uid}-${life.ordinal}`,
  };
  return { version: reading.version, provider, isRefused: false, request };
}

/** Whether the creation under way was refused and the class has changed since. */
function isOutdated({ attempt, reading }: Life): boolean {
  return attempt?.isRefused === true && reading !== undefined && attempt.version !== reading.version;
}

/** Cloud activities of a provider: any worker that polls its queue. Quick retries are here, the rest is a wait. */
export function cloudActivities(provider: string) {
  return proxyActivities<ProviderActivities>({
    taskQueue: providerTaskQueue(workflowInfo().taskQueue, provider),
    startToCloseTimeout: '5 minutes',
    scheduleToStartTimeout: '1 minute',
    heartbeatTimeout: '10 seconds',
    retry: { initialInterval: '1 second', maximumInterval: '10 seconds', maximumAttempts: 4 },
    // The SDK's default, TRY_CANCEL, would go on to delete while the create call still runs.
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  });
}

/** From here on the VM is known to the Machine, whatever becomes of it. */
async function storeIdentity(life: Life, { providerID, nodeName }: Vm): Promise<void> {
  const { machine } = life;
  if (providerID !== machine.providerID || (nodeName !== undefined && nodeName !== machine.nodeName)) {
    const identity = { providerID, prioritize: !machine.prioritized, ...(nodeName !== undefined && { nodeName }) };
    const step = () => kubernetes.storeIdentity(life.ref, identity);
    takeMachine(life, await untilAnswered(life, 'storing the identity', step));
  }
  life.outcomeUnknown = false;
}

/** Writes phase Pending, and what the provider wants to be told next time, where that is news. */
async function writePending(life: Life, { lastKnownState }: Vm): Promise<void> {
  const { phase, lastKnownState: known } = life.machine;
  if (phase === 'Pending' && lastKnownState === known) return;
  showProgress(life, { doing: 'waiting for the node to join' });
  const operation = { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' } as const;
  await writeStatus(life, {
    phase: 'Pending',
    ...(phase !== 'Pending' && { operation, timeoutActive: true, event: { reason: 'VmCreated' } }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  });
}

/** A VM that is not set up is asked about as often as machine-controller-manager does, any other less and less. */
function scheduleAsk(life: Life): void {
  life.askPauseMs = life.askPauseMs === 0 ? firstAskPauseMs : nextAskPauseMs(life.askPauseMs);
  const pauseMs = life.isUninitialized ? retryPauseMs({ code: 'Uninitialized' }, 'creation') : life.askPauseMs;
  life.askAt = Date.now() + pauseMs;
}
