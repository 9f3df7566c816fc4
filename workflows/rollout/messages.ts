/** Signals and queries of the workflows that own machines. Watchers and the CLI import this file, too. */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { OwnerNeed } from '../../api/attention.ts';
import type { OwnerView } from '../../api/model.ts';

/** A watcher saw something new about the owner, its sets or its machines. From a cache: it wakes, it does not decide. */
export const ownerObservedSignal = defineSignal<[OwnerView]>('observed');
/** The owner is gone or its cluster was set back, as far as a watcher can tell: read live at once. */
export const lookOwnerSignal = defineSignal('look');
/** An operator wants whatever the workflow waits for to be tried again now. */
export const retryNowSignal = defineSignal('retryNow');
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
  readonly lastError?: { readonly code: string; readonly message: string; readonly at: string };
}
