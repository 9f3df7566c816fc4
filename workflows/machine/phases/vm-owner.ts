/** Whose the VM is that a Machine names: its spec may be a copy of another Machine's. */
import { patched } from '@temporalio/workflow';
import { kubernetesLists } from '../kubernetes.ts';
import { isForceWanted, type MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';

/**
 * Name of another Machine that has the VM which this one names; undefined: it is this one's. With a Node that is marked
 * as this one's it is, and nobody is asked.
 * @param purpose the answer counts for this alone: other Machines come and go during a creation or a drain
 */
export async function findVmOwner(
  state: MachineState,
  purpose: 'creation' | 'drain' | 'deletion',
): Promise<string | undefined> {
  const { ref, machine } = state;
  const { providerID, deletingSince = '' } = machine;
  if (providerID === undefined) return undefined;
  if (!isAnswered(state, providerID, `${purpose} ${deletingSince}`)) {
    const ask = () => kubernetesLists.findVmOwner(ref, machine, isForceWanted(state));
    const isKnown = isMarked(state) || !patched('vm-of-another-machine');
    const found = isKnown ? {} : await untilAnswered(state, 'looking whose the VM is', ask);
    // The Node may go before its VM, so the mark that a drain has found counts for the deletion.
    const isForAll = isMarked(state) && purpose === 'drain';
    state.vmOwner = { of: providerID, purpose: `${isForAll ? 'deletion' : purpose} ${deletingSince}`, ...found };
  }
  return state.vmOwner?.name;
}

/** What was found does not count for another try to delete the VM, which the cloud has refused. */
export function forgetVmOwner(state: MachineState): void {
  if (!isMarked(state) && patched('whose-vm-it-is-by-now')) delete state.vmOwner;
}

function isAnswered({ vmOwner }: MachineState, providerID: string, purpose: string): boolean {
  if (vmOwner?.of !== providerID) return false;
  return vmOwner.purpose === purpose || !patched('whose-vm-it-is-by-now');
}

function isMarked({ node }: MachineState): boolean {
  return node.state === 'present' && node.managed;
}
