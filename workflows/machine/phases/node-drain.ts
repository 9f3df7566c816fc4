/**
 * The drain of a Node, whatever it is for: calls the activity until the Node is empty, and waits for budgets in
 * between.
 */
import {
  ActivityFailure,
  CancellationScope,
  CancelledFailure,
  isCancellation,
  patched,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  CancelledDrain,
  DrainActivities,
  DrainOutcome,
  DrainRequest,
} from '../../../activities/machine/drain/index.ts';
import type { KnownVolumes } from '../../../activities/machine/drain/volumes.ts';
import { drainTaskQueue } from '../../../api/names.ts';
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { volumeIds } from '../../calls/provider.ts';
import { kubernetes } from '../kubernetes.ts';
import { claimOf } from '../node.ts';
import { again, done, type PhaseOutcome, waitFor } from '../outcome.ts';
import { type Activity, forgetError, show, showWait } from '../progress.ts';
import { report } from '../report.ts';
import type { BlockedDrain, MachineState } from '../state.ts';
import { throwIfCancelled, untilAnswered } from '../wait.ts';

/** What is drained, and how. */
export interface NodeDrain
  extends Pick<DrainRequest, 'purpose' | 'nodeName' | 'nodeUid' | 'wasUnhealthy' | 'force'>,
    Pick<Activity, 'doing' | 'unblock'> {
  /** From here on pods are deleted, ms since the epoch on Temporal's clock. */
  readonly deadlineMs: number;
  /** Whether the drain must not go on as it is. Asked after each change, next to what is the same for all drains. */
  isOver(): boolean;
  /**
   * Called when a budget that is a mistake begins to block, or a refusal of the API server. Default: it is reported as
   * any other wait.
   */
  reportMistake?(activity: Activity, message: string): Promise<void>;
  /** Called when it begins to wait for others, for others than before, or for nobody any more. Default: it is shown. */
  reportWait?(activity: Activity): Promise<void>;
}

/**
 * Drains until the node is empty (`done`), or a change says that the drain must not go on as it is. While only budgets
 * are in the way no activity runs. Throws what the activity fails with.
 */
export async function drainNode(state: MachineState, drain: NodeDrain): Promise<PhaseOutcome> {
  const { deadlineMs, force } = drain;
  const nextMs = Math.min(state.nextEvictionMs ?? 0, deadlineMs);
  show(state, draining(state, drain));
  if (!force && Date.now() < nextMs && !isAskedToEvict(state)) return waitFor(nextMs - Date.now());
  delete state.evictsNow;

  const scope = new CancellationScope();
  const { onChange } = state;
  const { drainSeconds, maxEvictRetries } = state.machine.limits;
  state.onChange = () => {
    onChange?.();
    const { limits } = state.machine;
    const isEdited = limits.drainSeconds !== drainSeconds || limits.maxEvictRetries !== maxEvictRetries;
    if (state.stale || isEdited || drain.isOver() || isAskedToEvict(state)) scope.cancel();
  };
  state.onChange(); // for what has come in since the drain was decided
  try {
    return await scope.run(async () => {
      const outcome = await drainActivities(state, drain).drainNode(requestOf(state, drain));
      forgetError(state);
      return follow(state, drain, outcome);
    });
  } catch (error) {
    throwIfCancelled();
    if (isCancellation(error)) {
      Object.assign(state, refusalsOf(error));
      return again; // an order came in, or everything has to be read again
    }
    if (isActivityFailure(error)) state.stuck = { reported: 'noAnswer', waitingFor: [toFailure(error).message] };
    throw error;
  } finally {
    if (onChange === undefined) delete state.onChange;
    else state.onChange = onChange;
  }
}

function isAskedToEvict({ evictsNow }: MachineState): boolean {
  return evictsNow === true && patched('retried-drains-evict-now');
}

/** How often budgets have refused a drain that was cancelled. Nothing, where no worker had taken it. */
function refusalsOf(error: unknown): Partial<CancelledDrain> {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  const { refusals }: Partial<CancelledDrain> = Object(
    cause instanceof CancelledFailure ? cause.details[0] : undefined,
  );
  return refusals === undefined ? {} : { refusals };
}

/** Nothing of an earlier drain is known any more. */
export function forgetDrain(state: MachineState): void {
  for (const key of ['blocked', 'stuck', 'nextEvictionMs', 'refusals', 'volumes'] as const) delete state[key];
}

function requestOf(state: MachineState, drain: NodeDrain): DrainRequest {
  const { ref, refusals, volumes, blocked, stuck } = state;
  const { purpose, nodeName, nodeUid, wasUnhealthy, deadlineMs, force } = drain;
  const { providerID, nodeNotBefore, createdAt, namedByCloud, limits } = claimOf(state);
  const reported = blocked === undefined ? stuck?.reported : 'budgets';
  return {
    ref,
    purpose,
    nodeName,
    deadline: new Date(deadlineMs).toISOString(),
    force,
    maxEvictRetries: limits.maxEvictRetries,
    ...(providerID !== undefined && { providerID }),
    ...(nodeNotBefore !== undefined && { nodeNotBefore }),
    createdAt,
    ...(namedByCloud !== undefined && { namedByCloud }),
    ...(nodeUid !== undefined && { nodeUid }),
    ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    ...(refusals !== undefined && { refusals }),
    ...(volumes !== undefined && { volumes }),
    ...(reported !== undefined && { reported }),
  };
}

const healthyPods = 'Make the pods of the budget healthy, or correct the budget.';

function draining(state: MachineState, { doing, unblock, deadlineMs, force }: NodeDrain): Activity {
  const wait = waitOf(force ? {} : state);
  const remedies = [...(wait.blockedOn === 'PodDisruptionBudget' ? [healthyPods] : []), ...(unblock ? [unblock] : [])];
  return {
    doing,
    ...wait,
    until: new Date(deadlineMs).toISOString(),
    ...(remedies.length > 0 && { unblock: remedies.join(' ') }),
  };
}

function waitOf({
  blocked,
  stuck,
}: Pick<MachineState, 'blocked' | 'stuck'>): Pick<Activity, 'waitingFor' | 'blockedOn'> {
  if (blocked !== undefined) return { waitingFor: budgetToAllow(blocked), blockedOn: 'PodDisruptionBudget' };
  if (stuck === undefined) return { waitingFor: 'its pods to be gone: the pending activity drainNode shows which' };
  const [text] = stuck.waitingFor;
  if (stuck.reported === 'noAnswer')
    return { waitingFor: `the API server of the node: ${text}`, blockedOn: 'KubernetesApi' };
  return { waitingFor: stuck.waitingFor.join('; '), blockedOn: 'Drain' };
}

function budgetToAllow({ budget, mistake, pods, podsLeft }: BlockedDrain): string {
  const more = podsLeft > pods.length ? ` and ${podsLeft - pods.length} more` : '';
  const why = mistake === undefined ? '' : ` (${mistake})`;
  return `the PodDisruptionBudget ${budget} to allow the eviction of ${pods.join(', ')}${more}${why}`;
}

async function follow(state: MachineState, drain: NodeDrain, outcome: DrainOutcome): Promise<PhaseOutcome> {
  if (outcome.kind === 'drained') {
    if (outcome.left !== undefined && patched('what-a-drain-timeout-leaves')) await reportLeft(state, outcome.left);
    return done;
  }
  state.refusals = outcome.refusals;
  if (outcome.kind === 'unknownVolumes') {
    state.volumes = { ...state.volumes, ...(await askProvider(state, drain.doing, outcome.volumes)) };
    return again;
  }
  if (outcome.kind === 'stuck' || outcome.kind === 'goesOn') {
    for (const key of ['blocked', 'stuck', 'nextEvictionMs'] as const) delete state[key];
    if (outcome.kind === 'stuck') state.stuck = { reported: outcome.reported, waitingFor: outcome.waitingFor };
    const isRefused = outcome.kind === 'stuck' && outcome.isRefused === true;
    if (isRefused && drain.reportMistake !== undefined && patched('refused-evictions'))
      await drain.reportMistake(draining(state, drain), outcome.waitingFor.join('; '));
    else await reportWait(state, drain);
    return again;
  }
  const { kind: _, refusals: __, retryMs, ...blocked } = outcome;
  delete state.stuck;
  const isNew = blocked.budget !== state.blocked?.budget || blocked.mistake !== state.blocked.mistake;
  Object.assign(state, { blocked, nextEvictionMs: Date.now() + retryMs });
  const activity = draining(state, drain);
  const { budget, mistake } = blocked;
  if (isNew && mistake !== undefined && drain.reportMistake)
    await drain.reportMistake(activity, `PodDisruptionBudget ${budget}: ${mistake}`);
  else if (isNew) await reportWait(state, drain);
  else showWait(state, activity);
  return again; // waits until then, or until the deadline
}

/** The drain is over without being done. */
async function reportLeft(state: MachineState, left: string): Promise<void> {
  const { stage, limits } = state.machine;
  const note = `The drain timeout of ${limits.drainSeconds} s is over, with ${left}`;
  await report(state, undefined, { stage, event: { reason: 'DrainTimeout', note } });
}

/** So that a search for blocked machines finds it, or does not any more. */
async function reportWait(state: MachineState, drain: NodeDrain): Promise<void> {
  const activity = draining(state, drain);
  if (drain.reportWait !== undefined && patched('drain-wait-in-status')) await drain.reportWait(activity);
  else showWait(state, activity);
}

type Volumes = Extract<DrainOutcome, { kind: 'unknownVolumes' }>['volumes'];

/**
 * Which volumes are the cloud's. Where its provider does not say, all are waited for, as VolumeAttachments show them.
 */
async function askProvider(state: MachineState, doing: string, volumes: Volumes): Promise<KnownVolumes> {
  const readPlaces = () => kubernetes.readPlaces(state.ref, state.machine.source);
  const { places } = await untilAnswered(state, doing, readPlaces);
  const ids = await volumeIds(places.at(-1)?.provider, volumes);
  const known = ({ name }: { readonly name: string }) => {
    const id = ids?.[name];
    return id === undefined ? null : { id };
  };
  return Object.fromEntries(volumes.map((volume) => [volume.name, ids === undefined ? {} : known(volume)]));
}

/** How long a drain may go on past its deadline, ms: its last calls take that long where no API server answers. */
const overtimeMs = 60_000;

function drainActivities({ machine }: MachineState, { force, deadlineMs, nodeName }: NodeDrain) {
  const leftMs = force ? 0 : Math.max(deadlineMs - Date.now(), 0);
  return proxyActivities<DrainActivities>({
    taskQueue: drainTaskQueue(workflowInfo().taskQueue),
    priority: { priorityKey: leftMs === 0 ? 1 : 3 }, // a forced drain ends at once: it does not wait behind others
    startToCloseTimeout: (machine.limits.drainSeconds + 600) * 1_000, // its own deadline comes first
    // The activity counts from when it was scheduled: a wait for a worker must not add to the drain timeout.
    ...(leftMs > 0 && { scheduleToCloseTimeout: leftMs + overtimeMs }),
    heartbeatTimeout: '10 seconds',
    retry: { initialInterval: '1 second', maximumInterval: '30 seconds' },
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    summary: `Node ${nodeName}${leftMs === 0 ? ', without waiting for its pods' : ''}`,
  });
}
