/**
 * What wakes a workflow: pure functions of API objects. Watchers use them to start and signal, workflows to close. While
 * they answer with nothing, the object is at rest and costs nothing. Plain code: workflow code imports this file.
 */
import type { MachineSnapshot, MachineStage } from './model/machine.ts';
import type { ConditionStatuses, NodeView } from './model/node.ts';
import type { OwnerView, SetView } from './model/owner.ts';
import { desiredReplicas } from './owner/replicas.ts';

/** Why a machine needs its workflow to act or to wait for something. */
export type Attention =
  | 'finalizer' // ours is not on the Machine yet
  | 'deletion' // the Machine is being deleted
  | 'stage' // the Machine is in a stage that its workflow has to end
  | 'vmMissing' // it names no VM, and its VM was replaced
  | 'nodeMissing' // it should have a Node and there is none
  | 'nodeDeleting' // somebody deleted the Node
  | 'nodeUnmanaged' // our finalizer or the back reference is not on the Node
  | 'nodeConditions' // the Node's conditions are not those in the Machine's status
  | 'nodeHealth'; // the Node's health says another stage

/** Stages that last until something happens. After `failed` its owner acts. */
const restingStages: readonly MachineStage[] = ['running', 'available', 'failed', 'updating'];

/**
 * Why a machine is not at rest. A Node whose state is unknown gives no reason: an outage is no reason to act.
 */
export function attention(machine: MachineSnapshot, node: NodeView): Attention[] {
  if (machine.deletingSince !== undefined) return machine.managed ? ['deletion'] : [];

  const found: Attention[] = [];
  if (!machine.managed) found.push('finalizer');
  if (!restingStages.includes(machine.stage)) found.push('stage');
  if (isBetweenVms(machine)) found.push('vmMissing');
  if (node.state === 'unknown') return found;
  if (node.state === 'absent') return machine.stage === 'running' ? [...found, 'nodeMissing'] : found;

  if (node.deleting) found.push('nodeDeleting');
  if (!node.managed) found.push('nodeUnmanaged');
  if (!sameConditions(node.conditions, machine.conditions)) found.push('nodeConditions');
  if (stageByNode(machine, node) !== machine.stage) found.push('nodeHealth');
  return found;
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
 * The stage that a machine should be in by its Node. Unhealthy or without its Node, `running` becomes `unhealthy`; a
 * healthy Node makes it `running`, the first time only when it is not starting up any more. An unknown Node changes nothing.
 */
export function stageByNode(machine: MachineSnapshot, node: NodeView): MachineStage {
  const { stage, limits } = machine;
  if (node.state === 'unknown' || stage === 'updating') return stage;
  if (node.state === 'absent' || !isHealthy(node, limits.nodeConditions))
    return stage === 'running' ? 'unhealthy' : stage;
  return node.startingUp && stage !== 'unhealthy' ? stage : 'running';
}

/** Whether the VM of a machine was deleted to be replaced, and its Node or its stage still says that it has one. */
export function isBetweenVms({ onNodeDeleted, providerID, nodeName, stage }: MachineSnapshot): boolean {
  if (onNodeDeleted !== 'replaceVm' || providerID !== undefined) return false;
  return nodeName !== undefined || stage === 'running' || stage === 'unhealthy';
}

/** Whether two sets of conditions have the same types with the same statuses. */
export function sameConditions(a: ConditionStatuses, b: ConditionStatuses): boolean {
  const types = Object.keys(a);
  return types.length === Object.keys(b).length && types.every((type) => a[type] === b[type]);
}

/** Why a MachineDeployment, or a MachineSet without one, needs its workflow: what is to be done, in words for people. */
const needTexts = {
  /** Ours is not on the owner or on one of its sets. */
  finalizer: 'put a finalizer on',
  /** It, or one of its sets, is to go. */
  deletion: 'finish a deletion',
  /** No set has the present template. */
  template: 'make the set of its template',
  /** A set or its machines are more or fewer than they should be. */
  replicas: 'bring its machines to their number',
  /** A Failed machine is to be replaced. */
  failed: 'replace Failed machines',
  /** A generation, a problem or annotations have not been taken note of. */
  observed: 'bring its status up to date',
  /** The rollout of the present template is not complete, or it is not said that it is paused. */
  progress: 'complete the rollout',
} as const;
export type OwnerNeed = keyof typeof needTexts;

/** What is to be done, as one text. */
export function toTasks(needs: readonly OwnerNeed[]): string {
  return needs.length === 0 ? 'nothing' : needs.map((need) => needTexts[need]).join(', ');
}

/** What has to be done for, or waited for by, the owner of machines. One that is not valid has to be told so. */
export function ownerNeeds(owner: OwnerView): OwnerNeed[] {
  if (owner.deleting) return owner.managed || owner.sets.some((set) => set.managed) ? ['deletion'] : [];
  if (owner.problem !== undefined) return owner.observed ? [] : ['observed'];

  const sets = owner.sets.filter((set) => !set.deleting);
  const needs: OwnerNeed[] = [];
  const desired = desiredReplicas(owner);
  const isOff = (set: SetView) => set.replicas !== desired.get(set.name) || set.active !== set.replicas;
  if (!owner.managed || sets.some((set) => !set.managed)) needs.push('finalizer');
  if (owner.sets.some((set) => set.deleting && (set.managed || set.total > 0))) needs.push('deletion');
  if (!owner.paused && !sets.some((set) => set.current)) needs.push('template');
  if (sets.some(isOff)) needs.push('replicas');
  if (sets.some((set) => set.failed > 0)) needs.push('failed');
  if (!owner.observed || sets.some((set) => !set.observed || !set.annotated)) needs.push('observed');
  if (owner.kind === 'MachineDeployment' && isRolling(owner)) needs.push('progress');
  return needs;
}

function isRolling({ paused, progress, sets }: OwnerView): boolean {
  if (paused) return progress !== rolloutPaused && progress !== rolloutLate;
  return progress !== rolloutComplete || sets.some((set) => !set.current && set.total > 0);
}

/** Reason of the condition Progressing once a rollout is complete; the cluster autoscaler waits for it. */
export const rolloutComplete = 'NewMachineSetAvailable';

/** Its reason while the deployment is paused. */
export const rolloutPaused = 'DeploymentPaused';

/** Its reason once the progress deadline has passed; being paused says no more. */
export const rolloutLate = 'ProgressDeadlineExceeded';
