/**
 * The engine's own model: what workflows and watchers need to know of API objects, whatever their dialect. A dialect's
 * folder makes these from its objects. Plain types: workflow code imports this file, and the values live in histories.
 */

import type { MachineEvent } from './events.ts';
import type { FailureCode } from './failures.ts';
import type { Blocker } from './names.ts';
import type { ClassRef, SecretRef } from './provider.ts';

/** The APIs that Millwright serves. */
export type Dialect = 'gardener';

/** A Machine, MachineSet or MachineDeployment. The whole input of a workflow: the object itself is read live. */
export interface ObjectRef {
  readonly dialect: Dialect;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Which control cluster it is in: the UID of the watched namespace, where that is known. No other serves it. */
  readonly cluster?: string;
}

/** Life of a Machine as its status tells it; the names are machine-controller-manager's. */
export type MachinePhase =
  | ''
  | 'Pending'
  | 'Available'
  | 'Running'
  | 'Unknown'
  | 'Failed'
  | 'Terminating'
  | 'CrashLoopBackOff'
  | 'InPlaceUpdating'
  | 'InPlaceUpdateSuccessful'
  | 'InPlaceUpdateFailed';

/** Condition type to its status (`True`, `False`, `Unknown`). */
export type ConditionStatuses = Readonly<Record<string, string>>;

/** Knobs of a machine, from its spec or else from flags. */
export interface MachineLimits {
  /** From when its workflow first sees the Machine until its Node is healthy. */
  readonly creationSeconds: number;
  /** From when its workflow first sees the deletion of the Machine until its pods are deleted instead of evicted. */
  readonly drainSeconds: number;
  /** How often an eviction that a budget refuses is tried again before the pod is deleted. */
  readonly maxEvictRetries: number;
  /** Node condition types that have to be False, besides Ready that has to be True. */
  readonly nodeConditions: readonly string[];
}

/** What decisions about a machine need of its Machine object. Under 1 KB: it travels in signals. */
export interface MachineSnapshot {
  readonly uid: string;
  readonly resourceVersion: string;
  /** metadata.creationTimestamp, RFC 3339, on the API server's clock. */
  readonly createdAt: string;
  /** Whether our finalizer is on it. */
  readonly managed: boolean;
  /** All finalizers, so that ours is added without losing others. */
  readonly finalizers: readonly string[];
  /** Whether it has a deletion priority. */
  readonly prioritized: boolean;
  /** metadata.deletionTimestamp, RFC 3339, on the API server's clock. */
  readonly deletingSince?: string;
  readonly phase: MachinePhase;
  readonly class: { readonly kind: string; readonly name: string };
  readonly providerID?: string;
  readonly nodeName?: string;
  /** Name of the MachineDeployment, where the template names one. */
  readonly deployment?: string;
  /** Template hash of its MachineSet. */
  readonly revision?: string;
  /** Whether a label asks for deletion without regard for pods. */
  readonly forceDeletion: boolean;
  readonly limits: MachineLimits;
  /** The Node's conditions as the Machine's status holds them. */
  readonly conditions: ConditionStatuses;
  /** What the provider wants to be given with its next call. */
  readonly lastKnownState?: string;
}

/** What decisions about a machine need of its Node. */
export interface NodeSnapshot {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly name: string;
  readonly deleting: boolean;
  /** Whether it carries our finalizer and the back reference to its Machine. */
  readonly managed: boolean;
  readonly conditions: ConditionStatuses;
  /** A taint says that its critical components are not ready: it does not count as joined. */
  readonly startingUp: boolean;
}

/**
 * A Node as far as somebody can tell. `unknown`: the cache has not synced or the API server does not answer. That is
 * never the same as `absent`.
 */
export type NodeView =
  | { readonly state: 'unknown' }
  | { readonly state: 'absent' }
  | ({ readonly state: 'present' } & NodeSnapshot);

/** What a watcher saw of one machine: the payload of the `observed` signal. */
export interface MachineObservation {
  readonly machine: MachineSnapshot;
  readonly node: NodeView;
  /**
   * Version of the MachineClass and its Secrets, see ClassReading. Only while a machine may wait for them, so that a
   * change of a class wakes no machine at rest.
   */
  readonly classVersion?: string;
}

/** A MachineSet with the counts of its machines. */
export interface SetView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Whether it has the template that its MachineDeployment asks for. Always true for a set without a deployment. */
  readonly current: boolean;
  /** metadata.generation: another one is another spec, or a deletion. */
  readonly generation: number;
  readonly managed: boolean;
  readonly deleting: boolean;
  /** It is deleted, and its machines are to stay; left out where that is not so. */
  readonly orphans?: true;
  /** Whether its status says what the owner's workflow has to say of it: the generation, and no problem. */
  readonly observed: boolean;
  /**
   * Whether its annotations are as they should be: the present set tells `replicasToTell`, one of an older template that
   * is not empty what its deployment asks for; and none names a creation that is over, but while a rollout goes on.
   */
  readonly annotated: boolean;
  /** Replicas that it was told its deployment asks for; left out where it never was. */
  readonly told?: number;
  /** Whether no machine may be created in it: it or its deployment is frozen, or it is an old one of an update in place. */
  readonly closed: boolean;
  /** spec.replicas */
  readonly replicas: number;
  /** All Machine objects it owns, terminating ones included. */
  readonly total: number;
  /** Those that are not on their way out: no deletionTimestamp and not Terminating. */
  readonly active: number;
  /** Active ones that are Running or Available. */
  readonly available: number;
  /** Active ones that have not been available yet: nobody counts on them. */
  readonly starting: number;
  /** Active ones that are Failed and to be replaced. */
  readonly failed: number;
  /** Active ones beside those that somebody wants gone first; left out where there are none. */
  readonly marked?: number;
  /** Available ones beside those; left out where there are none of those. */
  readonly unmarked?: number;
  /** Those that were deleted because they had Failed, and are not gone yet. */
  readonly replacing: number;
}

/** How machines of older templates make way for those of the present one. */
export type UpdateStrategy = 'RollingUpdate' | 'Recreate' | 'InPlaceUpdate';

/** A MachineDeployment with its sets, or a MachineSet without a deployment with itself as its only set. */
export interface OwnerView {
  readonly kind: 'MachineDeployment' | 'MachineSet';
  readonly uid: string;
  readonly resourceVersion: string;
  /** metadata.generation: another one is another spec, or a deletion. */
  readonly generation: number;
  readonly managed: boolean;
  readonly deleting: boolean;
  /** It is deleted, and what it owns is to stay; left out where that is not so. */
  readonly orphans?: true;
  /** Whether it says what its workflow has to say of it: the generation, the revision, the problem if there is one. */
  readonly observed: boolean;
  /** Whether a change of the template has to wait. */
  readonly paused: boolean;
  /** Why nothing may be done for it but to delete it: what is wrong with its spec, with the field and the fix. */
  readonly problem?: string;
  readonly replicas: number;
  /** How machines of older templates make way; a set has none. */
  readonly strategy: UpdateStrategy;
  /** Machines that may exist above replicas; 0 for a set. */
  readonly maxSurge: number;
  /** Machines below replicas that may be available while others make way; 0 for a set. */
  readonly maxUnavailable: number;
  /** Reason of the condition Progressing; a set has none. */
  readonly progress?: string;
  /** Seconds without progress after which a rollout has failed. Left out: it never does. */
  readonly progressDeadlineSeconds?: number;
  /** Name and template hash that the set of the present template has or would get. */
  readonly template: { readonly setName: string; readonly hash: string };
  /** Oldest first. */
  readonly sets: readonly SetView[];
}

/**
 * The part of a Machine that others write, as text to compare: two snapshots with equal wishes ask for the same. What
 * only its workflow writes is left out, so that a workflow is not woken by its own writes.
 */
export function wishes(machine: MachineSnapshot): string {
  const { uid, deletingSince, class: machineClass, forceDeletion, limits } = machine;
  return JSON.stringify([uid, deletingSince, machineClass, forceDeletion, limits]);
}

/** Whether resourceVersion a is newer than b. They are decimal numbers of any length (Kubernetes 1.35, KEP-5504). */
export function isNewer(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}

/** What is being done with a Machine, as `status.lastOperation` tells it. */
export interface MachineOperation {
  readonly type: 'Create' | 'Update' | 'InPlaceUpdate' | 'DrainNode' | 'HealthCheck' | 'Delete';
  readonly state: 'Processing' | 'Failed' | 'Successful';
  readonly description: string;
  readonly errorCode?: FailureCode;
}

/** A change of a Machine's status. What it leaves out stays as it is. */
export interface StatusChange {
  readonly phase: MachinePhase;
  /** When the phase was entered, RFC 3339; left out while the phase stays the same. */
  readonly phaseSince?: string;
  readonly operation?: MachineOperation;
  /** Whether a time-out is running against the phase. */
  readonly timeoutActive?: boolean;
  readonly lastKnownState?: string;
  /** An Event on the Machine that goes with the change. Its note is the operation's description unless one is given. */
  readonly event?: { readonly reason: MachineEvent; readonly note?: string };
}

/** Where VMs of a Machine are: all that a provider needs to look for them there, and to delete them. */
export interface Place {
  readonly provider: string;
  readonly class: ClassRef;
  readonly providerSpec: unknown;
  readonly credentials: readonly SecretRef[];
}

/** A MachineClass and its Secrets, as far as they concern the creation and deletion of a VM. No secret is in it. */
export interface ClassReading {
  /** Differs whenever the class or one of its Secrets was changed, created or deleted. */
  readonly version: string;
  /** Left out where the class does not exist. */
  readonly cloud?: Place;
  /** Where the user data comes from. Personal: it has placeholders and has to be rendered for each machine. */
  readonly userData?: SecretRef & { readonly key: string; readonly personal: boolean };
  /** Why no VM can be created from it: names the object, the field and the fix. */
  readonly problem?: string;
}

/** A run of a workflow that has failed, as the one says that has taken over from it. */
export interface FailedRun {
  /** RFC 3339. */
  readonly at: string;
  /** `NonDeterminism`: its code was changed by an upgrade. Else the type of the failure. */
  readonly reason: string;
  /** At most 300 characters. */
  readonly message: string;
}

/** A machine that is to go. */
export interface Candidate {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Name of its MachineSet. */
  readonly set: string;
  readonly failed: boolean;
}

/**
 * An owner as read by quorum, with those of its machines that are to go, at most 100: Failed ones first, then the surplus
 * of each set in the order in which it goes.
 */
export interface OwnerReading {
  readonly view: OwnerView;
  readonly candidates: readonly Candidate[];
  readonly begun: readonly BegunCreation[];
}

/** Machines that somebody has begun to create in a set, and may still be creating. */
export interface BegunCreation {
  readonly set: string;
  /** All their names as the set's annotation has them, with commas. */
  readonly text: string;
  /** Those of them that no machine has. */
  readonly left: readonly string[];
}

/** What a rollout waits for, as read live. */
export interface Holdups {
  /** All machines that it waits for; `machines` are those of them that were made first, at most 20. */
  readonly count: number;
  /** Each with what it says of itself, at most 200 characters. */
  readonly machines: readonly { readonly name: string; readonly reason: string }[];
  /** Why a set does not get its machines, or may have no more. */
  readonly problem?: string;
  /** What most of the machines wait for. */
  readonly blockedOn: Blocker;
}

/** What to do for an owner in one step. */
export interface OwnerPlan {
  /** metadata.generation of the owner that it was made for: it holds for no other. */
  readonly generation: number;
  /** The sets that it was made for, with the replicas that they have once `scale` is done. */
  readonly sets: readonly PlannedSet[];
  /** Put our finalizer on the owner and its sets. */
  readonly addFinalizers: boolean;
  /** Make the set of the present template. */
  readonly createSet?: { readonly name: string; readonly hash: string; readonly replicas: number };
  /**
   * Change spec.replicas and annotations of sets. `told`: see `replicasToTell`; left out where it is what the owner asks
   * for. `finished`: text of a creation that is over.
   */
  readonly scale: readonly {
    readonly set: string;
    readonly replicas: number;
    readonly told?: number;
    readonly finished?: string;
  }[];
  /**
   * Machines to create, by name, so that a repeated step creates the same. `after`: the text of the creation that this
   * one goes on with. Where another has begun since, nothing is created.
   */
  readonly create: readonly {
    readonly set: string;
    readonly uid: string;
    readonly names: readonly string[];
    readonly after?: string;
  }[];
  /** Machines to delete. */
  readonly remove: readonly Candidate[];
  /** Sets that somebody deleted and whose machines are gone: take our finalizer off. */
  readonly releaseSets: readonly { readonly name: string; readonly uid: string }[];
  /** Everything of the owner is gone: delete its sets, if it has any, and let the owner go. */
  readonly release: boolean;
  /** Take note of the generation, and of how the rollout goes. `late`: what holds up one that has just become late. */
  readonly report?: { readonly progress?: string; readonly problem?: string; readonly late?: string };
}

/** A set as a step expects it, from its first change of a machine to its last. */
export interface PlannedSet {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly replicas: number;
}
