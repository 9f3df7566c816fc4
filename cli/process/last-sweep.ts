/** The last completed sweep, asked of Temporal seldom enough for any number of scrapes. */
import type { LastSweep } from '../../temporal/past-sweeps.ts';

/** What is shown of it. */
export interface SweepStanding {
  /** How long ago it has completed; without one, how long it has been looked for. */
  readonly ageSeconds: number;
  /** Sources that it could not list. */
  readonly unlisted: number;
}

/** Shortest time between two questions, ms. */
const restMs = 60_000;

/** @param find the last one; undefined: there is none */
export function watchLastSweep(find: () => Promise<LastSweep | undefined>): () => Promise<readonly SweepStanding[]> {
  const startMs = Date.now();
  let askedMs = Number.NEGATIVE_INFINITY;
  let asked: ReturnType<typeof find> | undefined;
  return async () => {
    if (asked === undefined || performance.now() - askedMs >= restMs) {
      askedMs = performance.now();
      asked = find();
    }
    const last = await asked.catch((error: unknown) => {
      asked = undefined;
      throw error;
    });
    const sinceMs = last?.completedMs ?? startMs;
    return [{ ageSeconds: Math.max(0, Date.now() - sinceMs) / 1_000, unlisted: last?.unlisted.length ?? 0 }];
  };
}
