/** Empties a node: cordon, evict all pods through the Eviction API, and see them go. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ObjectRef } from '../api/model.ts';
import type { KubeClient } from '../kube/client.ts';
import { nodes, type Pod, pods } from '../kube/core.ts';
import { isConflict, isNotFound, isTooManyRequests, StatusError } from '../kube/errors.ts';
import type { Logger } from '../kube/logger.ts';
import { mergePatch } from '../kube/patch.ts';
import { startReflector } from '../kube/reflector.ts';
import { currentCall } from './boundary.ts';
import type { CallContext } from './providers/provider.ts';

export interface DrainDeps {
  readonly target: KubeClient;
  readonly logger: Logger;
  /** Pause before an eviction is asked for again that a PodDisruptionBudget did not allow, ms. */
  readonly evictionRetryMs: number;
}

export interface DrainRequest {
  readonly ref: ObjectRef;
  readonly nodeName: string;
  /** From this time on, RFC 3339, pods are deleted with a grace period of 0 instead of evicted. */
  readonly deadline: string;
  /** Delete them so at once. */
  readonly force: boolean;
}

/** What the heartbeat of a drain tells: shown in the Temporal UI. */
export interface DrainProgress {
  readonly podsLeft: number;
  /** Up to five of them, `<namespace>/<name>`, with what keeps each. */
  readonly waitingFor: readonly string[];
}

export type DrainActivities = ReturnType<typeof createDrainActivities>;

/** @param deps `target` holds the Nodes and Pods */
export function createDrainActivities(deps: DrainDeps) {
  return {
    /**
     * Cordons the node and evicts its pods, all in parallel, but for those of DaemonSets and mirror pods; then waits
     * until they are gone. Past the deadline, or when forced, it deletes them without grace and does not wait. A node
     * that is gone is drained.
     */
    async drainNode(request: DrainRequest): Promise<void> {
      await drain(deps, request, currentCall());
    },
  };
}

/** The activity drainNode, outside of a worker. */
export async function drain(deps: DrainDeps, request: DrainRequest, call: CallContext): Promise<void> {
  const deadlineMs = request.force ? 0 : Date.parse(request.deadline);
  try {
    if (!(await cordon(deps.target, request.nodeName, call.signal))) return;
    const isEmpty = await evictAll(deps, request, deadlineMs, call);
    if (!isEmpty) await deleteAll(deps.target, request.nodeName, call.signal);
  } catch (error) {
    // By force the VM goes whatever becomes of its pods: a cluster that does not answer holds no deletion up.
    call.signal.throwIfAborted();
    if (Date.now() < deadlineMs) throw error;
    deps.logger.warn({ node: request.nodeName, err: error }, 'giving up on the pods of a node');
  }
}

/** Answers false when there is no such node. */
async function cordon(target: KubeClient, name: string, signal: AbortSignal): Promise<boolean> {
  try {
    await target.patch(nodes, { name }, mergePatch({ spec: { unschedulable: true } }), { signal });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** Evicts until no pod is left or the deadline has come; answers whether none is left. */
async function evictAll(
  deps: DrainDeps,
  { nodeName }: DrainRequest,
  deadlineMs: number,
  { signal, heartbeat }: CallContext,
): Promise<boolean> {
  const { target, logger, evictionRetryMs } = deps;
  if (Date.now() >= deadlineMs) return false;
  const fieldSelector = `spec.nodeName=${nodeName}`;
  const { items } = await target.list(pods, { fieldSelector, signal });
  if (!items.some(isEvictable)) return true; // worth no watch, and cordoned: none can come

  const waiter = createWaiter();
  const watch = startReflector({ client: target, resource: pods, fieldSelector, logger, onEvent: waiter.wake });
  const evictions = new Map<string, Eviction>();
  try {
    await watch.waitForSync(signal);
    while (Date.now() < deadlineMs) {
      signal.throwIfAborted();
      const left = watch.store.list().filter(isEvictable);
      heartbeat(progressOf(left, evictions));
      if (left.length === 0) return true;
      const pauseMs = Math.min(
        evictDue((pod) => target.evict(pod, { signal }), left, evictions, evictionRetryMs, waiter.wake),
        deadlineMs - Date.now(),
      );
      await waiter.wait(pauseMs, signal);
    }
    return false;
  } finally {
    await watch.stop();
  }
}

interface Eviction {
  /** When to ask for it again, ms since the epoch; Infinity while it is under way or was accepted, or the pod leaves. */
  dueMs: number;
  /** What kept it the last time. */
  refusal?: string;
}

/** Starts the evictions that are due. Answers how long until the next is, ms. */
function evictDue(
  evict: (pod: { namespace: string; name: string; uid: string }) => Promise<void>,
  left: readonly Pod[],
  evictions: Map<string, Eviction>,
  retryMs: number,
  wake: () => void,
): number {
  const now = Date.now();
  for (const { metadata } of left) {
    const eviction = evictions.get(metadata.uid) ?? { dueMs: now };
    evictions.set(metadata.uid, eviction);
    if (metadata.deletionTimestamp === undefined && eviction.dueMs > now) continue;
    eviction.dueMs = Number.POSITIVE_INFINITY;
    if (metadata.deletionTimestamp !== undefined) continue;
    const { namespace = '', name, uid } = metadata;
    void evict({ namespace, name, uid }).then(
      () => delete eviction.refusal,
      (error: unknown) => {
        if (isNotFound(error)) return;
        eviction.refusal = error instanceof Error ? error.message : String(error);
        eviction.dueMs = Date.now() + retryPauseMs(error, retryMs);
        wake();
      },
    );
  }
  const next = Math.min(...left.map(({ metadata }) => evictions.get(metadata.uid)?.dueMs ?? now));
  return Math.max(next - now, 0);
}

function retryPauseMs(error: unknown, retryMs: number): number {
  const asked = error instanceof StatusError ? error.retryAfterMs : undefined;
  return isTooManyRequests(error) && asked !== undefined ? asked : retryMs;
}

async function deleteAll(target: KubeClient, nodeName: string, signal: AbortSignal): Promise<void> {
  const { items } = await target.list(pods, { fieldSelector: `spec.nodeName=${nodeName}`, signal });
  await Promise.all(
    items.filter(isEvictable).map(async ({ metadata }) => {
      try {
        const preconditions = { uid: metadata.uid };
        await target.delete(pods, metadata, { gracePeriodSeconds: 0, preconditions, signal });
      } catch (error) {
        if (!isNotFound(error) && !isConflict(error)) throw error;
      }
    }),
  );
}

/** A DaemonSet would bring its pod back at once, and a mirror pod is the kubelet's own. */
function isEvictable({ metadata }: Pod): boolean {
  const isMirror = metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
  return (
    !isMirror && metadata.ownerReferences?.some(({ kind, controller }) => controller && kind === 'DaemonSet') !== true
  );
}

function progressOf(left: readonly Pod[], evictions: ReadonlyMap<string, Eviction>): DrainProgress {
  const waitingFor = left.slice(0, 5).map(({ metadata }) => {
    const refusal = evictions.get(metadata.uid)?.refusal;
    return `${metadata.namespace}/${metadata.name}${refusal === undefined ? '' : `: ${refusal}`}`;
  });
  return { podsLeft: left.length, waitingFor };
}

/** Waits for a while or until woken; a wake-up between two waits is not lost. */
function createWaiter() {
  let isWoken = false;
  let end: (() => void) | undefined;
  return {
    wake(): void {
      isWoken = true;
      end?.();
    },
    async wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
      if (!isWoken) {
        const done = new AbortController();
        end = () => done.abort();
        const ends = AbortSignal.any([done.signal, signal]);
        await sleep(Math.min(timeoutMs, 2 ** 31 - 1), undefined, { signal: ends }).catch(() => undefined);
        end = undefined;
      }
      isWoken = false;
      signal.throwIfAborted();
    },
  };
}
