/** The life of a machine: one workflow for each Machine object, open for as long as that object lives. */
import { CancellationScope, isCancellation, setHandler, sleep } from '@temporalio/workflow';
import type { ObjectRef } from '../../api/model/ref.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { remove } from './delete.ts';
import { drain, stay } from './drain.ts';
import { join } from './join.ts';
import {
  type CarriedLife,
  endIfCancelled,
  isLong,
  type Life,
  listen,
  look,
  MachineGoneError,
  newsSince,
  now,
  StaleStateError,
  startOver,
} from './life.ts';
import { describeQuery } from './messages.ts';
import { again, done, hasJoined, type PhaseOutcome } from './phase.ts';
import { describe, showProgress } from './progress.ts';
import { provision } from './provision.ts';
import { run } from './run.ts';
import { timeIn } from './status.ts';
import { validate } from './validate.ts';

/**
 * A worker that makes a call for a run which was terminated, or lost with Temporal's database, hears of it with its next
 * heartbeat, or gives up when it should have heard: 10 s, and 5 s that the SDK adds, ms.
 */
const lostCallMs = 15_000;

type Phase = (life: Life) => Promise<PhaseOutcome>;

const living: readonly Phase[] = [validate, provision, join, enterRun, run];
const leaving: readonly Phase[] = [drain, remove];

/**
 * Workflow type `machine`. Input is a reference; what it says is read live. `carried` is for its own continue-as-new: a
 * run that takes over from a failed one has it as well, and finds out by itself how far that one was.
 * Completes when the Machine is gone; also when it never was there or another object has its name.
 */
export async function machine(ref: ObjectRef, carried?: CarriedLife): Promise<void> {
  const failed = findFailedRun();
  const life = startLife(ref, failed === undefined ? carried : undefined);
  setHandler(describeQuery, () => describe(life), { description: 'What the machine is doing and waits for.' });
  try {
    listen(life); // first: a run that ends before it has read anything hands its signals on
    if (failed !== undefined) {
      life.failedRun = failed;
      await reportRun(failed, { kind: 'Machine', ref });
    }
    if (!life.wasRead) await firstLook(life);
    else if (life.stale) await look(life);
    for (let isLeft = false; !isLeft; ) {
      if (isStaying(life) && life.mayBeCordoned) await stay(life);
      if (isStaying(life)) await untilDeletion(life, () => walk(life, living));
      isLeft = !life.machine.managed || (await leave(life));
    }
  } catch (error) {
    if (!(error instanceof MachineGoneError)) throw error;
  }
}

function isStaying({ machine: { deletingSince } }: Life): boolean {
  return deletingSince === undefined;
}

/**
 * Goes through the phases until they are done or `isOver`. After a wait it starts again at the first: what is done already
 * passes at once.
 */
async function walk(life: Life, phases: readonly Phase[], isOver = () => false): Promise<void> {
  for (let i = 0; i < phases.length; ) {
    if (life.stale) await look(life);
    if (isOver()) return;
    const before = life.news;
    const outcome = await tryPhase(life, phases[i]!);
    endIfCancelled();
    if (outcome.kind === 'wait') await newsSince(life, before, outcome.timeoutMs);
    if (outcome.kind === 'again' && isLong()) await startOver(life);
    if (outcome.kind === 'failed') i = phases.indexOf(run);
    else if (outcome.kind === 'done') i++;
    else i = 0;
  }
}

async function tryPhase(life: Life, phase: Phase): Promise<PhaseOutcome> {
  try {
    return await phase(life);
  } catch (error) {
    if (!(error instanceof StaleStateError)) throw error;
    endIfCancelled();
    await look(life);
    return again;
  }
}

/** Answers false when the Machine is not to be deleted any more: its cluster was set back to a time before that. */
async function leave(life: Life): Promise<boolean> {
  await walk(life, leaving, () => isStaying(life));
  if (!isStaying(life)) return true;
  await stay(life);
  return false;
}

/** Runs the phases of the living until the Machine is to be deleted; a create call under way ends before this does. */
async function untilDeletion(life: Life, walkOfLife: () => Promise<void>): Promise<void> {
  const scope = new CancellationScope();
  let isDeleted = false; // that it was, although an answer that was on its way may not know of it yet
  life.onNews = () => {
    isDeleted ||= !isStaying(life);
    if (isDeleted) scope.cancel();
  };
  try {
    await scope.run(walkOfLife);
  } catch (error) {
    // A workflow that is cancelled by hand ends as such: only a deleted Machine loses its VM.
    if (!isDeleted || !isCancellation(error)) throw error;
  } finally {
    delete life.onNews;
  }
}

/** A machine at rest has a short history: its creation is left behind when it enters run. */
async function enterRun(life: Life): Promise<PhaseOutcome> {
  return life.isCarried ? done : startOver(life);
}

/** Reads the Machine for the first time. What an earlier run that was lost may have done follows from the object. */
async function firstLook(life: Life): Promise<void> {
  await look(life);
  const { managed, providerID, phase } = life.machine;
  life.mayHaveVm = managed; // no create call comes before the finalizer
  life.outcomeUnknown = managed && !hasJoined(phase);
  life.mayHaveUserData = managed;
  life.outageEndMs = Date.now();
  life.wasRead = true;
  if (!managed || providerID !== undefined) return;
  showProgress(life, {
    doing: 'waiting until no call of a run before this one can be under way',
    until: timeIn(lostCallMs),
  });
  await sleep(lostCallMs);
}

function startLife(ref: ObjectRef, carried: CarriedLife | undefined): Life {
  const unread: CarriedLife = {
    machine: {
      uid: ref.uid,
      resourceVersion: '',
      createdAt: now(),
      managed: false,
      finalizers: [],
      prioritized: false,
      phase: '',
      stage: 'new',
      source: '',
      onNodeDeleted: 'deleteMachine',
      class: { kind: '', name: '' },
      forceDeletion: false,
      limits: { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] },
      conditions: {},
    },
    node: { state: 'unknown' },
    mayHaveVm: true,
    outcomeUnknown: true,
    ordinal: 0,
    mayHaveUserData: true,
    drained: false,
    mayBeCordoned: false,
    leftNodes: [],
    outageEndMs: 0,
    forceDeletion: false,
    skipDrain: false,
    stale: false,
    wasRead: false,
    shown: '',
  };
  // What an older release has carried lacks the fields that it did not know.
  return {
    ...unread,
    ...carried,
    machine: {
      ...unread.machine,
      ...carried?.machine,
      limits: { ...unread.machine.limits, ...carried?.machine.limits },
    },
    ref,
    isCarried: carried !== undefined,
    isCloudOut: false,
    isUninitialized: false,
    askAt: 0,
    askPauseMs: 0,
    deletionAnnounced: false,
    news: 0,
    isLooking: false,
    progress: { doing: 'starting', since: now() },
  };
}
