/** What the phases do about a machine's Node. */
import { patched } from '@temporalio/workflow';
import { isDeletionMeant, isHealthy } from '../../api/attention.ts';
import {
  isPastCreation,
  type MachineLimits,
  type MachineSnapshot,
  type MachineStage,
} from '../../api/model/machine.ts';
import type { NodeSnapshot } from '../../api/model/node.ts';
import { claimToLeft, type NodeClaim, type NodeStanding, standingOf } from '../../api/node.ts';
import { vmOf } from '../../api/provider-id.ts';
import { kubernetes, kubernetesSteps } from './kubernetes.ts';
import { putNode, setMachine } from './observe.ts';
import { show, showSearchAttributes } from './progress.ts';
import { isHeld, noteWrite } from './repeats.ts';
import { type Facts, withContext } from './report.ts';
import { creationDeadlineMs, type MachineState, type NodeQuestion } from './state.ts';
import { throwIfCancelled, untilAnswered } from './wait.ts';

/**
 * Whether the Node is there, healthy and the Machine's, and nothing says that it is still starting up. One that nobody
 * may write to joins as well, and at the creation timeout one of which the cloud has not said whose it is: a healthy
 * machine is not replaced for that.
 */
export function isJoinable(state: MachineState): boolean {
  const { machine, node, isUninitialized } = state;
  if (node.state !== 'present' || node.deleting || node.startingUp || isUninitialized) return false;
  const { namedByCloud } = state;
  const isUnnamed =
    namedByCloud?.nodeName === undefined && (namedByCloud === undefined || node.providerID === undefined);
  return (
    (standing(state).isOwn || (isUnnamed && Date.now() >= creationDeadlineMs(state))) &&
    isHealthy(node, machine.limits.nodeConditions)
  );
}

/** The standing of the Node, and where nothing may be written to it what the cloud has said last. */
export type Standing = NodeStanding & Pick<NodeQuestion, 'denial' | 'failure'>;

/**
 * Whether the Node may be written to, from what it says itself and what the cloud has said. One that cannot be read is
 * judged as it was when it could. If the cloud has denied it, only a read may say so again.
 */
export function standing(state: MachineState): Standing {
  const { node, nodeQuestion } = state;
  const { objection, denial, failure } = nodeQuestion ?? {};
  const answer = { ...(denial !== undefined && { denial }), ...(failure !== undefined && { failure }) };
  if (node.state === 'present') {
    const { isUnnamed, isOlder, controlPlaneLabel } = node;
    const hasFacts = (isUnnamed ?? isOlder ?? controlPlaneLabel) !== undefined;
    if (!hasFacts || !patched('nodes-that-are-left-alone')) return { isOwn: true };
    return { ...standingOf(node, state), ...answer };
  }
  const isHeld = node.state === 'unknown' && objection !== undefined && denial === undefined;
  return { isOwn: false, ...(isHeld && { objection, ...answer }) };
}

/** Why nothing may be written to the Node, for people; undefined: it may, or there is none. */
export function objectionTo(state: MachineState): string | undefined {
  return standing(state).objection;
}

/** What a step may say of the Machine and its Node. */
export function claimOf({ machine, namedByCloud }: MachineState): MachineSnapshot & Pick<NodeClaim, 'namedByCloud'> {
  return { ...machine, ...(namedByCloud !== undefined && { namedByCloud }) };
}

/** What keeps a Node from being healthy: `Ready is Unknown, DiskPressure is True`. */
export function unhealthyConditions({ conditions }: NodeSnapshot, { nodeConditions }: MachineLimits): string {
  const bad = nodeConditions.filter((type) => (conditions[type] ?? 'False') !== 'False');
  const types = conditions['Ready'] === 'True' ? bad : ['Ready', ...bad];
  return types.map((type) => `${type} is ${conditions[type] ?? 'not reported'}`).join(', ');
}

/** Whether the Node has to be brought up to date now. */
export function isOutdated(state: MachineState): boolean {
  const { node, isTemplateRefused = false } = state;
  const isMeant = node.state === 'present' && node.outdated === true && !isTemplateRefused;
  return isMeant && objectionTo(state) === undefined;
}

/** What the Node lacks of what the Machine wants it to have, because no API server accepts it, or this one does not. */
export function lackOf({ machine, nodeRefusal }: MachineState): string | undefined {
  return [machine.nodeProblem, nodeRefusal].filter((each) => each !== undefined).join('; ') || undefined;
}

/** Whether somebody deleted the Node, and so the Machine. One to which nothing may be written says nothing about that. */
export function isNodeDeleted(state: MachineState): boolean {
  return hasDeletedNode(state) && !isNodeKept(state);
}

/**
 * Whether somebody deleted the Node while it was not ready: the Machine stays, and asks its owner to be replaced. What
 * was decided stays so: by a clock that is wrong, a Node that becomes ready again looks as if it had been ready.
 */
export function isNodeKept(state: MachineState): boolean {
  const { node, machine, keptNode } = state;
  if (node.state !== 'present' || machine.onNodeDeleted !== 'deleteMachine') return false;
  const hasJoined = isPastCreation(machine.stage) || hasJoinedBefore(state);
  const isKept = node.uid === keptNode?.uid || !isDeletionMeant(machine, node, hasJoined);
  return isKept && hasDeletedNode(state) && patched('nodes-that-were-deleted-while-not-ready');
}

/** Whether the Node was deleted while it was not ready, and has not been ready since. */
export function isNodeDeletedUnready(state: MachineState): boolean {
  return isNodeKept(state) && state.keptNode?.hasRecovered !== true;
}

/** Whether the Node of the VM that the Machine names has joined, perhaps before a backup that has the Machine now. */
export function hasJoinedBefore({ machine, joinedVm }: MachineState): boolean {
  const { limits, providerID = '' } = machine;
  return limits.hasNoNode !== true && joinedVm !== undefined && vmOf(joinedVm) === vmOf(providerID);
}

function hasDeletedNode(state: MachineState): boolean {
  const { node, replacedNodeUid } = state;
  const isDeleted = node.state === 'present' && node.deleting && node.uid !== replacedNodeUid;
  return isDeleted && objectionTo(state) === undefined;
}

/**
 * Name of the machine's Node: as the Machine stores it, or else that of the Node that was matched by its provider ID.
 */
export function nodeNameOf({ machine, node }: MachineState): string | undefined {
  return machine.nodeName ?? (node.state === 'present' ? node.name : undefined);
}

/** Whether a Machine that has joined names its VM and no Node, and none was found by the VM. */
export function isNodeUnnamed(state: MachineState): boolean {
  const { stage, providerID } = state.machine;
  return stage === 'unhealthy' && providerID !== undefined && nodeNameOf(state) === undefined;
}

/** Stores the name of the Node, by default of one that was matched by its provider ID, unless the Machine names it. */
export async function nameNode(state: MachineState, nodeName = nodeNameOf(state)): Promise<void> {
  const { nodeName: known, providerID } = state.machine;
  if (known !== undefined || nodeName === undefined || providerID === undefined) return;
  const step = () => kubernetesSteps.storeIdentity(state.ref, state.machine, { providerID, nodeName });
  const machine = await untilAnswered(state, 'storing the name of the node', step);
  setMachine(state, { ...machine, nodeName });
}

/**
 * Whether the Node was brought up to date a moment ago, and is as it was before.
 * @param stage what is to be reported
 */
export function isSyncHeld(state: MachineState, stage: MachineStage): boolean {
  return isHeld(state, 'node', syncText(state, stage));
}

/** What a synchronisation is made from, without the versions of the objects. */
function syncText({ machine, node }: MachineState, stage: MachineStage): string {
  const { resourceVersion: _, ...view } = { resourceVersion: '', ...node };
  return JSON.stringify([stage, machine.stage, machine.conditions, view]);
}

/**
 * Marks the Node as ours, brings it up to date, copies its conditions to the Machine and reports `facts`. Answers
 * whether these were written: they are not when the Node, read in the same step, says that another stage is right by
 * now. User data is removed before `running` is written: nobody looks for what a backup of a running machine has.
 */
export async function syncNode(state: MachineState, facts: Facts): Promise<boolean> {
  if (facts.stage === 'running' && state.mayHaveUserData && patched('user-data-goes-before-the-join')) {
    await removeUserData(state);
    throwIfCancelled();
  }
  const nodeName = nodeNameOf(state);
  noteWrite(state, 'node', syncText(state, facts.stage));
  const machine = { ...claimOf(state), ...(nodeName !== undefined && { nodeName }) };
  const dated = withContext(state, facts);
  let wasOutdated = false;
  const seen = await untilAnswered(state, 'synchronising the node', () => {
    const { node } = state;
    if (node.state !== 'present') return kubernetesSteps.syncNode(state.ref, machine, dated, node);
    const { outdated = false, ...rest } = node;
    wasOutdated ||= outdated;
    state.node = rest; // what a watcher says from here on may be news to the step
    const given = wasOutdated ? ({ ...state.node, outdated: true } as const) : state.node;
    return kubernetesSteps.syncNode(state.ref, machine, dated, given);
  });
  putNode(state, seen.node);
  state.isTemplateRefused = seen.isTemplateRefused === true;
  if (seen.nodeRefusal !== undefined) state.nodeRefusal = seen.nodeRefusal;
  else if (wasOutdated) delete state.nodeRefusal;
  setMachine(state, seen.machine);
  showSearchAttributes(state);
  return seen.machine.stage === facts.stage;
}

/** Undoes what a drain has done to the Node of a Machine that is not being deleted. */
export async function uncordon(state: MachineState, nodeName: string): Promise<void> {
  const doing = 'uncordoning the node';
  show(state, { doing });
  await untilAnswered(state, doing, () => kubernetes.uncordonNode(state.ref, nodeName, claimOf(state)));
}

/** Deletes the Node of this name, and those that the cloud has named, each unless it is somebody else's. */
export async function removeNodes(state: MachineState, nodeName: string | undefined, claim: NodeClaim): Promise<void> {
  const remove = (name: string, of: NodeClaim) =>
    untilAnswered(state, `deleting the node ${name}`, () => kubernetes.removeNode(state.ref, name, of));
  if (nodeName !== undefined) await remove(nodeName, claim);
  for (const name of new Set(state.leftNodes)) await remove(name, claimToLeft(claim, name));
}

/** Removes the Secrets that were made for this machine alone, if there may be any. */
export async function removeUserData(state: MachineState): Promise<void> {
  if (!state.mayHaveUserData) return;
  await untilAnswered(state, 'removing the user data', () => kubernetes.removeUserData(state.ref));
  state.mayHaveUserData = false;
}
