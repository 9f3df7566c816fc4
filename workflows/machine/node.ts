/** What the phases do about a machine's Node. */
import { isHealthy } from '../../api/attention.ts';
import type { MachineLimits, StatusChange } from '../../api/model/machine.ts';
import type { NodeSnapshot } from '../../api/model/node.ts';
import { kubernetes, type Life, now, takeMachine, untilAnswered } from './life.ts';
import { again, type PhaseOutcome } from './phase.ts';
import { showPhase, showProgress } from './progress.ts';

/** Whether the Node is there and healthy and nothing says that it is still starting up. */
export function isJoinable({ machine, node, isUninitialized }: Life): boolean {
  if (node.state !== 'present' || node.deleting || node.startingUp || isUninitialized) return false;
  return isHealthy(node, machine.limits.nodeConditions);
}

/** What keeps a Node from being healthy: `Ready is Unknown, DiskPressure is True`. */
export function ailment({ conditions }: NodeSnapshot, { nodeConditions }: MachineLimits): string {
  const bad = nodeConditions.filter((type) => (conditions[type] ?? 'False') !== 'False');
  const types = conditions['Ready'] === 'True' ? bad : ['Ready', ...bad];
  return types.map((type) => `${type} is ${conditions[type] ?? 'not told'}`).join(', ');
}

/** Whether somebody deleted the Node: its Machine goes with it. */
export function isNodeDeleted({ node }: Life): boolean {
  return node.state === 'present' && node.deleting;
}

/** Deletes the Machine, because its Node was. */
export async function followNode(life: Life): Promise<PhaseOutcome> {
  showProgress(life, { doing: 'deleting the Machine, because its node was deleted' });
  takeMachine(life, await untilAnswered(life, 'deleting the Machine', () => kubernetes.deleteMachine(life.ref)));
  return again;
}

/**
 * Marks the Node as ours and copies its conditions to the Machine, with a change of phase. Answers whether the phase was
 * written: it is not when the Node, read in the same step, says that another one is right by now.
 */
export async function syncNode(life: Life, change: Omit<StatusChange, 'phaseSince'>): Promise<boolean> {
  const full: StatusChange = { ...change, ...(change.phase !== life.machine.phase && { phaseSince: now() }) };
  const seen = await untilAnswered(life, 'synchronising the node', () =>
    kubernetes.syncNode(life.ref, life.machine, full),
  );
  life.node = seen.node;
  takeMachine(life, seen.machine);
  showPhase(life);
  return seen.machine.phase === change.phase;
}

/** Removes the Secrets that were made for this machine alone, if there may be any. */
export async function removeUserData(life: Life): Promise<void> {
  if (!life.mayHaveUserData) return;
  await untilAnswered(life, 'removing the user data', () => kubernetes.removeUserData(life.ref));
  life.mayHaveUserData = false;
}
