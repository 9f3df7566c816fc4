/** Finds out whether a process other than Millwright holds Leases. Reads only. */
import type { KubeClient } from './client.ts';
import { isMillwright } from './lease.ts';
import { createLeaseLock } from './lease-lock.ts';

/** Who holds which Lease. */
export interface Holder {
  readonly lease: string;
  readonly holder: string;
}

export interface HolderOptions {
  /** Used for nothing else, so that no other request delays it. */
  readonly client: KubeClient;
  readonly namespace: string;
  readonly names: readonly string[];
  /** For each request. */
  readonly timeoutMs: number;
}

/**
 * Returns a function that reads the Leases and returns the first that another program holds and that has not expired,
 * by our own clock since it last changed. It throws StatusError or ConnectionError when a Lease cannot be read.
 */
export function foreignHolderFinder({ names, ...options }: HolderOptions): () => Promise<Holder | undefined> {
  const locks = names.map((name) => createLeaseLock({ ...options, name, identity: '', leaseMs: 0 }));
  return async () => {
    await Promise.all(locks.map((lock) => lock.read()));
    const held = locks.find((lock) => lock.isHeldByOther() && !isMillwright(lock.holder()));
    return held && { lease: held.name, holder: held.holder() };
  };
}
