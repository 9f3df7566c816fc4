/** The evictions of one drain: which were tried, what has refused them, and when they are tried again. */
import type { KubeClient } from '../../../kube/client.ts';
import { type Pod, pods } from '../../../kube/core.ts';
import { isConflict, isNotFound, isTooManyRequests, isUnreachable, StatusError } from '../../../kube/errors.ts';
import { temporalNowMs } from '../../boundary.ts';
import { budgetOf, type RefusedPod } from './budgets.ts';
import { isEnding, nameOf } from './pods.ts';

/** How often budgets have refused to evict pods, by the pods' UIDs. Pods that are not listed were never refused. */
export type Refusals = Readonly<Record<string, number>>;

interface Eviction {
  /** When it is tried next, ms since the epoch; Infinity while it is under way or was accepted. */
  dueMs: number;
  isUnderWay: boolean;
  /** When it was asked for the last time, or the pod was first seen ending, ms since the epoch. */
  leavingSinceMs?: number;
  /** How often a budget has refused it. */
  refusals: number;
  /** What kept it the last time. */
  refusal?: string;
  /** The budget that did, `<namespace>/<name>`. */
  budget?: string;
  /** Whether the API server has answered no, and no budget is the reason. */
  isRejected?: boolean;
}

export interface EvictionOptions {
  readonly target: KubeClient;
  readonly signal: AbortSignal;
  /** How many evictions a budget may refuse before the pod is deleted. */
  readonly maxRetries: number;
  /** Pause before an eviction that was refused is tried again, ms. */
  readonly retryMs: number;
  /** Of earlier calls. */
  readonly refusals: Refusals;
  /** Called after each answer. */
  onAnswer(): void;
}

export type Evictions = ReturnType<typeof createEvictions>;

export function createEvictions({ target, signal, maxRetries, retryMs, refusals, onAnswer }: EvictionOptions) {
  const evictions = new Map<string, Eviction>();

  function of({ metadata: { uid } }: Pod): Eviction {
    const eviction = evictions.get(uid) ?? { dueMs: 0, isUnderWay: false, refusals: refusals[uid] ?? 0 };
    evictions.set(uid, eviction);
    return eviction;
  }

  /** Evicts a pod, or deletes it with its own grace period when budgets have refused that too often. */
  function remove({ metadata: { namespace = '', name, uid } }: Pod, refused: number): Promise<void> {
    return refused <= maxRetries
      ? target.evict({ namespace, name, uid }, { signal })
      : target.delete(pods, { namespace, name }, { preconditions: { uid }, signal });
  }

  function noteAnswer(eviction: Eviction, pod: Pod, error: unknown): void {
    eviction.isUnderWay = false;
    if (error === undefined || isNotFound(error)) return;
    delete eviction.leavingSinceMs;
    eviction.refusal = error instanceof Error ? error.message : 'the eviction failed';
    eviction.dueMs = temporalNowMs() + retryPauseMs(error, retryMs);
    const budget = budgetOf(error);
    if (budget === undefined) eviction.isRejected = isRejection(error);
    if (budget === undefined) return;
    eviction.refusals++;
    eviction.budget = `${pod.metadata.namespace}/${budget}`;
    eviction.refusal = `${eviction.budget}: ${eviction.refusal}`;
  }

  return {
    /** When it is due, ms since the epoch; Infinity for a pod that is on its way. */
    dueMs: (pod: Pod) => (isEnding(pod) ? Number.POSITIVE_INFINITY : of(pod).dueMs),

    /** Since when the pod is on its way, ms since the epoch; undefined where it is not. */
    leavingSinceMs(pod: Pod): number | undefined {
      const eviction = of(pod);
      if (isEnding(pod)) eviction.leavingSinceMs ??= temporalNowMs();
      return eviction.leavingSinceMs;
    },

    start(pod: Pod): void {
      const eviction = of(pod);
      Object.assign(eviction, { dueMs: Number.POSITIVE_INFINITY, isUnderWay: true, leavingSinceMs: temporalNowMs() });
      delete eviction.refusal;
      delete eviction.budget;
      delete eviction.isRejected;
      const end = (error?: unknown) => {
        noteAnswer(eviction, pod, error);
        onAnswer();
      };
      void remove(pod, eviction.refusals).then(() => end(), end);
    },

    /** Whether an eviction of one of the pods has no answer yet. */
    areUnderWay: (left: readonly Pod[]) => left.some((pod) => of(pod).isUnderWay),

    /** The pods that a budget keeps, with it. */
    refusedBy: (left: readonly Pod[]): readonly RefusedPod[] =>
      left.flatMap((pod) => {
        const { budget } = of(pod);
        return budget === undefined || isEnding(pod) ? [] : [{ pod, budget }];
      }),

    /** The pods that the API server refuses to let go, such as by a webhook or for want of a right. */
    rejected: (left: readonly Pod[]) => left.filter((pod) => !isEnding(pod) && of(pod).isRejected === true),

    /** `<namespace>/<name>` of a pod, with what keeps it. */
    describe(pod: Pod): string {
      if (isEnding(pod)) return `${nameOf(pod)} to end${endingText(pod)}`;
      const { refusal } = of(pod);
      return refusal === undefined ? nameOf(pod) : `${nameOf(pod)}: ${refusal}`;
    },

    refusals(left: readonly Pod[]): Refusals {
      const counts = left.map((pod) => [pod.metadata.uid, of(pod).refusals] as const);
      return Object.fromEntries(counts.filter(([, count]) => count > 0));
    },
  };
}

/** Whether an answer is a refusal that lasts. A server that is busy, or does not answer, refuses nothing. */
function isRejection(error: unknown): boolean {
  return error instanceof StatusError && !isTooManyRequests(error) && !isUnreachable(error) && !isConflict(error);
}

function endingText({ metadata: { deletionTimestamp, finalizers = [] } }: Pod): string {
  const holders = finalizers.length === 0 ? '' : ` and has the finalizers ${finalizers.join(', ')}`;
  return `, which should have ended by ${deletionTimestamp}${holders}`;
}

function retryPauseMs(error: unknown, retryMs: number): number {
  const asked = error instanceof StatusError ? error.retryAfterMs : undefined;
  return isTooManyRequests(error) && asked !== undefined ? Math.min(asked, retryMs) : retryMs;
}
