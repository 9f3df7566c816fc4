/** How requests and answers of the Kubernetes API are written: paths, Status, watch lines, deadlines. */
import type { Dispatcher } from 'undici';
import type { KubeObject, Resource } from '../api/objects.ts';
import { ConnectionError, type Status, StatusError } from './errors.ts';
import { toConnectionError } from './transport.ts';

/** What a watch reports. ERROR events are thrown as StatusError. */
export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

/** Accept header for objects without anything but metadata. */
export function acceptHeader(metadataOnlyKind: false | 'PartialObjectMetadata' | 'PartialObjectMetadataList'): string {
  return metadataOnlyKind ? `application/json;as=${metadataOnlyKind};g=meta.k8s.io;v=v1` : 'application/json';
}

/**
 * Path of a collection, or of one object when a name is given. Parameters that are undefined are left out.
 * Throws when a name or namespace is missing: the request would silently mean the whole collection.
 */
export function pathOf<T extends KubeObject>(
  resource: Resource<T>,
  where: { readonly namespace?: string | undefined; readonly name?: string; readonly subresource?: string | undefined },
  parameters: Readonly<Record<string, string | number | boolean | undefined>> = {},
): string {
  const { group, version, plural, namespaced } = resource;
  const { namespace, name, subresource } = where;
  if (name === '') throw new Error(`${plural}: name is '': give the name of an object`);
  if (namespace === '' || (namespaced && name !== undefined && namespace === undefined)) {
    throw new Error(`${plural} '${name ?? ''}': namespace is '${namespace ?? ''}': give the namespace of the object`);
  }
  if (!namespaced && namespace !== undefined) {
    throw new Error(`${plural}: namespace is '${namespace}': leave it out, ${plural} are cluster-scoped`);
  }
  const parts = [
    group === '' ? `api/${version}` : `apis/${group}/${version}`,
    ...(namespace === undefined ? [] : ['namespaces', encodeURIComponent(namespace)]),
    plural,
    ...(name === undefined ? [] : [encodeURIComponent(name)]),
    ...(subresource === undefined ? [] : [subresource]),
  ];
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) if (value !== undefined) query.set(key, String(value));
  return `/${parts.join('/')}${query.size > 0 ? `?${query}` : ''}`;
}

/** Removes a field that is never read and takes half of the memory of a large list. */
export function dropManagedFields<T>(object: T): T {
  const { metadata } = object as { metadata?: { managedFields?: unknown } };
  delete metadata?.managedFields;
  return object;
}

/** The parsed body of a successful answer, text when it is not JSON. Throws StatusError for any other answer. */
export async function readAnswer(request: string, response: Dispatcher.ResponseData): Promise<unknown> {
  const { statusCode, headers } = response;
  let text: string;
  try {
    text = await readText(response.body);
  } catch (cause) {
    throw toConnectionError(request, cause);
  }
  const isJson = String(headers['content-type'] ?? '').includes('json');
  if (statusCode >= 200 && statusCode < 300) return isJson ? parseJson(request, text) : text;
  const status: Status = isJson ? (parseJson(request, text) as Status) : { message: text.slice(0, 200) };
  throw new StatusError(request, statusCode, status, retryAfterMs(headers['retry-after'], status));
}

/** Decodes each piece as it arrives: all at once, a page of a list would block the event loop for 100 ms. */
async function readText(body: AsyncIterable<Buffer>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of body) text += decoder.decode(piece, { stream: true });
  return text + decoder.decode();
}

function parseJson(request: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ConnectionError(`${request}: the answer is not JSON`, { cause, notSent: false });
  }
}

function retryAfterMs(header: string | string[] | undefined, status: Status): number | undefined {
  const seconds = header === undefined ? status.details?.retryAfterSeconds : Number(header);
  return seconds !== undefined && seconds >= 0 ? seconds * 1000 : undefined;
}

/** The events of an open watch. */
export async function* watchEvents<T>(request: string, body: AsyncIterable<Buffer>): AsyncGenerator<WatchEvent<T>> {
  for await (const line of lines(body)) {
    const { type, object } = parseJson(request, line) as { type: string; object: unknown };
    switch (type) {
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        yield { type, object: dropManagedFields(object as T) };
        break;
      case 'BOOKMARK':
        yield { type, resourceVersion: (object as KubeObject).metadata.resourceVersion };
        break;
      default: {
        const status = object as Status;
        throw new StatusError(request, status.code ?? 500, status, retryAfterMs(undefined, status));
      }
    }
  }
}

/** Lines of a stream; an incomplete last line is left out. */
async function* lines(body: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      parts.push(chunk.subarray(start, end));
      const line = Buffer.concat(parts).toString('utf8');
      parts = [];
      start = end + 1;
      if (line !== '') yield line;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
}

/**
 * Runs with a signal that aborts when the caller's does or at the timeout. Rejects with the reason of the caller's
 * signal, or with a ConnectionError that names the request.
 */
export async function withDeadline<R>(
  request: string,
  options: { signal?: AbortSignal | undefined; timeoutMs: number; onTimeout: () => void },
  run: (signal: AbortSignal, leftMs: () => number) => Promise<R>,
): Promise<R> {
  const { signal: outer, timeoutMs, onTimeout } = options;
  outer?.throwIfAborted();
  const endsAt = performance.now() + timeoutMs;
  const controller = new AbortController();
  // Not AbortSignal.any and AbortSignal.timeout: their timers and listeners outlive the request.
  const onAbort = () => controller.abort();
  const timer = setTimeout(() => {
    onTimeout();
    onAbort();
  }, timeoutMs);
  outer?.addEventListener('abort', onAbort, { once: true });
  try {
    return await run(controller.signal, () => endsAt - performance.now());
  } catch (cause) {
    outer?.throwIfAborted();
    if (!controller.signal.aborted) throw cause;
    throw new ConnectionError(`${request}: no answer within ${timeoutMs} ms`, { cause, notSent: false });
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener('abort', onAbort);
  }
}

/** How long to wait before the same request may be sent again, or undefined when it may not. `attempts` were made. */
export function retryDelayMs(isRead: boolean, error: unknown, attempts: number): number | undefined {
  const jitter = 1 + Math.random() * 0.2;
  if (error instanceof StatusError) {
    // 429 is refused before anything is done; of 503 that is likely, not certain.
    const repeatable = error.code === 429 || (isRead && error.code === 503);
    return repeatable && error.retryAfterMs !== undefined ? error.retryAfterMs * jitter : undefined;
  }
  if (error instanceof ConnectionError && (isRead || error.notSent)) return 100 * 2 ** attempts * jitter;
  return undefined;
}
