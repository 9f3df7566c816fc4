/** Phase run: the Machine's status follows its Node until somebody deletes one of them. */
import { phaseByNode, sameConditions } from '../../api/attention.ts';
import type { StatusChange } from '../../api/model.ts';
import { kubernetes, type Life, now, untilAnswered } from './life.ts';
import { type PhaseOutcome, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** Never done: a machine runs until it is deleted. Without news it costs nothing. */
export async function run(life: Life): Promise<PhaseOutcome> {
  const { machine, node } = life;
  if (node.state === 'present' && node.deleting) {
    showProgress(life, { doing: 'deleting the Machine, because its node was deleted' });
    life.machine = await untilAnswered(life, 'deleting the Machine', () => kubernetes.deleteMachine(life.ref));
    life.onNews?.();
    return waitFor();
  }
  const phase = phaseByNode(machine, node);
  const isInStep = node.state !== 'present' || (node.managed && sameConditions(node.conditions, machine.conditions));
  if (phase === machine.phase && isInStep) return rest(life);
  await syncNode(life, { phase, ...(phase !== machine.phase && healthChange(life.ref.name, phase)) });
  return waitFor(0); // what was read just now may say something else again
}

function rest(life: Life): PhaseOutcome {
  const { phase, nodeName } = life.machine;
  if (phase === 'Running') showProgress(life, { doing: 'running' });
  else if (phase === 'Failed') showProgress(life, { doing: 'waiting to be replaced' });
  else {
    showProgress(life, {
      doing: 'watching an unhealthy node',
      waitingFor: `node ${nodeName} to become healthy`,
      blockedOn: 'NodeHealth',
    });
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

/**
 * Marks the Node as ours and copies its conditions to the Machine, with a change of phase. Answers whether the phase was
 * written: it is not when the Node, read in the same step, says that another one is right by now.
 */
export async function syncNode(life: Life, change: Omit<StatusChange, 'phaseSince'>): Promise<boolean> {
  const full: StatusChange = { ...change, ...(change.phase !== life.machine.phase && { phaseSince: now() }) };
  const seen = await untilAnswered(life, 'synchronising the node', () =>
    kubernetes.syncNode(life.ref, life.machine, full),
  );
  life.machine = seen.machine;
  life.node = seen.node;
  showPhase(life);
  return seen.machine.phase === change.phase;
}
