/** How fast requests go to a cloud: a token bucket for the calls of all machines that share credentials. */
import { ProviderError, type RequestRate } from '../provider.ts';

/** Who goes first: a VM that is paid for and not wanted, then one that is wanted, then the sweep. */
const priorities = ['delete', 'create', 'sweep'] as const;
export type Priority = (typeof priorities)[number];

/** What a cloud takes while it does not throttle. */
export interface RateLimit {
  readonly perSecond: number;
  /** So many at once after a pause. */
  readonly burst: number;
}

/** Requests a second are halved when the cloud throttles, but not below this share of the limit. */
const slowestShare = 1 / 64;
/** After so long without throttling a rate that was halved is the limit again, ms. */
const recoveryMs = 60_000;
/**
 * A cloud that wants to be left alone for longer is asked by others after this long, ms: they may be fine. The call
 * that was throttled waits as long as the cloud says.
 */
const longestPauseMs = 10_000;

/** How many requests of a kind a cloud still takes at once, as it says with its answers. */
export interface Allowance {
  /** Of the kind, where the cloud counts several. */
  readonly kind: string;
  readonly left: number;
  /** What `left` is after a long pause. Left out: the most that was seen. */
  readonly most?: number;
}

/** From this share of an allowance on requests are sent more slowly. */
const scarceShare = 1 / 4;

/** Hands out the turns of one set of credentials. */
export interface Turns extends RequestRate {
  /**
   * Resolves when a request may be sent. Throws ProviderError `Unavailable` with how long to wait: at once if that is
   * longer than until `untilMs`, else then. Throws what `signal` aborts with.
   * @param untilMs as `performance.now()` counts
   */
  turn(priority: Priority, untilMs: number, signal: AbortSignal): Promise<void>;
  /** The cloud has taken a request. */
  taken(): void;
  /** The cloud has throttled a request that was sent at `sentMs`, and may have said how long to wait. */
  throttled(sentMs: number, retryAfterMs?: number): void;
  /** The cloud has said what it will still take. */
  allowed(allowance: Allowance): void;
}

/**
 * A rate that begins at its limit, is halved by throttling and grows again in equal steps (AIMD). Where the cloud says
 * what it will still take, the rate falls with that, so that it meets the pace at which the cloud takes more.
 */
export function createRequestRate(limit: RateLimit): Turns {
  const queues: Readonly<Record<Priority, Set<() => void>>> = {
    delete: new Set(),
    create: new Set(),
    sweep: new Set(),
  };
  let { perSecond, burst: tokens } = limit;
  let refilledMs = performance.now();
  let grownMs = refilledMs;
  let slowedMs = Number.NEGATIVE_INFINITY;
  let closedUntilMs = 0;
  let throttled = 0;
  let timer: NodeJS.Timeout | undefined;
  const mostSeen = new Map<string, number>();

  function refill(nowMs: number): void {
    const sinceMs = Math.min(nowMs, Math.max(refilledMs, closedUntilMs)); // none come while the cloud wants nothing
    tokens = Math.min(limit.burst, tokens + ((nowMs - sinceMs) / 1_000) * perSecond);
    refilledMs = nowMs;
  }

  /** How long the request behind so many others waits, ms. */
  function waitMs(ahead: number, nowMs: number): number {
    const missing = Math.max(0, ahead + 1 - tokens);
    return Math.max(0, closedUntilMs - nowMs) + (missing / perSecond) * 1_000;
  }

  function countAhead(priority: Priority): number {
    return priorities.slice(0, priorities.indexOf(priority) + 1).reduce((sum, each) => sum + queues[each].size, 0);
  }

  /** Lets go whoever may, and comes back when the next one may. */
  function serve(): void {
    clearTimeout(timer);
    timer = undefined;
    const nowMs = performance.now();
    refill(nowMs);
    for (const queue of Object.values(queues)) {
      for (const start of queue) {
        const restMs = waitMs(0, nowMs);
        if (restMs > 0) {
          timer = setTimeout(serve, Math.ceil(restMs));
          return;
        }
        tokens -= 1;
        start();
      }
    }
  }

  return {
    async turn(priority, untilMs, signal) {
      signal.throwIfAborted();
      const nowMs = performance.now();
      refill(nowMs);
      const needed = waitMs(countAhead(priority), nowMs);
      if (nowMs + needed > untilMs) throw tooSlow(perSecond, needed);
      await new Promise<void>((resolve, reject) => {
        const leave = () => {
          clearTimeout(patience);
          signal.removeEventListener('abort', abort);
          queues[priority].delete(start);
        };
        const start = () => {
          leave();
          resolve();
        };
        const giveUp = (reason: unknown) => {
          leave();
          reject(reason);
        };
        const abort = () => giveUp(signal.reason);
        // The cloud may have become slower meanwhile.
        const patience = setTimeout(
          () => giveUp(tooSlow(perSecond, waitMs(countAhead(priority) - 1, performance.now()))),
          untilMs - nowMs,
        );
        signal.addEventListener('abort', abort);
        queues[priority].add(start);
        serve();
      });
    },

    taken() {
      const nowMs = performance.now();
      refill(nowMs);
      perSecond = Math.min(limit.perSecond, perSecond + (limit.perSecond * (nowMs - grownMs)) / recoveryMs);
      grownMs = nowMs;
      if (timer !== undefined) serve();
    },

    throttled(sentMs, retryAfterMs = 0) {
      const nowMs = performance.now();
      refill(nowMs);
      throttled += 1;
      closedUntilMs = Math.max(closedUntilMs, nowMs + Math.min(retryAfterMs, longestPauseMs));
      grownMs = nowMs;
      tokens = Math.min(tokens, 0);
      if (sentMs < slowedMs) return; // it was sent before the rate was halved
      slowedMs = nowMs;
      perSecond = Math.max(limit.perSecond * slowestShare, perSecond / 2);
    },

    allowed({ kind, left, most = 0 }) {
      const full = Math.max(most, mostSeen.get(kind) ?? 0, left, 1);
      mostSeen.set(kind, full);
      const share = left / full;
      if (share >= scarceShare) return;
      refill(performance.now());
      tokens = Math.min(tokens, left);
      perSecond = Math.min(perSecond, limit.perSecond * Math.max(slowestShare, share / scarceShare));
    },

    get state() {
      return { perSecond, waiting: countAhead('sweep'), throttled };
    },
  };
}

function tooSlow(perSecond: number, retryAfterMs: number): ProviderError {
  const pace = perSecond.toFixed(perSecond < 10 ? 1 : 0);
  const message = `too many requests with these credentials: the cloud takes about ${pace} a second, and others are first`;
  return new ProviderError('Unavailable', message, { retryAfterMs: Math.ceil(retryAfterMs) });
}
