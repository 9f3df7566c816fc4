/**
 * Updates and queries of the workflow that grants the limits of a namespace. Activities and the CLI use this file, too.
 */
import { defineQuery, defineUpdate } from '@temporalio/workflow';
import type { LimitClaim, LimitGrant, LimitReading, Limits } from '../../api/model/limits.ts';

/**
 * An owner asks which of its machines it may create. Answers at once; what is not granted waits for its turn.
 * Sent by the workers.
 */
export const claimUpdate = defineUpdate<LimitGrant, [LimitClaim]>('claim');
/** Who uses the limits of a namespace, and who waits. Sent by people. */
export const describeLimitsQuery = defineQuery<LimitsDescription>('describe');

/** Answer of the query `describe`, as of the last reading. Times are RFC 3339. */
export interface LimitsDescription {
  readonly at: string;
  readonly limits: Limits;
  readonly used: Required<Limits>;
  readonly holders: readonly { readonly name: string; readonly provisioning: number; readonly surge: number }[];
  /** In the order of their turns. */
  readonly waiting: readonly { readonly name: string; readonly since: string }[];
  readonly lastError?: { readonly code: string; readonly message: string; readonly at: string };
}

/** An owner that waits for its turn. */
export interface Waiter extends Pick<LimitReading['uses'][number], 'name' | 'uid'> {
  readonly kind: LimitClaim['kind'];
  /** Since when, ms since the epoch. */
  readonly sinceMs: number;
  /** When it was told that there is room; left out before. */
  readonly wokenMs?: number;
}

/** What a run knows and leaves to the next one. */
export interface LimitState {
  /** By the UID of an owner that has claimed: names of the machines that it may create. */
  readonly granted: Readonly<Record<string, readonly string[]>>;
  /** The next one first. */
  readonly waiting: readonly Waiter[];
  /**
   * By the UID of an owner: since when names of it count, ms since the epoch. Left out where none do, and by older
   * releases.
   */
  readonly heldSinceMs?: Readonly<Record<string, number>>;
}
