/** How far the limits of a namespace are used, as its objects say: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { LimitReading, LimitUse } from '../model/limits.ts';
import type { KubeObject } from '../objects.ts';
import { recordedCreation } from './creations.ts';
import { isBetweenAttempts } from './failed-attempts.ts';
import { lowestOf, surgeOf } from './limit-use.ts';
import { limitsOf } from './limits.ts';
import { isActive, isBeingReplaced } from './machines.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { controllerOf, groupByController } from './ownership.ts';
import { isLone } from './view.ts';

/** The objects of a namespace that its limits concern. */
export interface LimitedObjects {
  readonly deployments: readonly OwnerDeployment[];
  readonly sets: readonly OwnerSet[];
  readonly machines: readonly KubeObject[];
}

/**
 * How far the limits of a namespace are used. The values of all owners are in `limits`, also of those that use nothing.
 * @param claiming UIDs of owners that are part of the reading whatever they use
 */
export function toLimitReading(
  api: OwnerApi,
  { deployments, sets, machines }: LimitedObjects,
  claiming: readonly string[] = [],
): LimitReading {
  const bySet = groupByController(machines);
  const existing = new Set(machines.map(({ metadata }) => metadata.name));
  const useOf = (kind: 'MachineDeployment' | 'MachineSet', owner: OwnerSet, own: readonly OwnerSet[]): LimitUse => {
    const theirs = own.flatMap((set) => bySet.get(set.metadata.uid) ?? []);
    const open = own.filter((set) => set.metadata.deletionTimestamp === undefined);
    const trying = open.filter((set) => !isBetweenAttempts(set));
    const activeIn = (set: OwnerSet) =>
      (bySet.get(set.metadata.uid) ?? []).filter((machine) => isActive(api, machine)).length;
    const limits = limitsOf(owner);
    return {
      kind,
      name: owner.metadata.name,
      uid: owner.metadata.uid,
      ...(limits && { limits }),
      provisioning: countProvisioning(api, theirs),
      surplus: theirs.filter((machine) => !isBeingReplaced(machine)).length - (owner.spec?.replicas ?? 0),
      wanted: open.reduce((sum, set) => sum + Math.max(0, (set.spec?.replicas ?? 0) - activeIn(set)), 0),
      pending: trying.flatMap((set) => recordedCreation(set)?.names.filter((name) => !existing.has(name)) ?? []),
    };
  };
  const ofDeployments = deployments.map((deployment) => {
    const own = sets.filter((set) => controllerOf(set) === deployment.metadata.uid);
    return useOf('MachineDeployment', deployment, own);
  });
  const known = new Map(deployments.map((deployment) => [deployment.metadata.uid, deployment]));
  const ofSets = sets
    .filter((set) => isLone(set, known.get(controllerOf(set) ?? '')))
    .map((set) => useOf('MachineSet', set, [set]));
  const setUids = new Set(sets.map(({ metadata }) => metadata.uid));
  const unowned = machines.filter((machine) => !setUids.has(controllerOf(machine) ?? ''));
  const ofMachines: LimitUse = {
    ...{ kind: 'Machine', name: 'machines without a set', uid: '' },
    ...{ provisioning: countProvisioning(api, unowned), surplus: 0, wanted: 0, pending: [] },
  };
  const all = [...ofDeployments, ...ofSets, ofMachines];
  return {
    limits: lowestOf(all.map(({ limits }) => limits ?? {})),
    uses: all.filter(
      (use) => use.provisioning > 0 || surgeOf(use, 0) > 0 || use.wanted > 0 || claiming.includes(use.uid),
    ),
  };
}

function countProvisioning(api: OwnerApi, machines: readonly KubeObject[]): number {
  return machines.filter((machine) => isProvisioning(api, machine)).length;
}

/**
 * Whether a machine counts for the limit of machines that do not run yet. Every machine names its VM a moment before
 * its status says so: unlike in `isStarting`, one that names a VM and says nothing counts.
 */
export function isProvisioning(api: OwnerApi, machine: KubeObject): boolean {
  return isActive(api, machine) && ['new', 'creating', 'joining'].includes(api.owner.machines.stageOf(machine));
}
