/** Phase drain: nothing runs on the Node that could run elsewhere. */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  type TemporalFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { DrainActivities, DrainRequest } from '../../activities/machine/drain.ts';
import { drainTaskQueue } from '../../api/names.ts';
import { isActivityFailure, toFailure } from '../calls/failure.ts';
import { endIfCancelled, kubernetes, type Life, untilAnswered } from './life.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from './phase.ts';
import { forgetError, showPhase, showProgress } from './progress.ts';
import { timeIn, writeRefusal, writeStatus } from './status.ts';

/**
 * Evicts all pods until the drain timeout; then, or when an operator or the label force-deletion asks for it, deletes
 * them. A wish that comes in meanwhile interrupts what is under way. Safe to repeat: an empty node is drained at once.
 */
export async function drain(life: Life): Promise<PhaseOutcome> {
  life.leavingSinceMs ??= Date.now();
  if (life.machine.phase !== 'Terminating') await startDeletion(life);
  const { nodeName, providerID } = life.machine;
  if (life.drained || life.skipDrain || nodeName === undefined || life.node.state === 'absent') return done;

  const force = isForceWanted(life);
  const deadline = new Date(life.leavingSinceMs + life.machine.limits.drainSeconds * 1_000).toISOString();
  showDrain(life, deadline, force);
  const { wasUnhealthy, blockedBy, refusals } = life;
  const { maxEvictRetries } = life.machine.limits;
  return drainUntilWish(life, {
    ...{ ref: life.ref, nodeName, deadline, force, maxEvictRetries },
    ...(providerID !== undefined && { providerID }),
    ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    ...(blockedBy !== undefined && { blockedBy }),
    ...(refusals !== undefined && { refusals }),
  });
}

function showDrain(life: Life, deadline: string, force: boolean): void {
  const { blockedBy } = life;
  const isBlocked = blockedBy !== undefined && !force;
  showProgress(life, {
    doing: force ? 'deleting the pods of the node' : 'draining the node',
    waitingFor: isBlocked
      ? `the PodDisruptionBudget ${blockedBy} to allow evictions`
      : 'its pods to be gone: the pending activity drainNode tells which',
    until: deadline,
    blockedOn: isBlocked ? 'PodDisruptionBudget' : 'Drain',
    unblock: 'Send the signal forceDeletion to delete the pods, or skipDrain to leave them.',
  });
}

async function drainUntilWish(life: Life, request: DrainRequest): Promise<PhaseOutcome> {
  const scope = new CancellationScope();
  life.onNews = () => {
    const isUnsure = life.stale || life.machine.deletingSince === undefined;
    if (isUnsure || life.skipDrain || (isForceWanted(life) && !request.force)) scope.cancel();
  };
  life.onNews(); // what has come in since the drain was decided
  try {
    const outcome = await scope.run(() => drainActivities(life, request).drainNode(request));
    forgetError(life);
    if (outcome.kind === 'drained') {
      life.drained = true;
      return done;
    }
    life.refusals = outcome.refusals;
    if (outcome.kind === 'blocked') life.blockedBy = outcome.budget;
    else delete life.blockedBy;
    showDrain(life, request.deadline, request.force);
    showPhase(life); // whoever looks for machines that are stuck finds it
    return again;
  } catch (error) {
    endIfCancelled();
    if (isCancellation(error)) return again; // a wish came in, or everything is to be read again
    if (!isActivityFailure(error)) throw error;
    return await drainFailed(life, error);
  } finally {
    delete life.onNews;
  }
}

/** Takes back what a deletion has begun that is not wanted any more. */
export async function stay(life: Life): Promise<void> {
  Object.assign(life, { drained: false, skipDrain: false, forceDeletion: false, deletionAnnounced: false });
  life.mayBeCordoned = true; // until it is known not to be, in whichever run
  delete life.leavingSinceMs;
  delete life.wasUnhealthy;
  delete life.blockedBy;
  delete life.refusals;
  const { nodeName, providerID } = life.machine;
  if (nodeName !== undefined) {
    showProgress(life, { doing: 'taking pods on the node again' });
    await untilAnswered(life, 'taking pods on the node again', () =>
      kubernetes.uncordonNode(life.ref, nodeName, providerID),
    );
  }
  life.mayBeCordoned = false;
}

function drainActivities(life: Life, { force }: DrainRequest) {
  return proxyActivities<DrainActivities>({
    taskQueue: drainTaskQueue(workflowInfo().taskQueue),
    priority: { priorityKey: force ? 1 : 3 }, // a forced one ends at once: it goes before those that wait for their turn
    startToCloseTimeout: (life.machine.limits.drainSeconds + 600) * 1_000, // its own deadline comes first
    heartbeatTimeout: '10 seconds',
    retry: { initialInterval: '1 second', maximumInterval: '30 seconds' },
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  });
}

async function startDeletion(life: Life): Promise<void> {
  const { nodeName, phase } = life.machine;
  life.wasUnhealthy = phase === 'Failed' || phase === 'Unknown';
  forgetError(life); // of its creation or its node, which do not matter any more
  showProgress(life, { doing: 'starting the deletion' });
  await writeStatus(life, {
    phase: 'Terminating',
    operation: {
      type: 'Delete',
      state: 'Processing',
      description: nodeName ? 'Initiate node drain' : 'Initiate VM deletion',
    },
    timeoutActive: false,
    event: { reason: 'Deleting' },
  });
}

async function drainFailed(life: Life, error: TemporalFailure): Promise<PhaseOutcome> {
  const failure = toFailure(error);
  const { code, message } = failure;
  const pauseMs = retryPauseMs({ code: 'Unavailable' }, 'deletion');
  showProgress(life, {
    doing: 'draining the node',
    waitingFor: 'the next try',
    until: timeIn(pauseMs),
    blockedOn: 'Drain',
    error: failure,
  });
  const operation = { type: 'DrainNode', state: 'Failed', description: `Initiate node drain: ${message}` } as const;
  await writeRefusal(life, { phase: 'Terminating', reason: 'FailedDrain', code, message, operation });
  return waitFor(pauseMs);
}

function isForceWanted(life: Life): boolean {
  return life.forceDeletion || life.machine.forceDeletion;
}
