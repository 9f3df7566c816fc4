/** Since when machines count as available: pure. */
import type { OwnerApiAt } from '../dialect.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { isAtWork, isSpared } from './machines.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { groupByController } from './ownership.ts';

/** `spec.minReadySeconds` of a set that has the annotation which makes it count, and otherwise 0. */
export function minReadySecondsOf({ metadata, spec }: OwnerSet | OwnerDeployment): number {
  return metadata.annotations?.[names.enforceMinReadySeconds] === 'true' ? (spec?.minReadySeconds ?? 0) : 0;
}

/** What is wrong with the annotation or the field, with the fix; undefined when nothing is. */
export function problemOfMinReadySeconds(owner: OwnerSet | OwnerDeployment): string | undefined {
  const value = owner.metadata.annotations?.[names.enforceMinReadySeconds] ?? 'false';
  if (value !== 'true' && value !== 'false') {
    return `metadata.annotations['${names.enforceMinReadySeconds}'] is '${value}': set it to true, or remove it`;
  }
  const seconds = minReadySecondsOf(owner);
  if (seconds < 0) return `spec.minReadySeconds is ${seconds}: set it to 0 or more`;
  const { progressDeadlineSeconds: deadline } = (owner as OwnerDeployment).spec ?? {};
  if (deadline === undefined || seconds === 0 || seconds < deadline) return undefined;
  return (
    `spec.minReadySeconds is ${seconds}, and every rollout would be late: ` +
    `set it to less than spec.progressDeadlineSeconds, which is ${deadline}`
  );
}

/**
 * Whether a machine does its work: it is Running, or Available without a target cluster.
 * @param minReadySeconds since when at least
 */
export function isAvailable(api: OwnerApiAt, machine: KubeObject, minReadySeconds = 0): boolean {
  return isAtWork(api, machine) && (minReadySeconds === 0 || msLeft(api, machine, minReadySeconds) <= 0);
}

/** Whether a machine is preserved and not available: a rollout leaves it aside, and deletes it last. */
export function isSetAside(api: OwnerApiAt, machine: KubeObject, minReadySeconds?: number): boolean {
  return isSpared(api, machine) && !isAvailable(api, machine, minReadySeconds);
}

/** How long the first machine needs that works and is not available yet, ms; undefined: there is none. */
export function msUntilAvailable(
  api: OwnerApiAt,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
): number | undefined {
  const patient = sets.filter((set) => minReadySecondsOf(set) > 0);
  if (patient.length === 0) return undefined;
  const bySet = groupByController(machines);
  const left = patient.flatMap((set) =>
    (bySet.get(set.metadata.uid) ?? [])
      .filter((machine) => isAtWork(api, machine))
      .map((machine) => msLeft(api, machine, minReadySecondsOf(set)))
      .filter((ms) => ms > 0),
  );
  return left.length === 0 ? undefined : Math.min(...left);
}

function msLeft({ owner, nowMs }: OwnerApiAt, machine: KubeObject, minReadySeconds: number): number {
  return owner.machines.readySinceMs(machine) + minReadySeconds * 1_000 - nowMs;
}
