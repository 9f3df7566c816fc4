/** One step of an owner of machines: what it works with, and whether what it was planned for still holds. */

import type { OwnerApi } from '../../api/dialect.ts';
import { dialectOf } from '../../api/dialects.ts';
import type { LimitClaim, LimitGrant, LimitScope, LimitWait } from '../../api/model/limits.ts';
import type { MachineLimits } from '../../api/model/machine.ts';
import type { FailedAttempts, OwnerPlan, OwnerView } from '../../api/model/owner.ts';
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
  /** Whether rollouts keep the autoscaler from removing Nodes. Default: they do. */
  readonly keepsAutoscalerAway?: boolean;
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
  /** What the API server does not keep of what was written, for people; left out where it keeps all. */
  readonly notKept?: string;
  /** Failed attempts that were recorded on sets, by name; null: they count no more. Left out where there are none. */
  readonly attempts?: Readonly<Record<string, FailedAttempts | null>>;
  /** A limit of the namespace keeps machines from being created; left out where none does. */
  readonly limited?: LimitWait & { readonly names: readonly string[] };
}

export interface Step extends OwnerContext {
  readonly plan: OwnerPlan;
  /** Aborts when nobody waits for the step any longer. */
  readonly signal: AbortSignal;
  /** What is not kept, each with its object. */
  notKept?: string[];
  /** Failed attempts that were recorded on sets, by name; null: they count no more. */
  attempts?: Readonly<Record<string, FailedAttempts | null>>;
  /** What was read of the owner and its sets last: it serves for a while. */
  reading?: Reading;
}

/** An owner and its sets, undefined where they are not as planned. */
interface Reading {
  readonly owner: Owner | undefined;
  /** By name, those that were read. */
  readonly sets: Map<string, OwnerSet | undefined>;
  /** By performance.now(). */
  readonly readMs: number;
  /** How many machines it has served for. */
  served: number;
}

/** For how many machines a reading serves, and for how long, ms. */
const readingServes = { machines: 20, ms: 1_000 };

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

/**
 * The owner, if it still has the planned generation; undefined also for one that was deleted with `--cascade=orphan`.
 */
export async function readAsPlanned(step: Step): Promise<Owner | undefined> {
  return (await readNow(step)).owner;
}

async function readNow(step: Step): Promise<Reading> {
  step.signal.throwIfAborted();
  const readMs = performance.now();
  const read = await readOwner(step);
  const object: KubeObject | undefined = read?.deployment ?? read?.set;
  const isPlanned = object?.metadata.generation === step.plan.generation;
  const owner = object !== undefined && isPlanned && !isOrphaning(object) ? read : undefined;
  const reading = { owner, sets: new Map(), readMs, served: 0 };
  step.reading = reading;
  return reading;
}

/** A reading that still serves, or a new one. */
async function freshReading(step: Step): Promise<Reading> {
  const { reading } = step;
  const isFresh = reading !== undefined && reading.served < readingServes.machines;
  return isFresh && performance.now() < reading.readMs + readingServes.ms ? reading : readNow(step);
}

/**
 * Works on machines, some at a time, while owner and set are as planned: they are read again after 20 machines, and
 * after a second. After an error no request is started, and the error is thrown when all running requests have ended.
 * @param sizeOf how many are worked on at once after so many batches
 */
export async function inBatches<T extends { readonly set: string }>(
  step: Step,
  items: readonly T[],
  work: (item: T, set: OwnerSet, owner: Owner) => Promise<void>,
  sizeOf: (batches: number) => number = allAtOnce,
): Promise<void> {
  for (let batches = 0, start = 0; start < items.length; batches++) {
    step.signal.throwIfAborted();
    const batch = items.slice(start, start + sizeOf(batches));
    start += batch.length;
    const reading = await freshReading(step);
    const { owner, sets } = reading;
    if (owner === undefined) return;
    reading.served += batch.length;
    for (const { set: name } of batch) {
      const key = { namespace: step.ref.namespace, name };
      if (!sets.has(name)) noteSet(step, name, await step.deps.control.find(step.sets, key));
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

/** A set that was read or written just now: it is not read again while the reading serves. */
export function noteSet(step: Step, name: string, set: OwnerSet | undefined): void {
  step.reading?.sets.set(name, set !== undefined && isAsPlanned(step, set) ? set : undefined);
}

/** Whether a set, as it is now, is the one that the step was planned for. */
export function isAsPlanned({ ref, kind, plan }: Pick<Step, 'ref' | 'kind' | 'plan'>, set: OwnerSet): boolean {
  const planned = plan.sets.find(({ name }) => name === set.metadata.name);
  const isOurs = kind === 'MachineSet' || controllerOf(set) === ref.uid;
  const isTheOne = isOurs && set.metadata.uid === planned?.uid && !isOrphaning(set);
  return isTheOne && (set.spec?.replicas ?? 0) === planned.replicas;
}
