/** Phase provision: exactly one VM backs the Machine, and the Machine says which. */
import { CancellationScope, sleep } from '@temporalio/workflow';
import { failures } from '../../api/failures.ts';
import type { MachineSnapshot } from '../../api/model/machine.ts';
import type { Place, SourceSnapshot } from '../../api/model/source.ts';
import type { Vm } from '../../api/provider.ts';
import { vmOf } from '../../api/provider-id.ts';
import { readVm } from '../calls/answers.ts';
import {
  type Failure,
  isActivityFailure,
  toFailure,
  toOperationText,
  wasNeverTaken,
  withProvider,
} from '../calls/failure.ts';
import { type CloudCallOptions, cloudActivities, cloudTries, deleteVm } from '../calls/provider.ts';
import { type CreationAttempt, kubernetes, type Life, MachineGoneError, takeMachine, untilAnswered } from './life.ts';
import { isJoinable } from './node.ts';
import {
  again,
  done,
  firstAskPauseMs,
  isPastCreation,
  nextAskPauseMs,
  type PhaseOutcome,
  retryPauseMs,
} from './phase.ts';
import { forgetError, showProgress, showRetry } from './progress.ts';
import { creationRefused, fail, timeIn, writeRefusal, writeStatus } from './status.ts';

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

  if (await isNodeTaken(life, vm)) return giveUpVm(life, vm);
  await storeIdentity(life, vm);
  if (isPastCreation(life.machine.phase)) return again; // Temporal was set back
  if (vm.state === 'failed') {
    const message = `the VM ${vm.providerID} failed: ${vm.message ?? 'the cloud gives no reason'}`;
    return fail(life, { code: 'Internal', message }, 'VmFailed');
  }
  life.isUninitialized = vm.state === 'uninitialized';
  scheduleAsk(life);
  if (life.isUninitialized && vm.message !== undefined) await writeSetUpFailed(life, doing, vm.message, vm);
  else await writePending(life, vm);
  return done;
}

/** One call for the VM with its outcome remembered. A refusal is written to the Machine. */
async function ensureVm(life: Life, doing: string): Promise<Vm | PhaseOutcome> {
  const attempt = await prepareAttempt(life, doing);
  if ('kind' in attempt) return attempt;
  life.attempt = attempt;
  const isOutcomeKnown = !life.outcomeUnknown && life.machine.providerID === undefined;
  const answer = await (isOutcomeKnown ? callOnce(life, attempt, doing) : callCloud(life, attempt));
  if ('code' in answer) {
    const stored = answer.code === 'Unimplemented' ? storedVm(life.machine) : undefined;
    return stored ?? refused(life, doing, answer);
  }
  noteCloud(life, false);
  forgetError(life);
  return answer;
}

/** From this long on a pause between two tries is a wait of the workflow, ms. */
const longPauseMs = 10_000;

/**
 * A call while the outcomes of all before it are known. It is tried once, for of several tries Temporal tells only the
 * last one's failure, and the others may have made a VM. What is worth another try gets it here, and its outcome is
 * unknown from then on. A call that has made nothing, for certain, leaves a Machine that had no VM without one.
 */
async function callOnce(life: Life, attempt: CreationAttempt, doing: string): Promise<Vm | Failure> {
  const { mayHaveVm } = life;
  const answer = await callCloud(life, attempt, { maximumAttempts: 1 }).catch((error: unknown) => {
    if (wasNeverTaken(error)) Object.assign(life, { mayHaveVm, outcomeUnknown: false });
    throw error;
  });
  if (!('code' in answer)) return answer;
  const { code, blockedOn, retryAfterMs = 0 } = answer;
  if (blockedOn === 'ProviderWorker' || failures[code].nothingMade) {
    Object.assign(life, { mayHaveVm, outcomeUnknown: false });
    return { ...answer, outcomeUnknown: false };
  }
  // Of a refusal the outcome is known, whatever its provider thinks of another try; and news may end a pause that is long.
  if (!answer.triesUsedUp || !answer.outcomeUnknown || retryAfterMs >= longPauseMs) return answer;
  const pauseMs = Math.max(retryAfterMs, 1_000);
  showProgress(life, { doing, waitingFor: 'the next try', until: timeIn(pauseMs), error: answer });
  await sleep(pauseMs);
  showProgress(life, { doing });
  return callCloud(life, attempt, { maximumAttempts: cloudTries - 1 });
}

/** From the call on there may be a VM that the cloud does not list yet, unless its failure says that there is none. */
async function callCloud(
  life: Life,
  { provider, request }: CreationAttempt,
  options?: CloudCallOptions,
): Promise<Vm | Failure> {
  const { providerID, lastKnownState } = life.machine;
  const { outcomeUnknown } = life;
  const call = {
    ...request,
    outcomeUnknown,
    ...(providerID !== undefined && { providerID }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
  Object.assign(life, { mayHaveVm: true, outcomeUnknown: true });
  try {
    return readVm(await cloudActivities(provider, options).ensureVm(call));
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = withProvider(toFailure(error), provider);
    life.outcomeUnknown = outcomeUnknown || failure.outcomeUnknown;
    return failure;
  }
}

/** The VM as far as the Machine tells of it: all there is to know where a provider cannot look VMs up. */
function storedVm({ providerID, nodeName }: MachineSnapshot): Vm | undefined {
  if (providerID === undefined) return undefined;
  return { state: 'creating', providerID, addresses: [], ...(nodeName !== undefined && { nodeName }) };
}

/** A Machine that has an identity waits for its node all the same. */
async function refused(life: Life, doing: string, failure: Failure): Promise<PhaseOutcome> {
  noteCloud(life, failures[failure.code].transient);
  if (life.machine.providerID === undefined) {
    noteRefusal(life, failure);
    return creationRefused(life, doing, failure, `Cloud provider message - ${toOperationText(failure)}`);
  }
  if (failure.code === 'Uninitialized') {
    life.isUninitialized = true;
    scheduleAsk(life);
    await writeSetUpFailed(life, doing, failure.message);
    return done;
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

/** The creation under way, or a new one. Before it is asked for the Machine remembers where. */
async function prepareAttempt(life: Life, doing: string): Promise<CreationAttempt | PhaseOutcome> {
  if (isOutdated(life)) giveUpAttempt(life);
  if (life.attempt !== undefined) await renewUserData(life, life.attempt, doing);
  const attempt = life.attempt ?? (await newAttempt(life, doing));
  if ('kind' in attempt || life.placeVersion === attempt.version) return attempt;
  const { mayHaveVm } = life;
  const remember = () => kubernetes.rememberPlace(life.ref, placeOf(attempt), mayHaveVm);
  takeMachine(life, await untilAnswered(life, 'remembering where the VM is made', remember));
  life.placeVersion = attempt.version;
  return attempt;
}

/**
 * A creation from the class as it is now. While a call may have made a VM the same is asked for again, so that a cloud can
 * compare the requests of a token: after a lost run from what the Machine remembers. A correction of what was refused ends that.
 */
async function newAttempt(life: Life, doing: string): Promise<CreationAttempt | PhaseOutcome> {
  const { namespace, name, uid } = life.ref;
  const { source } = life.machine;
  const isRunLost = life.mayHaveVm && life.ordinal === 0 && life.placeVersion === undefined;
  const { places, problem, reading } = isRunLost
    ? await untilAnswered(life, doing, () => kubernetes.readPlaces(life.ref, source))
    : {
        places: [],
        problem: undefined,
        reading: life.reading ?? (await untilAnswered(life, doing, () => kubernetes.readSource(life.ref, source))),
      };
  life.reading = reading;
  const { cloud, userData } = reading;
  const place = places.at(-1) ?? cloud;
  if (problem !== undefined || place === undefined || userData === undefined) {
    const message = problem ?? reading.problem ?? 'the MachineClass cannot be used';
    return creationRefused(life, doing, {
      code: 'InvalidArgument',
      message,
      outcomeUnknown: false,
      blockedOn: 'Class',
    });
  }
  const isPresent = JSON.stringify(place) === JSON.stringify(cloud);
  const { provider, credentials, ...scope } = place;
  if (userData.personal) life.mayHaveUserData = true;
  const rendered = userData.personal
    ? await renderUserData(life, userData)
    : { namespace: userData.namespace, name: userData.name, key: userData.key };
  const request = {
    ...scope,
    credentials: [...credentials],
    machine: { uid, namespace, name },
    userData: rendered,
    token: `${uid}-${life.ordinal}`,
  };
  return {
    ...{ version: isPresent ? reading.version : '', provider, isRefused: false, request },
    ...(userData.personal && { renewUserDataAtMs: renewalMs(life) }),
  };
}

/**
 * A token in user data that a VM gets now, or has not joined with yet, outlasts the creation timeout, which begins again
 * after an outage. The place stays the same, and with it the request.
 */
async function renewUserData(life: Life, attempt: CreationAttempt, doing: string): Promise<void> {
  const { renewUserDataAtMs = Infinity } = attempt;
  if (Date.now() < renewUserDataAtMs) return;
  const read = () => kubernetes.readSource(life.ref, life.machine.source);
  const { userData } = life.reading ?? (await untilAnswered(life, doing, read));
  if (userData?.personal) await renderUserData(life, userData);
  attempt.renewUserDataAtMs = renewalMs(life);
}

function renderUserData(life: Life, source: NonNullable<SourceSnapshot['userData']>) {
  const validSeconds = 2 * life.machine.limits.creationSeconds;
  const step = () => kubernetes.ensureUserData(life.ref, source, validSeconds);
  return untilAnswered(life, 'rendering the user data', step);
}

function renewalMs({ machine }: Life): number {
  return Date.now() + machine.limits.creationSeconds * 1_000;
}

/** Whether the creation under way was refused and the class has changed since. */
function isOutdated({ attempt, reading }: Life): boolean {
  return attempt?.isRefused === true && reading !== undefined && attempt.version !== reading.version;
}

/**
 * Whether the cloud has given the Node a name under which another VM's is there: that of a VM which is gone, where names
 * are made from addresses. One with the Machine's name is its own and may have joined already.
 */
async function isNodeTaken(life: Life, { providerID, nodeName }: Vm): Promise<boolean> {
  if (nodeName === undefined || nodeName === life.machine.nodeName || nodeName === life.ref.name) return false;
  const look = () => kubernetes.isNodeTaken(life.ref, nodeName, providerID);
  return untilAnswered(life, 'looking for a node of the same name', look);
}

/** As machine-controller-manager: such a VM goes at once, and its Machine with it. What cannot go now goes later. */
async function giveUpVm(life: Life, { providerID, nodeName }: Vm): Promise<PhaseOutcome> {
  await storeIdentity(life, { state: 'failed', providerID, addresses: [] });
  showProgress(life, { doing: 'deleting a VM that cannot join', waitingFor: 'the cloud' });
  if (life.attempt !== undefined) await deleteVm(life, placeOf(life.attempt));
  const message = `VM using old node obj: the node ${nodeName} exists and is that of another VM`;
  return fail(life, { code: 'Internal', message }, 'StaleNode');
}

/** From here on the VM is known to the Machine, whatever becomes of it. */
async function storeIdentity(life: Life, { providerID, nodeName }: Vm): Promise<void> {
  const { machine } = life;
  const isNamed = machine.providerID !== undefined && vmOf(machine.providerID) === vmOf(providerID);
  if (!isNamed || (nodeName !== undefined && nodeName !== machine.nodeName)) {
    const identity = {
      providerID: isNamed ? machine.providerID : providerID,
      ...(nodeName !== undefined && { nodeName }),
    };
    const step = () => kubernetes.storeIdentity(life.ref, identity);
    try {
      takeMachine(life, await untilAnswered(life, 'storing the identity', step));
    } catch (error) {
      if (error instanceof MachineGoneError) await CancellationScope.nonCancellable(() => giveBack(life));
      throw error;
    }
  }
}

/**
 * The VM that was made just now goes again, as no Machine will ever name it: Temporal or the cluster was set back. Where
 * that fails it is left to the orphan sweep, as every other VM whose Machine has vanished.
 */
async function giveBack(life: Life): Promise<void> {
  if (life.attempt !== undefined) await deleteVm(life, placeOf(life.attempt));
}

function placeOf({ provider, request }: CreationAttempt): Place {
  const { origin, providerSpec, credentials } = request;
  return { provider, ...(origin && { origin }), providerSpec, credentials };
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

/** The set-up of the VM was refused: it is told as machine-controller-manager does, and tried again. */
async function writeSetUpFailed(life: Life, doing: string, message: string, vm?: Vm): Promise<void> {
  const code = 'Uninitialized';
  const lastKnownState = vm?.lastKnownState;
  showProgress(life, { doing, blockedOn: 'CloudApi', error: { code, message } });
  const description = `Initialize VM Instance: ${message}`;
  await writeRefusal(life, {
    ...{ phase: 'CrashLoopBackOff', reason: 'FailedCreate', code, message, timeoutActive: true },
    operation: { type: 'Create', state: 'Failed', description, errorCode: code },
    ...(lastKnownState !== undefined && { lastKnownState }),
  });
}

/** A VM that is not set up is asked about as often as machine-controller-manager does, any other less and less. */
function scheduleAsk(life: Life): void {
  if (!life.isUninitialized)
    life.askPauseMs = life.askPauseMs === 0 ? firstAskPauseMs : nextAskPauseMs(life.askPauseMs);
  const pauseMs = life.isUninitialized ? retryPauseMs({ code: 'Uninitialized' }, 'creation') : life.askPauseMs;
  life.askAt = Date.now() + pauseMs;
}
