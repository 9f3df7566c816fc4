/** What the workflow of a machine knows while it runs, and how it learns and waits. */

import {
  CancellationScope,
  CancelledFailure,
  condition,
  continueAsNew,
  proxyLocalActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { Refusals } from '../../activities/machine/drain.ts';
import type { MachineActivities, MachineReading } from '../../activities/machine/index.ts';
import type { FailureCode } from '../../api/failures.ts';
import { desiredState, type MachineObservation, type MachineSnapshot } from '../../api/model/machine.ts';
import { type NodeView } from '../../api/model/node.ts';
import { type FailedRun, isNewer, type ObjectRef } from '../../api/model/ref.ts';
import { type SourceSnapshot } from '../../api/model/source.ts';
import type { EnsureVmRequest } from '../../api/provider.ts';
import { isActivityFailure, toFailure } from '../calls/failure.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import type { machine } from './machine.ts';
import { forceDeletionSignal, observedSignal, skipDrainSignal } from './messages.ts';
import { forgetError, type Progress, restoreProgress, showProgress } from './progress.ts';

/** Local activities: a few requests each. What takes longer than this waits in a workflow timer, not in a task. */
export const kubernetes = proxyLocalActivities<MachineActivities>({
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/** The part of a life that outlasts a run of the workflow. A few KB of JSON while a VM is being created, else 1 KB. */
export interface CarriedLife {
  machine: MachineSnapshot;
  node: NodeView;
  /** Whether a create call may have left anything in the cloud. After one of which nobody can know it stays true. */
  mayHaveVm: boolean;
  /** From the first create call that may have made a VM until the Node has joined: its cloud may not list that VM yet. */
  outcomeUnknown: boolean;
  /** The creation whose outcome is not known, or whose VM has not joined. */
  attempt?: CreationAttempt;
  /** How many creations were given up before it: part of their tokens. */
  ordinal: number;
  /** Whether Secrets may exist that were made for this machine alone. */
  mayHaveUserData: boolean;
  drained: boolean;
  /** When this life first knew of its deletion, ms since the epoch on Temporal's clock: the drain timeout counts from here. */
  leavingSinceMs?: number;
  /** A deletion that was taken back may have left the node cordoned. */
  mayBeCordoned: boolean;
  /** Whether it was unhealthy when its deletion began; left out before that, and when a lost workflow knew it. */
  wasUnhealthy?: boolean;
  /** What the drain has told of pods that were refused to go: they are not counted anew by its next call. */
  refusals?: Refusals;
  /** Nodes of VMs that were deleted before the Machine named them. */
  leftNodes: readonly string[];
  /**
   * End of the last outage that was noticed, or when this life first saw its Machine, ms since the epoch on Temporal's
   * clock: until then no time-out of the creation has counted.
   */
  outageEndMs: number;
  /** What operators have asked of the deletion that is under way. */
  forceDeletion: boolean;
  skipDrain: boolean;
  /** What is known may be wrong: the objects have to be read again. */
  stale: boolean;
  /** Whether the Machine was ever read: before that nothing is known of what an earlier run, that was lost, has done. */
  wasRead: boolean;
  /** What the search attributes say. */
  shown: string;
  /** The last run that has failed, for `describe`. */
  failedRun?: FailedRun;
}

/** A call for a VM, as it is made until its outcome is known. */
export interface CreationAttempt {
  /** Version of the class that it was made from; empty where that was another one, as the Machine remembers. */
  readonly version: string;
  readonly provider: string;
  /** It was refused for certain the last time, although a call before that may have made a VM. */
  isRefused: boolean;
  /** When its user data has to be rendered again, ms since the epoch: a token in it lasts no longer than that and a creation. */
  renewUserDataAtMs?: number;
  readonly request: Omit<EnsureVmRequest, 'outcomeUnknown' | 'providerID' | 'lastKnownState'>;
}

/** State of one machine's workflow, which its phases read and change. */
export interface Life extends CarriedLife {
  readonly ref: ObjectRef;
  /** Whether this run began with a carried life, so that its history is short. */
  readonly isCarried: boolean;
  /** The class as last read, and the version of it that a watcher saw last. */
  reading?: SourceSnapshot;
  classVersion?: string;
  /** Version of the creation whose place is known to be on the Machine, see CreationAttempt. */
  placeVersion?: string;
  /** Whether the cloud did not answer the last time. */
  isCloudOut: boolean;
  /** Whether the cloud says that the VM is not set up yet. */
  isUninitialized: boolean;
  /** When the cloud is to be asked about the VM again, ms since the epoch, and the pause before that. */
  askAt: number;
  askPauseMs: number;
  /** The PodDisruptionBudget that holds the drain up, `<namespace>/<name>`. */
  blockedBy?: string;
  /** Whether the Machine's status says that its VM is being deleted. */
  deletionAnnounced: boolean;
  /** Grows with everything that may be worth another look. */
  news: number;
  /** Whether the Machine is being read. */
  isLooking: boolean;
  progress: Progress;
  /** The refusal that the Machine's status tells of, and when it was written, ms since the epoch. */
  refusal?: {
    readonly reason: string;
    readonly code: FailureCode;
    readonly message: string;
    readonly writtenAt: number;
  };
  /** What looks at news at once, although something else is being waited for. */
  onNews?: () => void;
}

/** Thrown when the Machine object is gone, or another one has its name: there is nothing left to do. */
export class MachineGoneError extends Error {}

/** Thrown when a phase has decided from what is not so: the cluster or Temporal was set back. All is read again. */
export class StaleStateError extends Error {}

/** Starts taking signals. Those that came in earlier were kept and are handled now. */
export function listen(life: Life): void {
  const lookAgain = () => {
    life.stale = true; // which is no news by itself, but a drain has to stop until it is read
    life.onNews?.();
  };
  // It may come before what a watcher has seen of the deletion that it is for.
  const wish = (change: Partial<Life>) => () => {
    Object.assign(life, change);
    if (life.machine.deletingSince === undefined) lookAgain();
    else announceNews(life);
  };
  setHandler(observedSignal, (seen) => learn(life, seen), { description: 'A watcher saw the Machine or its Node.' });
  setHandler(refreshSignal, lookAgain, { description: 'What was seen may be wrong: read it again.' });
  setHandler(retryNowSignal, () => announceNews(life), { description: 'Try again now what is being waited for.' });
  setHandler(forceDeletionSignal, wish({ forceDeletion: true }), {
    description: 'Finish the deletion that is under way without regard for pods.',
  });
  setHandler(skipDrainSignal, wish({ skipDrain: true }), {
    description: 'Finish the deletion that is under way with the pods still on the node.',
  });
}

function announceNews(life: Life): void {
  life.news++;
  life.onNews?.();
}

/**
 * Takes the answer to a write: every one goes through here, so that a deletion is never missed. An answer that is older
 * than what is known was overtaken, or the cluster was set back: only a live look can tell.
 */
export function takeMachine(life: Life, machine: MachineSnapshot): void {
  if (isNewer(life.machine.resourceVersion, machine.resourceVersion)) life.stale = true;
  else life.machine = machine;
  life.onNews?.();
}

/**
 * Takes the parts of an observation that are newer than what is known. A watcher repeats what it saw while a workflow
 * waits, in case it was never heard: that is no news and ends no wait.
 */
function learn(life: Life, seen: MachineObservation): void {
  if (seen.machine.uid !== life.ref.uid) return;
  const before = gist(life);
  const older = isNewer(life.machine.resourceVersion, seen.machine.resourceVersion);
  if (!older) life.machine = seen.machine;
  else if (desiredState(seen.machine) !== desiredState(life.machine)) life.stale = true;
  learnNode(life, seen.node);
  if (seen.classVersion !== undefined) life.classVersion = seen.classVersion;
  if (life.stale || gist(life) !== before) announceNews(life);
}

/**
 * What of the knowledge about a machine is worth another look when it changes, as text to compare. Of the Node of one
 * that is on its way out only whether it is there: what its conditions say does not make a cloud delete sooner.
 */
function gist({ machine, node, classVersion, reading }: Life): string {
  const { resourceVersion: _, ...view } = node.state === 'present' ? node : { ...node, resourceVersion: '' };
  const ofNode = machine.phase === 'Terminating' ? view.state : view;
  return JSON.stringify([
    desiredState(machine),
    machine.phase,
    machine.managed,
    ofNode,
    classVersion ?? reading?.version,
  ]);
}

function learnNode(life: Life, seen: NodeView): void {
  const known = life.node;
  if (seen.state === 'unknown') {
    life.outageEndMs = Date.now();
    return;
  }
  const isOlder =
    seen.state === 'present' &&
    known.state === 'present' &&
    seen.uid === known.uid &&
    isNewer(known.resourceVersion, seen.resourceVersion);
  // No version tells whether a Node has gone since or was not there yet; one that is there has to be drained.
  const isMissing = seen.state === 'absent' && known.state === 'present';
  if (isOlder || isMissing) life.stale = true;
  else life.node = seen;
}

/**
 * Reads the Machine, and its Node if it has one, from the API servers: what they answer is so, also when it is older than
 * what was known before. Only news that came in during the reading is newer, and it is read again.
 */
export async function look(life: Life): Promise<void> {
  const seen = await readLive(life);
  life.stale = false;
  const { resourceVersion, providerID } = life.machine;
  const wasRestored = isNewer(resourceVersion, seen.machine.resourceVersion);
  if (wasRestored || seen.node.state === 'unknown') life.outageEndMs = Date.now();
  if (wasRestored) delete life.placeVersion;
  if (providerID !== undefined && seen.machine.providerID === undefined) life.outcomeUnknown = true;
  if (seen.machine.deletingSince === undefined) Object.assign(life, { forceDeletion: false, skipDrain: false });
  life.node = seen.node;
  life.machine = seen.machine;
  life.onNews?.();
}

async function readLive(life: Life): Promise<MachineReading> {
  let newsBefore: number | undefined;
  const step = () => {
    newsBefore = life.news;
    return kubernetes.observeMachine(life.ref);
  };
  life.stale = true; // until it is read: a run that ends before that hands it on
  life.isLooking = true;
  try {
    let seen: MachineReading;
    do seen = await untilAnswered(life, 'reading the Machine', step);
    while (life.news !== newsBefore);
    return seen;
  } finally {
    life.isLooking = false;
  }
}

/**
 * Runs a step against a Kubernetes API until it is answered. While it fails it waits, longer each time and as long as the
 * API server asks for, but no longer than 30 s, and says so; news is picked up between the tries, and deletion ends them. A
 * step answers null when the Machine is gone.
 */
export async function untilAnswered<T>(life: Life, doing: string, step: () => Promise<T | null>): Promise<T> {
  const firstPauseMs = 1_000;
  const longestPauseMs = 30_000;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const before = life.news;
    try {
      // Short, and its effect must not be lost from sight: deletion waits for it to end.
      const answer = await CancellationScope.nonCancellable(step);
      if (answer === null) throw new MachineGoneError();
      if (pauseMs > firstPauseMs) {
        life.outageEndMs = Date.now();
        forgetError(life);
      }
      return answer;
    } catch (error) {
      if (!isActivityFailure(error)) throw error;
      const { code, message, retryAfterMs = 0 } = toFailure(error);
      life.outageEndMs = Date.now();
      showProgress(life, {
        doing,
        waitingFor: 'a Kubernetes API server to answer',
        blockedOn: 'KubernetesApi',
        error: { code, message },
        unblock: 'Check that the API servers answer Millwright and that its account may do this.',
      });
      await newsSince(life, before, Math.min(Math.max(pauseMs, retryAfterMs), longestPauseMs));
    }
  }
}

/** A wait that ended so much later than it should have tells of an outage of Temporal or of all workers, ms. */
const lateMs = 30_000;

/** Whether this run has more events than replaying it should cost. */
export function isLong(): boolean {
  return workflowInfo().historyLength > 500;
}

/**
 * Waits until something new has come in since `before`, at the longest for `timeoutMs` (for ever without it). To be told
 * to look is no news by itself: after a restart of the controllers all are told, and no cloud is to be asked by all.
 * Signals that are no news make the history long, and Temporal refuses them from a number on: then a new run goes on.
 */
export async function newsSince(life: Life, before: number, timeoutMs = Infinity): Promise<void> {
  endIfCancelled();
  const endMs = Date.now() + Math.max(timeoutMs, 1);
  const mustLook = () => life.stale && !life.isLooking; // a look that waits for its answer starts no other one
  const isAwake = () => life.news !== before || mustLook() || isLong();
  if (isLong()) await startOver(life);
  while (life.news === before && Date.now() < endMs) {
    if (endMs === Infinity) await condition(isAwake);
    else await condition(isAwake, endMs - Date.now());
    if (isLong()) await startOver(life);
    if (Date.now() > endMs + lateMs) life.outageEndMs = Date.now();
    if (mustLook() && (await lookAnew(life))) return;
  }
  if (mustLook()) await look(life);
}

/** Reads everything again, and answers whether anything differs from what was known. */
async function lookAnew(life: Life): Promise<boolean> {
  const { progress } = life;
  const known = () => JSON.stringify([life.machine, life.node].map((view) => ({ ...view, resourceVersion: '' })));
  const before = known();
  await look(life);
  restoreProgress(life, progress); // what is waited for goes on
  return known() !== before;
}

/** Throws when what is being done is to end, for one of the many places that await nothing which would. */
export function endIfCancelled(): void {
  if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('no longer wanted');
}

/** Ends this run and goes on in a new one with a short history. Nothing may be awaited before it. */
export async function startOver(life: Life): Promise<never> {
  const { machine: snapshot, node, mayHaveVm, outcomeUnknown, attempt, ordinal, mayHaveUserData, drained } = life;
  const { leftNodes, outageEndMs, forceDeletion, skipDrain, stale, shown, wasUnhealthy, refusals, failedRun } = life;
  const { wasRead, mayBeCordoned, leavingSinceMs } = life;
  return continueAsNew<typeof machine>(life.ref, {
    ...{ machine: snapshot, node, mayHaveVm, outcomeUnknown, ordinal, mayHaveUserData, drained },
    ...{ leftNodes, outageEndMs, forceDeletion, skipDrain, stale, shown, wasRead, mayBeCordoned },
    ...(attempt !== undefined && { attempt }),
    ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    ...(refusals !== undefined && { refusals }),
    ...(failedRun !== undefined && { failedRun }),
    ...(leavingSinceMs !== undefined && { leavingSinceMs }),
  });
}

/** The time as RFC 3339. */
export function now(): string {
  return new Date().toISOString();
}
