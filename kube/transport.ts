/**
 * Connections and credentials of one cluster: sends one HTTP request, repeats nothing.
 *
 *                first request, or credentials read over 30 s ago
 *                         │ read credentials
 *                         ▼
 *   TLS unchanged ──► same session, new headers ──────────────┐
 *   TLS changed ────► new session, the old one is retired ────┤
 *                                                             ▼
 *   ┌──────────────────── session: credentials, a pool for calls, a pool for watches
 *   │ 401: credentials are read once more (at most every 10 s), and the request is sent a second time
 *   │ deadline or silent watch: `replaceConnections` makes new pools (at most every 10 s), the old ones are retired
 *   └─► retired pools finish what is in flight, then close
 */
import { Agent, type Dispatcher } from 'undici';
import type { Credentials, KubeconfigAccess } from './config.ts';
import { ConnectionError } from './errors.ts';

/** One HTTP request. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** With the query; without the path that `access.server` may have. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
  /** Watches have connections of their own, so that they never keep calls waiting. */
  readonly watch?: boolean;
}

export interface Transport {
  /** Sends once (twice after a 401, with fresh credentials). Throws ConnectionError when there is no answer. */
  send(request: HttpRequest): Promise<Dispatcher.ResponseData>;
  /**
   * Sends later requests over new connections: where one died silently, the idle ones may be dead as well. Requests in
   * flight finish. Does nothing within 10 s of the last replacement.
   */
  replaceConnections(): void;
  /** Ends all connections; requests in flight fail. */
  close(): Promise<void>;
}

/** How long credentials are used before their files are read again. */
const credentialsMs = 30_000;
/** Least time between two refreshes because of 401s: a plugin must not run for every refused request. */
const refusedMs = 10_000;
/** Least time between two replacements of all connections: a slow server must not get new handshakes on top. */
const replacedMs = 10_000;
/** A watch that receives nothing for this long is dead: the server sends a bookmark about every minute. */
const watchIdleMs = 150_000;
/** How long a watch may take to start. */
const watchHeadersMs = 30_000;

/** Failures from before the first byte of a request is sent. */
const notSentCodes = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

interface Session {
  readonly credentials: Credentials;
  readonly calls: Agent;
  readonly watches: Agent;
}

function createSession(credentials: Credentials, idleMs: number): Session {
  const common = {
    // HTTP/1.1: one lost HTTP/2 connection would take every watch with it, and Node's HTTP/2 grows in native memory.
    allowH2: false,
    connect: { ...credentials.tls, keepAlive: true, keepAliveInitialDelay: 30_000 },
    // Below the 90 s after which the API server closes an idle connection.
    keepAliveTimeout: 60_000,
    keepAliveMaxTimeout: 60_000,
  };
  return {
    credentials,
    // The deadline of each call is its signal.
    calls: new Agent({ ...common, connections: 32, headersTimeout: 0, bodyTimeout: 0 }),
    watches: new Agent({ ...common, headersTimeout: watchHeadersMs, bodyTimeout: idleMs }),
  };
}

function sameTls(a: Credentials['tls'], b: Credentials['tls']): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** `watchIdleTimeoutMs` is for tests, which cannot wait for two bookmarks. */
export function createTransport(options: {
  access: KubeconfigAccess;
  userAgent: string;
  watchIdleTimeoutMs?: number | undefined;
}): Transport {
  const { access, userAgent, watchIdleTimeoutMs = watchIdleMs } = options;
  const { origin, pathname } = new URL(access.server);
  const prefix = pathname.replace(/\/$/, '');
  const retired = new Set<Agent>();
  let session: Session | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let refusedAt = Number.NEGATIVE_INFINITY;
  let replacedAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<Session> | undefined;
  let closed = false;

  /** Requests in flight finish: a watch lasts ten minutes at most. */
  function retire({ calls, watches }: Session): void {
    for (const agent of [calls, watches]) {
      retired.add(agent);
      // Rejects when `close` destroys it first.
      const forget = () => retired.delete(agent);
      agent.close().then(forget, forget);
    }
  }

  async function readCredentials(refused: boolean): Promise<Session> {
    const credentials = await access.credentials({ refused });
    const previous = session;
    if (previous !== undefined && sameTls(previous.credentials.tls, credentials.tls)) {
      session = { ...previous, credentials };
    } else {
      session = createSession(credentials, watchIdleTimeoutMs);
      if (previous) retire(previous);
    }
    readAt = performance.now();
    return session;
  }

  function refresh(refused: boolean): Promise<Session> {
    reading ??= readCredentials(refused).finally(() => {
      reading = undefined;
    });
    return reading;
  }

  async function currentSession(): Promise<Session> {
    if (session !== undefined && performance.now() - readAt < credentialsMs) return session;
    try {
      return await refresh(false);
    } catch (cause) {
      throw toConnectionError(`reading the credentials for ${origin}`, cause);
    }
  }

  /** Other credentials than the refused ones, or undefined when there are none (yet). */
  async function sessionAfterRefusal(refused: Session): Promise<Session | undefined> {
    if (session?.credentials !== refused.credentials) return session;
    if (reading !== undefined) return reading.catch(() => undefined);
    if (performance.now() - refusedAt < refusedMs) return undefined;
    refusedAt = performance.now();
    return refresh(true).catch(() => undefined);
  }

  async function sendWith({ credentials, calls, watches }: Session, request: HttpRequest) {
    const { method, path, headers, body, signal, watch } = request;
    if (closed) throw new Error(`${method} ${path}: the client is closed`);
    try {
      return await (watch ? watches : calls).request({
        origin,
        path: prefix + path,
        method,
        headers: { 'user-agent': userAgent, ...credentials.headers, ...headers },
        body: body ?? null,
        signal,
      });
    } catch (cause) {
      throw toConnectionError(`${method} ${path}`, cause);
    }
  }

  return {
    async send(request) {
      const first = await currentSession();
      const response = await sendWith(first, request);
      if (response.statusCode !== 401) return response;
      const second = await sessionAfterRefusal(first);
      if (second === undefined) return response;
      await response.body.dump();
      return sendWith(second, request);
    },
    replaceConnections() {
      if (session === undefined || closed || performance.now() - replacedAt < replacedMs) return;
      replacedAt = performance.now();
      const previous = session;
      session = createSession(previous.credentials, watchIdleTimeoutMs);
      retire(previous);
    },
    async close() {
      closed = true;
      await reading?.catch(() => undefined);
      const agents = [...retired, ...(session ? [session.calls, session.watches] : [])];
      await Promise.all(agents.map((agent) => agent.destroy()));
    },
  };
}

/** Whether a connection was closed because nothing was received for too long. */
export function isIdleTimeout(cause: unknown): boolean {
  return ((cause ?? {}) as { code?: string }).code === 'UND_ERR_BODY_TIMEOUT';
}

/** Wraps what undici throws before or while an answer is read. */
export function toConnectionError(request: string, cause: unknown): ConnectionError {
  // By shape: what Node throws is no instanceof Error where the code runs in a context of its own.
  const { code = '', message = '' } = (cause ?? {}) as { code?: string; message?: string };
  return new ConnectionError(`${request}: ${message || code || cause}`, { cause, notSent: notSentCodes.has(code) });
}
