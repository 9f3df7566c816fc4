/** A step of an owner of machines: what it is, and whether what it was planned for still holds. */

import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerPlan } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { controllerOf, isLone, isOrphaning } from '../../api/owner/view.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventRecorder } from '../../kube/events.ts';

export interface OwnerDeps {
  /** Cluster of deployments, sets and machines. */
  readonly control: KubeClient;
  /** Cluster of the nodes. */
  readonly target: KubeClient;
  readonly events: EventRecorder;
}

export type OwnerKind = 'MachineDeployment' | 'MachineSet';

/** An owner as read live: a deployment, or a set that looks after itself. */
export type Owner =
  | { readonly deployment: MachineDeployment; readonly set?: undefined }
  | { readonly deployment?: undefined; readonly set: MachineSet };

export interface Step {
  readonly deps: OwnerDeps;
  readonly ref: ObjectRef;
  readonly kind: OwnerKind;
  readonly plan: OwnerPlan;
  /** Aborts when nobody waits for the step any longer. */
  readonly signal: AbortSignal;
}

/** Requests of a step that are under way at once. */
const batchSize = 20;

/** undefined: the owner is gone, or it is a set that has an owner. */
export async function readOwner(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<Owner | undefined> {
  if (kind === 'MachineDeployment') {
    const deployment = await control.find(machineDeployments, ref);
    return deployment?.metadata.uid === ref.uid ? { deployment } : undefined;
  }
  const set = await control.find(machineSets, ref);
  if (set?.metadata.uid !== ref.uid) return undefined;
  const controller = set.metadata.ownerReferences?.find((owner) => owner.controller);
  const { namespace } = ref;
  const deployment = controller && (await control.find(machineDeployments, { namespace, name: controller.name }));
  return isLone(set, deployment) ? { set } : undefined;
}

/** The sets of a deployment, or the set that is its own owner. */
export async function ownSets(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<MachineSet[]> {
  const { items } = await control.list(machineSets, { namespace: ref.namespace });
  return items.filter((set) => (kind === 'MachineSet' ? set.metadata.uid : controllerOf(set)) === ref.uid);
}

/** The owner, if it is still of the generation that was planned for. One that is deleted without what it owns is not. */
export async function readAsPlanned({ deps, ref, kind, plan, signal }: Step): Promise<Owner | undefined> {
  signal.throwIfAborted();
  const owner = await readOwner(deps.control, ref, kind);
  const found = owner?.deployment ?? owner?.set;
  if (found === undefined || isOrphaning(found)) return undefined;
  return found.metadata.generation === plan.generation ? owner : undefined;
}

/**
 * Works on machines, some at a time, as long as owner and set are as planned. After an error nothing more is begun, and
 * it is thrown when nothing is under way any more.
 */
export async function inBatches<T extends { readonly set: string }>(
  step: Step,
  items: readonly T[],
  work: (item: T, set: MachineSet, owner: Owner) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += batchSize) {
    const batch = items.slice(start, start + batchSize);
    const owner = await readAsPlanned(step);
    if (owner === undefined) return;
    const sets = new Map<string, MachineSet>();
    for (const name of new Set(batch.map((item) => item.set))) {
      const set = await readSetAsPlanned(step, name);
      if (set !== undefined) sets.set(name, set);
    }
    const outcomes = await Promise.allSettled(
      batch.map(async (item) => {
        const set = sets.get(item.set);
        if (set !== undefined) await work(item, set, owner);
      }),
    );
    const refused = outcomes.find((outcome) => outcome.status === 'rejected');
    if (refused !== undefined) throw refused.reason;
  }
}

async function readSetAsPlanned(step: Step, name: string): Promise<MachineSet | undefined> {
  const { deps, ref } = step;
  const set = await deps.control.find(machineSets, { namespace: ref.namespace, name });
  return set !== undefined && isAsPlanned(step, set) ? set : undefined;
}

/** Whether a set, as it is now, is the one that the step was planned for. */
export function isAsPlanned({ ref, kind, plan }: Step, set: MachineSet): boolean {
  const planned = plan.sets.find(({ name }) => name === set.metadata.name);
  const isOurs = kind === 'MachineSet' || controllerOf(set) === ref.uid;
  const isTheOne = isOurs && set.metadata.uid === planned?.uid && !isOrphaning(set);
  return isTheOne && (set.spec?.replicas ?? 0) === planned.replicas;
}
