/** Phase drain: no pod is on the Node that could run elsewhere. */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  type TemporalFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { DrainActivities, DrainOutcome, DrainRequest } from '../../../activities/machine/drain.ts';
import { drainTaskQueue } from '../../../api/names.ts';
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { kubernetes } from '../kubernetes.ts';
import { nodeNameOf } from '../node.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { type Activity, forgetError, show, showWait } from '../progress.ts';
import { report, reportRefusal } from '../report.ts';
import { type MachineState, timeIn } from '../state.ts';
import { throwIfCancelled, untilAnswered } from '../wait.ts';

/**
 * Evicts all pods until the drain timeout; then, or when an operator or the Machine asks for force, deletes them. An order
 * that comes in meanwhile interrupts the drain. Safe to repeat: an empty node is drained at once.
 */
export async function drain(state: MachineState): Promise<PhaseOutcome> {
  state.deletionSeenMs ??= Date.now();
  if (state.machine.stage !== 'deleting') await startDeletion(state);
  const nodeName = nodeNameOf(state);
  if (state.drained || state.skipDrain || nodeName === undefined || state.node.state === 'absent') return done;

  const force = isForceWanted(state);
  const { providerID, limits } = state.machine;
  const { node, wasUnhealthy, blockedBy, refusals } = state;
  const request = {
    ref: state.ref,
    nodeName,
    purpose: 'deletion' as const,
    deadline: new Date(state.deletionSeenMs + limits.drainSeconds * 1_000).toISOString(),
    force,
    maxEvictRetries: limits.maxEvictRetries,
    ...(providerID !== undefined && { providerID }),
    ...(node.state === 'present' && node.managed && node.name === nodeName && { nodeUid: node.uid }),
    ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    ...(blockedBy !== undefined && { blockedBy }),
    ...(refusals !== undefined && { refusals }),
  };
  show(state, draining(state, request));
  return drainUntilOrder(state, request);
}

function draining({ blockedBy, budgetMistake }: MachineState, { deadline, force }: DrainRequest): Activity {
  const isBlocked = blockedBy !== undefined && !force;
  const mistake = budgetMistake === undefined ? '' : ` (${budgetMistake})`;
  return {
    doing: force ? 'deleting the pods of the node' : 'draining the node',
    waitingFor: isBlocked
      ? `the PodDisruptionBudget ${blockedBy} to allow evictions${mistake}`
      : 'its pods to be gone: the pending activity drainNode shows which',
    until: deadline,
    blockedOn: isBlocked ? 'PodDisruptionBudget' : 'Drain',
    unblock: 'Send the signal forceDeletion to delete the pods, or skipDrain to leave them.',
  };
}

/** Drains until that is done, or until an order or a change says that it must not go on as it is. */
async function drainUntilOrder(state: MachineState, request: DrainRequest): Promise<PhaseOutcome> {
  const scope = new CancellationScope();
  state.onChange = () => {
    const isUnsure = state.stale || state.machine.deletingSince === undefined;
    if (isUnsure || state.skipDrain || (isForceWanted(state) && !request.force)) scope.cancel();
  };
  state.onChange(); // for what has come in since the request was made
  try {
    const outcome = await scope.run(() => drainActivities(state, request).drainNode(request));
    forgetError(state);
    if (outcome.kind === 'drained') {
      state.drained = true;
      return done;
    }
    state.refusals = outcome.refusals;
    noteBudget(state, outcome);
    const activity = draining(state, request);
    if (state.budgetMistake === undefined)
      showWait(state, activity); // so that a search for blocked machines finds it
    else await reportMistake(state, activity, state.budgetMistake);
    return again;
  } catch (error) {
    throwIfCancelled();
    if (isCancellation(error)) return again; // an order came in, or everything has to be read again
    if (!isActivityFailure(error)) throw error;
    return await drainFailed(state, error);
  } finally {
    delete state.onChange;
  }
}

/** Keeps which budget a drain waits for. */
export function noteBudget(state: MachineState, outcome: DrainOutcome): void {
  delete state.blockedBy;
  delete state.budgetMistake;
  if (outcome.kind !== 'blocked') return;
  state.blockedBy = outcome.budget;
  if (outcome.mistake !== undefined) state.budgetMistake = outcome.mistake;
}

/** A budget that never allows an eviction is a mistake of somebody, who finds it on the Machine. */
async function reportMistake(state: MachineState, activity: Activity, mistake: string): Promise<void> {
  const code = 'FailedPrecondition';
  const message = `PodDisruptionBudget ${state.blockedBy}: ${mistake}`;
  await reportRefusal(
    state,
    { ...activity, error: { code, message } },
    { stage: 'deleting', reason: 'FailedDrain', step: { kind: 'drain', code, message } },
  );
}

/** Undoes what was done for a deletion that is not wanted any more: a backup from before it was restored. */
export async function abortDeletion(state: MachineState): Promise<void> {
  Object.assign(state, { drained: false, skipDrain: false, forceDeletion: false, deletionAnnounced: false });
  state.mayBeCordoned = true; // until it is known not to be, in whichever run
  delete state.deletionSeenMs;
  delete state.wasUnhealthy;
  delete state.blockedBy;
  delete state.budgetMistake;
  delete state.refusals;
  const nodeName = nodeNameOf(state);
  const { providerID } = state.machine;
  if (nodeName !== undefined) {
    const doing = 'uncordoning the node';
    show(state, { doing });
    await untilAnswered(state, doing, () => kubernetes.uncordonNode(state.ref, nodeName, providerID));
  }
  state.mayBeCordoned = false;
}

/** Drains of the installation, without regard for how many others wait where it is forced. */
export function drainActivities(state: MachineState, { force }: DrainRequest) {
  return proxyActivities<DrainActivities>({
    taskQueue: drainTaskQueue(workflowInfo().taskQueue),
    priority: { priorityKey: force ? 1 : 3 }, // a forced drain ends at once: it does not wait behind others
    startToCloseTimeout: (state.machine.limits.drainSeconds + 600) * 1_000, // its own deadline comes first
    heartbeatTimeout: '10 seconds',
    retry: { initialInterval: '1 second', maximumInterval: '30 seconds' },
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  });
}

async function startDeletion(state: MachineState): Promise<void> {
  const { stage } = state.machine;
  state.wasUnhealthy = stage === 'failed' || stage === 'unhealthy';
  forgetError(state); // of its creation or its node, which do not matter any more
  const kind = nodeNameOf(state) === undefined ? 'deleteVm' : 'drain';
  await report(
    state,
    { doing: 'starting the deletion' },
    {
      stage: 'deleting',
      step: { kind, state: 'processing' },
      isTimed: false,
      event: { reason: 'Deleting' },
    },
  );
}

async function drainFailed(state: MachineState, error: TemporalFailure): Promise<PhaseOutcome> {
  const failure = toFailure(error);
  const { code, message } = failure;
  const pauseMs = retryPauseMs({ code: 'Unavailable' }, 'deletion');
  const activity = {
    doing: 'draining the node',
    waitingFor: 'the next try',
    until: timeIn(pauseMs),
    blockedOn: 'Drain',
    error: failure,
  } as const;
  await reportRefusal(state, activity, {
    stage: 'deleting',
    reason: 'FailedDrain',
    step: { kind: 'drain', code, message },
  });
  return waitFor(pauseMs);
}

function isForceWanted({ forceDeletion, machine }: MachineState): boolean {
  return forceDeletion || machine.forceDeletion;
}
