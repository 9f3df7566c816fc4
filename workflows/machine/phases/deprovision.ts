/** Phase deprovision: nothing of the Machine is left, and our finalizer is removed last. */
import { patched } from '@temporalio/workflow';
import type { PlacesReading } from '../../../activities/machine/places.ts';
import { isActivityFailure, isOutage, toFailure } from '../../calls/failure.ts';
import { checkApiServers } from '../../calls/kubernetes.ts';
import { commandLine } from '../../command-line.ts';
import { kubernetes, kubernetesSteps } from '../kubernetes.ts';
import { claimOf, nodeNameOf } from '../node.ts';
import { setMachine } from '../observe.ts';
import { again, done, type PhaseOutcome } from '../outcome.ts';
import { show, showSearchAttributes } from '../progress.ts';
import { report, withContext } from '../report.ts';
import { isForceWanted, type MachineState, StaleStateError } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { deleteVms } from './vm-deletion.ts';
import { findVmOwner } from './vm-owner.ts';

const doing = 'deleting the VM';

/**
 * Deletes the VMs, then the Nodes, then the Secrets that were made for the Machine, then removes the finalizer. A
 * deletion that is forced does not wait for a cluster of the Nodes that does not answer.
 */
export async function deprovision(state: MachineState): Promise<PhaseOutcome> {
  const nodeName = nodeNameOf(state); // its Node may be matched by the VM alone
  const left = await deleteVms(state, doing, () => findPlaces(state));
  if (left !== undefined) return left;

  const owner = await findVmOwner(state, 'deletion');
  if (owner !== undefined) await reportKept(state, owner);
  const { ref, node: seenNode, leftNodes, deployment } = state;
  const claim = claimOf(state);
  const isNodeLeft = nodeName !== undefined && owner === undefined;
  const hasNodes = isNodeLeft || leftNodes.length > 0;
  const doingLast = hasNodes ? 'deleting the node and removing the finalizer' : 'removing the finalizer';
  show(state, { doing: doingLast });
  const teardown = {
    ...(isNodeLeft && { nodeName }),
    nodeNames: [...new Set(leftNodes)],
    seenNode,
    hasUserData: state.mayHaveUserData,
    ...(deployment !== undefined && { deployment }),
  };
  const tearDown = async () => {
    try {
      return await kubernetesSteps.tearDown(ref, claim, teardown);
    } catch (error) {
      const isForced = isActivityFailure(error) && isForceWanted(state) && patched('forced-deletions-leave-nodes');
      if (!isForced) throw error;
      if (!isOutage(toFailure(error)) && patched('forced-deletions-leave-nodes-in-outages-alone')) throw error;
      return kubernetesSteps.tearDown(ref, claim, { ...teardown, leavesNodes: true });
    }
  };
  const force = `\`${commandLine('drain --force', ref)}\` leaves the Node`;
  const unblock = `${checkApiServers} If the cluster of the Nodes is gone for good, ${force}.`;
  return (await untilAnswered(state, doingLast, tearDown, unblock)) ? done : again;
}

/** The VM that the Machine names stays with another one. */
async function reportKept(state: MachineState, owner: string): Promise<void> {
  const { providerID } = state.machine;
  const note = `the VM ${providerID} stays: it is that of Machine ${owner}, which names it, too`;
  await report(state, undefined, { stage: 'deleting', event: { reason: 'VmKept', note } });
}

/**
 * Reads where its VMs may be. The first call also writes to the status that they are being deleted. Throws where a
 * backup was restored in which the Machine is not being deleted.
 */
async function findPlaces(state: MachineState): Promise<PlacesReading> {
  const { ref, sourceVersion } = state;
  const report = withContext(state, { stage: 'deleting', step: { kind: 'deleteVm', state: 'processing' } });
  const step = () =>
    state.deletionAnnounced
      ? kubernetes.readPlaces(ref, state.machine.source)
      : kubernetesSteps.announceDeletion(ref, state.machine, report, sourceVersion);
  const { machine, ...places } = await untilAnswered(state, doing, step);
  if (machine.stage !== 'deleting' || machine.deletingSince === undefined) throw new StaleStateError();
  setMachine(state, machine);
  state.deletionAnnounced = true;
  showSearchAttributes(state);
  return places;
}
