/** A connection to Temporal for processes that outlive their certificates and API keys. */
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { ConnectionLike } from '@temporalio/client';
import type { Logger } from '../kube/logger.ts';
import type { TemporalServer } from './connection.ts';
import { untilTemporalAnswers } from './patience.ts';

export interface LiveConnectionOptions<C extends ConnectionLike> {
  /** Reads the files with the certificates and the API key. May throw later: they are read again. */
  readonly readServer: () => TemporalServer;
  /** Connects, and rejects unless the server answers and accepts the credentials. */
  readonly open: (server: TemporalServer) => Promise<C>;
  /** Pause between two reads of the files, ms. Default 5 000. */
  readonly lookEveryMs?: number;
  /** Ends the wait for a server that does not answer. Default: nothing does. */
  readonly stopping?: AbortSignal;
  readonly logger: Logger;
}

export interface LiveConnection<C extends ConnectionLike> {
  /** Sends each call through the newest connection. Stays the same object. */
  readonly connection: C;
  /** For workers, which have to be given each connection. */
  newest(): C;
  /** Calls back with every new connection. Returns how to end that. */
  onReplace(listener: (newest: C) => void): () => void;
  /** When the client certificate expires that is in use, ms since the epoch; undefined: there is none. */
  certificateExpiresMs(): number | undefined;
  close(): Promise<void>;
}

/**
 * Connects, waits for a server that does not answer, and connects again when the files have changed; Kubernetes and
 * cert-manager rotate them in place. The old connection stays in use until the new one is accepted, so half-written
 * and wrong files change nothing.
 */
export async function keepConnected<C extends ConnectionLike>(
  options: LiveConnectionOptions<C>,
): Promise<LiveConnection<C>> {
  const { readServer, open, lookEveryMs = 5_000, logger } = options;
  let server = readServer();
  const connect = () => {
    server = readServer();
    return open(server);
  };
  let newest = await untilTemporalAnswers(connect, options);
  const stopping = new AbortController();
  const listeners = new Set<(newest: C) => void>();
  /** Not closed yet: one that a worker still holds cannot be. */
  const replaced = new Set<C>();
  /** Changed files that cannot be used, or why they cannot be read; logged once. */
  let problem: unknown;

  async function look(): Promise<void> {
    let changed: TemporalServer | undefined;
    try {
      // What is under way belongs to this server and namespace.
      changed = { ...readServer(), address: server.address, namespace: server.namespace };
      if (!isDeepStrictEqual(changed, server)) await replace(changed);
      problem = undefined;
    } catch (err) {
      const found = changed ?? String(err);
      if (isDeepStrictEqual(found, problem)) return;
      problem = found;
      logger.warn(
        { err },
        'cannot use the changed credentials for Temporal: the old ones stay in use until these are correct',
      );
    }
  }

  async function replace(changed: TemporalServer): Promise<void> {
    const next = await open(changed);
    replaced.add(newest);
    newest = next;
    server = changed;
    const expiresMs = expiryMsOf(changed);
    const expiry = expiresMs === undefined ? {} : { certificateExpires: new Date(expiresMs) };
    logger.info(expiry, 'using the changed credentials for Temporal');
    for (const listener of listeners) listener(next);
  }

  async function closeReplaced(): Promise<void> {
    for (const connection of replaced) {
      try {
        await connection.close(); // calls under way end on it
        replaced.delete(connection);
      } catch (err) {
        logger.debug({ err }, 'a replaced connection to Temporal is still used: it is closed later');
      }
    }
  }

  async function keepLooking(): Promise<void> {
    for (;;) {
      await sleep(lookEveryMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      await look();
      await closeReplaced();
    }
  }

  const looking = keepLooking();
  return {
    connection: forwardTo(() => newest),
    newest: () => newest,
    onReplace(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    certificateExpiresMs: () => expiryMsOf(server),
    async close() {
      stopping.abort();
      await looking;
      await closeReplaced();
      await newest.close();
    },
  };
}

/** An object whose properties and methods are those of whatever `find` returns at that moment. */
function forwardTo<T extends object>(find: () => T): T {
  // Of an empty object: a proxy may not give other values than its object has for properties that are read-only there.
  return new Proxy({} as T, {
    get(_, key) {
      const target = find();
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** When the client certificate expires, ms since the epoch. */
function expiryMsOf({ tls }: TemporalServer): number | undefined {
  return tls && tls.client ? Date.parse(new X509Certificate(tls.client.crt).validTo) : undefined;
}
