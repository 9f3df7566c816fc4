/** Phase confirm: the cloud has said whose the Node is, where neither the Node nor this workflow knows. */
import type { Place } from '../../../api/model/source.ts';
import type { EnsureVmRequest, Vm } from '../../../api/provider.ts';
import { vmOf } from '../../../api/provider-id.ts';
import type { Failure } from '../../calls/failure.ts';
import { ensureVm } from '../../calls/provider.ts';
import { kubernetes } from '../kubernetes.ts';
import { isOwn, objectionTo } from '../node.ts';
import { done, isPastCreation, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { show, showWait } from '../progress.ts';
import { findRemedy, report, seeLastError } from '../report.ts';
import { type MachineState, timeIn } from '../state.ts';
import { untilAnswered } from '../wait.ts';

const doing = 'asking the cloud whose the node is';

/** How long it counts that the Node is not the Machine's, ms. Then the cloud is asked again, and people are told again. */
const answerMs = 10 * 60_000;

/**
 * A Node that does not name the Machine is marked, drained and deleted only if the cloud has named it. A creation asks
 * anyway. While the cloud does not answer a Machine that stays goes on without, and one that is deleted waits.
 */
export async function confirm(state: MachineState): Promise<PhaseOutcome> {
  if (!isAskDue(state)) return done;
  const question = questionOf(state);
  const problem = isOwn(state) ? undefined : await findProblem(state);
  const objection = objectionTo(state);
  if (objection === undefined) return done;
  const { machine } = state;
  if (problem !== undefined && typeof problem !== 'string') {
    const pauseMs = retryPauseMs(problem, 'deletion');
    state.askedWhose = { question, isAnswered: false, untilMs: Date.now() + pauseMs };
    return machine.deletingSince === undefined ? done : waitForCloud(state, problem, pauseMs);
  }
  state.askedWhose = { question, isAnswered: true, untilMs: Date.now() + answerMs };
  const note = problem === undefined ? objection : `${objection}: ${problem}. ${correctIt}`;
  await report(state, undefined, { stage: machine.stage, event: { reason: 'NodeLeftAlone', note } });
  return done;
}

/** Whether nothing may be written to the Node, and the cloud has not said lately whose it is, or nobody was told. */
export function isAskDue(state: MachineState): boolean {
  const { machine, askedWhose } = state;
  if (objectionTo(state) === undefined || (!isOwn(state) && !isPastCreation(machine.stage))) return false;
  const isSame = askedWhose?.question === questionOf(state) && Date.now() < askedWhose.untilMs;
  return !isSame || (!askedWhose.isAnswered && machine.deletingSince !== undefined);
}

function questionOf({ machine: { providerID, nodeName }, node }: MachineState): string {
  return JSON.stringify([providerID, nodeName, node.state === 'present' && [node.uid, node.forbidden]]);
}

/** What to do about a Node that is not the Machine's. */
export const correctIt = 'If the provider ID or the node name of the Machine was edited, correct it';

/** Why the Node is not that of the Machine's VM, as the cloud says; a failure: it does not say. undefined: it is. */
async function findProblem(state: MachineState): Promise<string | Failure | undefined> {
  const { providerID } = state.machine;
  if (providerID === undefined) return 'the Machine names no VM';
  const answer = await askCloud(state, providerID);
  // A provider that can look up no VM leaves the provider IDs of Machine and Node.
  if ('code' in answer && answer.code === 'Unimplemented') state.namedByCloud = { providerID };
  else if ('code' in answer) return isDenial(answer) ? answer.message : answer;
  else state.namedByCloud = namesOf(answer);
  if (isOwn(state)) return undefined;
  const { providerID: vm, nodeName } = state.namedByCloud;
  if (vmOf(vm) !== vmOf(providerID)) return `the VM of the Machine is ${vm}`;
  return nodeName === undefined
    ? 'the cloud does not say what the node of the VM is called, and the node has no provider ID'
    : `the VM of the Machine registers node ${nodeName}`;
}

/** What an answer of the cloud says of a VM and its Node. */
export function namesOf({ providerID, nodeName }: Pick<Vm, 'providerID' | 'nodeName'>) {
  return { providerID, ...(nodeName !== undefined && { nodeName }) };
}

/** What the cloud shows of the VM that the Machine names, or why not. Changes nothing in the cloud. */
async function askCloud(state: MachineState, providerID: string): Promise<Vm | Failure> {
  show(state, { doing });
  const { ref, machine } = state;
  const read = () => kubernetes.readPlaces(ref, machine.source);
  const { places, problem } = await untilAnswered(state, doing, read);
  const message = problem ?? 'nothing says where its VM was made';
  let answer: Vm | Failure = { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn: 'Source' };
  for (const place of places.toReversed()) {
    answer = await ensureVm(place.provider, requestOf(state, place, providerID));
    if (!('code' in answer) || !isDenial(answer)) return answer;
  }
  return answer;
}

/** One that makes no VM, also where a provider does not know `mustExist`: there is no such Secret. */
function requestOf({ ref, machine }: MachineState, place: Place, providerID: string): EnsureVmRequest {
  const { uid, namespace, name } = ref;
  const { provider: _, credentials, ...scope } = place;
  const { lastKnownState } = machine;
  return {
    ...scope,
    credentials: [...credentials],
    machine: { uid, namespace, name },
    userData: { namespace, name: 'none', key: 'none' },
    token: uid,
    outcomeUnknown: false,
    mustExist: true,
    providerID,
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
}

/** Whether the cloud has said that there is no such VM, or that it is somebody else's. */
function isDenial({ code }: Failure): boolean {
  return code === 'FailedPrecondition' || code === 'NotFound';
}

function waitForCloud(state: MachineState, failure: Failure, pauseMs: number): PhaseOutcome {
  const { blockedOn } = failure;
  showWait(state, {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    error: failure,
    unblock: findRemedy(state, blockedOn) ?? seeLastError,
  });
  return waitFor(pauseMs);
}
