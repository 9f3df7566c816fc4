/** What the engine knows of a Machine. Plain types, whatever its API: the values are in signals and histories. */
import type { MachineEvent } from '../events.ts';
import type { FailureCode } from '../failures.ts';
import type { NodeView } from './node.ts';

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

/** What a watcher saw of one machine: the payload of the `observed` signal. */
export interface MachineObservation {
  readonly machine: MachineSnapshot;
  readonly node: NodeView;
  /**
   * Version of the MachineClass and its Secrets, see SourceSnapshot. Only while a machine may wait for them, so that a
   * change of a class wakes no machine at rest.
   */
  readonly classVersion?: string;
}

/**
 * The part of a Machine that others write, as text to compare: two snapshots with equal wishes ask for the same. What
 * only its workflow writes is left out, so that a workflow is not woken by its own writes.
 */
export function desiredState(machine: MachineSnapshot): string {
  const { uid, deletingSince, class: machineClass, forceDeletion, limits } = machine;
  return JSON.stringify([uid, deletingSince, machineClass, forceDeletion, limits]);
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
