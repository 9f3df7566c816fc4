/** What the Node of a running machine lacks of what its Machine wants it to have. */
import { isNodeKept, type Standing, standing } from '../node.ts';
import type { PhaseOutcome } from '../outcome.ts';
import { again } from '../outcome.ts';
import type { Activity } from '../progress.ts';
import { findRemedy, report, seeLastError } from '../report.ts';
import type { MachineState } from '../state.ts';
import { correctIt } from './confirm.ts';

/** Says on the Machine what its Node lacks; undefined: nothing any more. */
export async function reportLack(state: MachineState, lack: string | undefined): Promise<PhaseOutcome> {
  const stage = 'running';
  if (lack === undefined) {
    await report(state, running(state, lack), { stage, step: { kind: 'equipNode', state: 'successful' } });
    delete state.reportedLack;
    return again;
  }
  const step = { kind: 'equipNode', state: 'failed', code: 'InvalidArgument', message: lack } as const;
  // What the API server refuses has an Event for each try already.
  const hasEvent = state.machine.nodeProblem === undefined;
  const event = { reason: 'NodeTemplateRefused', note: lack } as const;
  await report(state, running(state, lack), { stage, step, ...(!hasEvent && { event }) });
  state.reportedLack = lack;
  return again;
}

/** Blocked on a correction while nothing may be written to the Node, or it lacks something. */
export function running(state: MachineState, lack: string | undefined): Activity {
  const { deployment } = state;
  const { objection, ...said } = standing(state);
  if (objection !== undefined) return leavingAlone(state, objection, said);
  if (lack === undefined && isNodeKept(state))
    return { doing: 'running, although its node was deleted', unblock: 'To delete the node, delete the Machine.' };
  if (lack === undefined) return { doing: 'running' };
  const where = deployment === undefined ? 'of the Machine' : `in the template of MachineDeployment ${deployment}`;
  return {
    doing: 'running',
    waitingFor: `its node to have what it lacks: ${lack}`,
    blockedOn: 'MachineSpec',
    unblock: `Correct nodeTemplate ${where}; the change is picked up at once.`,
  };
}

/** While nothing may be written to the Node. */
function leavingAlone(
  state: MachineState,
  objection: string,
  { denial, failure }: Omit<Standing, 'objection'>,
): Activity {
  const common = { doing: 'running', waitingFor: `permission to mark its node: ${objection}` };
  if (denial !== undefined) return { ...common, blockedOn: 'MachineSpec', unblock: `${correctIt}.` };
  if (failure === undefined) return common;
  const { code, message, blockedOn } = failure;
  const waitingFor = `the cloud to say whose its node is: ${code}: ${message}`;
  return { ...common, waitingFor, blockedOn, unblock: findRemedy(state, blockedOn) ?? seeLastError };
}
