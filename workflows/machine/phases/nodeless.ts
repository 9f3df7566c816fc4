/**
 * How a creation ends whose VM cannot have its Node: there is another one under the name, or the VM is another
 * Machine's.
 */
import { patched } from '@temporalio/workflow';
import type { Place } from '../../../api/model/source.ts';
import type { Vm } from '../../../api/provider.ts';
import { kubernetes, kubernetesSteps } from '../kubernetes.ts';
import { setMachine } from '../observe.ts';
import type { PhaseOutcome } from '../outcome.ts';
import { show } from '../progress.ts';
import type { MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { fail } from './refusal.ts';
import { deleteVmIn } from './vm-deletion.ts';
import { findVmOwner } from './vm-owner.ts';

/**
 * The machine has failed, and names no Node. Its VM is deleted at once: the kubelet of it would report for the Node of
 * somebody else. What cannot be deleted now goes with the Machine. The VM of another Machine stays.
 * @param places where the VM may be
 */
export async function failWithoutNode(
  state: MachineState,
  { providerID, nodeName }: Pick<Vm, 'providerID' | 'nodeName'>,
  places: readonly Place[],
  message: string,
): Promise<PhaseOutcome> {
  const { ref, machine } = state;
  const identity = { providerID, ...(machine.nodeName !== undefined && { nodeName: null }) };
  const store = () => kubernetesSteps.storeIdentity(ref, machine, identity);
  if (machine.nodeName !== undefined) setMachine(state, await untilAnswered(state, 'forgetting the node', store));
  if (places.length > 0 && (await findVmOwner(state, 'deletion')) === undefined) {
    // Another name than the cloud's may be that of somebody's Node.
    const isKnown = nodeName === state.namedByCloud?.nodeName || !patched('node-names-of-the-cloud-alone');
    if (nodeName !== undefined && isKnown) await rememberNode(state, nodeName);
    show(state, { doing: 'deleting a VM that cannot join', waitingFor: 'the cloud' });
    for (const place of places) await deleteVmIn(state, place);
  }
  return fail(state, { kind: 'claimNode', code: 'Internal', message }, 'StaleNode');
}

/**
 * Until its VM is gone, a kubelet may register this Node, once the name is free: then the Node goes with the Machine.
 */
async function rememberNode(state: MachineState, nodeName: string): Promise<void> {
  state.leftNodes = [...state.leftNodes, nodeName];
  const step = () => kubernetes.rememberNodes(state.ref, [nodeName]);
  setMachine(state, await untilAnswered(state, 'recording the name of the node', step));
}
