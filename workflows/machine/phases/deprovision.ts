/** Phase deprovision: nothing of the Machine is left, and our finalizer is removed last. */
import { kubernetes } from '../kubernetes.ts';
import { nodeNameOf, removeNodes, removeUserData } from '../node.ts';
import { done, type PhaseOutcome } from '../outcome.ts';
import { show } from '../progress.ts';
import { report } from '../report.ts';
import { type MachineState, StaleStateError } from '../state.ts';
import { refresh, untilAnswered } from '../wait.ts';
import { deleteVms } from './vm-deletion.ts';

/** Deletes the VMs, then the Nodes, then the Secrets that were made for the Machine, then removes the finalizer. */
export async function deprovision(state: MachineState): Promise<PhaseOutcome> {
  const nodeName = nodeNameOf(state); // its Node may be matched by the VM alone
  const left = await deleteVms(state, 'deleting the VM', () => confirmDeletion(state));
  if (left !== undefined) return left;

  show(state, { doing: 'deleting the node' });
  await removeNodes(state, [...(nodeName === undefined ? [] : [nodeName]), ...state.leftNodes]);
  await removeUserData(state);
  show(state, { doing: 'removing the finalizer' });
  await untilAnswered(state, 'removing the finalizer', () => kubernetes.removeFinalizer(state.ref));
  return done;
}

/**
 * The first time the Machine's status says that its VM is being deleted. Each time the Machine is read before its VM is
 * deleted: where a backup was restored it may not be deleted any more.
 */
async function confirmDeletion(state: MachineState): Promise<void> {
  if (state.deletionAnnounced) {
    await refresh(state);
  } else {
    state.deletionAnnounced = true;
    await report(state, undefined, { stage: 'deleting', step: { kind: 'deleteVm', state: 'processing' } });
  }
  if (state.machine.deletingSince === undefined) throw new StaleStateError();
}
