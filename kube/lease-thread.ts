/** The thread of an election: acquires the Leases, renews them, and ends the process when they are lost. */
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { createKubeClient } from './client.ts';
import { loadKubeconfig } from './config.ts';
import { isNamespaceTerminating } from './errors.ts';
import { heartbeatMs, sharedTimes, type ThreadInput, type ThreadMessage } from './lease.ts';
import { createLeaseLock, monotonicMs } from './lease-lock.ts';

const { kubeconfig, userAgent, memory, leaseMs, renewDeadlineMs, retryMs, ...config } = workerData as ThreadInput;
const times = sharedTimes(memory);
const stopping = new AbortController();
const client = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent, qps: 100, burst: 100 });
// A third: after a request without an answer there is time for two more.
const lockOptions = { ...config, client, leaseMs, timeoutMs: renewDeadlineMs / 3 };
const locks = config.names.map((name) => createLeaseLock({ ...lockOptions, name }));
/** As client-go: candidates read the Leases after 1 to 2.2 times the holder's pause. */
const jitter = 1.2;
/** How long the main thread has to end the process after the Leases are lost. */
const endsWithinMs = Math.min(1_000, (leaseMs - renewDeadlineMs) / 2);
let isLost = false;
const withoutLeases = 'the namespace is being deleted, and takes no Lease any more';
/** Since when nobody can have the Leases any more: their namespace is being deleted, and they are gone with it. */
let impossibleSince: number | undefined;

parentPort?.once('message', () => stopping.abort());
setInterval(checkClock, heartbeatMs(renewDeadlineMs)).unref();

await acquire();
await renew();
if (!isLost) {
  times.heldUntil.set(0);
  await releaseAll();
  await client.close();
}

function post(message: ThreadMessage): void {
  parentPort?.postMessage(message);
}

/** Ends when this process leads or the election is stopped. */
async function acquire(): Promise<void> {
  while (!stopping.signal.aborted) {
    try {
      // A main thread that is stuck, or only starting, cannot lead.
      if (isMainAlive() && (await tryAcquireAll())) return;
      impossibleSince = undefined;
    } catch (error) {
      impossibleSince = isNamespaceTerminating(error) ? (impossibleSince ?? monotonicMs()) : undefined;
      // Whoever held them has lost them by then, and has ended or leads without them as well.
      if (impossibleSince !== undefined && monotonicMs() >= impossibleSince + leaseMs && isMainAlive()) {
        times.heldUntil.set(monotonicMs() + renewDeadlineMs);
        return post({ kind: 'leader', reason: withoutLeases });
      }
      post({ kind: 'unknown', reason: String(error) });
    }
    await pause(retryMs * (1 + jitter * Math.random()));
  }
}

async function tryAcquireAll(): Promise<boolean> {
  await Promise.all(locks.map((lock) => lock.read()));
  const startedAt = monotonicMs();
  let blocked = locks.find((lock) => lock.isHeldByOther());
  // In order: of two candidates that start at once, the second at the first Lease takes none.
  for (const lock of locks) {
    if (blocked === undefined && !(await lock.tryAcquireOrRenew())) blocked = lock;
  }
  if (blocked !== undefined) {
    post({ kind: 'standby', lease: blocked.name, holder: blocked.holder() });
    // Two candidates that each hold one and wait for the other would wait forever.
    await releaseAll();
    return false;
  }
  if (monotonicMs() > startedAt + renewDeadlineMs) return false;
  times.heldUntil.set(startedAt + renewDeadlineMs);
  post({ kind: 'leader' });
  return true;
}

/** Ends when the election is stopped, or lost to somebody else. */
async function renew(): Promise<void> {
  while (!stopping.signal.aborted) {
    const startedAt = monotonicMs();
    const renewals = await Promise.allSettled(locks.map((lock) => lock.tryAcquireOrRenew()));
    const taken = locks.find((lock) => lock.isHeldByOther());
    if (taken !== undefined) return lose(`${taken.holder()} has taken the Lease ${taken.name}`);
    const isImpossible = (renewal: PromiseSettledResult<boolean>) =>
      renewal.status === 'rejected' && isNamespaceTerminating(renewal.reason);
    const isRenewed = renewals.every((each) => (each.status === 'fulfilled' && each.value) || isImpossible(each));
    if (isRenewed && !isLost) times.heldUntil.set(startedAt + renewDeadlineMs);
    if (isRenewed && renewals.some(isImpossible)) post({ kind: 'leader', reason: withoutLeases });
    for (const renewal of renewals)
      if (renewal.status === 'rejected' && !isImpossible(renewal)) post({ kind: 'late', reason: `${renewal.reason}` });
    await pause(startedAt + retryMs - monotonicMs());
  }
}

/** Checks the clock, whatever requests are in flight. */
function checkClock(): void {
  const heldUntil = times.heldUntil.get();
  if (heldUntil === 0 || isLost || stopping.signal.aborted) return;
  if (monotonicMs() > heldUntil) lose(`the Leases were not renewed within ${renewDeadlineMs} ms`);
  else if (!isMainAlive()) endProcess(`its main thread has been stuck for ${renewDeadlineMs} ms`);
}

function isMainAlive(): boolean {
  return monotonicMs() - times.aliveAt.get() < renewDeadlineMs;
}

/** The main thread gets the message first: it can log more about it. */
function lose(reason: string): void {
  if (isLost) return;
  isLost = true;
  post({ kind: 'lost', reason });
  setTimeout(() => endProcess(reason), endsWithinMs);
}

/** No other thread can prevent this. The Leases are left to expire, as this process may act until its end. */
function endProcess(reason: string): void {
  writeSync(2, `millwright: ending at once: ${reason}\n`);
  process.kill(process.pid, 'SIGKILL');
}

/** Releases the Leases that are ours. A Lease that cannot be released expires. */
async function releaseAll(): Promise<void> {
  await Promise.allSettled(locks.map(async (lock) => lock.release()));
}

async function pause(ms: number): Promise<void> {
  await sleep(Math.max(0, ms), undefined, { signal: stopping.signal }).catch(() => undefined);
}
