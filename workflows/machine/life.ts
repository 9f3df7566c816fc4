/** What the workflow of a machine knows while it runs, and how it learns and waits. */
import {
  ActivityFailure,
  CancellationScope,
  condition,
  continueAsNew,
  proxyLocalActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { MachineActivities } from '../../activities/machines.ts';
import {
  type ClassReading,
  isNewer,
  type MachineObservation,
  type MachineSnapshot,
  type NodeView,
  type ObjectRef,
  wishes,
} from '../../api/model.ts';
import type { EnsureVmRequest } from '../../api/provider.ts';
import { toFailure } from './failure.ts';
import type { machine } from './machine.ts';
import { forceDeletionSignal, observedSignal, retryNowSignal, skipDrainSignal } from './messages.ts';
import { type Progress, showProgress } from './progress.ts';

/** Local activities: one or two requests each. What takes longer than this waits in a workflow timer, not in a task. */
export const kubernetes = proxyLocalActivities<MachineActivities>({
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/** The part of a life that outlasts a run of the workflow. About 1 KB of JSON. */
export interface CarriedLife {
  machine: MachineSnapshot;
  node: NodeView;
  /** Whether a create call was ever made, as far as anybody can know. */
  mayHaveVm: boolean;
  /** A create call may have left a VM that nobody has seen yet. */
  outcomeUnknown: boolean;
  /** Whether Secrets may exist that were made for this machine alone. */
  mayHaveUserData: boolean;
  drained: boolean;
  /** Operators' wishes. */
  forceDeletion: boolean;
  skipDrain: boolean;
  /** Something older than what is known came in: the objects have to be read again. */
  stale: boolean;
  /** What the search attributes say. */
  shown: string;
}

/** A call for a VM, as it is made until its outcome is known. */
export interface CreationAttempt {
  readonly provider: string;
  readonly request: Omit<EnsureVmRequest, 'outcomeUnknown'>;
}

/** State of one machine's workflow. Phases read and change it; nothing in it is needed to carry on after a loss. */
export interface Life extends CarriedLife {
  readonly ref: ObjectRef;
  /** Whether this run began with a carried life, so that its history is short. */
  readonly isCarried: boolean;
  /** The class as last read. */
  reading?: ClassReading;
  /** The creation that is under way or whose VM is known, and how many were refused before it. */
  attempt?: CreationAttempt;
  ordinal: number;
  /** When the cloud is to be asked about the VM again, ms since the epoch, and the pause before that. */
  askAt: number;
  askPauseMs: number;
  /** Whether the Machine's status says that its VM is being deleted. */
  deletionAnnounced: boolean;
  /** Grows with everything that may be worth another look. */
  news: number;
  progress: Progress & { readonly since: string };
  /** What looks at news at once, although something else is being waited for. */
  onNews?: () => void;
}

/** Thrown when the Machine object is gone, or another one has its name: there is nothing left to do. */
export class MachineGone extends Error {}

/** Starts taking signals. Those that came in earlier were kept and are handled now. */
export function listen(life: Life): void {
  const wish = (change: Partial<Life>) => () => {
    Object.assign(life, change);
    announceNews(life);
  };
  setHandler(observedSignal, (seen) => learn(life, seen), { description: 'A watcher saw the Machine or its Node.' });
  setHandler(retryNowSignal, wish({}), { description: 'Try again now what is being waited for.' });
  setHandler(forceDeletionSignal, wish({ forceDeletion: true }), { description: 'Delete without regard for pods.' });
  setHandler(skipDrainSignal, wish({ skipDrain: true }), { description: 'Delete with the pods still on the node.' });
}

function announceNews(life: Life): void {
  life.news++;
  life.onNews?.();
}

/** Takes the parts of an observation that are newer than what is known. */
function learn(life: Life, seen: MachineObservation): void {
  if (seen.machine.uid !== life.ref.uid) return;
  const older = isNewer(life.machine.resourceVersion, seen.machine.resourceVersion);
  if (!older) life.machine = seen.machine;
  else if (wishes(seen.machine) !== wishes(life.machine)) life.stale = true;
  learnNode(life, seen.node);
  announceNews(life);
}

function learnNode(life: Life, seen: NodeView): void {
  const known = life.node;
  if (seen.state === 'unknown') return;
  const older =
    seen.state === 'present' &&
    known.state === 'present' &&
    seen.uid === known.uid &&
    isNewer(known.resourceVersion, seen.resourceVersion);
  if (older) life.stale = true;
  else life.node = seen;
}

/** Reads the Machine, and its Node if it has one, from the API servers. */
export async function look(life: Life): Promise<void> {
  const seen = await untilAnswered(life, 'reading the Machine', () => kubernetes.observeMachine(life.ref));
  life.stale = false;
  life.machine = seen.machine;
  if (seen.node.state !== 'unknown') life.node = seen.node;
  life.onNews?.();
}

/**
 * Runs a step against a Kubernetes API until it is answered. While there is no answer it waits, longer each time, and
 * says so; news and deletion are picked up between the tries. A step answers null when the Machine is gone.
 */
export async function untilAnswered<T>(life: Life, doing: string, step: () => Promise<T | null>): Promise<T> {
  for (let pauseMs = 1_000; ; pauseMs = Math.min(pauseMs * 2, 30_000)) {
    const before = life.news;
    try {
      // Short, and its effect must not be lost from sight: deletion waits for it to end.
      const answer = await CancellationScope.nonCancellable(step);
      if (answer === null) throw new MachineGone();
      return answer;
    } catch (error) {
      if (!(error instanceof ActivityFailure)) throw error;
      const { code, message } = toFailure(error);
      showProgress(life, {
        doing,
        waitingFor: 'a Kubernetes API server to answer',
        blockedOn: 'KubernetesApi',
        lastError: { code, message, at: now() },
        unblock: 'Check that the API servers answer Millwright and that its account may do this.',
      });
      await newsSince(life, before, pauseMs);
    }
  }
}

/** Waits until something new has come in since `before`, at the longest for `timeoutMs` (for ever without it). */
export async function newsSince(life: Life, before: number, timeoutMs?: number): Promise<void> {
  if (timeoutMs !== undefined && timeoutMs <= 0) return;
  if (life.news === before && workflowInfo().historyLength > 500) await startOver(life);
  const isNews = () => life.news !== before;
  if (timeoutMs === undefined) await condition(isNews);
  else await condition(isNews, timeoutMs);
  if (life.stale) await look(life);
}

/** Ends this run and goes on in a new one with a short history. Nothing may be awaited before it. */
export async function startOver(life: Life): Promise<never> {
  const { mayHaveVm, outcomeUnknown, mayHaveUserData, drained, forceDeletion, skipDrain, stale, shown } = life;
  const flags = { mayHaveVm, outcomeUnknown, mayHaveUserData, drained, forceDeletion, skipDrain, stale, shown };
  return continueAsNew<typeof machine>(life.ref, { machine: life.machine, node: life.node, ...flags });
}

/** The time as RFC 3339. */
export function now(): string {
  return new Date().toISOString();
}
