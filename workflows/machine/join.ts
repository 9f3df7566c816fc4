/** Phase join: the VM's Node is healthy and carries our finalizer. */
import { isHealthy, sameConditions } from '../../api/attention.ts';
import type { Failure } from '../calls/failure.ts';
import type { Life } from './life.ts';
import { ailment, followNode, isJoinable, isNodeDeleted, removeUserData, syncNode } from './node.ts';
import { again, done, firstAskPauseMs, isPastCreation, type PhaseOutcome, waitFor } from './phase.ts';
import { type Progress, showPhase, showProgress } from './progress.ts';
import { creationDeadlineMs, failIfLate, timeIn } from './status.ts';

/** Waits for the Node to be healthy, at the longest until the creation timeout. */
export async function join(life: Life): Promise<PhaseOutcome> {
  if (isPastCreation(life.machine.phase)) return done;
  if (isNodeDeleted(life)) return followNode(life);
  if (isJoinable(life)) return joined(life);
  if (isNewsOfNode(life)) {
    await syncNode(life, { phase: life.machine.phase });
    return again;
  }

  const waitingFor = whatFor(life);
  const failed = await failIfLate(life, () => lateError(life));
  if (failed !== undefined) return failed;

  const leftMs = creationDeadlineMs(life) - Date.now();
  showProgress(life, {
    doing: 'waiting for the node to join',
    waitingFor,
    until: timeIn(leftMs),
    ...hindrance(life),
  });
  showPhase(life);
  return waitFor(Math.min(leftMs, life.askAt - Date.now()));
}

function lateError({ machine, isUninitialized, progress }: Life): Pick<Failure, 'code' | 'message'> {
  const { nodeName, limits } = machine;
  const inTime = `within ${limits.creationSeconds} s`;
  if (isUninitialized) {
    const message = `the VM was not set up ${inTime}: ${progress.lastError?.message ?? 'the cloud gives no reason'}`;
    return { code: 'Uninitialized', message };
  }
  const message = `node ${nodeName ?? '(not named yet)'} did not become healthy ${inTime}`;
  return { code: 'DeadlineExceeded', message };
}

/** What is out of the ordinary about the wait, and what helps. */
function hindrance({ isUninitialized, progress, askPauseMs }: Life): Pick<Progress, 'blockedOn' | 'unblock'> {
  if (isUninitialized) {
    return progress.lastError === undefined ? {} : { blockedOn: 'CloudApi', unblock: 'See the last error.' };
  }
  const isSlow = askPauseMs > firstAskPauseMs; // the cloud has been asked again
  return {
    ...(isSlow && { blockedOn: 'NodeJoin' }),
    unblock: "Look at the VM's console for what its user data does; an API server it cannot reach is the usual cause.",
  };
}

/** Whether the Node says something about itself that the Machine does not: why it is not healthy yet, for example. */
function isNewsOfNode({ machine, node }: Life): boolean {
  return node.state === 'present' && !sameConditions(node.conditions, machine.conditions);
}

function whatFor({ machine, node, isUninitialized }: Life): string {
  if (isUninitialized) return 'the cloud to set up the VM';
  if (node.state === 'present') {
    const isHealthyByNow = isHealthy(node, machine.limits.nodeConditions);
    return isHealthyByNow && node.startingUp
      ? `the critical components of node ${node.name} to be ready: a taint says that they are not`
      : `node ${node.name} to become healthy: ${ailment(node, machine.limits)}`;
  }
  return machine.nodeName === undefined ? 'the cloud to name the node' : `node ${machine.nodeName} to register`;
}

async function joined(life: Life): Promise<PhaseOutcome> {
  showProgress(life, { doing: 'taking over the node' });
  const ageSeconds = Math.round((Date.now() - Date.parse(life.machine.createdAt)) / 1_000);
  const isWritten = await syncNode(life, {
    phase: 'Running',
    operation: {
      type: 'Create',
      state: 'Successful',
      description: `Machine ${life.ref.name} successfully joined the cluster after ${ageSeconds} s`,
    },
    timeoutActive: false,
    event: { reason: 'NodeJoined', note: `Node ${life.machine.nodeName} is healthy` }, // the same for a repeated step
  });
  if (!isWritten) return again; // it changed its mind in between
  await endCreation(life);
  return done;
}

/** What only a creation needs goes with the first join, however late it comes. */
export async function endCreation(life: Life): Promise<void> {
  delete life.attempt;
  life.outcomeUnknown = false;
  await removeUserData(life);
}
