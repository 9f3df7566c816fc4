/** Empties a node: cordons it, evicts all pods through the Eviction API, and sees them and their volumes go. */
import { CancelledFailure, Context } from '@temporalio/activity';
import type { KubeClient } from '../../../kube/client.ts';
import { type Node, type Pod, pods } from '../../../kube/core.ts';
import type { Logger } from '../../../kube/logger.ts';
import { startReflector } from '../../../kube/reflector.ts';
import { currentCall, temporalNowMs } from '../../boundary.ts';
import type { OwnNodeDeps } from '../../own-node.ts';
import { type CallContext, ProviderError } from '../../providers/provider.ts';
import type { WatchAttachments } from './attachments.ts';
import { type Blocker, explain } from './budgets.ts';
import { type Cordon, cordon, findNode } from './cordon.ts';
import { createDepartures, type Departures, mayHaveVolumes } from './departures.ts';
import { createEvictions, type Evictions, type Refusals } from './evictions.ts';
import { deleteAttachments, deletePods, isLongUnhealthy, listPods } from './force.ts';
import type { VolumePolicy } from './moves.ts';
import { isEvictable, nameOf, uidOf } from './pods.ts';
import { createProgress, type Reported } from './stuck.ts';
import { hasClaims, type KnownVolumes } from './volumes.ts';
import { createWaiter } from './waiter.ts';

export interface DrainDeps extends OwnNodeDeps {
  readonly logger: Logger;
  /** Pause before an eviction that a PodDisruptionBudget has refused is tried again, ms. */
  readonly evictionRetryMs: number;
  /** From the last pod or volume that has left, or the end of the grace periods, until a drain is stuck, ms. */
  readonly stuckAfterMs: number;
  readonly attachments: WatchAttachments;
  readonly volumes: VolumePolicy;
}

export interface DrainRequest extends Cordon {
  /** From this time on, RFC 3339 on Temporal's clock, pods are deleted with a grace period of 0 instead of evicted. */
  readonly deadline: string;
  /** Delete them so at once. */
  readonly force: boolean;
  /** How many evictions a budget may refuse before the pod is deleted. */
  readonly maxEvictRetries: number;
  /** The refusals that the last call has returned. */
  readonly refusals?: Refusals;
  /** What the provider has said of the volumes that earlier calls have asked about. */
  readonly volumes?: KnownVolumes;
  /** What was reported last. The call returns when this has changed. */
  readonly reported?: Reported;
}

/** What a drain returns. Unless it is drained, it has to be called again. */
export type DrainOutcome =
  | {
      readonly kind: 'drained';
      /** What the drain timeout has left on the node, for people: `2 pods left: n/a, n/b`. */
      readonly left?: string;
    }
  /** Every pod that is not on its way is kept by a budget. Nothing happens before `retryMs` are over. */
  | ({
      readonly kind: 'blocked';
      /** How many pods are kept, and up to five of them, `<namespace>/<name>`. */
      readonly podsLeft: number;
      readonly pods: readonly string[];
      readonly refusals: Refusals;
      readonly retryMs: number;
    } & Blocker)
  /** Nothing has left for long, the API server has not answered for as long, or it refuses to let pods go. */
  | {
      readonly kind: 'stuck';
      readonly reported: Reported;
      /** Whether it refuses. */
      readonly isRefused?: true;
      /** Up to five pods and volumes with what keeps each, or what the API server says. */
      readonly waitingFor: readonly string[];
      readonly refusals: Refusals;
    }
  /** What was reported is not so any more. */
  | { readonly kind: 'goesOn'; readonly refusals: Refusals }
  /** The provider has to be asked which of these PersistentVolumes are its own. */
  | {
      readonly kind: 'unknownVolumes';
      readonly volumes: readonly { readonly name: string; readonly spec: object }[];
      readonly refusals: Refusals;
    };

/** Heartbeat of a drain: shown in the Temporal UI. */
export interface DrainProgress {
  readonly podsLeft: number;
  /** Up to five pods, `<namespace>/<name>` with what keeps each, and volumes. */
  readonly waitingFor: readonly string[];
  /** For the next attempt, when this worker ends. */
  readonly refusals: Refusals;
}

/** First detail of the failure of a drain that was cancelled. */
export interface CancelledDrain {
  readonly refusals: Refusals;
}

export type DrainActivities = ReturnType<typeof createDrainActivities>;

/** @param deps `target` holds the Nodes and Pods, `control` the Machines */
export function createDrainActivities(deps: DrainDeps) {
  return {
    /**
     * Cordons the node, writes on it why, and evicts its pods, except mirror pods and those of DaemonSets: at once, but
     * those with volumes only as other nodes have room for these. Then waits until the pods are gone and their volumes
     * attached to other nodes. Past the deadline, when forced, or when the node was not ready or its file system
     * read-only for 5 min, it deletes the pods without grace, does not wait, and deletes the node's VolumeAttachments
     * if its machine is being deleted. A node that is gone, or is that of another VM, is drained. Returns early when it
     * can only wait for budgets, when it is stuck, and when it is not any more.
     */
    async drainNode(request: DrainRequest): Promise<DrainOutcome> {
      const {
        currentAttemptScheduledTimestampMs: scheduledMs,
        scheduledTimestampMs,
        heartbeatDetails,
      } = Context.current().info;
      let { refusals = request.refusals } = (heartbeatDetails ?? {}) as Partial<DrainProgress>;
      const call = currentCall();
      const heartbeat = (beat: DrainProgress) => {
        ({ refusals } = beat);
        call.heartbeat(beat);
      };
      try {
        return await drain(deps, { ...request, ...(refusals && { refusals }) }, { ...call, heartbeat });
      } catch (error) {
        if (isCancelled(call.signal)) throw toCancelled(refusals);
        const patienceMs = Math.min(deps.stuckAfterMs, noAnswerAfterMs);
        const isNew = scheduledMs - scheduledTimestampMs < patienceMs || request.reported === noAnswer;
        if (call.signal.aborted || isNew) throw error; // it is tried again
        const message = error instanceof Error ? error.message : String(error);
        return { kind: 'stuck', reported: noAnswer, waitingFor: [message], refusals: refusals ?? {} };
      }
    },
  };
}

/** Whether the workflow has cancelled the call, rather than that its worker ends. */
function isCancelled({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof CancelledFailure && reason.message === 'CANCELLED';
}

/** How a call ends that the workflow has cancelled. The next one goes on with the refusals. */
function toCancelled(refusals: Refusals = {}): CancelledFailure {
  return new CancelledFailure('CANCELLED', [{ refusals } satisfies CancelledDrain]);
}

/** What a drain needs of the call that it is part of. */
type DrainCall = Omit<CallContext, 'heartbeat'> & { heartbeat(beat: DrainProgress): void };

/** The activity drainNode, outside of a worker. */
export async function drain(deps: DrainDeps, request: DrainRequest, call: DrainCall): Promise<DrainOutcome> {
  const deadlineMs = request.force ? 0 : Date.parse(request.deadline);
  let left: readonly Pod[] | undefined;
  try {
    if (temporalNowMs() < deadlineMs) {
      const outcome = await evictAll(deps, request, deadlineMs, call).catch((error: unknown) => {
        call.signal.throwIfAborted();
        if (temporalNowMs() < deadlineMs) throw error;
      });
      if (outcome !== undefined) return outcome;
    }
    await forceAll(deps, request, call.signal, (found) => {
      left = found;
    });
  } catch (error) {
    // Past the deadline the VM is deleted with its pods: a cluster that does not answer delays no deletion.
    call.signal.throwIfAborted();
    const isRefused = error instanceof ProviderError; // the Node is to be left alone
    if (isRefused || temporalNowMs() < deadlineMs || request.purpose !== 'deletion') throw error;
    deps.logger.warn({ node: request.nodeName, err: error }, 'giving up on the pods of a node');
  }
  const isOver = !request.force && temporalNowMs() >= deadlineMs;
  return { kind: 'drained', ...(isOver && leftText(left)) };
}

/** Most pods that an answer names. */
const maxNamed = 5;

/** For people; nothing where no pod was left. @param left undefined: nobody knows */
function leftText(left: readonly Pod[] | undefined): { readonly left?: string } {
  if (left === undefined) return { left: 'pods left that its API server does not list' };
  const more = left.length - maxNamed;
  const named = `${left.slice(0, maxNamed).map(nameOf).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return left.length === 0 ? {} : { left: `${left.length} ${left.length === 1 ? 'pod' : 'pods'} left: ${named}` };
}

/**
 * The node, cordoned; its preservation has done that if the machine is preserved. undefined when the machine has none.
 */
async function prepare(deps: DrainDeps, request: DrainRequest, signal: AbortSignal): Promise<Node | undefined> {
  if (request.purpose === 'preservation') return findNode(deps, request, signal);
  const { nodeUid: _, ...unread } = request;
  const wasCalled = request.refusals !== undefined; // the Node is cordoned, and a read shows that
  return cordon(deps, wasCalled ? unread : request, signal);
}

/** The node after a while, cordoned again where somebody has uncordoned it, or its kubelet has registered it again. */
async function lookAgain(
  deps: DrainDeps,
  request: DrainRequest,
  { metadata }: Node,
  signal: AbortSignal,
): Promise<Node | undefined> {
  const node = await findNode(deps, request, signal);
  const isPrepared = request.purpose === 'preservation' || node?.spec?.unschedulable === true;
  return node?.metadata.uid === metadata.uid && isPrepared ? node : prepare(deps, request, signal);
}

/**
 * What is refused of the three, such as by a webhook, keeps none of the others from being tried.
 * @param onFound called with the pods that are still there
 */
async function forceAll(
  deps: DrainDeps,
  request: DrainRequest,
  signal: AbortSignal,
  onFound: (left: readonly Pod[]) => void,
): Promise<void> {
  const { target } = deps;
  const { nodeName, purpose } = request;
  const errors: unknown[] = [];
  const noteError = (error: unknown): undefined => void errors.push(error);
  const cordoned = await prepare(deps, request, signal).catch(noteError);
  const node = errors.length === 0 ? cordoned : await findNode(deps, request, signal);
  if (node === undefined) onFound([]);
  else {
    const left = await listPods(target, nodeName, signal).catch(noteError);
    if (left !== undefined) {
      onFound(left);
      await deletePods(target, left, signal).catch(noteError);
    }
    // The VM of a machine that stays goes on, and may still write to its volumes.
    if (purpose === 'deletion') await deleteAttachments(target, nodeName, signal).catch(noteError);
  }
  if (errors.length > 0) throw errors[0];
}

const noAnswer: Reported = 'noAnswer';
/** When a drain says that an API server does not answer, as other steps do, unless it counts as stuck before, ms. */
const noAnswerAfterMs = 30_000;

/** How often a drain looks at its node, ms; and while volumes move, as MCM does. */
const nodeLookMs = 30_000;
const nodeLookWithVolumesMs = 5_000;

/** Evicts until no pod is left, or only budgets can help; undefined when force is due. */
async function evictAll(
  deps: DrainDeps,
  request: DrainRequest,
  deadlineMs: number,
  { signal, heartbeat }: DrainCall,
): Promise<DrainOutcome | undefined> {
  const { target, logger, evictionRetryMs, stuckAfterMs, attachments } = deps;
  const { nodeName, maxEvictRetries, refusals = {}, volumes = {}, reported } = request;
  let node = await prepare(deps, request, signal);
  if (node === undefined) return { kind: 'drained' };
  if (isLongUnhealthy(node, temporalNowMs())) return undefined;
  const fieldSelector = `spec.nodeName=${nodeName}`;
  const { items } = await target.list(pods, { fieldSelector, signal });
  if (!items.some(isEvictable) && !mayHaveVolumes(node, volumes)) return { kind: 'drained' };

  const waiter = createWaiter();
  const watch = startReflector({ client: target, resource: pods, fieldSelector, logger, onEvent: waiter.wake });
  const retries = { maxRetries: maxEvictRetries, retryMs: evictionRetryMs, refusals };
  const evictions = createEvictions({ target, signal, ...retries, onAnswer: waiter.wake });
  const departures = createDepartures({
    ...deps.volumes,
    ...{ target, attachments, nodeName, known: volumes, evictions, signal, onChange: waiter.wake },
  });
  const expected = new Set(items.map(uidOf));
  const unlistedMs = temporalNowMs() + Math.min(stuckAfterMs, noAnswerAfterMs);
  let nextLookMs = temporalNowMs() + nodeLookMs;
  const progressAt = createProgress(stuckAfterMs, reported);
  try {
    while (temporalNowMs() < deadlineMs) {
      if (!watch.store.synced) {
        const waitingFor = ['the watch of the pods of the node to begin'];
        heartbeat({ podsLeft: items.filter(isEvictable).length, waitingFor, refusals } satisfies DrainProgress);
        const isNew = reported !== noAnswer;
        if (isNew && temporalNowMs() >= unlistedMs) return { kind: 'stuck', reported: noAnswer, waitingFor, refusals };
        await waiter.wait(Math.min(deadlineMs, isNew ? unlistedMs : Infinity) - temporalNowMs(), signal);
        continue;
      }
      signal.throwIfAborted();
      // One moment for the whole look: a pod that becomes due meanwhile ends the wait after it.
      const nowMs = temporalNowMs();
      const onNode = watch.store.list();
      const left = onNode.filter(isEvictable);
      const hasArrivals = left.some((pod) => !expected.has(uidOf(pod)));
      if (hasArrivals || temporalNowMs() >= nextLookMs) {
        // The Node was cordoned: a pod that arrives may be one of another VM, which has taken the name.
        node = await lookAgain(deps, request, node, signal);
        if (node === undefined) return { kind: 'drained' };
        if (isLongUnhealthy(node, temporalNowMs())) return undefined;
        for (const pod of left) expected.add(uidOf(pod));
        nextLookMs = temporalNowMs() + nodeLookMs;
      }
      for (const pod of left) if (!hasClaims(pod) && evictions.dueMs(pod) <= nowMs) evictions.start(pod);
      const look = await departures.look(onNode, node);
      const beat = progressOf(left, look, evictions);
      heartbeat(beat);
      const isMoved = look.isKnown && look.moves.length === 0 && look.unknown.length === 0;
      if (left.length === 0 && isMoved) return { kind: 'drained' };
      for (const pod of look.due) evictions.start(pod);
      const rejected = evictions.areUnderWay(left) ? [] : evictions.rejected(left);
      if (look.unknown.length > 0) {
        const unknown = look.unknown.map(({ name, spec }) => ({ name, spec }));
        if (!evictions.areUnderWay(left))
          return { kind: 'unknownVolumes', volumes: unknown, refusals: evictions.refusals(left) };
      } else if (look.isKnown && look.queued === 0 && rejected.length === 0 && !evictions.areUnderWay(left)) {
        const blocked = await blockedBy(target, left, evictions, signal);
        if (blocked !== undefined) return blocked;
      }
      const { stuckMs, ...found } = progressAt(left, look, nowMs, rejected);
      const canTell = reported !== undefined && look.isKnown && !evictions.areUnderWay(left);
      if (canTell && !found.isReported) return { kind: 'goesOn', refusals: beat.refusals };
      if (nowMs >= stuckMs) {
        const isRefused = rejected.length > 0;
        const waitingFor = isRefused ? rejected.slice(0, maxNamed).map(evictions.describe) : beat.waitingFor;
        const stuck = { kind: 'stuck', reported: found.reported, waitingFor, refusals: beat.refusals } as const;
        return { ...stuck, ...(isRefused && { isRefused }) };
      }
      if (look.moves.length > 0) nextLookMs = Math.min(nextLookMs, temporalNowMs() + nodeLookWithVolumesMs);
      const nextMs = Math.min(
        deadlineMs,
        nextLookMs,
        stuckMs,
        ...left.map(evictions.dueMs).filter((dueMs) => dueMs > nowMs),
        ...look.moves.map(({ untilMs }) => untilMs),
      );
      await waiter.wait(nextMs - temporalNowMs(), signal);
    }
    return undefined;
  } finally {
    departures.stop();
    await watch.stop();
  }
}

/** What to return when budgets keep pods and nothing else is to do than to wait. */
async function blockedBy(
  target: KubeClient,
  left: readonly Pod[],
  evictions: Evictions,
  signal: AbortSignal,
): Promise<DrainOutcome | undefined> {
  const refused = evictions.refusedBy(left);
  const blocker = await explain(target, refused, signal);
  return (
    blocker && {
      kind: 'blocked',
      ...blocker,
      podsLeft: refused.length,
      pods: refused.slice(0, maxNamed).map(({ pod }) => nameOf(pod)),
      refusals: evictions.refusals(left),
      retryMs: Math.max(Math.min(...left.map(evictions.dueMs)) - temporalNowMs(), 0),
    }
  );
}

function progressOf(
  left: readonly Pod[],
  { isKnown, moves, unknown }: Departures,
  evictions: Evictions,
): DrainProgress {
  const waits = { pod: 'its pod to end', detach: 'to be detached', reattach: 'to be attached to another node' };
  const waitingFor = [
    ...left.map(evictions.describe),
    ...(isKnown ? [] : ['the watches of VolumeAttachments, CSINodes and Nodes to begin']),
    ...moves.map(({ volume, waitsFor }) => `volume ${volume.name}: ${waits[waitsFor]}`),
    ...unknown.map(({ name }) => `volume ${name}: the provider to say whether it is its own`),
  ];
  return { podsLeft: left.length, waitingFor: waitingFor.slice(0, maxNamed), refusals: evictions.refusals(left) };
}
