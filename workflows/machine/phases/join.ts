/** Phase join: the VM's Node is healthy and carries our finalizer. */

import { patched } from '@temporalio/workflow';
import { isHealthy, sameConditions } from '../../../api/attention.ts';
import { isPastCreation } from '../../../api/model/machine.ts';
import { findWhoChanges } from '../../calls/kubernetes.ts';
import { commandLine } from '../../command-line.ts';
import { kubernetes } from '../kubernetes.ts';
import {
  isJoinable,
  isOutdated,
  isSyncHeld,
  nameNode,
  removeUserData,
  standing,
  syncNode,
  unhealthyConditions,
} from '../node.ts';
import { again, done, firstPollIntervalMs, type PhaseOutcome, waitFor } from '../outcome.ts';
import { show, showWait } from '../progress.ts';
import { showTry, waitForWrite } from '../repeats.ts';
import type { Refusal } from '../report.ts';
import { creationDeadlineMs, type MachineState, type Progress, timeIn } from '../state.ts';
import { refresh, untilAnswered } from '../wait.ts';
import { interruptedFacts } from './interruption.ts';
import { failWithoutNode } from './nodeless.ts';
import { failIfLate } from './refusal.ts';

/** Waits for the Node to be healthy, at most until the creation timeout. */
export async function join(state: MachineState): Promise<PhaseOutcome> {
  if (isPastCreation(state.machine.stage)) return done;
  await nameNode(state);
  if (state.node.state === 'absent' && state.node.notOwn !== undefined && patched('node-of-another')) {
    return failIfNotOwn(state);
  }
  if (state.node.state === 'present' && state.node.interruption !== undefined) {
    const doing = 'waiting to be replaced';
    if (isSyncHeld(state, 'failed')) return waitForWrite(state, { doing });
    showTry(state, { doing });
    const facts = interruptedFacts(state.node);
    const step = { ...facts.step, kind: 'join', state: 'failed' } as const;
    await syncNode(state, patched('interrupted-before-it-joined') ? { ...facts, step } : facts);
    return again;
  }
  if (isJoinable(state)) return takeNode(state);
  if ((hasNewConditions(state) || isOutdated(state)) && !isSyncHeld(state, state.machine.stage)) {
    await syncNode(state, { stage: state.machine.stage });
    return again;
  }

  const waitingFor = waitReason(state);
  const late = await failIfLate(state, () => lateStep(state));
  if (late !== undefined) return late;

  const leftMs = creationDeadlineMs(state) - Date.now();
  showWait(state, {
    doing: state.machine.limits.hasNoNode ? 'waiting for the VM' : 'waiting for the node to join',
    waitingFor,
    until: timeIn(leftMs),
    ...blockedReason(state),
  });
  return waitFor(Math.min(leftMs, state.nextPollMs - Date.now()));
}

/** There is a Node of the name that is not the machine's: watchers have seen it, and it is looked at again. */
async function failIfNotOwn(state: MachineState): Promise<PhaseOutcome> {
  show(state, { doing: 'looking whose the node is' });
  await refresh(state);
  const { machine, node } = state;
  const { providerID, nodeName } = machine;
  const isOver = isPastCreation(machine.stage) || providerID === undefined || node.state !== 'absent';
  if (isOver || node.notOwn === undefined) return again;
  const read = () => kubernetes.readPlaces(state.ref, machine.source);
  const { places } = await untilAnswered(state, 'looking where the VM is', read);
  return failWithoutNode(state, { providerID, ...(nodeName !== undefined && { nodeName }) }, places, node.notOwn);
}

/** The name of its Node that the cloud has given and the Machine does not say, while nobody has found the Node. */
function lostNodeName({ machine, node, unkeptNodeName }: MachineState): string | undefined {
  return machine.nodeName === undefined && node.state !== 'present' ? unkeptNodeName : undefined;
}

function lateStep(state: MachineState): Refusal['step'] {
  const { machine, isUninitialized, progress } = state;
  const { nodeName, limits } = machine;
  const inTime = `within ${limits.creationSeconds} s`;
  if (isUninitialized) {
    const message = `the VM was not set up ${inTime}: ${progress.lastError?.message ?? 'the cloud gives no reason'}`;
    return { kind: 'join', code: 'Uninitialized', message };
  }
  const lostName = lostNodeName(state);
  if (lostName !== undefined) {
    const message = `the API server did not keep ${inTime} that the node is called ${lostName}`;
    return { kind: 'join', code: 'FailedPrecondition', message };
  }
  const what = limits.hasNoNode ? 'the VM did not run' : `node ${nodeName ?? '(not named yet)'} did not become healthy`;
  const message = `${what} ${inTime}`;
  return { kind: 'join', code: 'DeadlineExceeded', message };
}

/** What blocks the wait, if anything does, and what helps. */
function blockedReason(state: MachineState): Pick<Progress, 'blockedOn' | 'unblock'> {
  const { isUninitialized, progress, pollIntervalMs, ref } = state;
  if (lostNodeName(state) !== undefined)
    return { blockedOn: 'KubernetesApi', unblock: findWhoChanges('the Machine', commandLine('retry', ref)) };
  if (isUninitialized) {
    return progress.lastError === undefined ? {} : { blockedOn: 'CloudApi', unblock: 'See the last error.' };
  }
  const isSlow = pollIntervalMs > firstPollIntervalMs; // the cloud has been asked again
  return {
    ...(isSlow && { blockedOn: 'NodeJoin' }),
    unblock: "Look at the VM's console for what its user data does; an API server it cannot reach is the usual cause.",
  };
}

/** Whether the Node's conditions, such as why it is not healthy yet, are not those in the Machine's status. */
function hasNewConditions({ machine, node }: MachineState): boolean {
  return node.state === 'present' && !sameConditions(node.conditions, machine.conditions);
}

function waitReason(state: MachineState): string {
  const { machine, node, isUninitialized } = state;
  if (isUninitialized) return 'the cloud to set up the VM';
  if (machine.limits.hasNoNode) return 'the VM to run';
  if (node.state === 'present' && !standing(state).isOwn) return `the cloud to say whose node ${node.name} is`;
  if (node.state === 'present') {
    const isHealthyByNow = isHealthy(node, machine.limits.nodeConditions);
    return isHealthyByNow && node.startingUp
      ? `the critical components of node ${node.name} to be ready: a taint says that they are not`
      : `node ${node.name} to become healthy: ${unhealthyConditions(node, machine.limits)}`;
  }
  if (machine.nodeName !== undefined) return `node ${machine.nodeName} to register`;
  const lostName = lostNodeName(state);
  return lostName === undefined
    ? 'the cloud to name the node'
    : `the API server to keep that its node is called ${lostName}`;
}

async function takeNode(state: MachineState): Promise<PhaseOutcome> {
  const doing = 'taking over the node';
  if (isSyncHeld(state, 'running')) return waitForWrite(state, { doing });
  showTry(state, { doing });
  const { nodeName } = state.machine;
  const isWritten = await syncNode(state, {
    stage: 'running',
    step: { kind: 'join', state: 'successful' },
    isTimed: false,
    ...(nodeName !== undefined && { nodeName }),
    event: { reason: 'NodeJoined', note: `Node ${nodeName} is healthy` },
  });
  if (!isWritten) return again; // it changed in between
  await endCreation(state);
  return done;
}

/** What only a creation needs is dropped with the first join, however late that is. */
export async function endCreation(state: MachineState): Promise<void> {
  const { creation, machine } = state;
  if (creation.state === 'named') state.creation = { state: 'named', hasJoined: true };
  if (machine.providerID !== undefined) state.joinedVm = machine.providerID;
  await removeUserData(state);
}
