/** Signals, queries and failures of the workflows that own machines. Watchers and the CLI import this file, too. */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { OwnerNeed } from '../../api/attention.ts';
import type { OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { FailedRun } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import type { ProgressClock } from './clock.ts';

/** A watcher saw something new about the owner, its sets or its machines. From a cache: it wakes, it does not decide. */
export const ownerObservedSignal = defineSignal<[OwnerView]>('observed');
/** What the workflow of an owner is doing. */
export const describeOwnerQuery = defineQuery<OwnerDescription>('describe');

/** Answer of the query `describe`. Times are RFC 3339. */
export interface OwnerDescription {
  readonly doing: string;
  readonly since: string;
  /** Why the workflow is open. */
  readonly needs: readonly OwnerNeed[];
  /** Machines of all sets: wanted, existing, active, available. */
  readonly replicas: {
    readonly desired: number;
    readonly total: number;
    readonly active: number;
    readonly available: number;
  };
  /** What has to happen before more can be done. */
  readonly waitsFor?: string;
  /** While a rollout is under way: when it last got further, and when it has taken too long unless it does again. */
  readonly progressAt?: string;
  readonly deadline?: string;
  /** Once it has taken too long, and until it gets further: what it waits for, and why. As it was when it was late. */
  readonly blockedOn?: Blocker;
  readonly blockedBy?: RolloutBlockers;
  readonly lastError?: { readonly code: string; readonly message: string; readonly at: string };
  /** The run that has failed and from which this one has taken over; none that was late. */
  readonly failedRun?: FailedRun;
}

/** Type of the failure of a run past its progress deadline; its first detail is a `RolloutState`. */
export const progressDeadlineFailure = 'ProgressDeadlineExceeded';

/** What a run leaves to the next one: to one that it continues as, or to the one that is opened when it fails. */
export interface RolloutState {
  readonly clock: ProgressClock;
  readonly blockedBy?: RolloutBlockers;
}
