/** Signals, queries and failures of the workflows that own machines. Watchers and the CLI import this file, too. */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { FailedAttempts, OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { FailedRun } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import type { OwnerNeed } from '../../api/owner/needs.ts';
import type { ProgressClock } from './clock.ts';

/**
 * A watcher saw a change of the owner, its sets or its machines. It only wakes the workflow, which reads the objects
 * live. Sent by the controllers.
 */
export const ownerObservedSignal = defineSignal<[OwnerView]>('observed');
/**
 * What the workflow does, what it waits for and which bound limits it. Sent by `millwright describe` and `rollout
 * status`.
 */
export const describeOwnerQuery = defineQuery<OwnerDescription>('describe');

/** Answer of the query `describe`. Times are RFC 3339. */
export interface OwnerDescription {
  readonly doing: string;
  readonly since: string;
  /** Why the workflow is open. */
  readonly needs: readonly OwnerNeed[];
  /** Machines of all sets. */
  readonly replicas: {
    readonly desired: number;
    readonly total: number;
    readonly active: number;
    readonly available: number;
  };
  /** What has to happen before more can be done. */
  readonly waitsFor?: string;
  /** Why unhealthy machines are not replaced: how many Nodes are unhealthy together. */
  readonly outage?: string;
  /** Which limit of the namespace keeps machines from being created, and who uses it. */
  readonly limit?: string;
  /** While a rollout is under way: its last progress, and its deadline without more. */
  readonly progressAt?: string;
  readonly deadline?: string;
  /**
   * While its spec is not valid, requests fail for long, a frozen set lacks machines, or an outage keeps unhealthy
   * machines; and from the deadline until there is progress. `WorkflowTask`: the limits of its namespace do not answer.
   */
  readonly blockedOn?: Blocker;
  /** What blocked the rollout when the deadline passed. */
  readonly blockedBy?: RolloutBlockers;
  /** The last request that was refused or not answered, and since when requests fail. */
  readonly lastError?: { readonly code: string; readonly message: string; readonly at: string; readonly since: string };
  /** What would unblock it, an imperative sentence. */
  readonly unblock?: string;
  /** The failed run that this one has taken over from; left out for a late one. */
  readonly failedRun?: FailedRun;
}

/** Type of the failure of a run past its progress deadline; its first detail is a `RolloutState`. */
export const progressDeadlineFailure = 'ProgressDeadlineExceeded';

/** What a run leaves to the next one, whether it continues as new or fails. */
export interface RolloutState {
  /** Only while a rollout is under way. */
  readonly clock?: ProgressClock;
  readonly blockedBy?: RolloutBlockers;
  /** See OwnerRun. */
  readonly unfilled?: readonly string[];
  /** See OwnerRun. */
  readonly attempts?: Readonly<Record<string, FailedAttempts>>;
}
