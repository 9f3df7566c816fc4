/** Empties a node: cordon, evict all pods through the Eviction API, and see them go. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { Marks } from '../../api/dialect.ts';
import { dialectOf } from '../../api/dialects.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { isOfAnother } from '../../api/node.ts';
import { toKubernetesTime } from '../../api/time.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  type Node,
  nodes,
  type Pod,
  type PodDisruptionBudget,
  podDisruptionBudgets,
  pods,
  volumeAttachments,
} from '../../kube/core.ts';
import { isConflict, isInvalid, isNotFound, isTooManyRequests, StatusError } from '../../kube/errors.ts';
import type { Logger } from '../../kube/logger.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { currentCall } from '../boundary.ts';
import type { CallContext } from '../providers/provider.ts';

/** What Node's timers can wait for. */
const longestTimerMs = 2 ** 31 - 1;

export interface DrainDeps {
  readonly target: KubeClient;
  readonly logger: Logger;
  /** Pause before an eviction that a PodDisruptionBudget has refused is tried again, ms. */
  readonly evictionRetryMs: number;
}

export interface DrainRequest {
  readonly ref: ObjectRef;
  readonly nodeName: string;
  /** The VM of a preserved machine stays: its Node is tainted instead of cordoned. Left out by older releases: a deletion. */
  readonly purpose?: 'deletion' | 'preservation';
  /** Of the machine's VM. A Node of this name with another one belongs to another VM and is left alone. */
  readonly providerID?: string;
  /** Of the Node, where that was marked as the machine's: then it is not read. */
  readonly nodeUid?: string;
  /** From this time on, RFC 3339 on Temporal's clock, pods are deleted with a grace period of 0 instead of evicted. */
  readonly deadline: string;
  /** Delete them so at once. */
  readonly force: boolean;
  /** Whether the machine was unhealthy when its deletion began; undefined when nobody knows any more. */
  readonly wasUnhealthy?: boolean;
  /** How many evictions a budget may refuse before the pod is deleted. */
  readonly maxEvictRetries: number;
  /** The PodDisruptionBudget, `<namespace>/<name>`, because of which the last call has returned. */
  readonly blockedBy?: string;
  /** The refusals that the last call has returned. */
  readonly refusals?: Refusals;
}

/** How often budgets have refused to evict pods, by the pods' UIDs. Pods that are not listed were never refused. */
export type Refusals = Readonly<Record<string, number>>;

/** What a drain returns. Unless it is drained, it is called again. */
export type DrainOutcome =
  | { readonly kind: 'drained' }
  /** The PodDisruptionBudget `<namespace>/<name>`, or two with ` and `, allows no eviction. */
  | {
      readonly kind: 'blocked';
      readonly budget: string;
      readonly refusals: Refusals;
      /** Why it never will as it is, for people; left out where it may. */
      readonly mistake?: string;
    }
  /** No budget refuses any more. */
  | { readonly kind: 'unblocked'; readonly refusals: Refusals };

/** Heartbeat of a drain: shown in the Temporal UI. */
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
     * Cordons the node, writes on it why, and evicts its pods in parallel, except mirror pods and those of DaemonSets.
     * Then waits until they are gone. Past the deadline, when forced, or when the node was not ready or its file system
     * read-only for 5 min, it deletes them without grace, does not wait, and deletes the node's VolumeAttachments. A node that is gone, or is that of another VM, is drained. Returns early when a budget starts or stops to refuse.
     */
    drainNode(request: DrainRequest): Promise<DrainOutcome> {
      const deadline = onThisClock(request.deadline, Context.current().info.currentAttemptScheduledTimestampMs);
      return drain(deps, { ...request, deadline }, currentCall());
    },
  };
}

/** A time of Temporal's clock on this worker's, which may differ: Temporal has scheduled the call just now. */
function onThisClock(time: string, scheduledMs: number): string {
  return new Date(Date.now() + Date.parse(time) - scheduledMs).toISOString();
}

/** The activity drainNode, outside of a worker. */
export async function drain(deps: DrainDeps, request: DrainRequest, call: CallContext): Promise<DrainOutcome> {
  const deadlineMs = request.force ? 0 : Date.parse(request.deadline);
  try {
    const isKept = request.purpose === 'preservation';
    const node = await (isKept ? findOwn : cordon)(deps.target, request, call.signal);
    if (node === undefined) return { kind: 'drained' };
    const outcome = isLongUnhealthy(node) ? undefined : await evictAll(deps, request, deadlineMs, call);
    if (outcome !== undefined) return await withMistake(deps.target, outcome, request.nodeName, call.signal);
    await deleteAll(deps.target, request.nodeName, call.signal);
    // The volumes of a VM that goes on are detached when their pods are gone.
    if (!isKept) await deleteAttachments(deps.target, request.nodeName, call.signal);
  } catch (error) {
    // Past the deadline the VM is deleted with its pods: a cluster that does not answer delays no deletion.
    call.signal.throwIfAborted();
    if (Date.now() < deadlineMs || request.purpose === 'preservation') throw error;
    deps.logger.warn({ node: request.nodeName, err: error }, 'giving up on the pods of a node');
  }
  return { kind: 'drained' };
}

/** From this time on a node that is not ready, or read-only, has no kubelet that would end a pod, ms. As in MCM. */
const longUnhealthyMs = 5 * 60_000;

/** Whether nothing is gained by waiting for the pods of a node. Its conditions have times of its own cluster. */
function isLongUnhealthy({ status }: Node): boolean {
  const isBad = ({ type, status: value }: { readonly type: string; readonly status: string }) =>
    type === 'Ready' ? value !== 'True' : type === 'ReadonlyFilesystem' && value === 'True';
  const bad = (status?.conditions ?? []).filter(isBad);
  return bad.some(({ lastTransitionTime = '' }) => Date.now() > Date.parse(lastTransitionTime) + longUnhealthyMs);
}

async function findOwn(target: KubeClient, request: DrainRequest, signal: AbortSignal): Promise<Node | undefined> {
  const found = await target.find(nodes, { name: request.nodeName }, { signal });
  return found === undefined || isOfAnother(found, request.providerID) ? undefined : found;
}

/** Cordons the node and writes on it why. Answers the node; undefined when the machine has none. */
async function cordon(target: KubeClient, request: DrainRequest, signal: AbortSignal): Promise<Node | undefined> {
  const { ref, nodeName: name, providerID, nodeUid, wasUnhealthy } = request;
  const cordonNode = ({ uid }: { readonly uid: string }) =>
    target.patch(nodes, { name }, mergePatch({ metadata: { uid }, spec: { unschedulable: true } }), { signal });
  try {
    let node = nodeUid === undefined ? undefined : await undefinedIfOther(() => cordonNode({ uid: nodeUid }));
    if (node === undefined) {
      const found = await target.find(nodes, { name }, { signal });
      if (found === undefined || isOfAnother(found, providerID)) return undefined;
      node = await cordonNode(found.metadata);
    }
    const condition = terminatingCondition(node, wasUnhealthy, dialectOf(ref.dialect).marks);
    if (condition === undefined) return node;
    const { uid } = node.metadata;
    const patch = strategicMergePatch({ metadata: { uid }, status: { conditions: [condition] } });
    await target.patch(nodes, { name }, patch, { signal, subresource: 'status' });
    return node;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** undefined where the object has another UID than the patch. */
async function undefinedIfOther<T>(patch: () => Promise<T>): Promise<T | undefined> {
  try {
    return await patch();
  } catch (error) {
    if (isConflict(error) || isInvalid(error)) return undefined;
    throw error;
  }
}

/** The condition that says why; undefined when the Node has it. A reason that nobody knows is kept. */
function terminatingCondition(
  { status }: Node,
  wasUnhealthy: boolean | undefined,
  { terminating: { type, unhealthy, otherwise } }: Marks,
): object | undefined {
  const reason = wasUnhealthy ? unhealthy : otherwise;
  const present = status?.conditions?.find((condition) => condition.type === type);
  const isTrue = present?.status === 'True';
  if (isTrue && (wasUnhealthy === undefined || present.reason === reason)) return undefined;
  const time = toKubernetesTime(new Date());
  return {
    ...{ type, status: 'True', reason, message: 'The machine of this node is being deleted.' },
    lastHeartbeatTime: time,
    ...(!isTrue && { lastTransitionTime: time }),
  };
}

/** How often a drain looks whether its node is still well, ms. */
const nodeLookMs = 30_000;

/** Evicts until no pod is left, or a budget starts or stops to refuse; undefined when the deadline has come. */
async function evictAll(
  deps: DrainDeps,
  request: DrainRequest,
  deadlineMs: number,
  { signal, heartbeat }: CallContext,
): Promise<DrainOutcome | undefined> {
  const { target, logger, evictionRetryMs } = deps;
  if (Date.now() >= deadlineMs) return undefined;
  const fieldSelector = `spec.nodeName=${request.nodeName}`;
  const { items } = await target.list(pods, { fieldSelector, signal });
  if (!items.some(isEvictable)) return { kind: 'drained' }; // the node is cordoned: no pod can appear

  const waiter = createWaiter();
  const watch = startReflector({ client: target, resource: pods, fieldSelector, logger, onEvent: waiter.wake });
  const evictions = knownEvictions(items.filter(isEvictable), request, evictionRetryMs);
  const remove = remover(target, request.maxEvictRetries, signal);
  try {
    if (!(await isSyncedBy(deadlineMs, watch, signal))) return undefined;
    let nextLookMs = Date.now() + nodeLookMs;
    while (Date.now() < deadlineMs) {
      signal.throwIfAborted();
      if (Date.now() >= nextLookMs) {
        nextLookMs = Date.now() + nodeLookMs;
        const node = await target.find(nodes, { name: request.nodeName }, { signal });
        if (node !== undefined && isLongUnhealthy(node)) return undefined;
      }
      const left = watch.store.list().filter(isEvictable);
      heartbeat(progressOf(left, evictions));
      if (left.length === 0) return { kind: 'drained' };
      const pauseMs = Math.min(
        removeDue(remove, left, evictions, evictionRetryMs, waiter.wake),
        deadlineMs - Date.now(),
        nextLookMs - Date.now(),
      );
      const change = changeOf(left, evictions, request.blockedBy);
      if (change !== undefined) return change;
      await waiter.wait(pauseMs, signal);
    }
    return undefined;
  } finally {
    await watch.stop();
  }
}

/** Waits for the first list until the deadline: an API server that does not answer delays no VM for longer. */
async function isSyncedBy(deadlineMs: number, watch: Reflector<Pod>, signal: AbortSignal): Promise<boolean> {
  const deadline = AbortSignal.timeout(Math.min(Math.max(deadlineMs - Date.now(), 0), longestTimerMs));
  try {
    await watch.waitForSync(AbortSignal.any([signal, deadline]));
    return true;
  } catch (error) {
    if (signal.aborted || !deadline.aborted) throw error;
    return false;
  }
}

interface Eviction {
  /** When it is tried next, ms since the epoch; Infinity while it is under way or was accepted, or the pod is ending. */
  dueMs: number;
  isUnderWay: boolean;
  /** How often a budget has refused it. */
  refusals: number;
  /** What kept it the last time. */
  refusal?: string;
  /** The budget that did, `<namespace>/<name>`. */
  budget?: string;
}

/** The evictions of the last call. When a budget has ended that call, it has refused a moment ago. */
function knownEvictions(
  left: readonly Pod[],
  { blockedBy, refusals: counts = {} }: DrainRequest,
  retryMs: number,
): Map<string, Eviction> {
  const now = Date.now();
  const evictions = new Map<string, Eviction>();
  for (const { metadata } of left) {
    const refusals = counts[metadata.uid];
    if (refusals === undefined || metadata.deletionTimestamp !== undefined) continue;
    const blocked = blockedBy !== undefined && { refusal: `refused because of ${blockedBy}`, budget: blockedBy };
    evictions.set(metadata.uid, { dueMs: blocked ? now + retryMs : now, isUnderWay: false, refusals, ...blocked });
  }
  return evictions;
}

/** Evicts a pod, or deletes it with its own grace period when budgets have refused that too often. */
function remover(target: KubeClient, maxRetries: number, signal: AbortSignal) {
  return ({ metadata: { namespace = '', name, uid } }: Pod, refusals: number): Promise<void> =>
    refusals <= maxRetries
      ? target.evict({ namespace, name, uid }, { signal })
      : target.delete(pods, { namespace, name }, { preconditions: { uid }, signal });
}

/** Starts what is due. Answers how long until the next is, ms. */
function removeDue(
  remove: ReturnType<typeof remover>,
  left: readonly Pod[],
  evictions: Map<string, Eviction>,
  retryMs: number,
  wake: () => void,
): number {
  const now = Date.now();
  for (const pod of left) {
    const { metadata } = pod;
    const eviction = evictions.get(metadata.uid) ?? { dueMs: now, isUnderWay: false, refusals: 0 };
    evictions.set(metadata.uid, eviction);
    if (metadata.deletionTimestamp === undefined && eviction.dueMs > now) continue;
    eviction.dueMs = Number.POSITIVE_INFINITY;
    if (metadata.deletionTimestamp !== undefined) continue;
    eviction.isUnderWay = true;
    void remove(pod, eviction.refusals).then(
      () => noteAnswer(eviction, pod, undefined, retryMs, wake),
      (error: unknown) => noteAnswer(eviction, pod, error, retryMs, wake),
    );
  }
  const next = Math.min(...left.map(({ metadata }) => evictions.get(metadata.uid)?.dueMs ?? now));
  return Math.max(next - now, 0);
}

function noteAnswer(eviction: Eviction, pod: Pod, error: unknown, retryMs: number, wake: () => void): void {
  eviction.isUnderWay = false;
  delete eviction.refusal;
  delete eviction.budget;
  if (error !== undefined && !isNotFound(error)) {
    eviction.refusal = error instanceof Error ? error.message : 'the eviction failed';
    eviction.dueMs = Date.now() + retryPauseMs(error, retryMs);
    const budget = budgetOf(error);
    if (budget !== undefined) {
      eviction.refusals++;
      eviction.budget = `${pod.metadata.namespace}/${budget}`;
      eviction.refusal = `${eviction.budget}: ${eviction.refusal}`;
    }
  }
  wake();
}

/** Stands for several budgets, which the API server does not name. */
const severalBudgets = '(several)';

/** Name of the budget that has refused an eviction. The API server names it in a text alone. */
function budgetOf(error: unknown): string | undefined {
  const isOfSeveral = error instanceof StatusError && /more than one PodDisruptionBudget/i.test(error.message);
  if (isOfSeveral) return severalBudgets;
  if (!isTooManyRequests(error) || !(error instanceof StatusError)) return undefined;
  const cause = error.status.details?.causes?.find(({ reason }) => reason === 'DisruptionBudget');
  return cause && (/disruption budget (\S+)/i.exec(cause.message ?? '')?.[1] ?? '(not named)');
}

/** Whether a budget has started or stopped to refuse, once every eviction has its answer. */
function changeOf(
  left: readonly Pod[],
  evictions: ReadonlyMap<string, Eviction>,
  blockedBy: string | undefined,
): DrainOutcome | undefined {
  const present = left.map(({ metadata }) => evictions.get(metadata.uid));
  if (present.some((eviction) => eviction?.isUnderWay)) return undefined;
  const budget = left
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata }) => evictions.get(metadata.uid)?.budget)
    .find((each) => each !== undefined);
  if ((budget === undefined) === (blockedBy === undefined)) return undefined;
  const counts = left.map(({ metadata }) => [metadata.uid, evictions.get(metadata.uid)?.refusals ?? 0] as const);
  const refusals = Object.fromEntries(counts.filter(([, count]) => count > 0));
  return budget === undefined ? { kind: 'unblocked', refusals } : { kind: 'blocked', budget, refusals };
}

function retryPauseMs(error: unknown, retryMs: number): number {
  const asked = error instanceof StatusError ? error.retryAfterMs : undefined;
  return isTooManyRequests(error) && asked !== undefined ? Math.min(asked, retryMs) : retryMs;
}

/** Says why a budget never allows an eviction, and names several. */
async function withMistake(
  target: KubeClient,
  outcome: DrainOutcome,
  nodeName: string,
  signal: AbortSignal,
): Promise<DrainOutcome> {
  if (outcome.kind !== 'blocked') return outcome;
  const [namespace = '', name = ''] = outcome.budget.split('/');
  if (name === severalBudgets) {
    const found = await findSeveral(target, namespace, nodeName, signal);
    return { ...outcome, budget: found.join(' and ') || outcome.budget, mistake: several };
  }
  const budget = await target.find(podDisruptionBudgets, { namespace, name }, { signal });
  return budget !== undefined && neverAllows(budget) ? { ...outcome, mistake: misconfigured } : outcome;
}

/** `<namespace>/<name>` of the budgets of the first pod of a node that has more than one. */
async function findSeveral(
  target: KubeClient,
  namespace: string,
  nodeName: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const fieldSelector = `spec.nodeName=${nodeName}`;
  const { items: budgets } = await target.list(podDisruptionBudgets, { namespace, signal });
  const { items } = await target.list(pods, { namespace, fieldSelector, signal });
  for (const { metadata } of items) {
    const own = budgets.filter(({ spec }) => isSelected(spec?.selector, metadata.labels));
    if (own.length > 1) return own.map((each) => `${namespace}/${each.metadata.name}`);
  }
  return [];
}

type Selector = NonNullable<PodDisruptionBudget['spec']>['selector'];

/** Whether a label selector of Kubernetes selects an object with these labels. An empty one selects all, none nothing. */
function isSelected(selector: Selector, labels: Readonly<Record<string, string>> = {}): boolean {
  if (selector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels[key];
      if (operator === 'Exists' || operator === 'DoesNotExist')
        return (value !== undefined) === (operator === 'Exists');
      return (value !== undefined && values.includes(value)) === (operator === 'In');
    })
  );
}

const several = 'the pod has more than one, with which the Eviction API refuses every eviction: leave it one';
const misconfigured =
  'it requires zero voluntary evictions: all of its pods are healthy, and it lets none of them go. Allow one, or add replicas';

/** By MCM's rule: nothing that it waits for can make it allow an eviction. */
function neverAllows({ metadata, status }: PodDisruptionBudget): boolean {
  if (status === undefined || status.observedGeneration !== metadata.generation) return false;
  const { expectedPods = 0, currentHealthy = 0, disruptionsAllowed, disruptedPods = {} } = status;
  const isSteady = expectedPods > 0 && currentHealthy >= expectedPods && Object.keys(disruptedPods).length === 0;
  return isSteady && disruptionsAllowed === 0;
}

/** The attach/detach controller waits for minutes before it takes a volume from a node that does not answer. */
async function deleteAttachments(target: KubeClient, nodeName: string, signal: AbortSignal): Promise<void> {
  const { items } = await target.list(volumeAttachments, { signal });
  const ofNode = items.filter(({ spec }) => spec?.nodeName === nodeName);
  await Promise.all(
    ofNode.map(async ({ metadata: { name, uid } }) => {
      try {
        await target.delete(volumeAttachments, { name }, { preconditions: { uid }, signal });
      } catch (error) {
        if (!isNotFound(error) && !isConflict(error)) throw error;
      }
    }),
  );
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
        await sleep(Math.min(timeoutMs, longestTimerMs), undefined, { signal: ends }).catch(() => undefined);
        end = undefined;
      }
      isWoken = false;
      signal.throwIfAborted();
    },
  };
}
