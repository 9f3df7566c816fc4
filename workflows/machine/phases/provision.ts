/** Phase provision: exactly one VM is the Machine's, and the Machine names it. */
import { CancellationScope, patched, sleep } from '@temporalio/workflow';
import { failures } from '../../../api/failures.ts';
import { isPastCreation, type MachineSnapshot } from '../../../api/model/machine.ts';
import type { Vm } from '../../../api/provider.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { type Failure, isOutage, wasNeverTaken } from '../../calls/failure.ts';
import { findWhoChanges } from '../../calls/kubernetes.ts';
import { ensureVm } from '../../calls/provider.ts';
import { commandLine } from '../../command-line.ts';
import { kubernetes, kubernetesSteps } from '../kubernetes.ts';
import { hasJoinedBefore, isJoinable } from '../node.ts';
import { setMachine } from '../observe.ts';
import {
  again,
  done,
  firstPollIntervalMs,
  firstPollWithoutNodeMs,
  nextPollIntervalMs,
  nextSetUpPauseMs,
  type PhaseOutcome,
  quickPauseMs,
} from '../outcome.ts';
import { forgetError, showRetry } from '../progress.ts';
import { type Facts, report, reportRefusal, withContext } from '../report.ts';
import { creationDeadlineMs, MachineGoneError, type MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { placeOf, prepareAttempt } from './attempt.ts';
import { noteNames } from './confirm.ts';
import { type Attempt, afterCall, type Creation, isOutcomeUnknown, nextAsk, withName } from './creation.ts';
import { failWithoutNode } from './nodeless.ts';
import { creationRefused, fail, failIfLate } from './refusal.ts';
import { nodeText, watching } from './unhealthy.ts';
import { deleteVmIn } from './vm-deletion.ts';
import { findVmOwner } from './vm-owner.ts';

/**
 * Asks the cloud for the VM until the Machine names it, and again with growing pauses until its Node has joined, so
 * that a VM that failed or vanished is noticed. Safe to repeat: the VM is found by the Machine's UID.
 */
export async function provision(state: MachineState): Promise<PhaseOutcome> {
  if (isPastCreation(state.machine.stage)) return done;
  const isNamed = state.creation.state === 'named';
  const owner = wasNamedBefore(state) ? await findVmOwner(state, 'creation') : undefined;
  if (owner !== undefined) return failAsCopy(state, owner);
  if (isNamed && isJoinable(state)) return done;
  if (hasJoinedBefore(state) && patched('joined-before-a-restore')) {
    return watchRestored(state, 'from before its Node joined');
  }
  if (isNamed && Date.now() < state.nextPollMs) return done;
  if (hasLostStatus(state) && patched('restored-without-status') && !isFirst(state)) {
    return watchRestored(state, 'without status');
  }

  const doing = isNamed ? 'asking the cloud about the VM' : 'creating the VM';
  showRetry(state, { doing });
  const attempt = await prepareAttempt(state, doing);
  if ('kind' in attempt) return attempt;
  const answer = await callForVm(state, attempt, doing);
  noteCloud(state, answer);
  const stored = 'code' in answer && answer.code === 'Unimplemented' ? storedVm(state.machine) : undefined;
  if ('code' in answer && stored === undefined) {
    if (isCorrected(state) && patched('corrected-before-it-was-refused')) return again;
    return refused(state, doing, answer);
  }
  forgetError(state);
  const vm = stored ?? (answer as Vm);
  if (stored === undefined) noteNames(state, vm);
  return takeVm(state, attempt, vm, doing);
}

/**
 * Whether what was refused is not what the source says: a run that was lost had asked with the source as it was before.
 */
function isCorrected({ creation, reading }: MachineState): boolean {
  return creation.state === 'asked' && nextAsk(creation, reading?.version).kind === 'new';
}

/** Whether a Machine names a VM that this run has not asked for. */
function wasNamedBefore({ creation }: MachineState): boolean {
  return creation.state === 'named' && creation.attempt === undefined;
}

/** Whether such a Machine says nothing: it was restored without status. */
function hasLostStatus(state: MachineState): boolean {
  const { stage, limits } = state.machine;
  return stage === 'new' && wasNamedBefore(state) && limits.hasNoNode !== true;
}

/**
 * Whether its VM was made for this very object, which was not restored: what was lost are the first status and the run.
 */
function isFirst({ machine }: MachineState): boolean {
  return machine.nodeNotBefore !== undefined && patched('vm-without-first-status');
}

/**
 * Its Node may have joined long ago, so the creation timeout does not count: from here on the machine is an unhealthy
 * one, which its owner replaces if that is no outage.
 */
async function watchRestored(state: MachineState, how: string): Promise<PhaseOutcome> {
  await report(state, watching(state), {
    stage: 'unhealthy',
    step: { kind: 'health', state: 'processing' },
    isTimed: true,
    event: {
      reason: 'NodeUnhealthy',
      note: `The Machine was restored ${how}, and node ${nodeText(state)} is not healthy`,
    },
  });
  return again;
}

/** A Machine that was created with the provider ID of another Machine's VM has no VM. */
function failAsCopy(state: MachineState, owner: string): Promise<PhaseOutcome> {
  const { providerID = '' } = state.machine;
  const message = `the VM ${providerID} is that of Machine ${owner}, which names it, too`;
  return failWithoutNode(state, { providerID }, [], message);
}

/** From here on the VM is the Machine's, unless it cannot become its Node. */
async function takeVm(state: MachineState, attempt: Attempt, answer: Vm, doing: string): Promise<PhaseOutcome> {
  const vm = state.machine.limits.hasNoNode ? withoutNode(answer) : answer;
  if (await isNodeTaken(state, vm)) return abandonVm(state, attempt, vm);
  const isRefused = vm.state === 'failed' || (vm.state === 'uninitialized' && vm.message !== undefined);
  await storeIdentity(state, attempt, vm, isRefused ? undefined : vmFacts(state, vm));
  // Temporal was restored from a backup. A VM that the Machine does not name is left to its deletion and the sweep.
  if (isPastCreation(state.machine.stage)) return again;
  if (!isNamedBy(state.machine, vm)) return failIfNotNamed(state, vm);
  noteNodeName(state, vm);
  if (vm.state === 'failed') {
    const message = `the VM ${vm.providerID} failed: ${vm.message ?? 'the cloud gives no reason'}`;
    return fail(state, { kind: 'create', code: 'Internal', message }, 'VmFailed');
  }
  state.isUninitialized = vm.state === 'uninitialized';
  schedulePoll(state);
  if (state.isUninitialized && vm.message !== undefined) await reportSetUpFailed(state, doing, vm.message, vm);
  else await reportVm(state, vm);
  return done;
}

/**
 * A machine of which the API server does not keep which VM it has cannot join: it is asked to again, until the creation
 * timeout.
 */
async function failIfNotNamed(state: MachineState, { providerID }: Vm): Promise<PhaseOutcome> {
  if (Date.now() < creationDeadlineMs(state) || !patched('late-without-its-name')) return again;
  const { providerID: other } = state.machine;
  if (other !== undefined && !patched('late-with-another-name')) return again;
  const kept = other === undefined ? 'does not keep spec.providerID' : `keeps spec.providerID "${other}" instead of`;
  const message = `the API server ${kept} "${providerID}". ${findWhoChanges('the Machine', commandLine('retry', state.ref))}`;
  const late = await failIfLate(state, () => ({ kind: 'create', code: 'FailedPrecondition', message }));
  return late ?? again;
}

/** Notes which name of its Node the cloud has given to a machine and the API server has not kept. */
function noteNodeName(state: MachineState, { nodeName }: Vm): void {
  delete state.unkeptNodeName;
  if (nodeName === undefined || nodeName === state.machine.nodeName) return;
  if (patched('node-name-that-is-not-kept')) state.unkeptNodeName = nodeName;
}

/** Without a target cluster nobody looks for its Node. */
function withoutNode(answer: Vm): Vm {
  const { nodeName: _, ...vm } = answer;
  return vm;
}

/** Calls until the failure is worth reporting: a brief one is tried again within seconds. */
async function callForVm(state: MachineState, attempt: Attempt, doing: string): Promise<Vm | Failure> {
  for (let calls = 1; ; calls++) {
    const answer = await callOnce(state, attempt);
    const pauseMs = 'code' in answer ? quickPauseMs(answer, calls) : undefined;
    if (pauseMs === undefined || !('code' in answer)) return answer;
    showRetry(state, { doing, error: answer });
    await sleep(pauseMs, { summary: `next try after ${answer.code}` });
  }
}

/** One call, with what it means for the creation. From its start there may be a VM that the cloud does not list yet. */
async function callOnce(state: MachineState, attempt: Attempt): Promise<Vm | Failure> {
  const before = state.creation;
  const { providerID, lastKnownState } = state.machine;
  const request = {
    ...attempt.request,
    outcomeUnknown: isOutcomeUnknown(before),
    ...(providerID !== undefined && { providerID }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
  putCreation(state, afterCall(before, attempt, 'lost'));
  try {
    const answer = await ensureVm(attempt.provider, request);
    putCreation(state, afterCall(before, attempt, answer));
    return answer;
  } catch (error) {
    if (wasNeverTaken(error)) putCreation(state, before);
    throw error;
  }
}

/** The Machine may have been named during a call. */
function putCreation(state: MachineState, creation: Creation): void {
  state.creation = withName(creation, state.machine.providerID !== undefined);
}

/** The VM as the Machine names it: all there is to know where a provider cannot look VMs up. */
function storedVm({ providerID, nodeName }: MachineSnapshot): Vm | undefined {
  if (providerID === undefined) return undefined;
  return { state: 'creating', providerID, addresses: [], ...(nodeName !== undefined && { nodeName }) };
}

/**
 * A Machine that names a VM waits for its Node whatever the cloud says, unless that is that there is no room for the VM
 * or that it is somebody else's.
 */
async function refused(state: MachineState, doing: string, failure: Failure): Promise<PhaseOutcome> {
  const hasNoRoom = failure.code === 'ResourceExhausted' && patched('no-room-for-a-named-vm');
  const isOfOthers = failure.code === 'FailedPrecondition' && patched('vms-of-others');
  if (state.creation.state !== 'named' || hasNoRoom || isOfOthers) {
    state.pollIntervalMs = 0;
    return creationRefused(state, doing, failure, { isFromCloud: true });
  }
  if (failure.code === 'Uninitialized') {
    state.isUninitialized = true;
    schedulePoll(state);
    await reportSetUpFailed(state, doing, failure.message);
    return done;
  }
  schedulePoll(state);
  const event = { reason: 'FailedLookup', note: `${failure.code}: ${failure.message}` } as const;
  await report(state, { doing, error: failure }, { stage: state.machine.stage, event });
  return done;
}

/**
 * An outage of the cloud does not count towards the creation timeout: another machine would fail as well. An error that
 * its provider does not know is an answer.
 */
function noteCloud(state: MachineState, answer: Vm | Failure): void {
  const isDown = 'code' in answer && (isOutage(answer) || isOutageToOlderRuns(answer));
  if (isDown || state.isCloudDown) state.outageEndMs = Date.now();
  state.isCloudDown = isDown;
}

function isOutageToOlderRuns({ code }: Failure): boolean {
  return failures[code].transient && !patched('an-answer-is-no-outage');
}

/**
 * Whether another Node already has the name that the cloud gave. Some clouds make names from addresses: then the Node
 * may be left over from a deleted VM. One with the Machine's name may have joined already: the next phase looks at it.
 */
async function isNodeTaken(state: MachineState, { providerID, nodeName }: Vm): Promise<boolean> {
  if (nodeName === undefined || nodeName === state.machine.nodeName || nodeName === state.ref.name) return false;
  const step = () => kubernetes.isNodeTaken(state.ref, nodeName, { ...state.machine, providerID });
  return untilAnswered(state, 'looking for a node of the same name', step);
}

/** A VM that cannot join is deleted at once, and its Machine has failed. */
async function abandonVm(state: MachineState, attempt: Attempt, vm: Vm): Promise<PhaseOutcome> {
  const { providerID, nodeName } = vm;
  await storeIdentity(state, attempt, { state: 'failed', providerID, addresses: [] });
  const message = `the node ${nodeName} exists and is not that of its VM`;
  return failWithoutNode(state, vm, [placeOf(attempt)], message);
}

/** Whether the Machine names this VM. */
function isNamedBy(machine: MachineSnapshot, { providerID }: Pick<Vm, 'providerID'>): boolean {
  return machine.providerID !== undefined && vmOf(machine.providerID) === vmOf(providerID);
}

/** Stores the VM's identity on the Machine, before anything else can fail, and reports `facts` in the same step. */
async function storeIdentity(state: MachineState, attempt: Attempt, vm: Vm, facts?: Facts): Promise<void> {
  const { machine } = state;
  const { providerID, nodeName } = vm;
  const isNamed = isNamedBy(machine, { providerID });
  if (isNamed && (nodeName === undefined || nodeName === machine.nodeName)) return;
  const identity = {
    providerID: isNamed ? (machine.providerID ?? providerID) : providerID,
    ...(nodeName !== undefined && { nodeName }),
  };
  const dated = facts && withContext(state, facts);
  const step = () => kubernetesSteps.storeIdentity(state.ref, machine, identity, dated, isNamed ? undefined : vm.tags);
  try {
    setMachine(state, await untilAnswered(state, 'storing the identity', step));
  } catch (error) {
    // Where Temporal was restored, too, the VM may have joined long ago: it is left to the sweep, which asks a person.
    if (error instanceof MachineGoneError && !patched('vm-of-a-lost-machine-stays')) {
      await CancellationScope.nonCancellable(() => deleteVmIn(state, placeOf(attempt)));
    }
    throw error;
  }
}

/** Reports that the VM exists, and what the provider has to be given next time, where either is new. */
async function reportVm(state: MachineState, vm: Vm): Promise<void> {
  const facts = vmFacts(state, vm);
  if (facts === undefined) return;
  const doing = facts.stage === 'available' ? 'running' : 'waiting for the node to join';
  await report(state, { doing }, facts);
}

/** What is to be reported of a VM; undefined where the Machine says so already. */
function vmFacts({ machine }: MachineState, vm: Vm): Facts | undefined {
  const { lastKnownState } = vm;
  const { stage, lastKnownState: known, limits } = machine;
  if (limits.hasNoNode && vm.state === 'running') return availableFacts(vm);
  if (stage === 'joining' && lastKnownState === known) return undefined;
  return {
    stage: 'joining',
    ...(stage !== 'joining' && {
      step: { kind: 'create', state: 'processing' },
      isTimed: true,
      event: { reason: 'VmCreated' },
    }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
}

/** Without a target cluster a machine is complete when its VM runs. */
function availableFacts({ addresses, lastKnownState }: Vm): Facts {
  return {
    stage: 'available',
    step: { kind: 'create', state: 'successful' },
    isTimed: false,
    addresses,
    event: { reason: 'VmCreated' },
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
}

/** The VM exists and its set-up was refused. It is tried again. */
async function reportSetUpFailed(state: MachineState, doing: string, message: string, vm?: Vm): Promise<void> {
  const code = 'Uninitialized';
  const lastKnownState = vm?.lastKnownState;
  const activity = { doing, blockedOn: 'CloudApi', error: { code, message } } as const;
  await reportRefusal(state, activity, {
    stage: 'creating',
    reason: 'FailedCreate',
    step: { kind: 'initialize', code, message },
    isTimed: true,
    ...(lastKnownState !== undefined && { lastKnownState }),
  });
}

/** When the cloud is asked again, less and less often. */
function schedulePoll(state: MachineState): void {
  if (!state.isUninitialized) {
    state.setUpPauseMs = 0;
    const firstMs = state.machine.limits.hasNoNode ? firstPollWithoutNodeMs : firstPollIntervalMs;
    state.pollIntervalMs = state.pollIntervalMs === 0 ? firstMs : nextPollIntervalMs(state.pollIntervalMs);
  }
  state.nextPollMs = Date.now() + (state.isUninitialized ? setUpPauseMs(state) : state.pollIntervalMs);
}

function setUpPauseMs(state: MachineState): number {
  const isRepeated = state.setUpPauseMs > 0 && patched('set-up-has-growing-pauses');
  state.setUpPauseMs = nextSetUpPauseMs(isRepeated ? state.setUpPauseMs : 0);
  return state.setUpPauseMs;
}
