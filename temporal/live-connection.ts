/** A connection to Temporal for processes that outlive their certificates and API keys. */
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { ConnectionLike } from '@temporalio/client';
import type { Logger } from '../kube/logger.ts';
import type { TemporalServer } from './connection.ts';

export interface LiveConnectionOptions<C extends ConnectionLike> {
  /** Reads the files with the certificates and the API key. May throw later: they are read again. */
  readonly readServer: () => TemporalServer;
  /** Connects, and rejects unless the server answers and accepts the credentials. */
  readonly open: (server: TemporalServer) => Promise<C>;
  /** Pause between two reads of the files, ms. Default 5 000. */
  readonly lookEveryMs?: number;
  readonly logger: Logger;
}

export interface LiveConnection<C extends ConnectionLike> {
  /** Sends each call through the newest connection. Stays the same object. */
  readonly connection: C;
  /** Calls back with every new connection, before others use it. Returns how to end that. */
  onReplace(listener: (newest: C) => void): () => void;
  close(): Promise<void>;
}

/**
 * Connects, and connects again when the files have changed; Kubernetes and cert-manager rotate them in place. The old
 * connection stays in use until the new one is accepted, so half-written and wrong files change nothing.
 */
export async function keepConnected<C extends ConnectionLike>(
  options: LiveConnectionOptions<C>,
): Promise<LiveConnection<C>> {
  const { readServer, open, lookEveryMs = 5_000, logger } = options;
  const stopping = new AbortController();
  const listeners = new Set<(newest: C) => void>();
  let server = readServer();
  let newest = await open(server);
  /** Why the changed files cannot be used; logged once. */
  let problem: string | undefined;

  async function look(): Promise<void> {
    try {
      // What is under way belongs to this server and namespace.
      const changed = { ...readServer(), address: server.address, namespace: server.namespace };
      if (!isDeepStrictEqual(changed, server)) await replace(changed);
      problem = undefined;
    } catch (err) {
      const message = err instanceof Error ? err.message : String(err);
      if (message === problem) return;
      problem = message;
      logger.warn(
        { err },
        'cannot use the changed credentials for Temporal: the old ones stay in use until these are correct',
      );
    }
  }

  async function replace(changed: TemporalServer): Promise<void> {
    const next = await open(changed);
    // Before `newest` changes: a worker compares its connection, which may be the one below, with the next.
    for (const listener of listeners) listener(next);
    const previous = newest;
    newest = next;
    server = changed;
    logger.info(expiryOf(changed), 'using the changed credentials for Temporal');
    await previous.close(); // calls under way end on it
  }

  async function keepLooking(): Promise<void> {
    for (;;) {
      await sleep(lookEveryMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      await look();
    }
  }

  const looking = keepLooking();
  return {
    connection: forwardTo(() => newest),
    onReplace(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      stopping.abort();
      await looking;
      await newest.close();
    },
  };
}

/** An object whose properties and methods are those of whatever `find` returns at that moment. */
function forwardTo<T extends object>(find: () => T): T {
  return new Proxy(find(), {
    get(_, key) {
      const target = find();
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** When the client certificate ends, for the log. */
function expiryOf({ tls }: TemporalServer): object {
  return tls && tls.client ? { certificateExpires: new Date(new X509Certificate(tls.client.crt).validTo) } : {};
}
