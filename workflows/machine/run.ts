/** Phase run: the Machine's status follows its Node until somebody deletes one of them. */
import { phaseByNode, sameConditions } from '../../api/attention.ts';
import type { StatusChange } from '../../api/model.ts';
import type { Life } from './life.ts';
import { followNode, isNodeDeleted, syncNode } from './node.ts';
import { again, type PhaseOutcome, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** Never done: a machine runs until it is deleted. Without news it costs nothing. */
export async function run(life: Life): Promise<PhaseOutcome> {
  const { machine, node } = life;
  if (isNodeDeleted(life)) return followNode(life);
  const phase = phaseByNode(machine, node);
  const isInStep = node.state !== 'present' || (node.managed && sameConditions(node.conditions, machine.conditions));
  if (phase === machine.phase && isInStep) return rest(life);
  await syncNode(life, { phase, ...(phase !== machine.phase && healthChange(life.ref.name, phase)) });
  return again; // what was read just now may say something else
}

function rest(life: Life): PhaseOutcome {
  const { phase, nodeName } = life.machine;
  if (phase === 'Unknown') {
    showProgress(life, {
      doing: 'watching an unhealthy node',
      waitingFor: `node ${nodeName} to become healthy`,
      blockedOn: 'NodeHealth',
    });
  } else {
    showProgress(life, { doing: phase === 'Failed' ? 'waiting to be replaced' : 'running' });
  }
  showPhase(life);
  return waitFor();
}

function healthChange(name: string, phase: string): Pick<StatusChange, 'operation' | 'timeoutActive' | 'event'> {
  if (phase === 'Running') {
    return {
      operation: {
        type: 'HealthCheck',
        state: 'Successful',
        description: `Machine ${name} successfully re-joined the cluster`,
      },
      timeoutActive: false,
      event: { type: 'Normal', reason: 'NodeHealthy' },
    };
  }
  return {
    operation: {
      type: 'HealthCheck',
      state: 'Processing',
      description: `Machine ${name} is unhealthy - changing MachineState to ${phase}`,
    },
    timeoutActive: true,
    event: { type: 'Warning', reason: 'NodeUnhealthy' },
  };
}
