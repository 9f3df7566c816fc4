/** Counts of machines in the status of sets and deployments: pure. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import type { KubeObject } from '../objects.ts';
import { toKubernetesTime } from '../time.ts';
import { isAvailable, minReadySecondsOf } from './availability.ts';
import { boundsOf } from './bounds.ts';
import { canonical } from './canonical.ts';
import { isActive, isKeptFailed } from './machines.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { controllerOf, groupByController } from './ownership.ts';
import { newSetAmong } from './view.ts';

/** The fields of a set's status that have to change, for a merge patch; undefined when none has to. */
export function toSetCounts(api: OwnerApiAt, set: OwnerSet, own: readonly KubeObject[]): object | undefined {
  const templateLabels = Object.entries(set.spec?.template?.metadata?.labels ?? {});
  const isFullyLabeled = ({ metadata }: KubeObject) =>
    templateLabels.every(([key, value]) => metadata.labels?.[key] === value);
  const { preservedCounts, autoPreservation: { isKept } = {} } = api.owner;
  return changed(set.status, {
    replicas: own.length,
    fullyLabeledReplicas: own.filter(isFullyLabeled).length,
    readyReplicas: countReady(api, own),
    availableReplicas: countAvailable(api, set, own),
    ...countPreserved(api, own),
    ...(isKept &&
      preservedCounts && {
        [preservedCounts.automatic]: own.filter((each) => isActive(api, each) && isKept(each)).length,
      }),
    ...api.owner.toFailedMachines(own, new Map([[set.metadata.uid, set.metadata.name]]), api.nowMs),
  });
}

/** The same for a deployment, with its condition Available. */
export function toDeploymentCounts(
  api: OwnerApiAt,
  deployment: OwnerDeployment,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
): object | undefined {
  const newSet = newSetAmong(api, deployment, sets);
  const isUpdated = (machine: KubeObject) => newSet !== undefined && controllerOf(machine) === newSet.metadata.uid;
  const bySet = groupByController(machines);
  const availableOf = (set: OwnerSet) => countAvailable(api, set, bySet.get(set.metadata.uid) ?? []);
  const available = sets.reduce((sum, set) => sum + availableOf(set), 0);
  const desired = sets.reduce((sum, set) => sum + (set.spec?.replicas ?? 0), 0);
  const setNames = new Map(sets.map(({ metadata }) => [metadata.uid, metadata.name]));
  const counts = changed(deployment.status, {
    replicas: machines.length,
    updatedReplicas: machines.filter(isUpdated).length,
    readyReplicas: countReady(api, machines),
    availableReplicas: available,
    unavailableReplicas: Math.max(0, desired - available),
    ...countPreserved(api, machines),
    ...api.owner.toFailedMachines(machines, setNames, api.nowMs),
  });
  const preserved = machines.filter((machine) => isKeptFailed(api, machine)).length;
  const conditions = withAvailable(api, deployment, available + preserved);
  return counts === undefined && conditions === undefined
    ? undefined
    : { ...counts, ...(conditions && { conditions }) };
}

function countPreserved(api: OwnerApiAt, machines: readonly KubeObject[]): Record<string, number> {
  const { preservedCounts } = api.owner;
  const count = machines.filter((machine) => isKeptFailed(api, machine)).length;
  return preservedCounts === undefined ? {} : { [preservedCounts.failed]: count };
}

function countAvailable(api: OwnerApiAt, set: OwnerSet, own: readonly KubeObject[]): number {
  const minReadySeconds = minReadySecondsOf(set);
  return own.filter((machine) => isActive(api, machine) && isAvailable(api, machine, minReadySeconds)).length;
}

function countReady(api: OwnerApi, machines: readonly KubeObject[]): number {
  const isReady = (machine: KubeObject) => isActive(api, machine) && api.owner.machines.stageOf(machine) === 'running';
  return machines.filter(isReady).length;
}

/** The fields that differ from `present`; the server may leave out counts of 0 and empty lists. */
function changed(present: object | undefined, wanted: Readonly<Record<string, number | object[]>>): object | undefined {
  const known = (present ?? {}) as Readonly<Record<string, unknown>>;
  const different = Object.entries(wanted).filter(([field, value]) => canonical(known[field]) !== canonical(value));
  return different.length === 0 ? undefined : Object.fromEntries(different);
}

/**
 * All conditions with a new Available, or undefined where Available stays as it is.
 * @param available with the Failed machines that are preserved
 */
function withAvailable(api: OwnerApiAt, deployment: OwnerDeployment, available: number): object[] | undefined {
  const isEnough = available >= (deployment.spec?.replicas ?? 0) - boundsOf(api, deployment).maxUnavailable;
  const reason = isEnough ? 'MinimumReplicasAvailable' : 'MinimumReplicasUnavailable';
  const conditions = deployment.status?.conditions ?? [];
  const present = conditions.find(({ type }) => type === 'Available');
  if (present?.reason === reason) return undefined;

  const time = toKubernetesTime(new Date(api.nowMs));
  const message = isEnough ? 'Deployment has minimum availability.' : 'Deployment does not have minimum availability.';
  const condition = {
    type: 'Available',
    status: isEnough ? 'True' : 'False',
    lastUpdateTime: time,
    lastTransitionTime: time,
    reason,
    message,
  };
  return [...conditions.filter(({ type }) => type !== 'Available'), condition];
}
