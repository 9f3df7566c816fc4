/** Empties a node: cordons it, evicts all pods through the Eviction API, and sees them and their volumes go. */
import { CancelledFailure, Context } from '@temporalio/activity';
import { isOfAnother } from '../../../api/node.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { type Node, nodes, type Pod, pods } from '../../../kube/core.ts';
import type { Logger } from '../../../kube/logger.ts';
import { startReflector } from '../../../kube/reflector.ts';
import { currentCall, temporalNowMs } from '../../boundary.ts';
import type { CallContext } from '../../providers/provider.ts';
import type { WatchAttachments } from './attachments.ts';
import { type Blocker, explain } from './budgets.ts';
import { type Cordon, cordon } from './cordon.ts';
import { createDepartures, type Departures, mayHaveVolumes } from './departures.ts';
import { createEvictions, type Evictions, type Refusals } from './evictions.ts';
import { deleteAttachments, deletePods, isLongUnhealthy } from './force.ts';
import type { VolumePolicy } from './moves.ts';
import { isEvictable, nameOf, uidOf } from './pods.ts';
import { createProgress, type Reported } from './stuck.ts';
import { hasClaims, type KnownVolumes } from './volumes.ts';
import { createWaiter } from './waiter.ts';

export interface DrainDeps {
  readonly target: KubeClient;
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
  | { readonly kind: 'drained' }
  /** Every pod that is not on its way is kept by a budget. Nothing happens before `retryMs` are over. */
  | ({
      readonly kind: 'blocked';
      /** How many pods are kept, and up to five of them, `<namespace>/<name>`. */
      readonly podsLeft: number;
      readonly pods: readonly string[];
      readonly refusals: Refusals;
      readonly retryMs: number;
    } & Blocker)
  /** Nothing has left for long, or the API server has not answered for as long. */
  | {
      readonly kind: 'stuck';
      readonly reported: Reported;
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

/** @param deps `target` holds the Nodes and Pods */
export function createDrainActivities(deps: DrainDeps) {
  return {
    /**
     * Cordons the node, writes on it why, and evicts its pods, except mirror pods and those of DaemonSets: at once, but
     * those with volumes only as other nodes have room for these. Then waits until the pods are gone and their volumes
     * attached to other nodes. Past the deadline, when forced, or when the node was not ready or its file system read-only
     * for 5 min, it deletes the pods without grace, does not wait, and deletes the node's VolumeAttachments if its machine
     * is being deleted. A node that is gone, or is that of another VM, is drained. Returns early when it can only wait for
     * budgets, when it is stuck, and when it is not any more.
     */
    async drainNode(request: DrainRequest): Promise<DrainOutcome> {
      const {
        currentAttemptScheduledTimestampMs: scheduledMs,
        scheduledTimestampMs,
        heartbeatDetails,
      } = Context.current().info;
      const deadline = onThisClock(request.deadline, scheduledMs);
      let { refusals = request.refusals } = (heartbeatDetails ?? {}) as Partial<DrainProgress>;
      const call = currentCall();
      const heartbeat = (beat: DrainProgress) => {
        ({ refusals } = beat);
        call.heartbeat(beat);
      };
      try {
        return await drain(deps, { ...request, deadline, ...(refusals && { refusals }) }, { ...call, heartbeat });
      } catch (error) {
        if (isCancelled(call.signal)) throw toCancelled(refusals);
        const isNew = scheduledMs - scheduledTimestampMs < deps.stuckAfterMs || request.reported === noAnswer;
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

/** A time of Temporal's clock on this worker's, which may differ: Temporal has scheduled the call just now. */
function onThisClock(time: string, scheduledMs: number): string {
  return new Date(Date.now() + Date.parse(time) - scheduledMs).toISOString();
}

/** What a drain needs of the call that it is part of. */
type DrainCall = Omit<CallContext, 'heartbeat'> & { heartbeat(beat: DrainProgress): void };

/** The activity drainNode, outside of a worker. */
export async function drain(deps: DrainDeps, request: DrainRequest, call: DrainCall): Promise<DrainOutcome> {
  const deadlineMs = request.force ? 0 : Date.parse(request.deadline);
  try {
    if (Date.now() < deadlineMs) {
      const outcome = await evictAll(deps, request, deadlineMs, call).catch((error: unknown) => {
        call.signal.throwIfAborted();
        if (Date.now() < deadlineMs) throw error;
      });
      if (outcome !== undefined) return outcome;
    }
    await forceAll(deps, request, call.signal);
  } catch (error) {
    // Past the deadline the VM is deleted with its pods: a cluster that does not answer delays no deletion.
    call.signal.throwIfAborted();
    if (Date.now() < deadlineMs || request.purpose !== 'deletion') throw error;
    deps.logger.warn({ node: request.nodeName, err: error }, 'giving up on the pods of a node');
  }
  return { kind: 'drained' };
}

/** The node, cordoned; its preservation has done that if the machine is preserved. undefined when the machine has none. */
async function prepare(target: KubeClient, request: DrainRequest, signal: AbortSignal): Promise<Node | undefined> {
  return request.purpose === 'preservation' ? findNode(target, request, signal) : cordon(target, request, signal);
}

async function findNode(
  target: KubeClient,
  { nodeName, providerID }: DrainRequest,
  signal: AbortSignal,
): Promise<Node | undefined> {
  const node = await target.find(nodes, { name: nodeName }, { signal });
  return node === undefined || isOfAnother(node, providerID) ? undefined : node;
}

/** The node after a while, cordoned again where somebody has uncordoned it, or its kubelet has registered it again. */
async function lookAgain(
  target: KubeClient,
  request: DrainRequest,
  { metadata }: Node,
  signal: AbortSignal,
): Promise<Node | undefined> {
  const node = await findNode(target, request, signal);
  const isPrepared = request.purpose === 'preservation' || node?.spec?.unschedulable === true;
  return node?.metadata.uid === metadata.uid && isPrepared ? node : prepare(target, request, signal);
}

/** What is refused of the three, such as by a webhook, keeps none of the others from being tried. */
async function forceAll({ target }: DrainDeps, request: DrainRequest, signal: AbortSignal): Promise<void> {
  const { nodeName, purpose } = request;
  const errors: unknown[] = [];
  const noteError = (error: unknown): undefined => void errors.push(error);
  const cordoned = await prepare(target, request, signal).catch(noteError);
  const node = errors.length === 0 ? cordoned : await findNode(target, request, signal);
  if (node !== undefined) {
    await deletePods(target, nodeName, signal).catch(noteError);
    // The VM of a machine that stays goes on, and may still write to its volumes.
    if (purpose === 'deletion') await deleteAttachments(target, nodeName, signal).catch(noteError);
  }
  if (errors.length > 0) throw errors[0];
}

const noAnswer: Reported = 'noAnswer';

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
  let node = await prepare(target, request, signal);
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
  let nextLookMs = Date.now() + nodeLookMs;
  const progressAt = createProgress(stuckAfterMs, reported);
  try {
    while (Date.now() < deadlineMs) {
      if (!watch.store.synced) {
        await waiter.wait(deadlineMs - Date.now(), signal);
        continue;
      }
      signal.throwIfAborted();
      // One moment for the whole look: a pod that becomes due meanwhile ends the wait after it.
      const nowMs = Date.now();
      const onNode = watch.store.list();
      const left = onNode.filter(isEvictable);
      const hasArrivals = left.some((pod) => !expected.has(uidOf(pod)));
      if (hasArrivals || Date.now() >= nextLookMs) {
        // The Node was cordoned: a pod that arrives may be one of another VM, which has taken the name.
        node = await lookAgain(target, request, node, signal);
        if (node === undefined) return { kind: 'drained' };
        if (isLongUnhealthy(node, temporalNowMs())) return undefined;
        for (const pod of left) expected.add(uidOf(pod));
        nextLookMs = Date.now() + nodeLookMs;
      }
      for (const pod of left) if (!hasClaims(pod) && evictions.dueMs(pod) <= nowMs) evictions.start(pod);
      const look = await departures.look(onNode, node);
      const beat = progressOf(left, look, evictions);
      heartbeat(beat);
      const isMoved = look.isKnown && look.moves.length === 0 && look.unknown.length === 0;
      if (left.length === 0 && isMoved) return { kind: 'drained' };
      for (const pod of look.due) evictions.start(pod);
      if (look.unknown.length > 0) {
        const unknown = look.unknown.map(({ name, spec }) => ({ name, spec }));
        if (!evictions.areUnderWay(left))
          return { kind: 'unknownVolumes', volumes: unknown, refusals: evictions.refusals(left) };
      } else if (look.isKnown && look.queued === 0 && !evictions.areUnderWay(left)) {
        const blocked = await blockedBy(target, left, evictions, signal);
        if (blocked !== undefined) return blocked;
      }
      const { stuckMs, ...found } = progressAt(left, look, nowMs);
      const canTell = reported !== undefined && look.isKnown && !evictions.areUnderWay(left);
      if (canTell && !found.isReported) return { kind: 'goesOn', refusals: beat.refusals };
      if (nowMs >= stuckMs)
        return { kind: 'stuck', reported: found.reported, waitingFor: beat.waitingFor, refusals: beat.refusals };
      if (look.moves.length > 0) nextLookMs = Math.min(nextLookMs, Date.now() + nodeLookWithVolumesMs);
      const nextMs = Math.min(
        deadlineMs,
        nextLookMs,
        stuckMs,
        ...left.map(evictions.dueMs).filter((dueMs) => dueMs > nowMs),
        ...look.moves.map(({ untilMs }) => untilMs),
      );
      await waiter.wait(nextMs - Date.now(), signal);
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
      pods: refused.slice(0, 5).map(({ pod }) => nameOf(pod)),
      refusals: evictions.refusals(left),
      retryMs: Math.max(Math.min(...left.map(evictions.dueMs)) - Date.now(), 0),
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
  return { podsLeft: left.length, waitingFor: waitingFor.slice(0, 5), refusals: evictions.refusals(left) };
}
