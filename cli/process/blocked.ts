/** How many workflows are blocked, and for how long, asked of Temporal seldom enough for any number of scrapes. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { BlockedWorkflow } from '../../temporal/blocked.ts';

/** Workflows of a type that wait for the same. */
export interface BlockedGroup {
  readonly type: string;
  readonly cause: BlockedWorkflow['blockedOn'];
  readonly count: number;
  /** How long the one that waits longest has waited. */
  readonly longestSeconds: number;
}

/** Shortest time between two lists, ms. */
const restMs = 10_000;
/**
 * The rest after a list that took long is this often its time, so that lists in an outage of a large fleet cost
 * Temporal little.
 */
const restFactor = 10;
/** Longest time between two lists, ms. */
const maxRestMs = 120_000;
/** How long a scrape waits for a list, ms. Later ones show it. */
const patienceMs = 2_000;
/** Age at which a list is not shown any more, ms. */
const maxAgeMs = 5 * 60_000;

/**
 * The answer gives the groups as they were in the last list. It throws while no list of the last five minutes is there.
 * A workflow has waited since it was first seen to wait for the same, so the count starts at 0 after a restart.
 */
export function watchBlocked(list: () => Promise<readonly BlockedWorkflow[]>): () => Promise<BlockedGroup[]> {
  let listing: Promise<void> | undefined;
  let dueMs = Number.NEGATIVE_INFINITY;
  let listedMs = Number.NEGATIVE_INFINITY;
  let error: unknown = new Error('Temporal has not answered yet');
  /** By workflow ID and cause: since when by performance.now(), in the last list. */
  let waiting = new Map<string, BlockedWorkflow & { readonly sinceMs: number }>();

  async function ask(): Promise<void> {
    const startMs = performance.now();
    try {
      const found = await list();
      listedMs = performance.now();
      const before = waiting;
      waiting = new Map(
        found.map((workflow) => {
          const key = `${workflow.workflowId} ${workflow.blockedOn}`;
          return [key, { ...workflow, sinceMs: before.get(key)?.sinceMs ?? listedMs }];
        }),
      );
    } catch (caught) {
      error = caught;
    } finally {
      const tookMs = performance.now() - startMs;
      dueMs = startMs + Math.min(Math.max(restMs, restFactor * tookMs), maxRestMs);
      listing = undefined;
    }
  }

  return async () => {
    if (performance.now() >= dueMs) listing ??= ask();
    const patience = new AbortController();
    await Promise.race([listing, sleep(patienceMs, undefined, patience).catch(() => undefined)]);
    patience.abort();
    const nowMs = performance.now();
    if (nowMs >= listedMs + maxAgeMs) throw error;
    const groups = Map.groupBy(waiting.values(), ({ type, blockedOn }) => `${type} ${blockedOn}`);
    return [...groups.values()].flatMap((group) => {
      const [first] = group;
      if (first === undefined) return [];
      const longestSeconds = (nowMs - Math.min(...group.map(({ sinceMs }) => sinceMs))) / 1_000;
      return [{ type: first.type, cause: first.blockedOn, count: group.length, longestSeconds }];
    });
  };
}
