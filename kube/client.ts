/** Typed REST verbs of one Kubernetes API server. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { apiVersionOf, type KubeObject, type NewObject, type ObjectKey, type Resource } from '../api/objects.ts';
import type { KubeconfigAccess } from './config.ts';
import { pods } from './core.ts';
import { ConnectionError, isGone, isNotFound, StatusError } from './errors.ts';
import type { Patch } from './patch.ts';
import {
  acceptHeader,
  dropManagedFields,
  pathOf,
  readAnswer,
  retryDelayMs,
  type WatchEvent,
  watchEvents,
  withDeadline,
} from './protocol.ts';
import { createRateLimiter } from './rate-limit.ts';
import { createTransport, type HttpRequest, isIdleTimeout, toConnectionError } from './transport.ts';

/** Options of every request. */
export interface RequestOptions {
  /** Aborting rejects with the signal's reason; a write may have taken effect. */
  readonly signal?: AbortSignal | undefined;
  /** For the whole call: waiting in the rate limiter, retries and the answer. Default 30 000. */
  readonly timeoutMs?: number | undefined;
  /**
   * Throws RateLimitError instead of waiting more than a second in the rate limiter, and repeats nothing after an
   * error.
   */
  readonly failFast?: boolean | undefined;
}

/** Conditions under which a delete happens; else it fails with 409. */
export interface Preconditions {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/** Which objects to list or watch. */
export interface Selection {
  /** All namespaces when left out. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Asks the server for metadata alone (PartialObjectMetadata). */
  readonly metadataOnly?: boolean | undefined;
}

/** How to list in pages. */
export interface PagesQuery extends Selection, RequestOptions {
  /** Most objects a page. Default 500. */
  readonly pageSize?: number;
}

/** Part of a list. All pages of one list show the state at the same resourceVersion. */
export interface Page<T> {
  readonly items: T[];
  readonly resourceVersion: string;
}

/** Options of create and patch. */
export interface WriteOptions extends RequestOptions {
  /** What the server does with fields that it does not know. Its default is Warn. */
  readonly fieldValidation?: 'Strict' | 'Warn' | 'Ignore';
  /** The server answers what it would store, and stores nothing. */
  readonly dryRun?: 'All';
}

export interface DeleteOptions extends RequestOptions {
  readonly preconditions?: Preconditions;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

/** Reads objects: from an API server, or from a cache of one. */
export interface KubeReader {
  /** undefined when the object is absent. */
  find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined>;
  list<T extends KubeObject>(
    resource: Resource<T>,
    query?: Pick<Selection, 'namespace' | 'fieldSelector'>,
  ): Promise<{ readonly items: readonly T[] }>;
}

/**
 * Client of one API server. Throws StatusError when the server refuses, ConnectionError when there is no answer.
 *
 * Repeated within the deadline: any request after 429 with Retry-After or when it cannot have reached the server,
 * a GET also after a lost connection; three attempts in all. Other failed writes are not: they may have taken effect.
 */
export interface KubeClient {
  readonly server: string;
  /** Throws StatusError 404 (`isNotFound`) when the object is absent. */
  get<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, options?: RequestOptions): Promise<T>;
  /** undefined when the object is absent. */
  find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, options?: RequestOptions): Promise<T | undefined>;
  /** All objects, read by quorum in pages of 500; starts again when the pages expire meanwhile. */
  list<T extends KubeObject>(resource: Resource<T>, query?: Selection & RequestOptions): Promise<Page<T>>;
  /** The pages of a list; lets the event loop run in between. Throws StatusError 410 when the list has expired. */
  pages<T extends KubeObject>(resource: Resource<T>, query?: PagesQuery): AsyncGenerator<Page<T>>;
  create<T extends KubeObject>(resource: Resource<T>, object: NewObject<T>, options?: WriteOptions): Promise<T>;
  /** With `subresource: 'scale'` the answer is a Scale. */
  patch<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    patch: Patch,
    options?: WriteOptions & { subresource?: 'status' | 'scale' },
  ): Promise<T>;
  /** Returns when the server has accepted: finalizers may keep the object. Throws 404 when it is absent. */
  delete<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, options?: DeleteOptions): Promise<void>;
  /**
   * policy/v1 Eviction of exactly this pod. Throws 429 at once: a PodDisruptionBudget allows no eviction now (cause
   * `DisruptionBudget`) or the server is busy. 404 and 409 say that this pod is gone; the server takes 10 s for a 409.
   */
  evict(
    pod: { namespace: string; name: string; uid: string },
    options?: RequestOptions & { gracePeriodSeconds?: number },
  ): Promise<void>;
  /**
   * Changes since `resourceVersion`, with bookmarks. Ends when the server ends it (5 to 10 minutes) or the signal
   * aborts. `onOpen` is called when the server has accepted it. Throws StatusError (410: list again), or
   * ConnectionError on a connection that is lost, or silent for 150 s.
   */
  watch<T extends KubeObject>(
    resource: Resource<T>,
    query: Selection & { resourceVersion: string; onOpen?: () => void },
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>>;
  /** GET of any path, for example `/readyz`: parsed when it is JSON, else the text. */
  getRaw(path: string, options?: RequestOptions): Promise<unknown>;
  close(): Promise<void>;
}

/** One attempt of a request, for metrics. */
export interface RequestObservation {
  /** Base URL of the API server. */
  readonly server: string;
  readonly verb: string;
  /** Plural with its subresource, or the raw path. */
  readonly resource: string;
  /** 200 for every success; 'error' without an answer. */
  readonly status: number | 'error';
  readonly seconds: number;
}

export interface KubeClientOptions {
  readonly access: KubeconfigAccess;
  /** Its part before `/` is the field manager of what we write. */
  readonly userAgent: string;
  /** Requests a second, on average and at once. Watches do not count. */
  readonly qps: number;
  readonly burst: number;
  readonly onRequest?: (request: RequestObservation) => void;
  /** Called with the time of the server when it answers, in whole seconds, as ms since the epoch. */
  readonly onServerTime?: (serverMs: number) => void;
  /** Silence after which a watch counts as dead, ms. Default 150 000. */
  readonly watchIdleTimeoutMs?: number;
}

/** Objects a page. More would block the event loop: parsing 500 pods takes 30 ms. */
const defaultPageSize = 500;
const defaultTimeoutMs = 30_000;
const maxAttempts = 3;

interface Call {
  readonly verb: string;
  readonly resource: string;
  readonly method: HttpRequest['method'];
  readonly path: string;
  readonly accept?: string;
  readonly contentType?: string;
  readonly body?: unknown;
  readonly options: RequestOptions;
  /** Every error is an answer for the caller: repeat nothing. */
  readonly once?: boolean;
}

type List<T> = { metadata: { resourceVersion: string; continue?: string }; items: T[] | null };

/** Makes a client. No connection is opened before the first request. */
export function createKubeClient(clientOptions: KubeClientOptions): KubeClient {
  const { access, userAgent, qps, burst, onRequest, onServerTime, watchIdleTimeoutMs } = clientOptions;
  const transport = createTransport({ access, userAgent, watchIdleTimeoutMs });
  const waitForToken = createRateLimiter(qps, burst);

  async function observed<R>({ verb, resource }: { verb: string; resource: string }, send: () => Promise<R>) {
    const start = performance.now();
    const report = (status: number | 'error') =>
      onRequest?.({ server: access.server, verb, resource, status, seconds: (performance.now() - start) / 1000 });
    try {
      const answer = await send();
      report(200);
      return answer;
    } catch (error) {
      report(error instanceof StatusError ? error.code : 'error');
      throw error;
    }
  }

  async function attempt(request: Call, signal: AbortSignal): Promise<unknown> {
    const { method, path, accept = acceptHeader(false), contentType = 'application/json', body } = request;
    const response = await transport.send({
      method,
      path,
      headers: { accept, ...(body !== undefined && { 'content-type': contentType }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    const { date } = response.headers;
    if (typeof date === 'string') onServerTime?.(Date.parse(date));
    return readAnswer(`${method} ${path}`, response);
  }

  async function call<R>(request: Call): Promise<R> {
    const { method, path } = request;
    const { signal: outer, timeoutMs = defaultTimeoutMs, failFast = false } = request.options;
    const deadline = { signal: outer, timeoutMs, onTimeout: transport.replaceConnections };
    const answer = await withDeadline(`${method} ${path}`, deadline, async (signal, leftMs) => {
      for (let attempts = 1; ; attempts += 1) {
        await waitForToken({ signal, failFast });
        try {
          return await observed(request, () => attempt(request, signal));
        } catch (error) {
          const last = failFast || request.once || signal.aborted || attempts === maxAttempts;
          const delayMs = last ? undefined : retryDelayMs(method === 'GET', error, attempts);
          if (delayMs === undefined || delayMs >= leftMs()) throw error;
          await sleep(delayMs, undefined, { signal });
        }
      }
    });
    return answer as R;
  }

  async function callForObject<T extends KubeObject>(request: Call): Promise<T> {
    return dropManagedFields(await call<T>(request));
  }

  async function* pages<T extends KubeObject>(resource: Resource<T>, query: PagesQuery = {}) {
    const { namespace, labelSelector, fieldSelector, metadataOnly, pageSize: limit = defaultPageSize } = query;
    const accept = acceptHeader(metadataOnly ? 'PartialObjectMetadataList' : false);
    let next: string | undefined;
    do {
      if (next !== undefined) await nextTurn();
      const path = pathOf(resource, { namespace }, { labelSelector, fieldSelector, limit, continue: next });
      const list = await call<List<T>>({
        verb: 'list',
        resource: resource.plural,
        method: 'GET',
        path,
        accept,
        options: query,
      });
      const items = list.items ?? [];
      for (const item of items) dropManagedFields(item);
      yield { items, resourceVersion: list.metadata.resourceVersion };
      next = list.metadata.continue || undefined;
    } while (next !== undefined);
  }

  async function listOnce<T extends KubeObject>(resource: Resource<T>, query?: Selection & RequestOptions) {
    const items: T[] = [];
    let resourceVersion = '';
    for await (const page of pages(resource, query)) {
      items.push(...page.items);
      resourceVersion = page.resourceVersion;
    }
    return { items, resourceVersion };
  }

  async function list<T extends KubeObject>(resource: Resource<T>, query?: Selection & RequestOptions) {
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await listOnce(resource, query);
      } catch (error) {
        if (!isGone(error) || attempts === maxAttempts) throw error;
      }
    }
  }

  async function get<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    options: RequestOptions = {},
  ): Promise<T> {
    return callForObject({
      verb: 'get',
      resource: resource.plural,
      method: 'GET',
      path: pathOf(resource, key),
      options,
    });
  }

  async function* watch<T extends KubeObject>(
    resource: Resource<T>,
    query: Selection & { resourceVersion: string; onOpen?: () => void },
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    const { namespace, labelSelector, fieldSelector, metadataOnly, resourceVersion } = query;
    const path = pathOf(
      resource,
      { namespace },
      {
        labelSelector,
        fieldSelector,
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion,
        // As client-go: spread, so that the watches of a fleet do not restart at the same moment.
        timeoutSeconds: 300 + Math.floor(Math.random() * 300),
      },
    );
    const accept = acceptHeader(metadataOnly ? 'PartialObjectMetadata' : false);
    try {
      const body = await observed({ verb: 'watch', resource: resource.plural }, async () => {
        const response = await transport.send({ method: 'GET', path, headers: { accept }, signal, watch: true });
        if (response.statusCode !== 200) await readAnswer(`WATCH ${path}`, response);
        return response.body;
      });
      query.onOpen?.();
      yield* watchEvents<T>(`WATCH ${path}`, body);
    } catch (error) {
      if (signal.aborted) return;
      if (isIdleTimeout(error)) transport.replaceConnections();
      if (error instanceof StatusError || error instanceof ConnectionError) throw error;
      throw toConnectionError(`WATCH ${path}`, error);
    }
  }

  return {
    server: access.server,
    get,
    async find(resource, key, options) {
      try {
        return await get(resource, key, options);
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    list,
    pages,
    watch,
    async create(resource, object, options = {}) {
      const { fieldValidation, dryRun } = options;
      const { namespace } = object.metadata;
      if (resource.namespaced && namespace === undefined) {
        throw new Error(`${resource.plural}: metadata.namespace is missing: give the namespace to create it in`);
      }
      return callForObject({
        verb: 'create',
        resource: resource.plural,
        method: 'POST',
        path: pathOf(resource, { namespace }, { fieldValidation, dryRun }),
        body: { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object },
        options,
      });
    },
    async patch(resource, key, { contentType, body, query }, options = {}) {
      const { subresource, fieldValidation, dryRun } = options;
      return callForObject({
        verb: 'patch',
        resource: subresource ? `${resource.plural}/${subresource}` : resource.plural,
        method: 'PATCH',
        path: pathOf(resource, { ...key, subresource }, { ...query, fieldValidation, dryRun }),
        contentType,
        body,
        options,
      });
    },
    async delete(resource, key, options = {}) {
      const { preconditions, gracePeriodSeconds, propagationPolicy } = options;
      await call({
        verb: 'delete',
        resource: resource.plural,
        method: 'DELETE',
        path: pathOf(resource, key),
        body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions, gracePeriodSeconds, propagationPolicy },
        options,
      });
    },
    async evict({ namespace, name, uid }, { gracePeriodSeconds, ...options } = {}) {
      await call({
        verb: 'create',
        resource: 'pods/eviction',
        method: 'POST',
        path: pathOf(pods, { namespace, name, subresource: 'eviction' }),
        body: {
          apiVersion: 'policy/v1',
          kind: 'Eviction',
          metadata: { name, namespace },
          deleteOptions: { gracePeriodSeconds, preconditions: { uid } },
        },
        options,
        once: true,
      });
    },
    getRaw(path, options = {}) {
      return call({ verb: 'get', resource: path, method: 'GET', path, accept: 'application/json, */*', options });
    },
    close: () => transport.close(),
  };
}
