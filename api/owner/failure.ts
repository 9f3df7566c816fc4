/** The condition ReplicaFailure: why a set does not get its machines, or does not lose them. Pure. */
import type { OwnerApi } from '../dialect.ts';
import type { OwnerCondition, OwnerDeployment, OwnerSet } from './objects.ts';

/** What the condition says. */
export interface ReplicaFailure {
  /** FailedCreate, FailedDelete or InvalidSpec. */
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}

/** Reason of the condition Progressing while the API server refuses the set of the current template. */
export const setRefused = 'MachineSetCreateError';

/** The conditions of a set. */
export function conditionsOfSet({ owner }: OwnerApi, { status }: OwnerSet): readonly OwnerCondition[] {
  const lists = (status ?? {}) as Readonly<Record<string, readonly OwnerCondition[] | undefined>>;
  return lists[owner.setConditions] ?? [];
}

/** The failure in the status of a set; undefined without one. */
export function failureOfSet(api: OwnerApi, set: OwnerSet): ReplicaFailure | undefined {
  return conditionsOfSet(api, set).find(({ type }) => type === 'ReplicaFailure');
}

/** The same for a deployment. */
export function failureOfDeployment({ status }: OwnerDeployment): ReplicaFailure | undefined {
  return status?.conditions?.find(({ type }) => type === 'ReplicaFailure');
}

/** The failure that a deployment has to report: that of its new set, or else of the oldest set that has one. */
export function failureOfSets(
  api: OwnerApi,
  own: readonly OwnerSet[],
  newSet: OwnerSet | undefined,
): ReplicaFailure | undefined {
  return [...(newSet === undefined ? [] : [newSet]), ...own].map((set) => failureOfSet(api, set)).find(Boolean);
}

/** What the API server refuses to a deployment: machines, or the set of its current template. */
export function refusalOf(
  api: OwnerApi,
  deployment: OwnerDeployment,
  own: readonly OwnerSet[],
  newSet: OwnerSet | undefined,
): ReplicaFailure | undefined {
  const refused = deployment.status?.conditions?.find(({ reason }) => reason === setRefused);
  return failureOfSets(api, own, newSet) ?? (newSet === undefined ? refused : undefined);
}

export function isSameFailure(a: ReplicaFailure | undefined, b: ReplicaFailure | undefined): boolean {
  return a?.reason === b?.reason && a?.message === b?.message;
}
