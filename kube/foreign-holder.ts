/** Finds out whether somebody else than Millwright holds Leases of its own. Only looks. */
import type { KubeClient } from './client.ts';
import { isMillwright } from './lease.ts';
import { createLeaseLock } from './lease-lock.ts';

/** Who holds which Lease. */
export interface Holder {
  readonly lease: string;
  readonly holder: string;
}

export interface HolderOptions {
  /** For this alone, so that no other request keeps it waiting. */
  readonly client: KubeClient;
  readonly namespace: string;
  readonly names: readonly string[];
  /** For each request. */
  readonly timeoutMs: number;
}

/**
 * A look at the Leases: answers with the first that is held by no process of Millwright and has not expired, by our own
 * clock since it last changed. Throws StatusError or ConnectionError when one cannot be read.
 */
export function foreignHolderFinder({ names, ...options }: HolderOptions): () => Promise<Holder | undefined> {
  const locks = names.map((name) => createLeaseLock({ ...options, name, identity: '', leaseMs: 0 }));
  return async () => {
    await Promise.all(locks.map((lock) => lock.read()));
    const held = locks.find((lock) => lock.isHeldByOther() && !isMillwright(lock.holder()));
    return held && { lease: held.name, holder: held.holder() };
  };
}
