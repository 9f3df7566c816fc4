/** Machines as their owner counts and orders them: pure. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';

/** Whether a machine is not being deleted. */
export function isActive({ owner }: OwnerApi, machine: KubeObject): boolean {
  return machine.metadata.deletionTimestamp === undefined && owner.machines.stageOf(machine) !== 'deleting';
}

/**
 * Whether a machine has not been available yet. One that names a VM and says nothing may have been: a backup without
 * status was restored. So has one that has joined by its Node.
 */
export function isStarting(
  { owner: { machines }, joined }: OwnerApi & Pick<OwnerApiAt, 'joined'>,
  machine: KubeObject,
): boolean {
  if (joined?.has(machine.metadata.uid)) return false;
  const stage = machines.stageOf(machine);
  return stage === 'new' ? !machines.hasVm(machine) : stage === 'creating' || stage === 'joining';
}

/**
 * Whether the autoscaler has scaled a machine down: it is deleted although the replicas may have been raised since. One
 * that is preserved stays until that is over, or until it is the last.
 * @param owner its deployment, or else its set
 */
export function isUnneeded(api: OwnerApiAt, owner: KubeObject, machine: KubeObject): boolean {
  return api.owner.scaleDown?.isUnneeded(machine, owner) === true && !isSpared(api, machine);
}

/** Whether a machine has Failed and is not preserved. */
export function isToBeReplaced({ owner: { machines }, nowMs }: OwnerApiAt, machine: KubeObject): boolean {
  return machines.stageOf(machine) === 'failed' && !machines.isPreserved(machine, nowMs);
}

/** Whether a machine has Failed and is preserved: nobody waits for it to be available. */
export function isKeptFailed(api: OwnerApiAt, machine: KubeObject): boolean {
  const hasFailed = isActive(api, machine) && api.owner.machines.stageOf(machine) === 'failed';
  return hasFailed && !isToBeReplaced(api, machine);
}

/** Whether a machine is preserved at this moment, Failed or not: it is deleted after all others. */
export function isSpared({ owner, nowMs }: OwnerApiAt, machine: KubeObject): boolean {
  return owner.machines.isSpared(machine, nowMs);
}

/** Whether a machine is Running, or Available without a target cluster. */
export function isAtWork({ owner }: OwnerApi, machine: KubeObject): boolean {
  const stage = owner.machines.stageOf(machine);
  return stage === 'running' || stage === 'available';
}

/** Whether a machine was deleted because it had Failed. */
export function isBeingReplaced({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.annotations?.[names.replaced] !== undefined;
}

/** Whether the autoscaler or a person wants a machine deleted before others of its set. */
export function isMarked({ owner, nowMs }: OwnerApiAt, machine: KubeObject): boolean {
  return owner.machines.isMarked(machine, nowMs);
}

/**
 * Compares two machines for deletion: by the rank of their API, then older first. The name breaks ties, so that every
 * reader sees one order.
 */
export function byDeletionOrder({ owner, nowMs }: OwnerApiAt): (a: KubeObject, b: KubeObject) => number {
  return (a, b) =>
    compareLists(owner.machines.deletionRank(a, nowMs), owner.machines.deletionRank(b, nowMs)) ||
    compare(Date.parse(a.metadata.creationTimestamp), Date.parse(b.metadata.creationTimestamp)) ||
    compare(a.metadata.name, b.metadata.name);
}

function compareLists(a: readonly number[], b: readonly number[]): number {
  for (const [i, number] of a.entries()) {
    const order = compare(number, b[i] ?? 0);
    if (order !== 0) return order;
  }
  return 0;
}

/** Strings by code unit: the same order on every machine, whatever its locale. */
function compare<T extends number | string>(a: T, b: T): number {
  return a < b ? -1 : Number(a > b);
}
