/** Signals and queries of the machine workflow. Watchers and the CLI import this file, too. */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { FailureCode } from '../../api/failures.ts';
import type { MachineObservation } from '../../api/model/machine.ts';
import type { FailedRun } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import type { Interruption } from '../../api/provider.ts';

/**
 * A watcher saw something new about the Machine or its Node. Only the newest observation counts. Sent by the
 * controllers.
 */
export const observedSignal = defineSignal<[MachineObservation]>('observed');
/**
 * Of a machine that is being deleted: deletes its pods with a grace period of 0, and does not wait for them, nor for a
 * cluster of the Nodes that does not answer. The argument says who wants it. Sent by `millwright drain --force`.
 */
export const forceDeletionSignal = defineSignal<[by?: string]>('forceDeletion');
/**
 * Of a machine that is being deleted: deletes the VM with the pods still on it. The argument says who wants it. Sent by
 * `millwright drain --skip`.
 */
export const skipDrainSignal = defineSignal<[by?: string]>('skipDrain');

/**
 * The cloud is about to take a VM away, which may be that of the machine. Repeated until the VM is gone.
 * Sent by the `interruptionCheck` workflow.
 */
export const interruptedSignal = defineSignal<[Interruption]>('interrupted');

/** What the workflow does, what it waits for, and what would unblock it. Sent by `millwright describe`. */
export const describeQuery = defineQuery<MachineDescription>('describe');

/** Answer of the query `describe`. Times are RFC 3339. */
export interface MachineDescription {
  /** The API's own word for how far it is. */
  readonly phase: string;
  /** What it is doing, a phrase such as `creating the VM`. */
  readonly doing: string;
  readonly since: string;
  /** What it waits for, and until when at the latest. */
  readonly waitingFor?: string;
  readonly until?: string;
  readonly blockedOn?: Blocker;
  /** The last error, how often it has come in a row and since when. What is done since has not succeeded yet. */
  readonly lastError?: {
    readonly code: FailureCode;
    readonly message: string;
    /** What the cloud knows the call by. */
    readonly requestId?: string;
    readonly at: string;
    readonly since: string;
    readonly times: number;
  };
  /** What would unblock it, an imperative sentence. */
  readonly unblock?: string;
  readonly providerID?: string;
  readonly nodeName?: string;
  /** Until when it is not replaced if it fails, as somebody has asked. */
  readonly preservedUntil?: string;
  /** The last run that has failed, and from which another one has taken over. */
  readonly failedRun?: FailedRun;
}
