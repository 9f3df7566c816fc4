/** One Lease as a lock, by the rules of client-go's leader election. */
import type { KubeClient } from './client.ts';
import { type Lease, leases } from './core.ts';
import { isAlreadyExists, isConflict, isNotFound } from './errors.ts';
import { toMicroTime } from './events.ts';
import { mergePatch } from './patch.ts';

export interface LeaseLockOptions {
  /** Used for Leases only, so that no other request delays a renewal. */
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Of this candidate: unique, and another one after a restart. Empty where the Lease is only read. */
  readonly identity: string;
  /** How long others wait after our last renewal. In the Lease it is rounded up to seconds. */
  readonly leaseMs: number;
  /** For each request. */
  readonly timeoutMs: number;
}

/** Requests are never repeated: the caller knows how much time is left. */
export interface LeaseLock {
  readonly name: string;
  /** Who holds it, as last seen; '' for nobody. */
  holder(): string;
  /** Whether somebody else held it when it was last seen, and has not let it expire since. */
  isHeldByOther(): boolean;
  /** Reads the Lease. Throws StatusError or ConnectionError. */
  read(): Promise<void>;
  /**
   * Takes the Lease if it is free, renews it if it is ours. false: somebody else holds it or was faster.
   * Throws StatusError or ConnectionError; it may be ours nevertheless: the next `read` shows it.
   */
  tryAcquireOrRenew(): Promise<boolean>;
  /** Releases it if it is ours as far as we know, so that the next holder need not wait. Throws as the others do. */
  release(): Promise<void>;
}

/** Milliseconds of a clock that is never set, the same for all threads. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

export function createLeaseLock(options: LeaseLockOptions): LeaseLock {
  const { client, namespace, name, identity, leaseMs, timeoutMs } = options;
  const key = { namespace, name };
  const requestOptions = { timeoutMs, failFast: true };
  let seen: Lease | undefined;
  let changedAt = 0;

  const holder = () => seen?.spec?.holderIdentity ?? '';

  /** As client-go, only a change of the spec counts as a renewal: annotations do not. */
  function observe(lease: Lease | undefined): void {
    if (JSON.stringify(lease?.spec) !== JSON.stringify(seen?.spec)) changedAt = monotonicMs();
    seen = lease;
  }

  /** By our own clock since the Lease last changed: `renewTime` is by the clock of its writer. */
  function isHeldByOther(): boolean {
    const lifetimeMs = (seen?.spec?.leaseDurationSeconds ?? 0) * 1000;
    return holder() !== '' && holder() !== identity && monotonicMs() < changedAt + lifetimeMs;
  }

  async function read(): Promise<void> {
    observe(await client.find(leases, key, requestOptions));
  }

  /** The record of a holder: `acquireTime` and `leaseTransitions` change with the holder alone. */
  function ownSpec(): object {
    const now = toMicroTime(new Date());
    const kept = holder() === identity ? seen?.spec : undefined;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(leaseMs / 1000),
      acquireTime: kept?.acquireTime ?? now,
      renewTime: now,
      leaseTransitions: kept?.leaseTransitions ?? (seen === undefined ? 0 : (seen.spec?.leaseTransitions ?? 0) + 1),
    };
  }

  /** Overwrites the state that was last seen and no other. false when the Lease has changed since. */
  async function write(spec: object): Promise<boolean> {
    try {
      if (seen === undefined) {
        observe(await client.create(leases, { metadata: key, spec }, requestOptions));
      } else {
        const { resourceVersion } = seen.metadata;
        observe(await client.patch(leases, key, mergePatch({ metadata: { resourceVersion }, spec }), requestOptions));
      }
      return true;
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error) || isNotFound(error)) return false;
      throw error;
    }
  }

  return {
    name,
    holder,
    isHeldByOther,
    read,
    async tryAcquireOrRenew() {
      // The holder knows its content: it is not read for every renewal.
      if (holder() === identity && (await write(ownSpec()))) return true;
      await read();
      return !isHeldByOther() && (await write(ownSpec()));
    },
    async release() {
      if (holder() !== identity) return;
      const now = toMicroTime(new Date());
      await write({ holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now });
    },
  };
}
