/** One step of an owner of machines: what it works with, and whether what it was planned for still holds. */

import type { OwnerApi } from '../../api/dialect.ts';
import { dialectOf } from '../../api/dialects.ts';
import type { LimitClaim, LimitGrant, LimitScope, LimitWait } from '../../api/model/limits.ts';
import type { MachineLimits } from '../../api/model/machine.ts';
import type { OwnerPlan, OwnerView } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import type { MostReplacing } from '../../api/owner/health.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { isLone, isOrphaning } from '../../api/owner/view.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { FindOutage } from '../outage.ts';

/** Asks which machines an owner may create where its namespace limits them. The sets record their names already. */
export type ClaimMachines = (scope: LimitScope, claim: LimitClaim) => Promise<LimitGrant>;

export interface OwnerDeps {
  /** Cluster of deployments, sets and machines. */
  readonly control: KubeClient;
  /** Cluster of the nodes. */
  readonly target: KubeClient;
  readonly events: EventRecorder;
  /** How many unhealthy machines of an owner may be replaced at once. */
  readonly mostReplacing: MostReplacing;
  readonly findOutage: FindOutage;
  readonly claimMachines: ClaimMachines;
  /** What holds for machines whose spec says nothing. */
  readonly defaults: MachineLimits;
}

export type OwnerKind = OwnerView['kind'];

/** What every request for an owner needs. */
export interface OwnerContext {
  readonly deps: OwnerDeps;
  readonly api: OwnerApi;
  readonly sets: Resource<OwnerSet>;
  readonly deployments: Resource<OwnerDeployment>;
  readonly ref: ObjectRef;
  readonly kind: OwnerKind;
}

/** An owner as read live: a deployment, or a set that is its own owner. */
export type Owner =
  | { readonly deployment: OwnerDeployment; readonly set?: undefined }
  | { readonly deployment?: undefined; readonly set: OwnerSet };

/** What a step has found, for the next one. */
export interface StepResult {
  /** The owner is gone, or has changed since the plan was made: nothing was done. Left out otherwise. */
  readonly isVoid?: true;
  /** Why unhealthy machines are not replaced: how many Nodes are unhealthy together. */
  readonly outage?: string;
  /** Names of the machines of replacements that it has deleted; left out where there are none. */
  readonly replaced?: readonly string[];
  /** What a rollback has done, for people; left out where there was none. */
  readonly rolledBack?: string;
  /** A limit of the namespace keeps machines from being created; left out where none does. */
  readonly limited?: LimitWait & { readonly names: readonly string[] };
}

export interface Step extends OwnerContext {
  readonly plan: OwnerPlan;
  /** Aborts when nobody waits for the step any longer. */
  readonly signal: AbortSignal;
}

/** Requests of a step that are under way at once. */
const allAtOnce = (): number => 20;

/** As MCM's slow start: batches of 1, 2, 4, 8 and so on. Where the first request is refused, no other one is made. */
export const slowStart = (batches: number): number => 2 ** batches;

export function contextOf(deps: OwnerDeps, ref: ObjectRef, kind: OwnerKind): OwnerContext {
  const api = dialectOf(ref.dialect);
  return { deps, api, sets: api.kinds.set, deployments: api.kinds.deployment, ref, kind };
}

/** undefined: the owner is gone, or it is a set of a deployment. */
export async function readOwner({ deps, sets, deployments, ref, kind }: OwnerContext): Promise<Owner | undefined> {
  const { control } = deps;
  if (kind === 'MachineDeployment') {
    const deployment = await control.find(deployments, ref);
    return deployment?.metadata.uid === ref.uid ? { deployment } : undefined;
  }
  const set = await control.find(sets, ref);
  if (set?.metadata.uid !== ref.uid) return undefined;
  const controller = set.metadata.ownerReferences?.find((owner) => owner.controller);
  const { namespace } = ref;
  const deployment = controller && (await control.find(deployments, { namespace, name: controller.name }));
  return isLone(set, deployment) ? { set } : undefined;
}

/** The sets of a deployment, or the set that is its own owner. */
export async function ownSets({ deps, sets, ref, kind }: OwnerContext): Promise<OwnerSet[]> {
  const { items } = await deps.control.list(sets, { namespace: ref.namespace });
  return items.filter((set) => (kind === 'MachineSet' ? set.metadata.uid : controllerOf(set)) === ref.uid);
}

/** The owner, if it still has the planned generation; undefined also for one that was deleted with `--cascade=orphan`. */
export async function readAsPlanned(step: Step): Promise<Owner | undefined> {
  step.signal.throwIfAborted();
  const owner = await readOwner(step);
  const object: KubeObject | undefined = owner?.deployment ?? owner?.set;
  if (object === undefined || isOrphaning(object)) return undefined;
  return object.metadata.generation === step.plan.generation ? owner : undefined;
}

/**
 * Works on machines, some at a time, while owner and set are as planned. After an error no request is started, and the
 * error is thrown when all running requests have ended.
 * @param sizeOf how many are worked on at once after so many batches
 */
export async function inBatches<T extends { readonly set: string }>(
  step: Step,
  items: readonly T[],
  work: (item: T, set: OwnerSet, owner: Owner) => Promise<void>,
  sizeOf: (batches: number) => number = allAtOnce,
): Promise<void> {
  for (let batches = 0, start = 0; start < items.length; batches++) {
    const batch = items.slice(start, start + sizeOf(batches));
    start += batch.length;
    const owner = await readAsPlanned(step);
    if (owner === undefined) return;
    const found = new Map<string, OwnerSet>();
    for (const name of new Set(batch.map((item) => item.set))) {
      const set = await readSetAsPlanned(step, name);
      if (set !== undefined) found.set(name, set);
    }
    const outcomes = await Promise.allSettled(
      batch.map(async (item) => {
        const set = found.get(item.set);
        if (set !== undefined) await work(item, set, owner);
      }),
    );
    const refused = outcomes.find((outcome) => outcome.status === 'rejected');
    if (refused !== undefined) throw refused.reason;
  }
}

async function readSetAsPlanned(step: Step, name: string): Promise<OwnerSet | undefined> {
  const { deps, sets, ref } = step;
  const set = await deps.control.find(sets, { namespace: ref.namespace, name });
  return set !== undefined && isAsPlanned(step, set) ? set : undefined;
}

/** Whether a set, as it is now, is the one that the step was planned for. */
export function isAsPlanned({ ref, kind, plan }: Pick<Step, 'ref' | 'kind' | 'plan'>, set: OwnerSet): boolean {
  const planned = plan.sets.find(({ name }) => name === set.metadata.name);
  const isOurs = kind === 'MachineSet' || controllerOf(set) === ref.uid;
  const isTheOne = isOurs && set.metadata.uid === planned?.uid && !isOrphaning(set);
  return isTheOne && (set.spec?.replicas ?? 0) === planned.replicas;
}
