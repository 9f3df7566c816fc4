/** Which unhealthy machines an owner replaces, and which replacements are under way: pure. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import type { Asking, HealthReading, OwnerHealth, OwnerView } from '../model/owner.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { isActive, isBeingReplaced, isStarting, isToBeReplaced } from './machines.ts';
import { controllerOf } from './ownership.ts';

/** How many unhealthy machines of an owner may be replaced at once: a number, or a percentage of its replicas. */
export type MostReplacing = { readonly count: number } | { readonly percent: number };

/** The number for an owner. A percentage above 0 is rounded down, but to 1 at least. */
export function mostReplacing(most: MostReplacing, replicas: number): number {
  if ('count' in most) return most.count;
  return most.percent === 0 ? 0 : Math.max(1, Math.floor((replicas * most.percent) / 100));
}

/** undefined: there are none. @param machines those of all sets of an owner */
export function healthOf(api: OwnerApiAt, machines: readonly KubeObject[]): OwnerHealth | undefined {
  const asking = machines.filter((machine) => isAsking(api, machine)).length;
  const replacing = countReplacements(api, machines);
  return asking + replacing === 0 ? undefined : { asking, replacing };
}

/** @param limit most machines that are named */
export function readHealth(
  api: OwnerApiAt,
  view: OwnerView,
  machines: readonly KubeObject[],
  most: MostReplacing,
  limit: number,
): HealthReading | undefined {
  if (view.health === undefined) return undefined;
  const open = view.sets.filter(({ closed, deleting }) => !closed && !deleting);
  const setOf = (machine: KubeObject) => open.find(({ uid }) => uid === controllerOf(machine))?.name;
  const asking = machines
    .filter((machine) => isAsking(api, machine) && setOf(machine) !== undefined)
    .toSorted((a, b) => (ageText(api, a) < ageText(api, b) ? -1 : 1));
  const filled = new Set(machines.map(predecessorOf));
  const unfilled = machines.filter((machine) => isBeingReplaced(machine) && isLeaving(api, machine));
  return {
    most: mostReplacing(most, view.replicas),
    asking: asking.slice(0, limit).map((machine) => toAsking(api, machine, setOf(machine) ?? '')),
    unfilled: unfilled.map(({ metadata }) => metadata.name).filter((name) => !filled.has(name)),
  };
}

function toAsking({ owner }: OwnerApi, machine: KubeObject, set: string): Asking {
  const { name, uid, resourceVersion } = machine.metadata;
  return { name, uid, resourceVersion, set, askedAt: owner.machines.requestOf(machine)?.askedAt ?? '' };
}

function ageText({ owner }: OwnerApi, machine: KubeObject): string {
  return `${owner.machines.requestOf(machine)?.unhealthySince} ${machine.metadata.name}`;
}

function isAsking(api: OwnerApi, machine: KubeObject): boolean {
  return isActive(api, machine) && api.owner.machines.requestOf(machine)?.isGranted === false;
}

/** A replacement is one, however many of the machines that were made for it have failed. */
function countReplacements(api: OwnerApiAt, machines: readonly KubeObject[]): number {
  const involved = machines.filter((machine) => isLeaving(api, machine) || isArriving(api, machine));
  const followed = new Set(involved.map(predecessorOf));
  return involved.filter(({ metadata }) => !followed.has(metadata.name)).length;
}

/**
 * Whether a machine is replaced because it was unhealthy, or was made in place of such a machine and has failed itself.
 */
export function isLeaving(api: OwnerApiAt, machine: KubeObject): boolean {
  if (isActive(api, machine) && api.owner.machines.requestOf(machine)?.isGranted) return true;
  const isOfReplacement = machine.metadata.annotations?.[names.replace] !== undefined || predecessorOf(machine);
  return Boolean(isOfReplacement) && (isToBeReplaced(api, machine) || isBeingReplaced(machine));
}

/** Whether a machine was made in place of an unhealthy one and has not been available yet. */
function isArriving(api: OwnerApi, machine: KubeObject): boolean {
  return predecessorOf(machine) !== undefined && isActive(api, machine) && isStarting(api, machine);
}

function predecessorOf({ metadata }: KubeObject): string | undefined {
  return metadata.annotations?.[names.replaces];
}
