/** Whose the VM is that a Machine names: its spec may be a copy of another Machine's. */
import { patched } from '@temporalio/workflow';
import { kubernetesLists } from '../kubernetes.ts';
import type { MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';

/**
 * Name of another Machine that has the VM which this one names; undefined: it is this one's. Asks once. With a Node that is
 * marked as this one's it is, and nobody is asked.
 */
export async function findVmOwner(state: MachineState): Promise<string | undefined> {
  const { ref, machine, node } = state;
  const { providerID } = machine;
  if (providerID === undefined) return undefined;
  if (state.vmOwner?.of !== providerID) {
    const isMarked = node.state === 'present' && node.managed;
    const ask = () => kubernetesLists.findVmOwner(ref, machine);
    const isKnown = isMarked || !patched('vm-of-another-machine');
    const found = isKnown ? {} : await untilAnswered(state, 'looking whose the VM is', ask);
    state.vmOwner = { of: providerID, ...found };
  }
  return state.vmOwner.name;
}
