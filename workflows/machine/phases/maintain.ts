/**
 * Phase maintain: what people or the Machine's owner want to be kept, or updated in place, is so, and drained before.
 */
import { patched } from '@temporalio/workflow';
import type { MaintainedMachine, MaintenanceDrain } from '../../../activities/machine/maintenance.ts';
import { stageByNode } from '../../../api/attention.ts';
import { isPastCreation, type MaintenancePurpose } from '../../../api/model/machine.ts';
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { kubernetesSteps } from '../kubernetes.ts';
import { nodeNameOf, objectionTo } from '../node.ts';
import { putNode, setMachine } from '../observe.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { type Activity, showWait } from '../progress.ts';
import { isMaintenanceHeld, noteDrain, noteMarks } from '../repeats.ts';
import { report } from '../report.ts';
import { type MachineState, now, timeIn } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { drainNode, forgetDrain } from './node-drain.ts';

/** What people read while the Node is drained. */
const drainings = {
  preservation: 'draining the node of a preserved machine',
  inPlaceUpdate: 'draining the node for its in-place update',
} as const;

/** Pause before a drain that has failed is tried again. */
const retryMs = retryPauseMs({ code: 'Unavailable' }, 'deletion');

/**
 * Writes what the preservation or the in-place update needs, and drains the Node for it: that of a preserved Machine
 * which has failed, and that of one whose turn it is to be updated. Safe to repeat: everything is read before it is
 * written, and an empty Node is drained at once.
 */
export async function maintain(state: MachineState): Promise<PhaseOutcome> {
  const { preservedUntil, updateDueBy } = state.machine;
  const isOver = [preservedUntil, updateDueBy].some((end) => end !== undefined && Date.now() >= Date.parse(end));
  if (state.maintenance === undefined && !isOver) return done;
  const isWrite = isOver || state.maintenance === undefined || state.maintenance === 'write';
  if (isMaintenanceHeld(state, !isWrite)) return done; // its Node and its VM are looked after meanwhile
  if (isWrite) noteMarks(state);
  const { drainSince } = await writeMarks(state);
  const purpose = drainDue(state);
  const nodeName = nodeNameOf(state);
  const isPossible = nodeName !== undefined && state.node.state === 'present' && objectionTo(state) === undefined;
  if (purpose === undefined || !isPossible) {
    forgetDrain(state); // of one that is not wanted any more
    return done;
  }
  return drainFor(state, purpose, nodeName, drainSince ?? state.machine.stageSince);
}

/** What the Node is to be drained for; undefined: it is not. */
function drainDue(state: MachineState): MaintenancePurpose | undefined {
  const { machine, node, maintenance } = state;
  if (maintenance === 'drainForUpdate') return 'inPlaceUpdate';
  const hasFailed = machine.stage === 'failed' && stageByNode(machine, node) === 'failed';
  return maintenance === 'drain' && hasFailed ? 'preservation' : undefined;
}

/** @param drain how one has just ended */
async function writeMarks(state: MachineState, drain?: MaintenanceDrain): Promise<MaintainedMachine> {
  delete state.maintenance; // what a watcher says from here on may be news to the step
  const at = now();
  const doing = 'writing what the machine and its node should say of each other';
  const seen = await untilAnswered(state, doing, () => kubernetesSteps.maintain(state.ref, at, drain));
  putNode(state, seen.node);
  // While a machine is created a watcher says it again: the calls for its VM have pauses of their own.
  const staysDue = isPastCreation(seen.machine.stage) && patched('marks-that-are-not-kept-stay-due');
  if (seen.maintenance !== undefined && (seen.maintenance !== 'write' || staysDue))
    state.maintenance ??= seen.maintenance;
  setMachine(state, seen.machine);
  return seen;
}

async function drainFor(
  state: MachineState,
  purpose: MaintenancePurpose,
  nodeName: string,
  since: string | undefined,
): Promise<PhaseOutcome> {
  const { limits, forceDrain: force = false } = state.machine;
  const sinceMs = since === undefined ? Date.now() : Date.parse(since);
  const isForced = () => state.machine.forceDrain === true && !force;
  const doing = drainings[purpose];
  try {
    const outcome = await drainNode(state, {
      ...{ purpose, doing, nodeName, force },
      deadlineMs: sinceMs + limits.drainSeconds * 1_000,
      isOver: () => isForced() || drainDue(state) !== purpose,
      reportMistake: (activity, message) => reportMistake(state, activity, message),
    });
    if (outcome.kind !== 'done') return outcome;
    forgetDrain(state);
    noteDrain(state);
    const { maintenance: left } = await writeMarks(state, { purpose, isDrained: true });
    return left === 'write' || drainDue(state) === purpose ? waitFor(retryMs) : again; // somebody has removed what was written
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = toFailure(error);
    await writeMarks(state, { purpose, isDrained: false, message: `${failure.code}: ${failure.message}` });
    const until = timeIn(retryMs);
    showWait(state, { doing, waitingFor: 'the next try', until, blockedOn: 'KubernetesApi', error: failure });
    return waitFor(retryMs);
  }
}

/** An Event names what others have to correct. The status says why the Machine is kept, or that it is being updated. */
async function reportMistake(state: MachineState, activity: Activity, message: string): Promise<void> {
  if (!patched('drain-mistakes-of-kept-machines')) return showWait(state, activity);
  const { unblock } = activity;
  const note = `FailedPrecondition: ${message}${unblock === undefined ? '' : `. ${unblock}`}`;
  await report(state, activity, { stage: state.machine.stage, event: { reason: 'FailedDrain', note } });
}
