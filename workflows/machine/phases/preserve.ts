/** Phase preserve: what people or the Machine's owner want to be kept is kept, and drained if it has failed. */
import { CancellationScope, isCancellation } from '@temporalio/workflow';
import type { DrainRequest } from '../../../activities/machine/drain/index.ts';
import type { PreservationDrain } from '../../../activities/machine/preservation.ts';
import { stageByNode } from '../../../api/attention.ts';
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { kubernetesSteps } from '../kubernetes.ts';
import { nodeNameOf } from '../node.ts';
import { putNode, setMachine } from '../observe.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { type Activity, forgetError, show, showWait } from '../progress.ts';
import { type MachineState, now, timeIn } from '../state.ts';
import { throwIfCancelled, untilAnswered } from '../wait.ts';
import { budgetToAllow, drainActivities, noteOutcome } from './drain.ts';

/** Pause before a drain that has failed is tried again. */
const retryMs = retryPauseMs({ code: 'Unavailable' }, 'deletion');

/**
 * Writes what the preservation needs, and drains the Node of a Machine that has failed, without a cordon. Safe to repeat:
 * everything is read before it is written, and an empty Node is drained at once.
 */
export async function preserve(state: MachineState): Promise<PhaseOutcome> {
  const { preservedUntil } = state.machine;
  const isExpired = preservedUntil !== undefined && Date.now() >= Date.parse(preservedUntil);
  if (state.preservation === undefined && !isExpired) return done;
  await writeMarks(state);
  const { node } = state;
  const nodeName = nodeNameOf(state);
  if (state.preservation !== 'drain' || nodeName === undefined || node.state !== 'present' || !hasFailed(state)) {
    return done;
  }
  const { ref, machine, refusals, volumes } = state;
  const { providerID, limits, forceDrain: force = false, stageSince } = machine;
  const sinceMs = stageSince === undefined ? Date.now() : Date.parse(stageSince);
  const deadlineMs = sinceMs + limits.drainSeconds * 1_000;
  const nextMs = Math.min(state.nextEvictionMs ?? 0, deadlineMs);
  if (!force && Date.now() < nextMs) return waitFor(nextMs - Date.now());
  const request: DrainRequest = {
    ref,
    purpose: 'preservation',
    nodeName,
    deadline: new Date(deadlineMs).toISOString(),
    force,
    maxEvictRetries: limits.maxEvictRetries,
    ...(providerID !== undefined && { providerID }),
    ...(refusals !== undefined && { refusals }),
    ...(volumes !== undefined && { volumes }),
  };
  show(state, draining(state, request));
  return drainUntilChange(state, request);
}

/** @param drain how one has just ended */
async function writeMarks(state: MachineState, drain?: PreservationDrain): Promise<void> {
  const doing = 'marking the machine and its node as preserved or not';
  delete state.preservation; // what a watcher says from here on may be news to the step
  const at = now();
  const seen = await untilAnswered(state, doing, () => kubernetesSteps.preserve(state.ref, at, drain));
  putNode(state, seen.node);
  // What is still to be written could not be written: watchers say so again.
  if (seen.preservation === 'drain') state.preservation ??= 'drain';
  setMachine(state, seen.machine);
}

function hasFailed({ machine, node }: MachineState): boolean {
  return machine.stage === 'failed' && stageByNode(machine, node) === 'failed';
}

function draining({ blocked }: MachineState, { deadline, force }: DrainRequest): Activity {
  const isBlocked = blocked !== undefined && !force;
  return {
    doing: 'draining the node of a preserved machine',
    waitingFor: isBlocked ? budgetToAllow(blocked) : 'its pods to be gone: the pending activity drainNode shows which',
    until: deadline,
    blockedOn: isBlocked ? 'PodDisruptionBudget' : 'Drain',
  };
}

/** Drains until that is done, or until a change says that it must not go on as it is. */
async function drainUntilChange(state: MachineState, request: DrainRequest): Promise<PhaseOutcome> {
  const scope = new CancellationScope();
  const { onChange } = state;
  state.onChange = () => {
    onChange?.(); // a deletion ends everything
    const isForced = state.machine.forceDrain === true && !request.force;
    if (state.stale || state.preservation === 'write' || isForced || !hasFailed(state)) scope.cancel();
  };
  state.onChange(); // for what has come in since the request was made
  try {
    return await scope.run(async () => {
      const outcome = await drainActivities(state, request).drainNode(request);
      forgetError(state);
      if (outcome.kind === 'drained') {
        for (const key of ['blocked', 'nextEvictionMs', 'refusals', 'volumes'] as const) delete state[key];
        await writeMarks(state, { isDrained: true });
        return state.preservation === 'drain' ? waitFor(retryMs) : again; // somebody has removed what was written
      }
      await noteOutcome(state, outcome);
      showWait(state, draining(state, request)); // so that a search for blocked machines finds it
      return again;
    });
  } catch (error) {
    throwIfCancelled();
    if (isCancellation(error)) return again;
    if (!isActivityFailure(error)) throw error;
    return await drainFailed(state, toFailure(error));
  } finally {
    if (onChange === undefined) delete state.onChange;
    else state.onChange = onChange;
  }
}

async function drainFailed(state: MachineState, error: ReturnType<typeof toFailure>): Promise<PhaseOutcome> {
  await writeMarks(state, { isDrained: false, message: `${error.code}: ${error.message}` });
  const doing = 'draining the node of a preserved machine';
  showWait(state, { doing, waitingFor: 'the next try', until: timeIn(retryMs), blockedOn: 'Drain', error });
  return waitFor(retryMs);
}
