/**
 * The owner of machines: everything that creates or deletes the machines of a MachineDeployment, or of a MachineSet
 * without one, is decided here. A loop of observe, plan, act and wait, open while the owner needs something.
 */

import {
  ActivityFailure,
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { OwnerActivities, OwnerKind } from '../../activities/owner/index.ts';
import { ownerNeeds } from '../../api/attention.ts';
import type { OwnerSnapshot, OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { type Blocker, safeAlphabet } from '../../api/names.ts';
import { hasExcess } from '../../api/owner/replicas.ts';
import { waitsOf } from '../../api/owner/waits.ts';
import { isActivityFailure, toFailure } from '../calls/failure.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import {
  afterOutage,
  deadlineMs,
  isDue,
  isToldLate,
  type ProgressClock,
  tick,
  tickForward,
  toNewDeadline,
} from './clock.ts';
import {
  describeOwnerQuery,
  type OwnerDescription,
  ownerObservedSignal,
  progressDeadlineFailure,
  type RolloutState,
} from './messages.ts';
import { isEmpty, planLateReport, planOwner } from './plan.ts';
import { doingOf, showBlocker, toLateFailure, toLateNote, toMarkdown } from './report.ts';

const { observeOwner, listBlockers } = proxyActivities<OwnerActivities>({
  startToCloseTimeout: '2 minutes',
  heartbeatTimeout: '10 seconds',
  retry: { initialInterval: '500 ms', maximumInterval: '10 seconds', maximumAttempts: 3 },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/**
 * A step is done at once or not at all: machines that were available when it was planned may not be when a worker is
 * back, and no precondition of a deletion says so. What it leaves undone is planned anew.
 */
const { actOnOwner } = proxyActivities<OwnerActivities>({
  startToCloseTimeout: '2 minutes',
  scheduleToStartTimeout: '30 seconds',
  heartbeatTimeout: '10 seconds',
  retry: { maximumAttempts: 1 },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/**
 * Workflow type `rollout`: owns the machines of a MachineDeployment. Completes when nothing is left to do. A run is one
 * rollout: another template begins another run. It fails past the progress deadline, and its retry policy opens the next
 * run, which goes on with the same rollout and does not fail before there was progress.
 */
export async function rollout(ref: ObjectRef, before?: RolloutState): Promise<void> {
  await own(ref, 'MachineDeployment', workflowInfo().attempt === 1 ? before : leftByFailure());
}

/** What a late run has left. One that failed otherwise has left nothing: its arguments are older than what it did. */
function leftByFailure(): RolloutState | undefined {
  const { lastFailure } = workflowInfo();
  if (!(lastFailure instanceof ApplicationFailure) || lastFailure.type !== progressDeadlineFailure) return undefined;
  return lastFailure.details?.[0] as RolloutState | undefined;
}

/** Workflow type `machineSet`: the same for a MachineSet that no deployment owns. */
export async function machineSet(ref: ObjectRef): Promise<void> {
  await own(ref, 'MachineSet');
}

interface Owning {
  readonly ref: ObjectRef;
  readonly kind: OwnerKind;
  /** The newest view of a watcher since the last reading. */
  seen?: OwnerView;
  /** Hash of the template that this run is about, from its first reading on. */
  hash?: string;
  /** Somebody wants the next reading at once, whatever is waited for. */
  lookNow: boolean;
  /** When the next step may begin, ms since the epoch. */
  nextStepMs: number;
  /** By set, the names of the machines that this run has created last, with commas. */
  readonly made: Map<string, string>;
  /** Steps in a row that Kubernetes has refused. */
  refusals: number;
  /** Only while a rollout is under way. */
  clock: ProgressClock | undefined;
  /** How long the rollout may take to get further, ms. */
  deadlineMs: number;
  /** Whether a timer runs that keeps an eye on the clock. */
  hasTimer: boolean;
  /** What the rollout waits for; only while it is late. */
  blockedBy: RolloutBlockers | undefined;
  /** What the search attribute says, as far as this run can know. */
  shownBlocker: Blocker | 'unknown' | undefined;
  description: OwnerDescription;
}

/** Steps begin this far apart, so that what comes in meanwhile is done in one. */
const stepPauseMs = 250;

/** Of an older reading nothing is planned, ms: all workers may have been down since. By the server's clock alone. */
const maxReadingAgeMs = 60_000;

/** A run gives way to the next one above this many events. */
const maxEvents = 1_000;

/** A timer that ended so much later than it should have tells of an outage of Temporal or of all workers, ms. */
const lateTimerMs = 30_000;

async function own(ref: ObjectRef, kind: OwnerKind, before?: RolloutState): Promise<void> {
  const owning = startOwning(ref, kind, before);
  const failed = findFailedRun();
  if (failed !== undefined && failed.reason !== progressDeadlineFailure) {
    owning.description = { ...owning.description, failedRun: failed };
    owning.shownBlocker = 'unknown';
    await reportRun(failed, { kind, ref });
  }
  for (;;) {
    delete owning.seen;
    owning.lookNow = false;
    const step = await runStep(owning);
    if (step === 'gone') return;
    if (step === 'done' && owning.seen === undefined && !owning.lookNow) return;
    // The next run begins with a reading, which serves every wish that this one was told.
    if (step === 'replaced' || isLong()) await continueAsNew<typeof rollout>(ref, stateOf(owning));
    owning.refusals = step === 'refused' ? owning.refusals + 1 : 0;
    if (step === 'refused') await condition(() => owning.lookNow, Math.min(500 * 2 ** owning.refusals, 5_000));
    if (step === 'waiting') {
      if (!owning.hasTimer) void keepTime(owning).catch(() => undefined); // cancelled, as is what waits below
      await condition(() => owning.lookNow || isWorthAStep(owning) || isLong());
    }
  }
}

/**
 * While a rollout is under way and not late: has everything read when the deadline has passed, and ten times before that
 * if nothing moves, as an outage of the API server that nobody saw would count otherwise. One timer at a time, however
 * often the workflow is woken.
 */
async function keepTime(owning: Owning): Promise<void> {
  owning.hasTimer = true;
  for (;;) {
    const { clock, deadlineMs: givenMs } = owning;
    if (clock === undefined || clock.isLate) break;
    const begunMs = Date.now();
    const leftMs = clock.sinceMs + givenMs - begunMs;
    const tenthMs = givenMs / 10;
    const waitMs = Math.max(1_000, leftMs > 0 ? Math.min(leftMs, tenthMs) : tenthMs);
    if (await condition(() => owning.deadlineMs !== givenMs, waitMs)) continue;
    if (Date.now() > begunMs + waitMs + lateTimerMs) owning.clock = afterOutage(owning.clock, Date.now());
    if (owning.clock?.sinceMs === clock.sinceMs) owning.lookNow = true;
  }
  owning.hasTimer = false;
}

function stateOf({ clock, blockedBy }: Owning): RolloutState | undefined {
  return clock && { clock, ...(blockedBy !== undefined && { blockedBy }) };
}

function isLong(): boolean {
  return workflowInfo().historyLength > maxEvents;
}

type Step = 'gone' | 'done' | 'replaced' | 'outdated' | 'acted' | 'refused' | 'waiting';

/** One round of observe, plan and act. Throws the failure of the run when its deadline has passed. */
async function runStep(owning: Owning): Promise<Step> {
  const { ref, kind } = owning;
  const askedMs = Date.now();
  try {
    const reading = await observeOwner(ref, kind, owning.nextStepMs);
    owning.nextStepMs = Date.now() + stepPauseMs;
    if (reading === null) return 'gone';
    if (Date.now() > askedMs + maxReadingAgeMs) {
      owning.clock = afterOutage(owning.clock, Date.now());
      return 'outdated';
    }
    const { hash } = reading.view.template;
    owning.hash ??= hash;
    if (owning.hash !== hash) return 'replaced';
    await keepDeadline(owning, reading.view);
    const needs = ownerNeeds(reading.view);
    const plan = planOwner(withoutMade(owning, reading), newName, isToldLate(owning.clock, reading.view));
    show(owning, reading, needs, doingOf(reading.view, isEmpty(plan)));
    if (!isEmpty(plan)) {
      await actOnOwner(ref, kind, plan);
      for (const { set, names } of plan.create) owning.made.set(set, names.join());
      return 'acted';
    }
    return needs.length === 0 ? 'done' : 'waiting';
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    const { code, message } = toFailure(error);
    const lastError = { code, message, at: new Date().toISOString() };
    // No answer is an outage. A refusal is none: a rollout that the API server lets make no machine is late, too.
    const isOutage = code === 'Unavailable' || code === 'DeadlineExceeded';
    if (isOutage) owning.clock = afterOutage(owning.clock, Date.now());
    owning.description = { ...owning.description, doing: 'waiting for the Kubernetes API', lastError };
    setCurrentDetails(toMarkdown(owning.description));
    return 'refused';
  }
}

/** What this run has begun by itself is over: names of machines that are gone since are not given again. */
function withoutMade({ made }: Owning, reading: OwnerSnapshot): OwnerSnapshot {
  const pendingCreations = reading.pendingCreations.map((one) =>
    made.get(one.set) === one.text ? { ...one, left: [] } : one,
  );
  return { ...reading, pendingCreations };
}

/**
 * Sets the clock by a reading. When the deadline has passed, finds out what the rollout waits for; and, if it has one,
 * says so and throws the failure of the run. Throws what a step throws.
 */
async function keepDeadline(owning: Owning, view: OwnerView): Promise<void> {
  const { ref, kind } = owning;
  const clock = toNewDeadline(tick(owning.clock, view, Date.now()), view, Date.now());
  owning.clock = clock;
  owning.deadlineMs = deadlineMs(view);
  const isOver = clock !== undefined && isDue(clock, view, Date.now());
  if (isOver || (clock?.isLate && owning.blockedBy === undefined)) {
    const blockedBy = await readBlockers(ref);
    // An API server that cannot tell may be what it waits for, and keeps no machine from coming or going.
    if (blockedBy === undefined) {
      if (isOver) owning.clock = afterOutage(owning.clock, Date.now());
      return;
    }
    // Meanwhile it may have got further, or was changed: paused, for example. The next reading tells.
    if (owning.clock !== clock || (owning.seen?.generation ?? 0) > view.generation) return;
    const isFailed = isOver && view.progressDeadlineSeconds !== undefined;
    if (isFailed) await actOnOwner(ref, kind, planLateReport(view, toLateNote(view, blockedBy ?? undefined)));
    const late = { ...clock, isLate: true };
    owning.clock = late;
    owning.blockedBy = blockedBy ?? undefined;
    blockOn(owning, blockedBy?.blockedOn);
    if (isFailed)
      throw toLateFailure(ref, { clock: late, ...(blockedBy !== null && { blockedBy }) }, owning.deadlineMs);
    return;
  }
  if (!clock?.isLate) owning.blockedBy = undefined;
  blockOn(owning, owning.blockedBy?.blockedOn);
}

/** What a rollout waits for; null when its deployment is gone, undefined when nobody can tell now. */
async function readBlockers(ref: ObjectRef): Promise<RolloutBlockers | null | undefined> {
  try {
    return await listBlockers(ref);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return undefined;
  }
}

function blockOn(owning: Owning, blocker: Blocker | undefined): void {
  if (owning.shownBlocker === blocker) return;
  owning.shownBlocker = blocker;
  showBlocker(blocker);
}

/**
 * Whether what a watcher saw is worth reading everything by quorum: there would be something to do, or nothing more to
 * wait for. A cache that is behind costs a reading or a moment, never a machine: plans are made from readings.
 */
function isWorthAStep({ seen, clock, blockedBy, description }: Owning): boolean {
  if (seen === undefined) return false;
  if (seen.orphans && description.doing !== doingOf(seen, true)) return true; // to say what it waits for from now on
  if (clock?.isLate === false && blockedBy !== undefined) return true; // it was late, and is watched again from now on
  const asIfRead: OwnerSnapshot = { view: seen, candidates: [], pendingCreations: [] };
  const plan = planOwner(asIfRead, (set) => set, isToldLate(clock, seen));
  return hasExcess(seen) || ownerNeeds(seen).length === 0 || !isEmpty(plan);
}

/** `<set>-` and five characters, as Kubernetes generates names, from the workflow's own seeded random. */
function newName(set: string): string {
  return `${set}-${Array.from({ length: 5 }, randomCharacter).join('')}`;
}

function randomCharacter(): string {
  return safeAlphabet.charAt(Math.floor(Math.random() * safeAlphabet.length));
}

function startOwning(ref: ObjectRef, kind: OwnerKind, before: RolloutState | undefined): Owning {
  const description: OwnerDescription = {
    doing: 'starting',
    since: new Date().toISOString(),
    needs: [],
    replicas: { desired: 0, total: 0, active: 0, available: 0 },
  };
  const owning: Owning = {
    ...{ ref, kind, lookNow: false, nextStepMs: 0, made: new Map(), refusals: 0, description },
    ...{ clock: before?.clock, blockedBy: before?.blockedBy, deadlineMs: 0, hasTimer: false },
    shownBlocker: before?.blockedBy === undefined ? undefined : 'unknown',
  };
  setHandler(describeOwnerQuery, () => owning.description, { description: 'What is being done for the machines.' });
  setHandler(
    ownerObservedSignal,
    (seen) => {
      owning.seen = seen;
      owning.clock = tickForward(owning.clock, seen, Date.now());
    },
    { description: 'A watcher saw the owner or its machines.' },
  );
  const lookNow = () => {
    owning.lookNow = true;
  };
  setHandler(retryNowSignal, lookNow, { description: 'Look again now.' });
  setHandler(refreshSignal, lookNow, { description: 'The owner may be gone: read it live.' });
  return owning;
}

function show(owning: Owning, { view }: OwnerSnapshot, needs: OwnerDescription['needs'], doing: string): void {
  const { clock, blockedBy, description } = owning;
  const { failedRun } = description;
  const waitsFor = waitsOf(view);
  const sum = (count: 'total' | 'active' | 'available') => view.sets.reduce((total, set) => total + set[count], 0);
  owning.description = {
    doing,
    since: doing === description.doing ? description.since : new Date().toISOString(),
    needs,
    replicas: { desired: view.replicas, total: sum('total'), active: sum('active'), available: sum('available') },
    ...(waitsFor !== undefined && { waitsFor }),
    ...(clock && { progressAt: timeOf(clock.sinceMs), deadline: timeOf(clock.sinceMs + owning.deadlineMs) }),
    ...(blockedBy && { blockedOn: blockedBy.blockedOn, blockedBy }),
    ...(failedRun && { failedRun }),
  };
  setCurrentDetails(toMarkdown(owning.description));
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
