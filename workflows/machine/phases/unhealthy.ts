/** Part of phase run: a machine whose Node is unhealthy for longer than its health timeout asks to be replaced. */
import { stageByNode } from '../../../api/attention.ts';
import { kubernetes } from '../kubernetes.ts';
import { isNodeDeletedUnready, isNodeUnnamed, unhealthyConditions } from '../node.ts';
import { again, type PhaseOutcome, waitFor } from '../outcome.ts';
import { type Activity, showWait } from '../progress.ts';
import { report } from '../report.ts';
import { type MachineState, timeIn } from '../state.ts';
import { refresh, untilAnswered } from '../wait.ts';

/** How often a machine without an owner looks whether an outage is over, ms. */
const outagePauseMs = 60_000;
/**
 * Within which the Nodes of an outage become Unknown, ms: the node lifecycle controller looks every 5 s, and kubelets
 * report every 10 s. A cloud controller manager may have deleted the first of them before.
 */
const outageSpreadMs = 60_000;

/**
 * Waits for the Node to become healthy until the health timeout. Then the machine asks to be replaced, and fails when
 * its owner has decided so. Nobody decides for one without an owner: that fails unless many Nodes are unhealthy.
 */
export async function watchUnhealthy(state: MachineState): Promise<PhaseOutcome> {
  const { machine } = state;
  const { request } = machine;
  const dueMs = healthDeadlineMs(state);
  if (Date.now() < dueMs) {
    if (request !== undefined) return withdraw(state);
    const isLimited = Number.isFinite(dueMs);
    showWait(state, { ...watching(state), ...(isLimited && { until: new Date(dueMs).toISOString() }) });
    return waitFor(isLimited ? dueMs - Date.now() : undefined);
  }
  if (request === undefined) return ask(state);
  const isDecided = machine.alone ?? request.isGranted;
  if (isDecided && state.heardAskedAt === request.askedAt) return fail(state);
  showWait(state, waitingForOwner(state));
  return waitFor();
}

/** Name of the Node, and what is wrong with it as far as anybody can see. Follows the word `node`. */
export function nodeText({ machine, node }: MachineState): string {
  if (node.state === 'present') return `${node.name} (${unhealthyConditions(node, machine.limits)})`;
  const name = machine.nodeName ?? `of VM ${machine.providerID}`;
  if (node.state === 'unknown') return `${name} (it cannot be read)`;
  const lack = machine.nodeName === undefined ? 'its name is not known' : 'it does not exist';
  return `${name} (${node.notOwn === undefined ? lack : `not its own: ${node.notOwn}`})`;
}

/** What a machine with an unhealthy Node shows. */
export function watching(state: MachineState): Activity {
  const { machine, node } = state;
  const isOfOther = node.state === 'absent' && node.notOwn !== undefined;
  const nameIt = ' If it does, name its node on the Machine: docs/how-to/orphan-sweep.md#restore-a-machine.';
  const cause = isOfOther
    ? 'If the provider ID or the node name of the Machine was edited, correct it: the Machine is Running again.'
    : `See in the cloud whether VM ${machine.providerID} is there and runs.${isNodeUnnamed(state) ? nameIt : ''}`;
  return {
    doing: 'watching an unhealthy node',
    waitingFor: `node ${nodeText(state)} to become healthy`,
    blockedOn: 'NodeHealth',
    unblock: `${cause} ${machine.alone ? noOwner : anotherOne}`,
  };
}

/** What to do with a machine that no set owns. */
export const noOwner = 'No MachineSet owns this Machine, so nobody replaces it: delete it if you do not need it.';
const anotherOne = 'Delete the Machine to have another one.';

function waitingForOwner(state: MachineState): Activity {
  const { deployment, machine } = state;
  const owner = deployment === undefined ? 'its MachineSet' : `MachineDeployment ${deployment}`;
  const decision = machine.alone ? 'the controllers to see its Node' : `${owner} to replace it`;
  return {
    ...watching(state),
    doing: 'waiting to be replaced',
    waitingFor: `${decision}, or node ${nodeText(state)} to become healthy`,
    ...(!machine.alone && { unblock: `\`millwright describe\` of ${owner} says what holds it. ${anotherOne}` }),
  };
}

/**
 * When the machine asks to be replaced, ms since the epoch: a health timeout after it became unhealthy, or after the
 * last outage, and a minute at most where its Node was deleted while it was not ready. Infinity: never.
 */
function healthDeadlineMs(state: MachineState): number {
  const { stageSince, limits } = state.machine;
  const { healthSeconds = Number.POSITIVE_INFINITY } = limits;
  const timeoutMs = Math.min(healthSeconds * 1_000, isNodeDeletedUnready(state) ? outageSpreadMs : Infinity);
  const sinceMs = stageSince === undefined ? 0 : Date.parse(stageSince);
  return Math.max(sinceMs, state.outageEndMs) + timeoutMs;
}

/** Reads Machine and Node. Answers whether the health timeout has passed by what they are now. */
async function isOverdue(state: MachineState): Promise<boolean> {
  await refresh(state);
  const { machine, node } = state;
  const isUnhealthy = machine.stage === 'unhealthy' && stageByNode(machine, node) === 'unhealthy';
  return isUnhealthy && Date.now() >= healthDeadlineMs(state);
}

async function ask(state: MachineState): Promise<PhaseOutcome> {
  if (!(await isOverdue(state))) return again;
  const message = `${lateText(state)}: it asks to be replaced`;
  await report(state, waitingForOwner(state), {
    stage: 'unhealthy',
    step: { kind: 'health', state: 'failed', message },
  });
  return again;
}

/** There was an outage in which nobody could see the Node, or the timeout was changed: the time starts again. */
async function withdraw(state: MachineState): Promise<PhaseOutcome> {
  await report(state, watching(state), { stage: 'unhealthy', step: { kind: 'health', state: 'processing' } });
  return again;
}

async function fail(state: MachineState): Promise<PhaseOutcome> {
  if (!(await isOverdue(state))) return again;
  const { machine, ref } = state;
  if (machine.alone) {
    const look = () => kubernetes.viewOutage(ref, machine, Date.now());
    const { outage } = await untilAnswered(state, 'looking for an outage', look);
    if (outage !== null) {
      const waitingFor = `the end of an outage: ${outage}`;
      showWait(state, { ...waitingForOwner(state), waitingFor, until: timeIn(outagePauseMs) });
      return waitFor(outagePauseMs);
    }
  }
  const message = lateText(state);
  await report(
    state,
    { doing: 'waiting to be replaced' },
    {
      stage: 'failed',
      step: { kind: 'health', state: 'failed', message },
      isTimed: false,
      event: { reason: 'HealthTimeout', note: message },
    },
  );
  return again;
}

function lateText(state: MachineState): string {
  if (isNodeDeletedUnready(state)) return `node ${nodeText(state)} was deleted while it was not ready`;
  return `node ${nodeText(state)} is unhealthy for more than ${state.machine.limits.healthSeconds} s`;
}
