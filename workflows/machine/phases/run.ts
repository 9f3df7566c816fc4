/** Phase run: the Machine's status follows its Node until somebody deletes one of them. */
import { sameConditions, stageByNode } from '../../../api/attention.ts';
import type { MachineStage } from '../../../api/model/machine.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { kubernetes } from '../kubernetes.ts';
import { interruptedFacts, isOutdated, syncNode } from '../node.ts';
import { putNode } from '../observe.ts';
import { again, type PhaseOutcome, waitFor } from '../outcome.ts';
import { type Activity, show, showWait } from '../progress.ts';
import type { Facts } from '../report.ts';
import type { MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { endCreation } from './join.ts';
import { nodeText, watching, watchUnhealthy } from './unhealthy.ts';

/** Never done: a machine runs until it is deleted. Without a change it costs nothing, but for one new run. */
export async function run(state: MachineState): Promise<PhaseOutcome> {
  if (['running', 'available'].includes(state.machine.stage)) await endCreation(state);
  await markInterruption(state);
  const { machine, node } = state;
  const stage = stageByNode(machine, node);
  const isInStep =
    node.state !== 'present' ||
    (node.managed && !isOutdated(state) && sameConditions(node.conditions, machine.conditions));
  if (stage === machine.stage && isInStep) {
    if (stage === 'unhealthy') return orEarlier(state, await watchUnhealthy(state));
    showWait(state, activityOf(state, stage));
    return orEarlier(state, waitFor());
  }
  show(state, activityOf(state, stage)); // before it is written: what is shown changes once
  await syncNode(state, stage === machine.stage ? { stage } : stageChange(state, stage));
  return again; // what was just read may say something else
}

/** Writes on the Node what the cloud has said of its VM. */
async function markInterruption(state: MachineState): Promise<void> {
  const { ref, machine, node, interruption } = state;
  if (interruption === undefined || node.state !== 'present') return;
  delete state.interruption;
  const isOfIt = machine.providerID !== undefined && vmOf(machine.providerID) === vmOf(interruption.providerID);
  if (!isOfIt || node.interruption !== undefined) return;
  const doing = 'marking the node: the cloud is about to take its VM away';
  show(state, { doing });
  putNode(
    state,
    await untilAnswered(state, doing, () => kubernetes.markInterrupted(ref, machine, interruption.reason)),
  );
}

function activityOf(state: MachineState, stage: MachineStage): Activity {
  if (stage === 'unhealthy') return watching(state);
  if (stage === 'updating') return updating(state);
  if (stage !== 'failed') return { doing: 'running' };
  const { preservedUntil: until } = state.machine;
  if (until !== undefined) return { doing: 'keeping the failed machine', waitingFor: 'its preservation to end', until };
  const nobody = 'No MachineSet owns this Machine, so nobody replaces it: delete it.';
  return { doing: 'waiting to be replaced', ...(state.machine.alone && { unblock: nobody }) };
}

function updating({ machine: { phase, updateDueBy: until } }: MachineState): Activity {
  if (until === undefined) return { doing: `its in-place update: ${phase}` };
  return { doing: 'its in-place update', waitingFor: 'the agent on its node to say how it went', until };
}

/** The same wait, which also ends when a preservation or an in-place update is over, and when a short run is to start. */
function orEarlier({ shortRunAtMs, machine }: MachineState, outcome: PhaseOutcome): PhaseOutcome {
  const { preservedUntil = '', updateDueBy = '' } = machine;
  const dueMs = [preservedUntil, updateDueBy].map((time) => Date.parse(time)).filter((ms) => ms > Date.now());
  const ends = [shortRunAtMs, ...dueMs].filter((each) => each !== undefined);
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
