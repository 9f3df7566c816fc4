/** Phase confirm: the cloud has said whose the Node is, where neither the Node nor this workflow knows. */

import { patched } from '@temporalio/workflow';
import { failures } from '../../../api/failures.ts';
import { isPastCreation } from '../../../api/model/machine.ts';
import type { Place } from '../../../api/model/source.ts';
import type { EnsureVmRequest, Vm } from '../../../api/provider.ts';
import { vmOf } from '../../../api/provider-id.ts';
import type { Failure } from '../../calls/failure.ts';
import { ensureVm } from '../../calls/provider.ts';
import { kubernetes } from '../kubernetes.ts';
import { isNodeUnnamed, nameNode, objectionTo, standing, uncordon } from '../node.ts';
import { done, firstPollIntervalMs, nextPollIntervalMs, type PhaseOutcome, retryPauseMs } from '../outcome.ts';
import { show } from '../progress.ts';
import { report } from '../report.ts';
import type { MachineState, NodeQuestion } from '../state.ts';
import { untilAnswered } from '../wait.ts';

const doing = 'asking the cloud whose the node is';

/** The longest pause until the cloud is asked again, and people are told again, ms. */
export const longestQuestionMs = 10 * 60_000;

/**
 * A Node that does not name the Machine is marked, drained and deleted only if the cloud has named it. A creation asks
 * anyway. A Machine that stays goes on while the cloud does not say whose the Node is.
 */
export async function confirm(state: MachineState): Promise<PhaseOutcome> {
  await askForNodeName(state);
  await settle(state);
  await uncordonLeft(state);
  return done;
}

/** A Machine that was created again, or edited, may name its VM and no Node: the cloud may know what that is called. */
async function askForNodeName(state: MachineState): Promise<void> {
  if (!isNodeUnnamed(state) || Date.now() < state.nextPollMs || !patched('node-name-from-the-cloud')) return;
  const answer = await askCloud(state);
  const { providerID = '' } = state.machine;
  state.pollIntervalMs = Math.max(nextPollIntervalMs(state.pollIntervalMs), firstPollIntervalMs);
  state.nextPollMs = Date.now() + state.pollIntervalMs;
  if ('code' in answer || answer.nodeName === undefined || vmOf(answer.providerID) !== vmOf(providerID)) return;
  noteNames(state, answer);
  await nameNode(state, answer.nodeName);
  state.stale = true; // its Node has not been looked for
}

/** A Machine that was lost while it was being deleted, and created again, has a Node that says that it goes. */
async function uncordonLeft(state: MachineState): Promise<void> {
  const { node } = state;
  const isMeant = node.state === 'present' && node.isTerminating === true && objectionTo(state) === undefined;
  if (!isMeant || !patched('nodes-that-were-left-cordoned')) return;
  const { isTerminating: _, ...rest } = node;
  state.node = rest;
  await uncordon(state, node.name);
}

/** Whether nothing may be written to the Node, and neither the cloud was asked lately nor people were told why. */
export function isQuestionDue(state: MachineState): boolean {
  const { isOwn, objection } = standing(state);
  const { node, nodeQuestion, machine } = state;
  if (node.state !== 'present' || objection === undefined || (!isOwn && !isPastCreation(machine.stage))) return false;
  return nodeQuestion?.about !== aboutOf(state) || Date.now() >= nodeQuestion.untilMs;
}

/** What an answer does not count for is asked anew. A deletion asks in any case. */
function aboutOf(state: MachineState): string {
  const { machine, node } = state;
  const { providerID, nodeName, deletingSince } = machine;
  const uid = node.state === 'present' && node.uid;
  return JSON.stringify([providerID, nodeName, deletingSince, uid, objectionTo(state)]);
}

/** Asks the cloud where that is due, and says on a Machine that stays why its Node is left alone. */
export async function settle(state: MachineState): Promise<void> {
  if (state.node.state === 'present' && objectionTo(state) === undefined) delete state.nodeQuestion;
  if (!isQuestionDue(state)) return;
  const about = aboutOf(state);
  const answer = standing(state).isOwn ? {} : await ask(state);
  const objection = objectionTo(state);
  if (objection === undefined) {
    delete state.nodeQuestion;
    return;
  }
  const { denial, failure } = answer;
  const before = state.nodeQuestion?.about === about ? state.nodeQuestion : undefined;
  const firstMs = failure === undefined ? longestQuestionMs : retryPauseMs(failure, 'deletion');
  const pauseMs = Math.min(before?.failure ? 2 * before.pauseMs : firstMs, longestQuestionMs);
  state.nodeQuestion = { ...answer, about, objection, pauseMs, untilMs: Date.now() + pauseMs };
  const { stage, deletingSince } = state.machine;
  const isTransient = failure !== undefined && failures[failure.code].transient;
  if (isTransient || deletingSince !== undefined) return;
  const why = denial ?? failure?.message;
  const note = why === undefined ? objection : `${objection}: ${why}. ${correctIt}`;
  await report(state, undefined, { stage, event: { reason: 'NodeLeftAlone', note } });
}

/** What to do about a Node that is not the Machine's. */
export const correctIt = 'If the provider ID or the node name of the Machine was edited, correct it';

/** Asks the cloud of the Machine's VM, and remembers what it says. Answers why the Node is not that of the VM. */
async function ask(state: MachineState): Promise<Pick<NodeQuestion, 'denial' | 'failure'>> {
  const answer = await askCloud(state);
  // Where nothing is found, nothing is deleted either: the VM of the Node is not the Machine's, or is gone.
  if ('code' in answer) return answer.code === 'NotFound' ? { denial: answer.message } : { failure: answer };
  noteNames(state, answer);
  const { node, machine } = state;
  if (standing(state).isOwn || node.state !== 'present') return {};
  const { providerID, nodeName } = answer;
  if (machine.providerID !== undefined && vmOf(providerID) !== vmOf(machine.providerID))
    return { denial: `the VM of the Machine is ${providerID}` };
  if (nodeName !== undefined) return { denial: `the VM of the Machine registers node ${nodeName}` };
  const message = 'the cloud does not say what the node of the VM is called, and the node has no provider ID';
  return { failure: { code: 'Unimplemented', message, outcomeUnknown: false, blockedOn: 'CloudApi' } };
}

/** Remembers which VM and Node the cloud has named. It need not name the Node of a VM again. */
export function noteNames(state: MachineState, { providerID, nodeName }: Pick<Vm, 'providerID' | 'nodeName'>): void {
  const { namedByCloud: before } = state;
  const isSame = before?.providerID !== undefined && vmOf(before.providerID) === vmOf(providerID);
  const name = nodeName ?? (isSame ? before.nodeName : undefined);
  state.namedByCloud = { providerID, ...(name !== undefined && { nodeName: name }) };
}

/** What the clouds in which the VM may be show of it: the first that does not say `NotFound`, the latest place first. */
async function askCloud(state: MachineState): Promise<Vm | Failure> {
  show(state, { doing });
  const { ref, machine } = state;
  const read = () => kubernetes.readPlaces(ref, machine.source);
  const { places, problem } = await untilAnswered(state, doing, read);
  const message = problem ?? 'nothing says where its VM was made';
  let answer: Vm | Failure = { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn: 'Source' };
  for (const place of places.toReversed()) {
    answer = await ensureVm(place.provider, requestOf(state, place));
    if (!('code' in answer) || answer.code !== 'NotFound') return answer;
  }
  return answer;
}

/** One that makes no VM, also where a provider does not know `mustExist`: there is no such Secret. */
function requestOf({ ref, machine }: MachineState, place: Place): EnsureVmRequest {
  const { uid, namespace, name } = ref;
  const { provider: _, credentials, ...scope } = place;
  const { lastKnownState, providerID } = machine;
  return {
    ...scope,
    credentials: [...credentials],
    machine: { uid, namespace, name },
    userData: { namespace, name: 'none', key: 'none' },
    token: uid,
    outcomeUnknown: false,
    mustExist: true,
    ...(providerID !== undefined && { providerID }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
}
