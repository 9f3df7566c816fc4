/** What the run of an owner knows, and what it leaves to the next run. */
import type { OwnerKind } from '../../activities/owner/index.ts';
import type { FailedAttempts, OwnerSnapshot, OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import type { Repeat } from '../../api/repeats.ts';
import type { ProgressClock } from './clock.ts';
import type { OwnerDescription, RolloutState } from './messages.ts';

export interface OwnerRun {
  readonly ref: ObjectRef;
  readonly kind: OwnerKind;
  /** The newest view of a watcher since the last reading. */
  observed?: OwnerView;
  /** Hash of the template that this run rolls out, from its first reading on. */
  hash?: string;
  /** Who has made the last reading. */
  reader?: string;
  /** A signal asks for the next reading at once. */
  refreshNow: boolean;
  /** Somebody asks for a step now: no set waits for its next attempt. */
  isRetry: boolean;
  /** When the first set that waits may have machines again, ms since the epoch; Infinity: none waits. */
  nextAttemptMs: number;
  /** When the next step may start, ms since the epoch. */
  nextStepMs: number;
  /** By set, the id of the last creation that this run has completed. */
  readonly created: Map<string, string>;
  /** By set, the machines of that creation that a limit of the namespace has kept from being created. */
  readonly refused: Map<string, readonly string[]>;
  /** By set, the id of the last creation that this run has planned. */
  readonly planned: Map<string, string>;
  /** Machines of replacements that this run has deleted, and in whose place none was made yet: they may be gone. */
  readonly unfilled: Set<string>;
  /** By set, failed attempts as they were recorded on it: what changes the annotation back ends no pause. */
  readonly attempts: Map<string, FailedAttempts>;
  /** Steps in a row in which a request failed. */
  failuresInARow: number;
  /** The last step that was done. */
  lastStep?: Repeat;
  /** What the last steps have written in vain. */
  notKept?: { readonly message: string; readonly at: string; readonly since: string };
  /** Only while a rollout is under way. */
  clock: ProgressClock | undefined;
  /** How long the rollout may take to make progress, ms. */
  deadlineMs: number;
  /** Whether `watchDeadline` runs. */
  isDeadlineWatched: boolean;
  /** What the rollout waits for; only while it is late. */
  blockedBy: RolloutBlockers | undefined;
  /** Whether an outage keeps unhealthy machines from being replaced. */
  isHeld: boolean;
  /** Whether a set lacks machines, and may get none as it is frozen. */
  isFrozen: boolean;
  /** Whether its spec is not valid, and a correction is waited for. */
  isInvalid: boolean;
  /** Whether requests have failed for so long that people have to know. */
  isRefused: boolean;
  /** Value of the search attribute, as far as this run can know. */
  shownBlocker: Blocker | 'unknown' | undefined;
  description: OwnerDescription;
}

export function newOwnerRun(ref: ObjectRef, kind: OwnerKind, before: RolloutState | undefined): OwnerRun {
  return {
    ref,
    kind,
    refreshNow: false,
    isRetry: false,
    nextAttemptMs: Number.POSITIVE_INFINITY,
    nextStepMs: 0,
    created: new Map(),
    refused: new Map(),
    planned: new Map(),
    unfilled: new Set(before?.unfilled),
    attempts: new Map(Object.entries(before?.attempts ?? {})),
    failuresInARow: 0,
    isInvalid: false,
    isRefused: false,
    clock: before?.clock,
    deadlineMs: 0,
    isDeadlineWatched: false,
    blockedBy: before?.blockedBy,
    isHeld: false,
    isFrozen: false,
    shownBlocker: before?.blockedBy === undefined ? undefined : 'unknown',
    description: {
      doing: 'starting',
      since: new Date().toISOString(),
      needs: [],
      replicas: { desired: 0, total: 0, active: 0, available: 0 },
    },
  };
}

/** What the next run continues with. */
export function toRolloutState({ clock, blockedBy, unfilled, attempts }: OwnerRun): RolloutState | undefined {
  if (clock === undefined && unfilled.size === 0 && attempts.size === 0) return undefined;
  return {
    ...(clock && { clock }),
    ...(blockedBy !== undefined && { blockedBy }),
    ...(unfilled.size > 0 && { unfilled: [...unfilled] }),
    ...(attempts.size > 0 && { attempts: Object.fromEntries(attempts) }),
  };
}

/**
 * A reading with what the run knows of creations. Those that it has completed are over: names of machines that are gone
 * since then are not used again. Those that a limit has refused are.
 */
export function withOwnCreations(
  { created, refused, planned }: Pick<OwnerRun, 'created' | 'refused' | 'planned'>,
  reading: OwnerSnapshot,
): OwnerSnapshot {
  const pendingCreations = reading.pendingCreations.map((pending) => ({
    ...pending,
    ...(created.get(pending.set) === pending.id && { missing: refused.get(pending.set) ?? [] }),
    ...(planned.get(pending.set) === pending.id && { isOwn: true as const }),
  }));
  return { ...reading, pendingCreations };
}

/**
 * A reading with what the run knows of replacements: machines that it has deleted may be gone without a trace.
 */
export function withOwnReplacements({ unfilled }: Pick<OwnerRun, 'unfilled'>, reading: OwnerSnapshot): OwnerSnapshot {
  const { view, health } = reading;
  const gone = [...unfilled].filter((name) => !health?.unfilled.includes(name));
  if (gone.length === 0) return reading;
  const { most = 0, asking = [], unfilled: seen = [] } = health ?? {};
  const { asking: askingNow = 0, replacing = 0 } = view.health ?? {};
  return {
    ...reading,
    view: { ...view, health: { asking: askingNow, replacing: replacing + gone.length } },
    health: { most, asking, unfilled: [...gone, ...seen] },
  };
}
