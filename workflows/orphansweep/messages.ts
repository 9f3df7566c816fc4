/** Input, report, query and signal of the orphan sweep. Controllers and the CLI import this file, too. */
import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { SeenMachines, SweepNamespace } from '../../api/model/sweep.ts';

/** What a sweep is started with. */
export interface SweepInput extends SweepNamespace {
  /** Does everything but delete. */
  readonly dryRun: boolean;
}

/**
 * Retries at once a reading that Kubernetes has refused. Shortens no pause between the two checks.
 * Sent by the controllers and people.
 */
export const retryNowSignal = defineSignal('retryNow');
/**
 * Names what may be deleted, by ids or names of what waits for approval. Everything else is kept. Answers the number of
 * orphans. The second argument says who approves. Sent by `millwright sweep approve`.
 */
export const approveUpdate = defineUpdate<number, [readonly string[], by?: string]>('approve');
/** How far the sweep is, and what waits for approval. Sent by `millwright sweep`. */
export const progressQuery = defineQuery<SweepProgress>('progress');

/** Answer of the query `progress`. Times are RFC 3339. */
export interface SweepProgress {
  /** A phrase such as `listing what the clouds have`. */
  readonly doing: string;
  readonly since: string;
  /** When it goes on by itself. */
  readonly until?: string;
  /** Groups of sources that see the same in a cloud. */
  readonly groups: number;
  readonly listed: number;
  /** Resources seen so far. */
  readonly seen: number;
  /** Things without a Machine that are to be looked at again, or that are to go. */
  readonly candidates: number;
  readonly deleted: number;
  readonly failed: number;
  readonly lastError?: { readonly code: string; readonly message: string; readonly at: string };
  /** What waits for approval. */
  readonly held?: Held;
}

/** What waits at the brake, and why. */
export interface Held {
  readonly reasons: readonly string[];
  readonly count: number;
  /** At most 500: what is not among them waits for a sweep after this one. */
  readonly orphans: readonly HeldOrphan[];
}

/** An orphan at the brake, as a person approves it. */
export interface HeldOrphan {
  readonly key: string;
  /** Its VMs, all of which have to be named; where it has none, one resource. */
  readonly named: readonly NamedResource[];
}

/** Type of the failure of a sweep whose orphans nobody has approved in time. */
export const notApprovedFailure = 'NotApproved';

/** Why something is kept. An orphan has no Machine, or is a VM with the UID of a Machine that names another. */
export const keptReasons = {
  machine: 'has a Machine',
  cameBack: 'was an orphan when the sweep checked first, and was none when it checked again',
  gone: 'disappeared by itself',
  seenOnce: 'became an orphan only after the first check of this sweep: the next sweep checks it again',
  young: 'is younger than the minimum age',
  keeperNotAlive: 'carries the UID of a Machine that names another VM, which is not listed as alive',
  unattributed: 'has the tags of the class and is no VM, but no UID tag says of which Machine it is',
  notApproved: 'is an orphan, but was not approved',
  doubtful: 'is an orphan, but may be a healthy VM',
  deleting: 'is an orphan, and the cloud is still deleting it',
  dryRun: 'is an orphan and would be deleted without the dry run',
} as const;
export type KeptReason = keyof typeof keptReasons;

/** A resource in a cloud, as a report names it. */
export interface NamedResource {
  readonly kind: string;
  readonly id: string;
  readonly uid?: string;
  readonly name: string;
  /** Name of the Machine whose UID this VM carries, while the Machine names another. */
  readonly excessOf?: string;
  /** Why it may be a healthy VM; left out where nothing says so. */
  readonly doubts?: readonly string[];
}

/** A number of resources, of which the first are named. */
export interface Tally {
  readonly count: number;
  /** At most 50, fewer where there are many groups; none of those that have a Machine. */
  readonly resources: readonly NamedResource[];
}

/** What was found in one group of sources, whose `listVms` sees the same. */
export interface GroupReport {
  readonly provider: string;
  /** Names of their objects. */
  readonly sources: readonly string[];
  /** Why nothing is known of the group. Then nothing of it was touched. */
  readonly error?: { readonly code: string; readonly message: string };
  /** Resources listed in the last look. */
  readonly seen: number;
  readonly kept: readonly (Tally & { readonly reason: KeptReason })[];
  readonly deleted: Tally;
  /** What could not be deleted, as many as are named elsewhere. */
  readonly failed: readonly (NamedResource & { readonly code: string; readonly message: string })[];
  readonly failedCount: number;
}

/** Result of a sweep. Times are RFC 3339. */
export interface SweepReport {
  readonly dryRun: boolean;
  readonly startedAt: string;
  readonly endedAt: string;
  readonly groups: readonly GroupReport[];
  /** Why the brake has held; in a dry run, why it would. */
  readonly braked?: readonly string[];
  /** Who has approved what was held, as the command says. */
  readonly approvedBy?: string;
  /** What the next sweep compares the Machines with. */
  readonly machines?: SeenMachines;
  /** Why the next sweep that finds an orphan is held, too: nobody has answered yet. */
  readonly unanswered?: readonly string[];
  /** Names of deleted source objects that lost our finalizer, as nothing that was made from them is left. */
  readonly releasedSources: readonly string[];
}
