/** Keeps a store equal to what an API server holds, whatever happens to the connection. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Resource } from '../api/objects.ts';
import { backoffMs } from './backoff.ts';
import type { KubeClient, Selection } from './client.ts';
import { isGone, isUnreachable, StatusError } from './errors.ts';
import type { Logger } from './logger.ts';
import { createStore, type Indexes, type Store, type StoreEvent } from './store.ts';

/** Hears how lists and watches go, for metrics. */
export interface ReflectorObserver {
  /** The API server has sent something: an answer, an event or a bookmark. */
  onHeard(): void;
  /** Everything up to this version is known. */
  onKnown(resourceVersion: string): void;
  onListed(list: Progress): void;
  onWatchEnded(watch: Progress): void;
}

/** What a list or a watch has brought. */
export interface Progress {
  readonly seconds: number;
  /** Objects, or events without bookmarks. */
  readonly items: number;
}

export interface ReflectorOptions<T extends KubeObject> extends Selection {
  readonly client: KubeClient;
  readonly resource: Resource<T>;
  readonly indexes?: Indexes<T>;
  /** How long the API server may not answer until `answersForMs` of the store starts again. Default: 30 000. */
  readonly outageMs?: number;
  /** Slims an object before it is stored. Has to keep name, namespace, uid and resourceVersion; must not throw. */
  readonly transform?: (object: T) => T;
  /** Called after the store has changed, in order. What it throws is logged and changes nothing; it is not awaited. */
  readonly onEvent: (event: StoreEvent<T>) => void;
  readonly observer?: ReflectorObserver | undefined;
  readonly logger: Logger;
}

export interface Reflector<T extends KubeObject> {
  readonly store: Store<T>;
  /** Resolves after the first full list. Rejects when the reflector is stopped before. */
  waitForSync(): Promise<void>;
  /** No event comes after this call; resolves when no request is open. May be called twice. */
  stop(): Promise<void>;
}

/** A watch that lasted this long has proved the connection: the next one may start at once. */
const provenMs = 5_000;
/**
 * If nothing was heard for longer after a watch has ended, or after the server could not be reached, everything is listed
 * again, ms: it may have been restored from a backup, and have passed the version of the watch since.
 */
const resumesWithinMs = 3_000;
/** Longest pause that a Retry-After can ask for. */
const maxRetryAfterMs = 300_000;

/** Whether resourceVersion a is older than b; false when one of them is no number. */
function isBehind(a: string, b: string): boolean {
  return /^\d+$/.test(a) && /^\d+$/.test(b) && BigInt(a) < BigInt(b);
}

interface WatchProgress {
  openedAt: number | undefined;
  hasEvents: boolean;
  /** Without bookmarks. */
  changes: number;
}

/**
 * Lists, then watches, until stopped. After an error it continues at the last resourceVersion, lists again when the
 * server no longer knows that or was away for a while, and pauses (`backoffMs`, Retry-After) when it makes no
 * progress. Objects that disappeared meanwhile are reported as deleted; an object that was created again under its name
 * as deleted and added.
 */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { client, resource, onEvent, observer, logger, transform = (object: T) => object } = options;
  const { namespace, labelSelector, fieldSelector, metadataOnly } = options;
  const selection: Selection = { namespace, labelSelector, fieldSelector, metadataOnly };
  const { store, put, remove, retain, setSynced, setReachable } = createStore<T>(options.indexes, options.outageMs);
  const context = { cluster: client.server, resource: resource.plural };
  const stopping = new AbortController();
  const { signal } = stopping;
  let onFirstSync: () => void = () => undefined;
  let onStopped: (error: Error) => void = () => undefined;
  const firstSync = new Promise<void>((resolve, reject) => {
    onFirstSync = resolve;
    onStopped = reject;
  });
  firstSync.catch(() => undefined);

  /** Where the next watch starts; undefined when everything has to be listed. */
  let resourceVersion: string | undefined;
  /** The last resourceVersion up to which everything was known. */
  let known = '';
  /** When the server has sent something last, by performance.now(). */
  let heardMs = 0;
  /** Since then a watch has ended without a refusal, or the server could not be reached, as a load balancer may say. */
  let wasCut = false;
  /** The server was found behind `known`, which the next event `synced` reports. */
  let isRestored = false;

  function report(events: readonly StoreEvent<T>[]): void {
    for (const event of events) {
      if (signal.aborted) return;
      const logError = (err: unknown) => logger.error({ ...context, err }, 'handling an event of the watch failed');
      try {
        const result: unknown = onEvent(event);
        if (result instanceof Promise) result.catch(logError);
      } catch (err) {
        logError(err);
      }
    }
  }

  function know(version: string): void {
    resourceVersion = known = version;
    observer?.onKnown(version);
  }

  function hear(): void {
    heardMs = performance.now();
    wasCut = false;
    observer?.onHeard();
  }

  async function list(): Promise<void> {
    const startMs = performance.now();
    const uids = new Set<string>();
    let listed = '';
    for await (const page of client.pages(resource, { ...selection, signal })) {
      for (const item of page.items) {
        const { uid, resourceVersion: present } = item.metadata;
        const before = store.get(item.metadata)?.metadata;
        if (before?.uid === uid && isBehind(present, before.resourceVersion)) isRestored = true;
        uids.add(uid);
        report(put(transform(item)));
      }
      listed = page.resourceVersion;
      hear();
    }
    report(retain(uids));
    isRestored ||= isBehind(listed, known);
    know(listed);
    observer?.onListed({ seconds: (performance.now() - startMs) / 1_000, items: uids.size });
    setSynced();
    setReachable(true);
    report([{ kind: 'synced', isRestored }]);
    isRestored = false;
    onFirstSync();
  }

  /**
   * A server whose etcd was restored from a backup keeps a watch silent until it reaches the watch's resourceVersion.
   * A list of one object has the server's own.
   */
  async function isAheadOfServer(version: string): Promise<boolean> {
    for await (const page of client.pages(resource, { ...selection, signal, pageSize: 1 })) {
      return isBehind(page.resourceVersion, version);
    }
    return false;
  }

  /** Follows the changes until the watch ends; records in `progress` how far it came. */
  async function watch(version: string, progress: WatchProgress): Promise<void> {
    const onOpen = () => {
      progress.openedAt = performance.now();
      hear();
      setReachable(true);
    };
    for await (const event of client.watch(resource, { ...selection, resourceVersion: version, onOpen }, signal)) {
      progress.hasEvents = true;
      hear();
      if (event.type === 'BOOKMARK') {
        know(event.resourceVersion);
        continue;
      }
      progress.changes += 1;
      report(event.type === 'DELETED' ? remove(transform(event.object)) : put(transform(event.object)));
      know(event.object.metadata.resourceVersion);
    }
    heardMs = performance.now(); // the server has ended it
  }

  async function listOrResume(): Promise<string> {
    if (resourceVersion !== undefined && (await isAheadOfServer(resourceVersion))) {
      logger.warn({ ...context, resourceVersion }, 'the server is behind the watch: listing again');
      isRestored = true;
      resourceVersion = undefined;
    }
    if (wasCut && performance.now() > heardMs + resumesWithinMs) resourceVersion = undefined;
    if (resourceVersion === undefined) await list();
    return resourceVersion ?? '';
  }

  async function run(): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const progress: WatchProgress = { openedAt: undefined, hasEvents: false, changes: 0 };
      let error: unknown;
      try {
        await watch(await listOrResume(), progress);
      } catch (caught) {
        error = caught;
      }
      if (signal.aborted) return;
      const watchedMs = progress.openedAt === undefined ? undefined : performance.now() - progress.openedAt;
      if (watchedMs !== undefined) observer?.onWatchEnded({ seconds: watchedMs / 1_000, items: progress.changes });
      const proven = watchedMs !== undefined && watchedMs >= provenMs;
      // After a short watch with events the pause does not grow, but there is one.
      failures = proven ? 0 : (progress.hasEvents ? 0 : failures) + 1;
      await pause(error, failures);
    }
  }

  async function pause(error: unknown, failures: number): Promise<void> {
    const retryAfterMs = error instanceof StatusError ? Math.min(error.retryAfterMs ?? 0, maxRetryAfterMs) : 0;
    if (!(error instanceof StatusError) || isUnreachable(error)) wasCut = true;
    if (isGone(error)) resourceVersion = undefined;
    else if (error !== undefined) setReachable(false);
    const delayMs = Math.max(failures === 0 ? 0 : backoffMs(failures, Math.random()), retryAfterMs);
    const fields = { ...context, failures, delayMs: Math.round(delayMs), ...(error !== undefined && { err: error }) };
    if (error !== undefined && !isGone(error)) logger.warn(fields, 'watching failed: trying again');
    else logger.debug(fields, 'the watch ended: starting the next one');
    if (delayMs > 0) await sleep(delayMs, undefined, { signal }).catch(() => undefined);
  }

  const done = run();
  return {
    store,
    waitForSync: () => firstSync,
    async stop() {
      stopping.abort();
      onStopped(new Error(`the reflector of ${resource.plural} was stopped before its first list was in`));
      await done;
    },
  };
}
