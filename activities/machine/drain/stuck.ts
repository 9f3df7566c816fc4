/** When a drain makes no progress. */
import { createHash } from 'node:crypto';
import type { Pod } from '../../../kube/core.ts';
import type { Departures } from './departures.ts';
import { isEnding, uidOf } from './pods.ts';

/**
 * What keeps a drain: budgets, the API server, or as a hash the pods that it refuses to let go, or else what is left.
 */
export type Reported = 'budgets' | 'noAnswer' | string;

/** What is left on a node, and whether that has been reported. */
export interface Progress {
  /** What is left. */
  readonly reported: Reported;
  /** Whether it is what was reported last. */
  readonly isReported: boolean;
  /**
   * From when on the drain is stuck unless something leaves, ms since the epoch; infinite where that is reported or
   * cannot be.
   */
  readonly stuckMs: number;
}

/**
 * What the API server refuses to let go is stuck at once.
 * @param stuckAfterMs from the last pod or volume that has left, or the end of the grace periods
 */
export function createProgress(stuckAfterMs: number, reported: Reported | undefined) {
  let left: Reported | undefined;
  let sinceMs = 0;
  return (pods: readonly Pod[], look: Departures, nowMs: number, rejected: readonly Pod[] = []): Progress => {
    const now = rejected.length > 0 ? hashOf(['rejected', ...rejected.map(uidOf)]) : hashOf(partsOf(pods, look));
    if (now !== left) sinceMs = nowMs;
    left = now;
    const isReported = now === reported;
    if (rejected.length > 0) return { reported: now, isReported, stuckMs: reported === undefined ? nowMs : Infinity };
    // A volume that another node has to attach is not on this one any more.
    const canBeStuck = reported === undefined && look.moves.every(({ waitsFor }) => waitsFor !== 'reattach');
    const stuckMs = canBeStuck ? Math.max(sinceMs, ...pods.map(endOfGraceMs)) + stuckAfterMs : Infinity;
    return { reported: now, isReported, stuckMs };
  };
}

/** The pods or else the volumes: these parts change when one of them has left, and when a pod begins to end. */
function partsOf(pods: readonly Pod[], { isKnown, moves, unknown }: Departures): string[] {
  const ofPods = pods.map((pod) => `${uidOf(pod)} ${isEnding(pod)}`);
  const ofVolumes = [...moves.map(({ volume }) => volume), ...unknown].map(({ name }) => name);
  return ofPods.length > 0 ? ofPods : [...ofVolumes, String(isKnown)];
}

function hashOf(parts: readonly string[]): Reported {
  return createHash('sha256').update(parts.toSorted().join()).digest('hex').slice(0, 16);
}

/** When the grace period of a pod that is ending is over, ms since the epoch; 0 for others. */
function endOfGraceMs({ metadata: { deletionTimestamp } }: Pod): number {
  return deletionTimestamp === undefined ? 0 : Date.parse(deletionTimestamp);
}
