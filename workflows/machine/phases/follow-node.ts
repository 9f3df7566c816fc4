/** Phase follow-node: nobody has deleted the Machine's Node, or what that means is done. */
import { patched } from '@temporalio/workflow';
import type { PlacesReading } from '../../../activities/machine/places.ts';
import { isBetweenVms } from '../../../api/attention.ts';
import { kubernetes } from '../kubernetes.ts';
import { claimOf, isNodeDeleted, isNodeKept, nameNode, nodeNameOf, removeNodes } from '../node.ts';
import { setMachine } from '../observe.ts';
import { again, done, type PhaseOutcome } from '../outcome.ts';
import { show } from '../progress.ts';
import { report } from '../report.ts';
import { type MachineState, StaleStateError } from '../state.ts';
import { refresh, untilAnswered } from '../wait.ts';
import { notAsked } from './creation.ts';
import { deleteVms } from './vm-deletion.ts';

/** Somebody deleted the Node: the Machine is deleted with it, or its VM is replaced, as the Machine says. */
export async function followNode(state: MachineState): Promise<PhaseOutcome> {
  if (state.node.state === 'present' && !state.node.deleting) {
    delete state.replacing; // a backup of the Node was restored
    delete state.keptNode;
  }
  if (state.machine.onNodeDeleted === 'replaceVm') return mustReplaceVm(state) ? replaceVm(state) : done;
  if (isNodeKept(state)) await keep(state);
  if (!isNodeDeleted(state)) return done;
  show(state, { doing: 'deleting the Machine, because its node was deleted' });
  setMachine(state, await untilAnswered(state, 'deleting the Machine', () => kubernetes.deleteMachine(state.ref)));
  return again;
}

/** Says once why the deletion of the Node is not followed, and remembers whether the Node has been ready since. */
async function keep(state: MachineState): Promise<void> {
  const { node, machine, keptNode } = state;
  if (node.state !== 'present') return;
  const isKnown = keptNode?.uid === node.uid;
  const hasRecovered = node.conditions['Ready'] === 'True' || (isKnown && keptNode.hasRecovered);
  state.keptNode = { uid: node.uid, hasRecovered };
  if (isKnown) return;
  const note = `Node ${node.name} was deleted while it was not ready: the Machine stays, and is unhealthy as long as its node is. To delete the node, delete the Machine`;
  await report(state, undefined, { stage: machine.stage, event: { reason: 'NodeKept', note } });
}

function mustReplaceVm(state: MachineState): boolean {
  return isNodeDeleted(state) || isBetweenVms(state.machine) || isNodeLost(state);
}

/** A Node that disappears while its VM is being deleted counts as deleted: the VM may be gone already. */
function isNodeLost({ machine, node, replacing }: MachineState): boolean {
  const isLost = node.state === 'absent' && replacing !== undefined && replacing === machine.providerID;
  return isLost && patched('node-lost-while-its-vm-is-deleted');
}

/**
 * Deletes the VM, forgets it, removes its Node, and starts over as a new Machine does. A run that takes over at any
 * line repeats what is left: the Node keeps its finalizer until the VM is gone, and from then until the end an
 * annotation of the Machine has the provider ID of the VM. A provider ID that is merely missing deletes nothing.
 */
async function replaceVm(state: MachineState): Promise<PhaseOutcome> {
  const doing = 'replacing the VM, because its node was deleted';
  show(state, { doing });
  await nameNode(state);
  const left = await deleteVms(state, doing, () => findPlaces(state, doing));
  if (left !== undefined) return left;

  if (state.machine.providerID !== undefined) {
    const replacements = state.replacements + 1;
    setMachine(state, await untilAnswered(state, doing, () => kubernetes.forgetVm(state.ref, replacements)));
    if (state.machine.providerID !== undefined && patched('a-vm-that-is-not-forgotten')) return again;
    state.replacements = replacements;
  }
  const nodeName = nodeNameOf(state);
  const { replacedVm } = state.machine;
  await removeNodes(state, nodeName, {
    ...claimOf(state),
    ...(replacedVm !== undefined && { providerID: replacedVm }),
  });
  startOver(state);
  const event = { reason: 'NodeDeleted', note: `Node ${nodeName} was deleted: the VM is replaced` } as const;
  await report(state, undefined, { stage: 'new', nodeName: null, isTimed: false, event });
  setMachine(state, await untilAnswered(state, doing, () => kubernetes.finishReplacement(state.ref)));
  return again;
}

/** Read again each time before the VM is deleted: where a backup was restored its Node may not be deleted any more. */
async function findPlaces(state: MachineState, doing: string): Promise<PlacesReading> {
  const read = () => kubernetes.readPlaces(state.ref, state.machine.source);
  const places = await untilAnswered(state, doing, read);
  await refresh(state);
  if (!mustReplaceVm(state)) throw new StaleStateError();
  if (state.machine.providerID !== undefined) state.replacing = state.machine.providerID;
  return places;
}

/** Nothing is left of the VM, and nothing can appear: what was known of it does not count for the next one. */
function startOver(state: MachineState): void {
  if (state.node.state === 'present') state.replacedNodeUid = state.node.uid;
  state.node = { state: 'absent' };
  state.creation = notAsked;
  delete state.joinedVm;
  delete state.namedByCloud;
  state.hasCreation = true;
  delete state.shortRunAtMs;
  state.leftNodes = [];
  state.outageEndMs = Date.now();
  Object.assign(state, { isUninitialized: false, nextPollMs: 0, pollIntervalMs: 0, setUpPauseMs: 0 });
  delete state.placeVersion;
  delete state.refusal;
}
