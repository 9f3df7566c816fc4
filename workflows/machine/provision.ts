/** Phase provision: exactly one VM backs the Machine, and the Machine says which. */
import { ActivityFailure, isCancellation, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { ClassReading } from '../../api/model.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { ProviderActivities, Vm } from '../../api/provider.ts';
import { readVm } from './answer.ts';
import { type Failure, toFailure } from './failure.ts';
import { isJoinable } from './join.ts';
import { type CreationAttempt, kubernetes, type Life, now, untilAnswered } from './life.ts';
import { done, failed, firstAskPauseMs, hasJoined, nextAskPauseMs, type PhaseOutcome, waitFor } from './phase.ts';
import { showProgress } from './progress.ts';
import { creationRefused, timeIn, writeStatus } from './status.ts';

/**
 * Asks the cloud for the VM until the Machine has an identity, and again with growing pauses until the node has joined:
 * a VM that failed or vanished is noticed. Safe to repeat: the VM is found by the Machine's UID.
 */
export async function provision(life: Life): Promise<PhaseOutcome> {
  if (hasJoined(life.machine.phase)) return done;
  const known = life.machine.providerID !== undefined && life.machine.nodeName !== undefined;
  if (known && life.askAt === 0) scheduleAsk(life); // found with an identity: give its node time first
  if (known && (Date.now() < life.askAt || isJoinable(life))) return done;

  const doing = known ? 'asking the cloud about the VM' : 'creating the VM';
  showProgress(life, { doing });
  const vm = await ensureVm(life, doing);
  if ('kind' in vm) return vm;
  if (vm.state === 'failed') return vmFailed(life, vm);

  scheduleAsk(life);
  const { providerID, nodeName } = life.machine;
  if (vm.providerID !== providerID || vm.nodeName !== nodeName) await recordVm(life, vm);
  if (vm.nodeName !== undefined && vm.state !== 'uninitialized') return done;
  showProgress(life, { doing, waitingFor: vm.message ?? 'the cloud to set up the VM', until: timeIn(life.askPauseMs) });
  return waitFor(life.askPauseMs);
}

/** One call for the VM with its outcome remembered. A refusal is written to the Machine. */
async function ensureVm(life: Life, doing: string): Promise<Vm | PhaseOutcome> {
  const attempt = life.attempt ?? (await prepareAttempt(life, doing));
  if ('kind' in attempt) return attempt;
  life.attempt = attempt;
  life.mayHaveVm = true;
  try {
    const request = { ...attempt.request, outcomeUnknown: life.outcomeUnknown };
    const answer = readVm(await cloudActivities(attempt.provider).ensureVm(request));
    if ('code' in answer) return refused(life, doing, answer);
    life.outcomeUnknown = false;
    return answer;
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    if (!isCancellation(error)) return refused(life, doing, toFailure(error));
    life.outcomeUnknown = true;
    throw error;
  }
}

/** Remembers whether there may be a VM. A Machine that has an identity waits for its node all the same. */
async function refused(life: Life, doing: string, failure: Failure): Promise<PhaseOutcome> {
  life.outcomeUnknown ||= failure.outcomeUnknown;
  if (!life.outcomeUnknown) forgetAttempt(life);
  return life.machine.providerID === undefined ? creationRefused(life, doing, failure) : noAnswer(life, doing, failure);
}

/** Nothing came of it, for certain: the next create is another one and may ask for something else. */
function forgetAttempt(life: Life): void {
  delete life.attempt;
  life.ordinal++;
}

/** The request stays the same while nobody knows what came of it: a cloud compares it with the token's first one. */
async function prepareAttempt(life: Life, doing: string): Promise<CreationAttempt | PhaseOutcome> {
  const reading = life.reading ?? (await readClass(life, doing));
  const { cloud, userData } = reading;
  if (cloud === undefined || userData === undefined) return creationRefused(life, doing, classMissing(reading));

  const { namespace, name, uid } = life.ref;
  const { limits, lastKnownState } = life.machine;
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
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
  return { provider, request };
}

/** The VM is known, only the cloud does not tell how it is. The node may join all the same. */
function noAnswer(life: Life, doing: string, { code, message }: Failure): PhaseOutcome {
  scheduleAsk(life);
  showProgress(life, { doing, lastError: { code, message, at: now() } });
  return done;
}

async function readClass(life: Life, doing: string): Promise<ClassReading> {
  const { name } = life.machine.class;
  life.reading = await untilAnswered(life, doing, () => kubernetes.readClass(life.ref, name));
  return life.reading;
}

function classMissing({ problem }: ClassReading): Failure {
  const message = problem ?? 'the MachineClass cannot be used';
  return { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn: 'Class' };
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

/** From here on the VM is known to the Machine: identity first, then the phase. */
async function recordVm(life: Life, vm: Vm): Promise<void> {
  const { providerID, nodeName, lastKnownState } = vm;
  const prioritize = !life.machine.prioritized;
  const identity = { providerID, prioritize, ...(nodeName !== undefined && { nodeName }) };
  life.machine = await untilAnswered(life, 'storing the identity', () => kubernetes.storeIdentity(life.ref, identity));
  showProgress(life, { doing: 'waiting for the node to join' });
  await writeStatus(life, {
    phase: 'Pending',
    operation: { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
    timeoutActive: true,
    ...(lastKnownState !== undefined && { lastKnownState }),
    event: { type: 'Normal', reason: 'VmCreated' },
  });
}

/** The cloud says that the VM will never run: the owner replaces the machine, and its deletion removes the VM. */
async function vmFailed(life: Life, vm: Vm): Promise<PhaseOutcome> {
  const message = `the VM ${vm.providerID} failed: ${vm.message ?? 'the cloud gives no reason'}`;
  showProgress(life, { doing: 'waiting to be replaced', lastError: { code: 'Internal', message, at: now() } });
  await writeStatus(life, {
    phase: 'Failed',
    operation: { type: 'Create', state: 'Failed', description: message, errorCode: 'Internal' },
    timeoutActive: false,
    event: { type: 'Warning', reason: 'VmFailed' },
  });
  return failed;
}

function scheduleAsk(life: Life): void {
  life.askPauseMs = life.askPauseMs === 0 ? firstAskPauseMs : nextAskPauseMs(life.askPauseMs);
  life.askAt = Date.now() + life.askPauseMs;
}
