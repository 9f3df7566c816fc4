/** Phase run: the Machine's status follows its Node until somebody deletes one of them. */
import { phaseByNode, sameConditions } from '../../api/attention.ts';
import type { MachinePhase, StatusChange } from '../../api/model/machine.ts';
import { endCreation } from './join.ts';
import type { Life } from './life.ts';
import { ailment, followNode, isNodeDeleted, syncNode } from './node.ts';
import { again, type PhaseOutcome, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** Never done: a machine runs until it is deleted. Without news it costs nothing. */
export async function run(life: Life): Promise<PhaseOutcome> {
  if (life.machine.phase === 'Running') await endCreation(life);
  const { machine, node } = life;
  if (isNodeDeleted(life)) return followNode(life);
  const phase = phaseByNode(machine, node);
  const isInStep = node.state !== 'present' || (node.managed && sameConditions(node.conditions, machine.conditions));
  if (phase === machine.phase && isInStep) return rest(life);
  showWatch(life, phase); // before it is written: what is shown changes once
  await syncNode(life, { phase, ...(phase !== machine.phase && healthChange(life, phase)) });
  return again; // what was read just now may say something else
}

function rest(life: Life): PhaseOutcome {
  showWatch(life, life.machine.phase);
  showPhase(life);
  return waitFor();
}

function showWatch(life: Life, phase: MachinePhase): void {
  const { providerID } = life.machine;
  if (phase === 'Unknown') {
    showProgress(life, {
      doing: 'watching an unhealthy node',
      waitingFor: `node ${nodeState(life)} to become healthy`,
      blockedOn: 'NodeHealth',
      unblock: `See in the cloud whether VM ${providerID} is there and runs. Delete the Machine to have another one.`,
    });
  } else {
    showProgress(life, { doing: phase === 'Failed' ? 'waiting to be replaced' : 'running' });
  }
}

/** Name of the Node, and what is wrong with it as far as anybody can see. */
function nodeState({ machine, node }: Life): string {
  if (node.state === 'present') return `${node.name} (${ailment(node, machine.limits)})`;
  return `${machine.nodeName} (${node.state === 'absent' ? 'it does not exist' : 'it cannot be read'})`;
}

function healthChange(life: Life, phase: MachinePhase): Pick<StatusChange, 'operation' | 'timeoutActive' | 'event'> {
  const { name } = life.ref;
  if (phase === 'Running') {
    return {
      operation: {
        type: 'HealthCheck',
        state: 'Successful',
        description: `Machine ${name} successfully re-joined the cluster`,
      },
      timeoutActive: false,
      event: { reason: 'NodeHealthy' },
    };
  }
  return {
    operation: {
      type: 'HealthCheck',
      state: 'Processing',
      description: `Machine ${name} is unhealthy - changing MachineState to ${phase}`,
    },
    timeoutActive: true,
    event: { reason: 'NodeUnhealthy', note: `Node ${nodeState(life)} is not healthy` },
  };
}
