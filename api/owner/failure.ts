/** The condition ReplicaFailure: why a set does not get its machines, or does not lose them. Pure. */
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';

/** What the condition says: one of `machineSetConditionReasons` or InvalidSpec, and why. */
export interface ReplicaFailure {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}

/** What the status of a set tells; undefined when it tells no failure. */
export function failureOfSet({ status }: MachineSet): ReplicaFailure | undefined {
  return status?.machineSetCondition?.find(({ type }) => type === 'ReplicaFailure');
}

/** The same for a deployment. */
export function failureOfDeployment({ status }: MachineDeployment): ReplicaFailure | undefined {
  return status?.conditions?.find(({ type }) => type === 'ReplicaFailure');
}

/** What a deployment has to tell: the failure of its present set, or else of the oldest that has one. */
export function failureOfSets(own: readonly MachineSet[], current: MachineSet | undefined): ReplicaFailure | undefined {
  return [...(current === undefined ? [] : [current]), ...own].map(failureOfSet).find(Boolean);
}

export function isSameFailure(a: ReplicaFailure | undefined, b: ReplicaFailure | undefined): boolean {
  return a?.reason === b?.reason && a?.message === b?.message;
}
