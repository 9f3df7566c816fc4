/** What the engine knows of a Machine. Plain types, whatever its API: the values are in signals and histories. */
import type { MachineEvent } from '../events.ts';
import type { FailureCode } from '../failures.ts';
import type { VmAddress } from '../provider.ts';
import type { ConditionStatuses, NodeView } from './node.ts';

/** Knobs of a machine, from its spec or else from flags. */
export interface MachineLimits {
  /** From when its workflow first sees the Machine until its Node is healthy. */
  readonly creationSeconds: number;
  /** From when its workflow first sees the deletion of the Machine until its pods are deleted instead of evicted. */
  readonly drainSeconds: number;
  /** How often an eviction that a budget refuses is tried again before the pod is deleted. */
  readonly maxEvictRetries: number;
  /** From when its Node is unhealthy, or from the end of the last outage, until it may be replaced. Left out: never. */
  readonly healthSeconds?: number;
  /** From a creation for which the cloud had no room until the next try. Left out: 10 minutes. */
  readonly noRoomSeconds?: number;
  /** How long an in-place update may take. Only in the defaults, as the next one. */
  readonly updateSeconds?: number;
  /**
   * How long a machine is preserved. Only in the defaults: the spec of a Machine is read when its preservation begins.
   */
  readonly preserveSeconds?: number;
  /**
   * By how much the clocks of the clusters of Machines and Nodes may differ. Only in the defaults. Left out: not at
   * all.
   */
  readonly clockSkewSeconds?: number;
  /** Nodes of the control plane are marked, drained and deleted with their machines. Only in the defaults. */
  readonly controlPlaneNodes?: true;
  /** Annotations of a Machine give its workflow orders. Only in the defaults. */
  readonly ordersInAnnotations?: true;
  /** Node condition types that have to be False, besides Ready that has to be True. */
  readonly nodeConditions: readonly string[];
  /** There is no target cluster: it is available when its VM runs. Left out otherwise. */
  readonly hasNoNode?: true;
}

/** What decisions about a machine need of its Machine object. Under 1 KB: it is in signals. */
export interface MachineSnapshot {
  readonly uid: string;
  readonly resourceVersion: string;
  /** metadata.creationTimestamp, RFC 3339, on the API server's clock. */
  readonly createdAt: string;
  /** Whether our finalizer is on it. */
  readonly managed: boolean;
  /** All finalizers, so that ours is added without losing others. */
  readonly finalizers: readonly string[];
  /** Whether it has a deletion priority, or its API knows none. */
  readonly hasPriority: boolean;
  /** metadata.deletionTimestamp, RFC 3339, on the API server's clock. */
  readonly deletingSince?: string;
  readonly providerID?: string;
  readonly nodeName?: string;
  /** A Node without provider ID that is older than this, RFC 3339, is not its Node. Left out: nobody knows. */
  readonly nodeNotBefore?: string;
  /** Template hash of its MachineSet. */
  readonly revision?: string;
  /** Whether a label asks for deletion without regard for pods. */
  readonly forceDeletion: boolean;
  /** A label asks for a drain without regard for pods, where the Machine stays. */
  readonly forceDrain?: true;
  /** An annotation asks for the deletion of its VM with the pods on it. */
  readonly skipDrain?: true;
  /** Each new text asks its workflow to try again now. */
  readonly retry?: string;
  /** Until when it is preserved, RFC 3339 in whole seconds. */
  readonly preservedUntil?: string;
  /** When its in-place update is late, RFC 3339; left out where the agent on its Node is not at it. */
  readonly updateDueBy?: string;
  readonly limits: MachineLimits;
  /** The Node's conditions as the Machine's status holds them. */
  readonly conditions: ConditionStatuses;
  /** What the provider wants to be given with its next call. */
  readonly lastKnownState?: string;
  /** How far it is. Decisions are made from this alone. */
  readonly stage: MachineStage;
  /** When it came into this stage, RFC 3339 in whole seconds, on Temporal's clock if a workflow has reported it. */
  readonly stageSince?: string;
  /** Only while it is unhealthy and asks to be replaced. */
  readonly request?: ReplacementRequest;
  /** Its Node joins with what keeps the autoscaler from removing it. Left out otherwise. */
  readonly createdInRollout?: true;
  /** No MachineSet owns it: nobody replaces it. Left out otherwise. */
  readonly alone?: true;
  /** Its API's own word for how far it is: for people, in `describe`, the search attribute and the CLI. */
  readonly phase: string;
  /** Name of the object that its VM is made from; or else text that differs when the inline source was changed. */
  readonly source: string;
  /** Fields for the `providerSpec` of its source where that has none. */
  readonly providerSpecDefaults?: Readonly<Record<string, unknown>>;
  /** Why no VM may be created for it: what is wrong with the object itself, with the field and the fix. */
  readonly problem?: string;
  /** What of the things that it wants its Node to have no API server accepts, with the fields and the fix. */
  readonly nodeProblem?: string;
  /** When somebody deletes its Node: the Machine is deleted, or its VM is replaced. */
  readonly onNodeDeleted: 'deleteMachine' | 'replaceVm';
  /** The annotation `replacedVm`: its VM was deleted to be replaced. Never where `onNodeDeleted` is `deleteMachine`. */
  readonly replacedVm?: string;
}

/**
 * A machine was unhealthy for longer than its health timeout and asks to be replaced. Times are those of its status.
 */
export interface ReplacementRequest {
  readonly askedAt: string;
  readonly unhealthySince: string;
  /** Its owner has decided so: the annotation `replace` names `askedAt`. */
  readonly isGranted: boolean;
}

/** What a watcher saw of one machine: the payload of the `observed` signal. */
export interface MachineObservation {
  readonly machine: MachineSnapshot;
  readonly node: NodeView;
  /**
   * Name of the MachineDeployment that controls its MachineSet; left out where there is none, or the watchers have not
   * seen the set.
   */
  readonly deployment?: string;
  /** What its preservation or in-place update needs; left out where that is nothing, or the Node is unknown. */
  readonly maintenance?: MaintenanceDue;
  /**
   * Version of the source and its Secrets, see SourceSnapshot. Only while a machine may wait for them, so that a
   * change of a source wakes no machine at rest.
   */
  readonly sourceVersion?: string;
  /**
   * How long the Nodes have been watched without an outage, ms. Only while the Machine asks to be replaced and its Node
   * can be seen.
   */
  readonly watchedMs?: number;
}

/** What a Node is drained for whose machine stays. */
export type MaintenancePurpose = 'preservation' | 'inPlaceUpdate';

/**
 * What the preservation or the in-place update of a machine needs next: a write, or a drain for the one or the other.
 */
export type MaintenanceDue = 'write' | 'drain' | 'drainForUpdate';

/**
 * What others ask of a Machine, as text to compare. What only its workflow writes is left out: a workflow is not woken
 * by its own writes.
 */
export function desiredState(machine: MachineSnapshot): string {
  const { uid, deletingSince, source, problem, forceDeletion, forceDrain, skipDrain, retry } = machine;
  const { limits, request, alone } = machine;
  const force = [forceDeletion, forceDrain === true, skipDrain === true, retry];
  const owned = [request?.isGranted === true, alone === true];
  return JSON.stringify([uid, deletingSince, source, problem, force, limits, ...owned]);
}

/** When its preservation and its in-place update end, as text to compare. Its workflow waits for the earlier one. */
export function endsOf({ preservedUntil, updateDueBy }: MachineSnapshot): string {
  return JSON.stringify([preservedUntil, updateDueBy]);
}

/** How far a Machine is, whatever its API calls that. */
export type MachineStage =
  | 'new' // no VM was asked for yet
  | 'creating' // a step of the creation was refused and is tried again
  | 'joining' // the VM exists and its Node has not joined
  | 'available' // the VM exists and there is no target cluster
  | 'running' // the Node is healthy
  | 'unhealthy' // the Node is unhealthy or missing
  | 'failed' // its owner replaces it
  | 'deleting'
  | 'updating'; // updated in place by somebody else: the workflow leaves it alone

/**
 * Whether the Node of a machine in this stage has joined for certain. One that is being deleted may never have had any.
 */
export function hasJoined(stage: MachineStage): boolean {
  return ['running', 'available', 'unhealthy', 'updating'].includes(stage);
}

/** Whether a machine in this stage is past its creation, for good or ill. */
export function isPastCreation(stage: MachineStage): boolean {
  return stage !== 'new' && stage !== 'creating' && stage !== 'joining';
}

/** What is being done with a Machine, or was done last: facts, which a dialect puts into its own words. */
export interface MachineStep {
  /**
   * `claimNode`: whether the Node that the cloud names is that of this VM. `equipNode`: whether it has what the Machine
   * says.
   */
  readonly kind: 'create' | 'initialize' | 'claimNode' | 'join' | 'equipNode' | 'health' | 'drain' | 'deleteVm';
  readonly state: 'processing' | 'failed' | 'successful';
  /** What a drain in process waits for that others have to do, for people. */
  readonly waitsFor?: string;
  /** Why it failed, for people. */
  readonly message?: string;
  /** Code of the failure. */
  readonly code?: FailureCode;
  /** The message is the cloud's. */
  readonly isFromCloud?: true;
}

/** What a workflow reports about its Machine. What it leaves out stays as it is. */
export interface MachineReport {
  readonly stage: MachineStage;
  /** When the stage was entered, RFC 3339; left out while the stage stays the same. */
  readonly stageSince?: string;
  readonly step?: MachineStep;
  /** Whether a timeout counts against the stage. */
  readonly isTimed?: boolean;
  readonly lastKnownState?: string;
  /** Name of its provider, for the log; left out where the run has not read the source. */
  readonly provider?: string;
  /** Name of its MachineDeployment, for the log; left out where the run does not know it. */
  readonly deployment?: string;
  /** Addresses of its VM. */
  readonly addresses?: readonly VmAddress[];
  /** Name of the Node that has joined; null: the VM that had it is gone. */
  readonly nodeName?: string | null;
  /** An Event on the Machine that goes with the report. Without a note it says what the dialect says of the step. */
  readonly event?: { readonly reason: MachineEvent; readonly note?: string };
}
