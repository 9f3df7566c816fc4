/** Counts of machines as the status of sets and deployments has them: pure. */

import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { toKubernetesTime } from '../time.ts';
import { boundsOf } from './bounds.ts';
import { canonical } from './canonical.ts';
import { isPreserved } from './deletion-order.ts';
import { controllerOf, currentSetOf, isActive, isAvailable } from './view.ts';

/** What the status of a set should say and does not, for a merge patch; undefined when it says it. */
export function toSetCounts(set: MachineSet, own: readonly Machine[]): object | undefined {
  const templateLabels = Object.entries(set.spec?.template?.metadata?.labels ?? {});
  const isFullyLabeled = ({ metadata }: Machine) =>
    templateLabels.every(([key, value]) => metadata.labels?.[key] === value);
  return changed(set.status, {
    replicas: own.length,
    fullyLabeledReplicas: own.filter(isFullyLabeled).length,
    readyReplicas: own.filter(isReady).length,
    availableReplicas: own.filter((machine) => isActive(machine) && isAvailable(machine)).length,
    failedMachines: summariesOf(own, new Map([[set.metadata.uid, set.metadata.name]])),
  });
}

/** The same for a deployment, with its condition Available. */
export function toDeploymentCounts(
  deployment: MachineDeployment,
  sets: readonly MachineSet[],
  machines: readonly Machine[],
  now: Date,
): object | undefined {
  const { status } = deployment;
  const current = currentSetOf(deployment, sets);
  const isUpdated = (machine: Machine) => current !== undefined && controllerOf(machine) === current.metadata.uid;
  const available = machines.filter((machine) => isActive(machine) && isAvailable(machine)).length;
  const desired = sets.reduce((sum, set) => sum + (set.spec?.replicas ?? 0), 0);
  const counts = changed(status, {
    replicas: machines.length,
    updatedReplicas: machines.filter(isUpdated).length,
    readyReplicas: machines.filter(isReady).length,
    availableReplicas: available,
    unavailableReplicas: Math.max(0, desired - available),
    failedMachines: summariesOf(machines, new Map(sets.map(({ metadata }) => [metadata.uid, metadata.name]))),
  });
  const conditions = withAvailable(deployment, available, now);
  return counts === undefined && conditions === undefined
    ? undefined
    : { ...counts, ...(conditions && { conditions }) };
}

function isReady(machine: Machine): boolean {
  return isActive(machine) && machine.status?.currentStatus?.phase === 'Running';
}

/** Machines whose last operation failed, as the autoscaler and people look for them. */
function summariesOf(machines: readonly Machine[], setNames: ReadonlyMap<string, string>): object[] {
  return machines
    .filter((machine) => machine.status?.lastOperation?.state === 'Failed' && !isPreserved(machine, Date.now()))
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .map((machine) => ({
      name: machine.metadata.name,
      ...(machine.spec?.providerID !== undefined && { providerID: machine.spec.providerID }),
      lastOperation: machine.status?.lastOperation,
      ownerRef: setNames.get(controllerOf(machine) ?? '') ?? '',
    }));
}

/** The fields that differ from what is there; counts of 0 and empty lists may be left out on the server. */
function changed(present: object | undefined, wanted: Readonly<Record<string, number | object[]>>): object | undefined {
  const known = (present ?? {}) as Readonly<Record<string, unknown>>;
  const different = Object.entries(wanted).filter(([field, value]) => canonical(known[field]) !== canonical(value));
  return different.length === 0 ? undefined : Object.fromEntries(different);
}

/** The conditions with Available brought up to date, or undefined when it is. */
function withAvailable({ spec, status }: MachineDeployment, available: number, now: Date): object[] | undefined {
  const isEnough = available >= (spec?.replicas ?? 0) - boundsOf(spec).maxUnavailable;
  const reason = isEnough ? 'MinimumReplicasAvailable' : 'MinimumReplicasUnavailable';
  const conditions = status?.conditions ?? [];
  const present = conditions.find(({ type }) => type === 'Available');
  if (present?.reason === reason) return undefined;

  const time = toKubernetesTime(now);
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
