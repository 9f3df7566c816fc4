/**
 * What wakes a workflow: pure functions of API objects. Watchers use them to start and signal, workflows to close.
 * While they answer with nothing, the object is at rest and costs nothing. Plain code: workflow code imports this file.
 */
import { isPastCreation, type MachineSnapshot, type MachineStage, type MaintenanceDue } from './model/machine.ts';
import type { ConditionStatuses, NodeSnapshot, NodeView } from './model/node.ts';

/** Why a machine needs its workflow to act or to wait for something. */
export type Attention =
  | 'finalizer' // ours is not on the Machine yet
  | 'deletion' // the Machine is being deleted
  | 'stage' // the Machine is in a stage that its workflow has to end
  | 'vmMissing' // it names no VM, and its VM was replaced
  | 'nodeMissing' // it should have a Node and there is none
  | 'nodeDeleting' // somebody deleted the Node, and so the Machine
  | 'nodeUnmanaged' // our finalizer or the back reference is not on the Node
  | 'nodeOutdated' // the Node does not have what the Machine wants it to have
  | 'maintenance' // its preservation or in-place update begins, ends, or waits for a drain
  | 'nodeConditions' // the Node's conditions are not those in the Machine's status
  | 'nodeHealth'; // the Node's health says another stage

/** Stages that last until something happens. After `failed` its owner acts. */
const restingStages: readonly MachineStage[] = ['running', 'available', 'failed', 'updating'];

/** Stages of a machine that has a Node. */
const nodeStages: readonly MachineStage[] = ['running', 'updating'];

/**
 * Why a machine is not at rest. A Node whose state is unknown gives no reason: an outage is no reason to act.
 */
export function attention(machine: MachineSnapshot, node: NodeView, maintenance?: MaintenanceDue): Attention[] {
  if (machine.deletingSince !== undefined) return machine.managed ? ['deletion'] : [];

  const found: Attention[] = [];
  if (!machine.managed) found.push('finalizer');
  if (!restingStages.includes(machine.stage)) found.push('stage');
  if (isBetweenVms(machine)) found.push('vmMissing');
  if (maintenance !== undefined) found.push('maintenance');
  if (node.state === 'unknown' || machine.limits.hasNoNode) return found;
  if (node.state === 'absent') return nodeStages.includes(machine.stage) ? [...found, 'nodeMissing'] : found;

  if (isDeletionMeant(machine, node)) found.push('nodeDeleting');
  if (!node.managed && !node.deleting) found.push('nodeUnmanaged');
  if (node.outdated) found.push('nodeOutdated');
  if (!sameConditions(node.conditions, machine.conditions)) found.push('nodeConditions');
  if (stageByNode(machine, node) !== machine.stage) found.push('nodeHealth');
  return found;
}

/**
 * Whether whoever deletes a Node deletes its machine with it, or the VM of that. Not where the Node was not ready, once
 * the machine has joined: a cloud controller manager deletes such Nodes, and may be wrong.
 */
export function isDeletionMeant(
  { stage, onNodeDeleted }: MachineSnapshot,
  node: NodeSnapshot,
  hasJoined = isPastCreation(stage),
): boolean {
  const isKept = node.deletedUnready === true && onNodeDeleted === 'deleteMachine' && hasJoined;
  return node.deleting && !isKept;
}

/**
 * Whether a Node counts as healthy: it has conditions, Ready is True, and every named condition that is present is
 * False (so `Unknown` counts against it).
 */
export function isHealthy(
  node: { readonly conditions: ConditionStatuses },
  conditionTypes: readonly string[],
): boolean {
  const { conditions } = node;
  return conditions['Ready'] === 'True' && conditionTypes.every((type) => (conditions[type] ?? 'False') === 'False');
}

/**
 * The stage that a machine should be in by its Node. Where that says that its VM is about to be taken away, it has
 * `failed`. Unhealthy or without its Node, `running` becomes `unhealthy`, and so does `deleting` when the Machine is
 * not being deleted: a backup was restored. A healthy Node makes it `running`, the first time only when it is not
 * starting up any more. An update goes on without the Node until it is late. An unknown Node changes nothing, and
 * neither does one without a target cluster.
 */
export function stageByNode(machine: MachineSnapshot, node: NodeView): MachineStage {
  const { stage, limits, deletingSince, updateDueBy } = machine;
  if (node.state === 'unknown' || limits.hasNoNode) return stage;
  if (stage === 'updating') return node.state === 'absent' && updateDueBy === undefined ? 'unhealthy' : stage;
  const isKept = stage === 'deleting' && deletingSince === undefined;
  if (node.state === 'present' && node.interruption !== undefined)
    return stage === 'deleting' && !isKept ? stage : 'failed';
  if (node.state === 'absent' || !isHealthy(node, limits.nodeConditions))
    return stage === 'running' || isKept ? 'unhealthy' : stage;
  return node.startingUp && stage !== 'unhealthy' ? stage : 'running';
}

/** Whether the VM of a machine was deleted to be replaced, and the rest of it is not removed yet. */
export function isBetweenVms({ providerID, replacedVm }: MachineSnapshot): boolean {
  return providerID === undefined && replacedVm !== undefined;
}

/** Whether two sets of conditions have the same types with the same statuses. */
export function sameConditions(a: ConditionStatuses, b: ConditionStatuses): boolean {
  const types = Object.keys(a);
  return types.length === Object.keys(b).length && types.every((type) => a[type] === b[type]);
}
