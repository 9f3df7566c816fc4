/** The target cluster of an installation that has none: it has no objects, and takes none. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from './client.ts';
import { StatusError } from './errors.ts';

/** A client that finds nothing. What would write throws StatusError, 404 where an object is named. */
export function createNoCluster(): KubeClient {
  const page = { items: [], resourceVersion: '1' };
  const refuse = (code: number, reason: string) => async (): Promise<never> => {
    throw new StatusError('no request', code, { reason, message: 'there is no target cluster' });
  };
  const absent = refuse(404, 'NotFound');
  return {
    server: 'none',
    get: absent,
    find: async () => undefined,
    list: async () => page,
    async *pages() {
      yield page;
    },
    create: refuse(422, 'Invalid'),
    patch: absent,
    delete: absent,
    evict: absent,
    async *watch(_resource, { onOpen }, signal) {
      onOpen?.();
      // Says nothing until nobody listens any more.
      await sleep(2 ** 31 - 1, undefined, { signal }).catch(() => undefined);
      yield* [];
    },
    getRaw: async () => '',
    close: async () => undefined,
  };
}
