/** Phase drain: no pod is on the Node that could run elsewhere. */
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  type TemporalFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { DrainActivities, DrainOutcome, DrainRequest } from '../../../activities/machine/drain/index.ts';
import type { KnownVolumes } from '../../../activities/machine/drain/volumes.ts';
import { drainTaskQueue } from '../../../api/names.ts';
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { volumeIds } from '../../calls/provider.ts';
import { kubernetes } from '../kubernetes.ts';
import { nodeNameOf } from '../node.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { type Activity, forgetError, show, showWait } from '../progress.ts';
import { report, reportRefusal } from '../report.ts';
import { type BlockedDrain, type MachineState, timeIn } from '../state.ts';
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
  const deadlineMs = state.deletionSeenMs + state.machine.limits.drainSeconds * 1_000;
  const nextMs = Math.min(state.nextEvictionMs ?? 0, deadlineMs);
  if (!force && Date.now() < nextMs) return waitFor(nextMs - Date.now());

  const { providerID, limits } = state.machine;
  const { node, wasUnhealthy, refusals, volumes } = state;
  const request = {
    ref: state.ref,
    purpose: 'deletion',
    nodeName,
    deadline: new Date(deadlineMs).toISOString(),
    force,
    maxEvictRetries: limits.maxEvictRetries,
    ...(providerID !== undefined && { providerID }),
    ...(node.state === 'present' && node.managed && node.name === nodeName && { nodeUid: node.uid }),
    ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    ...(refusals !== undefined && { refusals }),
    ...(volumes !== undefined && { volumes }),
  } as const;
  show(state, draining(state, request));
  return drainUntilOrder(state, request);
}

function draining({ blocked }: MachineState, { deadline, force }: DrainRequest): Activity {
  return {
    doing: force ? 'deleting the pods of the node' : 'draining the node',
    waitingFor:
      blocked && !force ? budgetToAllow(blocked) : 'its pods to be gone: the pending activity drainNode shows which',
    until: deadline,
    blockedOn: blocked && !force ? 'PodDisruptionBudget' : 'Drain',
    unblock: 'Send the signal forceDeletion to delete the pods, or skipDrain to leave them.',
  };
}

/** What a drain that budgets block waits for. */
export function budgetToAllow({ budget, mistake, pods, podsLeft }: BlockedDrain): string {
  const more = podsLeft > pods.length ? ` and ${podsLeft - pods.length} more` : '';
  const why = mistake === undefined ? '' : ` (${mistake})`;
  return `the PodDisruptionBudget ${budget} to allow the eviction of ${pods.join(', ')}${more}${why}`;
}

/** Drains until that is done, or until an order or a change says that it must not go on as it is. */
async function drainUntilOrder(state: MachineState, request: DrainRequest): Promise<PhaseOutcome> {
  const scope = new CancellationScope();
  const { drainSeconds, maxEvictRetries } = state.machine.limits;
  state.onChange = () => {
    const { machine, stale, skipDrain } = state;
    const isUnsure = stale || machine.deletingSince === undefined;
    const isEdited = machine.limits.drainSeconds !== drainSeconds || machine.limits.maxEvictRetries !== maxEvictRetries;
    if (isUnsure || skipDrain || isEdited || (isForceWanted(state) && !request.force)) scope.cancel();
  };
  state.onChange(); // for what has come in since the request was made
  try {
    return await scope.run(async () => {
      const outcome = await drainActivities(state, request).drainNode(request);
      forgetError(state);
      return follow(state, request, outcome);
    });
  } catch (error) {
    throwIfCancelled();
    if (isCancellation(error)) return again; // an order came in, or everything has to be read again
    if (!isActivityFailure(error)) throw error;
    return await drainFailed(state, error);
  } finally {
    delete state.onChange;
  }
}

async function follow(state: MachineState, request: DrainRequest, outcome: DrainOutcome): Promise<PhaseOutcome> {
  if (outcome.kind === 'drained') {
    state.drained = true;
    return done;
  }
  const { blocked: before } = state;
  await noteOutcome(state, outcome);
  if (outcome.kind === 'unknownVolumes') return again;
  const { budget, mistake } = outcome;
  const isNew = budget !== before?.budget || mistake !== before.mistake;
  const activity = draining(state, request);
  if (isNew && mistake !== undefined) await reportMistake(state, activity, `PodDisruptionBudget ${budget}: ${mistake}`);
  else showWait(state, activity); // so that a search for blocked machines finds it
  return again; // waits until then, or until the deadline
}

/** Keeps what a drain that is not over has found, for its next call, and asks the provider what that needs. */
export async function noteOutcome(
  state: MachineState,
  outcome: Exclude<DrainOutcome, { readonly kind: 'drained' }>,
): Promise<void> {
  state.refusals = outcome.refusals;
  if (outcome.kind === 'unknownVolumes') {
    state.volumes = { ...state.volumes, ...(await askProvider(state, outcome.volumes)) };
    return;
  }
  const { kind: _, refusals: __, retryMs, ...blocked } = outcome;
  Object.assign(state, { blocked, nextEvictionMs: Date.now() + retryMs });
}

/** A budget that never allows an eviction is a mistake of somebody, who finds it on the Machine. */
async function reportMistake(state: MachineState, activity: Activity, message: string): Promise<void> {
  const code = 'FailedPrecondition';
  await reportRefusal(
    state,
    { ...activity, error: { code, message } },
    { stage: 'deleting', reason: 'FailedDrain', step: { kind: 'drain', code, message } },
  );
}

type Volumes = Extract<DrainOutcome, { kind: 'unknownVolumes' }>['volumes'];

/** Which volumes are the cloud's. Where its provider does not say, all are waited for, as VolumeAttachments show them. */
async function askProvider(state: MachineState, volumes: Volumes): Promise<KnownVolumes> {
  const { places } = await untilAnswered(state, 'draining the node', () =>
    kubernetes.readPlaces(state.ref, state.machine.source),
  );
  const ids = await volumeIds(places.at(-1)?.provider, volumes);
  const known = ({ name }: { readonly name: string }) => {
    const id = ids?.[name];
    return id === undefined ? null : { id };
  };
  return Object.fromEntries(volumes.map((volume) => [volume.name, ids === undefined ? {} : known(volume)]));
}

/** Undoes what was done for a deletion that is not wanted any more: a backup from before it was restored. */
export async function abortDeletion(state: MachineState): Promise<void> {
  Object.assign(state, { drained: false, skipDrain: false, forceDeletion: false, deletionAnnounced: false });
  state.mayBeCordoned = true; // until it is known not to be, in whichever run
  for (const key of ['deletionSeenMs', 'wasUnhealthy', 'blocked', 'nextEvictionMs', 'refusals', 'volumes'] as const)
    delete state[key];
  const nodeName = nodeNameOf(state);
  const { providerID } = state.machine;
  if (nodeName !== undefined) {
    const doing = 'uncordoning the node';
    show(state, { doing });
    await untilAnswered(state, doing, () => kubernetes.uncordonNode(state.ref, nodeName, providerID));
  }
  state.mayBeCordoned = false;
}

/** Drains of the installation; a forced one does not wait behind others. */
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
