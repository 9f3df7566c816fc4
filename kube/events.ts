/** Events on objects, for people who run `kubectl describe`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs } from './backoff.ts';
import type { KubeClient } from './client.ts';
import { type Event, events } from './core.ts';
import { isAlreadyExists, isNotFound, isTooManyRequests, isUnreachable } from './errors.ts';
import type { Logger } from './logger.ts';
import { mergePatch } from './patch.ts';
import { createTokenBucket, type TokenBucket } from './rate-limit.ts';

/** What to record about an object. */
export interface EventRecord {
  /** The object. The Event of a cluster-scoped object is in namespace `default`. */
  readonly regarding: Event['regarding'];
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, at most 128 characters. */
  readonly reason: string;
  /** For people; cut at 1024 bytes. */
  readonly note: string;
  /** What was done, CamelCase, at most 128 characters. */
  readonly action: string;
}

export interface EventRecorder {
  /**
   * Queues an event. Never throws, never waits; under load or without an API server events are dropped. Repeats of
   * (type, action, reason, object, note) within 15 minutes count up one Event. Unlike with client-go another note makes
   * another Event: the note of a series does not change.
   */
  record(event: EventRecord): void;
  /** Resolves when the queue is empty, or after 5 s. */
  flush(): Promise<void>;
}

export interface EventRecorderOptions {
  readonly client: KubeClient;
  /** `reportingController`, for example `millwright`. */
  readonly controller: string;
  /** `reportingInstance`, for example the host name; at most 128 characters. */
  readonly instance: string;
  readonly logger: Logger;
}

/**
 * A series ends after a quarter of an hour (client-go: six minutes): refused steps may be repeated every ten minutes.
 */
const seriesMs = 15 * 60_000;
/**
 * As client-go, per object: 25 events at once, then one in five minutes. Repeats have a limit of their own, so that a
 * lasting error leaves room for the event that ends it.
 */
const burst = 25;
const perSecond = 1 / 300;
const maxQueue = 1000;
/** As client-go: objects and series in memory. */
const maxRemembered = 4096;
const maxAttempts = 5;
const flushMs = 5_000;

interface Series {
  readonly record: EventRecord;
  readonly startedAtNs: bigint;
  name: string;
  count: number;
  lastAt: Date;
  written: boolean;
}

/** MicroTime: RFC 3339 with the six digits that the API server requires. */
export function toMicroTime(time: Date, micros = 0): string {
  return time.toISOString().replace('Z', `${String(micros).padStart(3, '0')}Z`);
}

/** Writes events one after the other in the background. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, controller, instance, logger } = options;
  const series = new Map<string, Series>();
  const buckets = new Map<string, TokenBucket>();
  const queue = new Set<Series>();
  let sending: Promise<void> | undefined;

  function remembered(record: EventRecord, now: Date): Series {
    const { type, action, reason, regarding, note } = record;
    const key = JSON.stringify([type, action, reason, regarding, note]);
    const known = series.get(key);
    const startedAtNs = nextNs();
    const entry =
      known !== undefined && now.getTime() - known.lastAt.getTime() < seriesMs
        ? known
        : { record, startedAtNs, name: eventName(regarding.name, startedAtNs), count: 0, lastAt: now, written: false };
    remember(series, key, entry);
    entry.count += 1;
    entry.lastAt = now;
    return entry;
  }

  function takeToken({ record: { regarding }, count }: Series): boolean {
    const key = JSON.stringify([regarding, count > 1]);
    const bucket = buckets.get(key) ?? createTokenBucket(perSecond, burst);
    remember(buckets, key, bucket);
    const now = performance.now();
    if (bucket.waitMs(now) > 0) return false;
    bucket.reserve(now);
    return true;
  }

  async function write(entry: Series): Promise<void> {
    const { record, name, count, lastAt } = entry;
    const namespace = record.regarding.namespace || 'default';
    const repeats = count > 1 ? { series: { count, lastObservedTime: toMicroTime(lastAt) } } : {};
    if (entry.written) {
      if (count > 1) await client.patch(events, { namespace, name }, mergePatch(repeats));
      return;
    }
    const note = Buffer.from(record.note)
      .subarray(0, 1024)
      .toString()
      .replace(/\uFFFD+$/, '');
    const { startedAtNs } = entry;
    const startedAt = new Date(Number(startedAtNs / 1_000_000n));
    const eventTime = toMicroTime(startedAt, Number((startedAtNs / 1_000n) % 1_000n));
    const reporting = { reportingController: controller, reportingInstance: instance };
    await client.create(events, {
      ...record,
      note,
      eventTime,
      ...reporting,
      ...repeats,
      metadata: { namespace, name },
    });
    entry.written = true;
  }

  async function send(entry: Series): Promise<void> {
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await write(entry);
      } catch (err) {
        const expired = entry.written && isNotFound(err);
        // The answer to our own create was lost.
        if (isAlreadyExists(err)) entry.written = true;
        else if (expired)
          Object.assign(entry, { written: false, name: eventName(entry.record.regarding.name, nextNs()) });
        else if (!isUnreachable(err) && !isTooManyRequests(err)) attempts = maxAttempts;
        if (attempts >= maxAttempts) {
          logger.debug({ err, regarding: entry.record.regarding, reason: entry.record.reason }, 'dropping an event');
          return;
        }
        if (!expired && !isAlreadyExists(err))
          await sleep(backoffMs(attempts, Math.random()), undefined, { ref: false });
      }
    }
  }

  async function sendAll(): Promise<void> {
    for (const entry of queue) {
      queue.delete(entry);
      await send(entry);
    }
    sending = undefined;
  }

  return {
    record(record) {
      const entry = remembered(record, new Date());
      if (!takeToken(entry) || queue.size >= maxQueue) return;
      queue.add(entry);
      sending ??= sendAll();
    },
    async flush() {
      const timeout = new AbortController();
      await Promise.race([sending, sleep(flushMs, undefined, { signal: timeout.signal }).catch(() => undefined)]);
      timeout.abort();
    },
  };
}

let lastNs = 0n;

/**
 * Nanoseconds since 1970, at least a microsecond after those of the last call: `kubectl describe` sorts Events by name,
 * `kubectl events` by the microsecond.
 */
function nextNs(): bigint {
  const ns = BigInt(Date.now()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n);
  lastNs = ns > lastNs + 1_000n ? ns : lastNs + 1_000n;
  return lastNs;
}

/** As client-go names them. */
function eventName(regarding: string, ns: bigint): string {
  return `${regarding.slice(0, 230)}.${ns.toString(16)}`;
}

/** Sets an entry and removes the least recently used ones beyond the limit. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= maxRemembered) return;
    map.delete(oldest);
  }
}
