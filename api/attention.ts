/**
 * What wakes a workflow: pure functions of API objects. Watchers use them to start and signal, workflows to close. While
 * they answer with nothing, the object is at rest and costs nothing. Plain code: workflow code imports this file.
 */
import type { ConditionStatuses, MachinePhase, MachineSnapshot } from './model/machine.ts';
import type { NodeView } from './model/node.ts';
import type { OwnerView, SetView } from './model/owner.ts';
import { desiredReplicas } from './owner/replicas.ts';

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
