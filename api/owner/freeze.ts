/**
 * Sets with too many machines are frozen: no machine is created in them. A safety net against whatever else creates
 * machines; the thresholds are those of machine-controller-manager (MCM). Pure.
 */
import type { OwnerApi } from '../dialect.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { toKubernetesTime } from '../time.ts';
import { boundsOf } from './bounds.ts';
import { isActive } from './machines.ts';
import type { OwnerCondition, OwnerDeployment, OwnerSet } from './objects.ts';

/** How far a set may overshoot, in machines. */
export interface FreezeLimits {
  /** Machines above replicas and surge at which a set is frozen. */
  readonly safetyUp: number;
  /** How many fewer than that thaw it. */
  readonly safetyDown: number;
}

/** A condition Frozen without its times. */
export type FrozenCondition = Required<Pick<OwnerCondition, 'reason' | 'message'>>;

/** Whether a set or deployment has the label of a freeze. */
export function isFrozen({ owner: { freeze } }: OwnerApi, { metadata }: KubeObject): boolean {
  return freeze !== undefined && metadata.labels?.[freeze.label] === freeze.value;
}

/** Whether a person asks that a set or deployment is thawed. */
export function isThawAsked({ owner: { freeze } }: OwnerApi, { metadata }: KubeObject): boolean {
  return freeze !== undefined && metadata.annotations?.[freeze.thawAnnotation] !== undefined;
}

/** The machines of a set, those that it has released included. */
export interface MachineCount {
  /** All that count for its freeze. */
  readonly count: number;
  /** Those of them that it has released, and that nobody has adopted since. */
  readonly released: number;
}

/**
 * How many machines count for the freeze of a set. A machine that it has made and released has a VM for which it makes
 * another one: labels that drift would otherwise make VMs without bound.
 * @param own machines that it owns
 * @param ownerless machines of its namespace that nobody controls
 */
export function countForFreeze(
  api: OwnerApi,
  { metadata }: OwnerSet,
  own: readonly KubeObject[],
  ownerless: readonly KubeObject[],
): MachineCount {
  const released = ownerless.filter(
    (machine) => releasedBy(machine) === metadata.name && isActive(api, machine),
  ).length;
  return { count: own.filter((machine) => isActive(api, machine)).length + released, released };
}

/** Name of the set that has released a machine. */
export function releasedBy({ metadata }: KubeObject): string | undefined {
  return metadata.annotations?.[names.releasedBy];
}

/**
 * Number of machines of a set that freezes it. As in MCM: twice the replicas of a set without a deployment; the
 * replicas and surge of the deployment for every set of it.
 */
export function freezeThreshold(
  api: OwnerApi,
  set: OwnerSet,
  deployment: OwnerDeployment | undefined,
  { safetyUp }: FreezeLimits,
): number {
  if (deployment === undefined) return 2 * (set.spec?.replicas ?? 0) + safetyUp;
  return (deployment.spec?.replicas ?? 0) + boundsOf(api, deployment).maxSurge + safetyUp;
}

/**
 * Whether a set is to be frozen. Between the thresholds, and during its deletion, it stays as it is.
 * @param count see `countForFreeze`
 * @param deployment the one that owns the set, if any
 */
export function isToBeFrozen(
  api: OwnerApi,
  set: OwnerSet,
  deployment: OwnerDeployment | undefined,
  count: number,
  limits: FreezeLimits,
): boolean {
  if (set.metadata.deletionTimestamp !== undefined) return isFrozen(api, set);
  const threshold = freezeThreshold(api, set, deployment, limits);
  if (count >= threshold) return true;
  return count > threshold - limits.safetyDown && isFrozen(api, set);
}

/** Merge patch of the label, which also consumes what a person has asked for; undefined when nothing changes. */
export function withFreezeLabel(api: OwnerApi, object: KubeObject, frozen: boolean): object | undefined {
  const { freeze } = api.owner;
  if (freeze === undefined) return undefined;
  const isLabelRight = isFrozen(api, object) === frozen;
  const isAsked = isThawAsked(api, object);
  if (isLabelRight && !isAsked) return undefined;
  return {
    metadata: {
      ...(!isLabelRight && { labels: { [freeze.label]: frozen ? freeze.value : null } }),
      ...(isAsked && { annotations: { [freeze.thawAnnotation]: null } }),
    },
  };
}

/**
 * All conditions with or without Frozen; undefined when nothing changes. One that says True already stays.
 * @param wanted what it says; undefined: not frozen
 */
export function withFrozenCondition(
  present: readonly OwnerCondition[],
  wanted: FrozenCondition | undefined,
  now: Date,
): readonly OwnerCondition[] | undefined {
  const found = present.find(({ type }) => type === 'Frozen');
  if ((found !== undefined) === (wanted !== undefined) && (found === undefined || found.status === 'True')) {
    return undefined;
  }
  const others = present.filter(({ type }) => type !== 'Frozen');
  if (wanted === undefined) return others;
  return [...others, { type: 'Frozen', status: 'True', lastTransitionTime: toKubernetesTime(now), ...wanted }];
}
