/** Phase preserve: what people or the Machine's owner want to be kept is kept, and drained if it has failed. */
import type { PreservationDrain } from '../../../activities/machine/preservation.ts';
import { stageByNode } from '../../../api/attention.ts';
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { kubernetesSteps } from '../kubernetes.ts';
import { nodeNameOf } from '../node.ts';
import { putNode, setMachine } from '../observe.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { showWait } from '../progress.ts';
import { type MachineState, now, timeIn } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { drainNode, forgetDrain } from './node-drain.ts';

const doing = 'draining the node of a preserved machine';
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
    forgetDrain(state); // of one that is not wanted any more
    return done;
  }
  return drainNodeOf(state, nodeName);
}

/** @param drain how one has just ended */
async function writeMarks(state: MachineState, drain?: PreservationDrain): Promise<void> {
  delete state.preservation; // what a watcher says from here on may be news to the step
  const at = now();
  const marking = 'marking the machine and its node as preserved or not';
  const seen = await untilAnswered(state, marking, () => kubernetesSteps.preserve(state.ref, at, drain));
  putNode(state, seen.node);
  // What is still to be written could not be written: watchers say so again.
  if (seen.preservation === 'drain') state.preservation ??= 'drain';
  setMachine(state, seen.machine);
}

async function drainNodeOf(state: MachineState, nodeName: string): Promise<PhaseOutcome> {
  const { limits, forceDrain: force = false, stageSince } = state.machine;
  const failedMs = stageSince === undefined ? Date.now() : Date.parse(stageSince);
  const isForced = () => state.machine.forceDrain === true && !force;
  try {
    const outcome = await drainNode(state, {
      purpose: 'preservation',
      doing,
      nodeName,
      deadlineMs: failedMs + limits.drainSeconds * 1_000,
      force,
      isOver: () => state.preservation === 'write' || isForced() || !hasFailed(state),
    });
    if (outcome.kind !== 'done') return outcome;
    forgetDrain(state);
    await writeMarks(state, { isDrained: true });
    return state.preservation === 'drain' ? waitFor(retryMs) : again; // somebody has removed what was written
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = toFailure(error);
    await writeMarks(state, { isDrained: false, message: `${failure.code}: ${failure.message}` });
    const until = timeIn(retryMs);
    showWait(state, { doing, waitingFor: 'the next try', until, blockedOn: 'Drain', error: failure });
    return waitFor(retryMs);
  }
}

function hasFailed({ machine, node }: MachineState): boolean {
  return machine.stage === 'failed' && stageByNode(machine, node) === 'failed';
}
