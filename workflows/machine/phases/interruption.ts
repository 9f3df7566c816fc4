/** What happens to a machine whose VM the cloud is about to take away. */
import { patched } from '@temporalio/workflow';
import type { NodeSnapshot } from '../../../api/model/node.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { kubernetes } from '../kubernetes.ts';
import { claimOf } from '../node.ts';
import { putNode } from '../observe.ts';
import { done, type PhaseOutcome } from '../outcome.ts';
import { show } from '../progress.ts';
import type { Facts } from '../report.ts';
import type { MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';

/** Before the phases that may have to wait: the VM does not last as long as a pause. */
export async function followInterruption(state: MachineState): Promise<PhaseOutcome> {
  if (state.interruption !== undefined && patched('interruption-before-other-phases')) await markInterruption(state);
  return done;
}

/** Writes on the Node what the cloud has said of its VM. */
export async function markInterruption(state: MachineState): Promise<void> {
  const { ref, machine, node, interruption } = state;
  if (interruption === undefined || node.state === 'unknown') return;
  // A later check says it again. Until then the cloud may have changed its mind.
  if (node.state === 'absent' && !patched('interruption-without-a-node')) return;
  delete state.interruption;
  if (node.state === 'absent') return;
  const isOfIt = machine.providerID !== undefined && vmOf(machine.providerID) === vmOf(interruption.providerID);
  if (!isOfIt || node.interruption !== undefined) return;
  const doing = 'marking the node: the cloud is about to take its VM away';
  show(state, { doing });
  putNode(
    state,
    await untilAnswered(state, doing, () => kubernetes.markInterrupted(ref, claimOf(state), interruption.reason)),
  );
}

/** What a machine reports that has failed because its VM is about to be taken away, as the Node says. */
export function interruptedFacts({ name, interruption }: NodeSnapshot): Facts {
  const message = `the VM is about to be taken away: node ${name} has ${interruption}`;
  return {
    stage: 'failed',
    step: { kind: 'health', state: 'failed', message },
    isTimed: false,
    event: { reason: 'VmInterrupted', note: message },
  };
}
