/** Phase join: the VM's Node is healthy and carries our finalizer. */
import { isHealthy } from '../../api/attention.ts';
import { kubernetes, type Life, now, untilAnswered } from './life.ts';
import { done, failed, firstAskPauseMs, hasJoined, type PhaseOutcome, waitFor } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';
import { syncNode } from './run.ts';
import { creationDeadlineMs, timeIn, writeStatus } from './status.ts';

/** Waits for the Node to be healthy, at the longest until the creation timeout. */
export async function join(life: Life): Promise<PhaseOutcome> {
  const { machine, node } = life;
  if (hasJoined(machine.phase)) return done;
  if (isJoinable(life)) return joined(life);

  const leftMs = creationDeadlineMs(life) - Date.now();
  if (leftMs <= 0) return timedOut(life);
  const isLate = life.askPauseMs > firstAskPauseMs; // the cloud has been asked again
  showProgress(life, {
    doing: 'waiting for the node to join',
    waitingFor:
      node.state === 'present' ? `node ${node.name} to become healthy` : `node ${machine.nodeName} to register`,
    until: timeIn(leftMs),
    ...(isLate && { blockedOn: 'NodeJoin' as const }),
    unblock: "Look at the VM's console for what its user data does; an API server it cannot reach is the usual cause.",
  });
  showPhase(life);
  return waitFor(Math.min(leftMs, life.askAt - Date.now()));
}

/** Whether the Node is there and healthy and nothing says that it is still starting up. */
export function isJoinable({ machine, node }: Life): boolean {
  if (node.state !== 'present' || node.deleting || node.startingUp) return false;
  return isHealthy(node, machine.limits.nodeConditions);
}

async function joined(life: Life): Promise<PhaseOutcome> {
  showProgress(life, { doing: 'taking over the node' });
  const healthy = await syncNode(life, {
    phase: 'Running',
    operation: {
      type: 'Create',
      state: 'Successful',
      description: `Machine ${life.ref.name} successfully joined the cluster after ${ageSeconds(life)} s`,
    },
    timeoutActive: false,
    event: { type: 'Normal', reason: 'NodeJoined' },
  });
  if (!healthy) return waitFor(0); // it changed its mind in between
  await removeUserData(life);
  return done;
}

function ageSeconds({ machine }: Life): number {
  return Math.round((Date.now() - Date.parse(machine.createdAt)) / 1_000);
}

/** Removes the Secrets that were made for this machine alone, if there may be any. */
export async function removeUserData(life: Life): Promise<void> {
  if (!life.mayHaveUserData) return;
  await untilAnswered(life, 'removing what the join needed', () => kubernetes.removeUserData(life.ref));
  life.mayHaveUserData = false;
}

async function timedOut(life: Life): Promise<PhaseOutcome> {
  const { limits, nodeName } = life.machine;
  const message = `node ${nodeName} did not become healthy within ${limits.creationSeconds} s of the Machine's creation`;
  showProgress(life, {
    doing: 'waiting to be replaced',
    lastError: { code: 'DeadlineExceeded', message, at: now() },
  });
  await writeStatus(life, {
    phase: 'Failed',
    operation: { type: 'Create', state: 'Failed', description: message },
    timeoutActive: false,
    event: { type: 'Warning', reason: 'CreationTimeout' },
  });
  return failed;
}
