/** Phase run: the Machine's status follows its Node until somebody deletes one of them. */
import { patched } from '@temporalio/workflow';
import { sameConditions, stageByNode } from '../../../api/attention.ts';
import type { MachineStage } from '../../../api/model/machine.ts';
import { isNodeKept, isNodeUnnamed, isOutdated, isSyncHeld, lackOf, objectionTo, syncNode } from '../node.ts';
import { again, type PhaseOutcome, waitFor } from '../outcome.ts';
import { type Activity, showWait } from '../progress.ts';
import { held, heldUntilMs, isHeld, isMaintenanceHeld, showTry } from '../repeats.ts';
import { type Facts, report } from '../report.ts';
import type { MachineState } from '../state.ts';
import { isQuestionDue } from './confirm.ts';
import { interruptedFacts, markInterruption } from './interruption.ts';
import { endCreation } from './join.ts';
import { reportLack, running } from './node-lack.ts';
import { nodeText, noOwner, watching, watchUnhealthy } from './unhealthy.ts';

/** Never done: a machine runs until it is deleted. Without a change it costs nothing, but for one new run. */
export async function run(state: MachineState): Promise<PhaseOutcome> {
  if (['running', 'available'].includes(state.machine.stage)) await endCreation(state);
  await markInterruption(state);
  const { machine, node } = state;
  if (isKeptVm(state)) return lookForVm(state);
  const stage = stageOf(state);
  const isInStep =
    node.state !== 'present' ||
    ((node.managed || isNodeKept(state) || objectionTo(state) !== undefined) &&
      !isOutdated(state) &&
      sameConditions(node.conditions, machine.conditions));
  const isHeldBack = !(stage === machine.stage && isInStep) && isSyncHeld(state, stage);
  if ((stage === machine.stage && isInStep) || isHeldBack) {
    if (isQuestionDue(state)) return again;
    const lack = lackOf(state);
    if (stage === 'running' && stage === machine.stage && lack !== state.reportedLack && patched('lack-of-the-node'))
      return reportLack(state, lack);
    if (stage === 'unhealthy' && stage === machine.stage) return orEarlier(state, await watchUnhealthy(state));
    const activity = activityOf(state, stage);
    const isFinalizerHeld = !machine.managed && isHeld(state, 'finalizer');
    const isWaiting = isHeldBack || isFinalizerHeld || (state.maintenance !== undefined && isMaintenanceHeld(state));
    const isShown = Number.isFinite(heldUntilMs(state)) && (isWaiting || !patched('what-is-kept-is-not-shown'));
    showWait(state, isShown ? held(state, activity) : activity);
    return orEarlier(state, waitFor());
  }
  showTry(state, activityOf(state, stage)); // before it is written: what is shown changes once
  await syncNode(state, stage === machine.stage ? { stage } : stageChange(state, stage));
  return again; // what was just read may say something else
}

function stageOf({ machine, node }: MachineState): MachineStage {
  const stage = stageByNode(machine, node);
  const isRecent = stage === 'unhealthy' && ['updating', 'deleting'].includes(machine.stage);
  return isRecent && !patched('unhealthy-without-its-node') ? machine.stage : stage;
}

/**
 * Whether a backup from before the deletion of a Machine was restored that has no Node: only its cloud knows of its VM.
 */
function isKeptVm({ machine: { stage, limits } }: MachineState): boolean {
  return limits.hasNoNode === true && stage === 'deleting' && patched('kept-vm-without-a-node');
}

async function lookForVm(state: MachineState): Promise<PhaseOutcome> {
  const step = { kind: 'create', state: 'processing' } as const;
  await report(state, { doing: 'asking the cloud about the VM' }, { stage: 'joining', step, isTimed: true });
  return again;
}

function activityOf(state: MachineState, stage: MachineStage): Activity {
  if (stage === 'unhealthy') return watching(state);
  if (stage === 'updating') return updating(state);
  if (stage !== 'failed') return running(state, state.reportedLack);
  const { preservedUntil: until } = state.machine;
  if (until !== undefined) return { doing: 'keeping the failed machine', waitingFor: 'its preservation to end', until };
  return { doing: 'waiting to be replaced', ...(state.machine.alone && { unblock: noOwner }) };
}

function updating(state: MachineState): Activity {
  const { phase, updateDueBy: until } = state.machine;
  if (until === undefined) return { doing: `its in-place update: ${phase}` };
  const doing = 'its in-place update';
  if (state.node.state !== 'absent') return { doing, waitingFor: 'the agent on its node to say how it went', until };
  const { blockedOn, unblock } = watching(state);
  const waitingFor = `node ${nodeText(state)} to exist again, and the agent on it to say how the update went`;
  return { doing, waitingFor, until, ...(blockedOn && { blockedOn }), ...(unblock !== undefined && { unblock }) };
}

/**
 * The same wait, which also ends when a preservation or an in-place update is over, when the cloud is asked again whose
 * the Node is or what it is called, and when a short run is to start.
 */
function orEarlier(state: MachineState, outcome: PhaseOutcome): PhaseOutcome {
  const { shortRunAtMs, machine, nodeQuestion, nextPollMs } = state;
  const { preservedUntil = '', updateDueBy = '' } = machine;
  const askAgainMs = objectionTo(state) === undefined ? undefined : nodeQuestion?.untilMs;
  const timesMs = [Date.parse(preservedUntil), Date.parse(updateDueBy), askAgainMs ?? NaN];
  const dueMs = timesMs.filter((ms) => ms > Date.now());
  const askForNameMs = isNodeUnnamed(state) && patched('node-name-from-the-cloud') ? nextPollMs : undefined;
  const ends = [shortRunAtMs, askForNameMs, ...dueMs].filter((each) => each !== undefined);
  if (outcome.kind !== 'wait' || ends.length === 0) return outcome;
  return waitFor(Math.min(outcome.timeoutMs ?? Number.POSITIVE_INFINITY, ...ends.map((each) => each - Date.now())));
}

function stageChange(state: MachineState, stage: MachineStage): Facts {
  if (stage === 'failed' && state.node.state === 'present') return interruptedFacts(state.node);
  if (stage === 'running') {
    return { stage, step: { kind: 'health', state: 'successful' }, isTimed: false, event: { reason: 'NodeHealthy' } };
  }
  return {
    stage,
    step: { kind: 'health', state: 'processing' },
    isTimed: true,
    event: { reason: 'NodeUnhealthy', note: `Node ${nodeText(state)} is not healthy` },
  };
}
