/**
 * What wakes a workflow: pure functions of API objects. Watchers use them to start and signal, workflows to close. While
 * they answer with nothing, the object is at rest and costs nothing. Plain code: workflow code imports this file.
 */
import type { ConditionStatuses, MachinePhase, MachineSnapshot } from './model/machine.ts';
import type { NodeView } from './model/node.ts';

/** Why a machine needs its workflow to act or to wait for something. */
export type Attention =
  | 'finalizer' // ours is not on the Machine yet
  | 'deletion' // the Machine is to go
  | 'phase' // its phase is one that something has to come out of
  | 'nodeMissing' // it should have a Node and there is none
  | 'nodeDeleting' // somebody deleted the Node: the Machine goes with it
  | 'nodeUnmanaged' // our finalizer or the back reference is not on the Node
  | 'nodeConditions' // the Node's conditions are not those in the Machine's status
  | 'nodeHealth'; // the Node's health says another phase

/** Phases of an update in place, which is nobody's business here: such machines are left alone. */
const inPlacePhases: readonly MachinePhase[] = ['InPlaceUpdating', 'InPlaceUpdateSuccessful', 'InPlaceUpdateFailed'];

/** Phases that last without anybody's help. Failed is one: what follows is up to the owner. */
const restingPhases: readonly MachinePhase[] = ['Running', 'Available', 'Failed', ...inPlacePhases];

/**
 * What about a machine is not at rest. A Node whose state is unknown raises nothing: an outage is no reason to act.
 */
export function attention(machine: MachineSnapshot, node: NodeView): Attention[] {
  if (machine.deletingSince !== undefined) return machine.managed ? ['deletion'] : [];

  const found: Attention[] = [];
  if (!machine.managed) found.push('finalizer');
  if (!restingPhases.includes(machine.phase)) found.push('phase');
  if (node.state === 'unknown') return found;
  if (node.state === 'absent') return machine.phase === 'Running' ? [...found, 'nodeMissing'] : found;

  if (node.deleting) found.push('nodeDeleting');
  if (!node.managed) found.push('nodeUnmanaged');
  if (!sameConditions(node.conditions, machine.conditions)) found.push('nodeConditions');
  if (phaseByNode(machine, node) !== machine.phase) found.push('nodeHealth');
  return found;
}

/**
 * Whether a Node counts as healthy: it has conditions, Ready is True, and every named condition that is present is
 * False (so `Unknown` counts against it). As machine-controller-manager judges.
 */
export function isHealthy(
  node: { readonly conditions: ConditionStatuses },
  conditionTypes: readonly string[],
): boolean {
  const { conditions } = node;
  return conditions['Ready'] === 'True' && conditionTypes.every((type) => (conditions[type] ?? 'False') === 'False');
}

/**
 * The phase that a machine should be in by its Node. Unhealthy or without its Node, Running becomes Unknown; a healthy
 * Node makes it Running, the first time only when it is not starting up any more. What nobody can see changes nothing.
 */
export function phaseByNode(machine: MachineSnapshot, node: NodeView): MachinePhase {
  const { phase, limits } = machine;
  if (node.state === 'unknown' || inPlacePhases.includes(phase)) return phase;
  if (node.state === 'absent' || !isHealthy(node, limits.nodeConditions))
    return phase === 'Running' ? 'Unknown' : phase;
  return node.startingUp && phase !== 'Unknown' ? phase : 'Running';
}

/** Whether two sets of conditions have the same types with the same statuses. */
export function sameConditions(a: ConditionStatuses, b: ConditionStatuses): boolean {
  const types = Object.keys(a);
  return types.length === Object.keys(b).length && types.every((type) => a[type] === b[type]);
}
