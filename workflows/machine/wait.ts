/** How the workflow of a machine waits: for a change, for a Kubernetes API server, for everything to be read again. */
import {
  CancellationScope,
  CancelledFailure,
  condition,
  continueAsNew,
  patched,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { MachineReading } from '../../activities/machine/index.ts';
import { hasJoined, isPastCreation } from '../../api/model/machine.ts';
import { isNewer, type ObjectRef } from '../../api/model/ref.ts';
import { isOutage } from '../calls/failure.ts';
import { checkApiServers, untilAnswered as untilApiAnswers } from '../calls/kubernetes.ts';
import { kubernetes } from './kubernetes.ts';
import { putMachine, putNode } from './observe.ts';
import { recoverCreation } from './phases/creation.ts';
import { forgetError, restoreProgress, show, showSearchAttributes, waitSummary } from './progress.ts';
import { MachineGoneError, type MachineState, type PersistedState, timeIn, toPersisted } from './state.ts';

/** A timer that fires this late means that Temporal or all workers were down, ms. */
const lateMs = 30_000;

/** Whether this run has more events than replaying it should cost. */
export function isHistoryLong(): boolean {
  return workflowInfo().historyLength > 500;
}

/** Ends this run and goes on in a new one with a short history. Nothing may be awaited before it. */
export function continueAsNewRun(state: MachineState): Promise<never> {
  type NextRun = (ref: ObjectRef, seen: undefined, persisted: PersistedState) => Promise<void>;
  return continueAsNew<NextRun>(state.ref, undefined, toPersisted(state));
}

/** Throws when what is being done was cancelled. For places that await nothing which would throw. */
export function throwIfCancelled(): void {
  if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('no longer wanted');
}

/**
 * Waits until there was a change since `before`, at most `timeoutMs` (forever without it). A `refresh` signal alone
 * does not end the wait: after a controller restart every machine gets one, and they must not all poll the cloud.
 * Signals make the history long, and Temporal refuses them above a number: then the wait goes on in a new run.
 */
export async function waitForChange(state: MachineState, before: number, timeoutMs = Infinity): Promise<void> {
  throwIfCancelled();
  const endMs = Date.now() + Math.max(timeoutMs, 1);
  const mustRefresh = () => state.stale && !state.isRefreshing; // one reading at a time
  const isAwake = () => state.changes !== before || mustRefresh() || isHistoryLong();
  if (isHistoryLong()) await continueAsNewRun(state);
  while (state.changes === before && Date.now() < endMs) {
    if (endMs === Infinity) await condition(isAwake);
    else await condition(isAwake, endMs - Date.now(), { summary: waitSummary(state.progress) });
    if (isHistoryLong()) await continueAsNewRun(state);
    if (Date.now() > endMs + lateMs) {
      state.outageEndMs = Date.now();
      state.stale = true; // Temporal may have been restored from a backup
    }
    if (mustRefresh() && (await refreshAndCompare(state))) return;
  }
  if (mustRefresh()) await refresh(state);
}

/**
 * The longest pause between two calls of Kubernetes, ms. An outage that lasts until then is in the search attributes, a
 * shorter one is not worth two events for each machine.
 */
const maxPauseMs = 30_000;

/**
 * Calls Kubernetes until it answers. During an outage `describe` says so; a change ends the pause between two attempts,
 * and a cancellation ends the wait.
 * @param call answers null when the Machine is gone: then MachineGoneError is thrown
 * @param unblock what people can do while nobody answers
 */
export async function untilAnswered<T>(
  state: MachineState,
  doing: string,
  call: () => Promise<T | null>,
  unblock = checkApiServers,
): Promise<T> {
  const { progress } = state;
  let before = state.changes;
  let hasFailed = false;
  let wasOutage = false;
  let isReported = false;
  const attempt = () => {
    before = state.changes;
    return CancellationScope.nonCancellable(call); // at most 15 s, and a deletion has to know its effect
  };
  const answer = await untilApiAnswers(attempt, {
    firstPauseMs: 1_000,
    maxPauseMs,
    pause(error, pauseMs) {
      hasFailed = true;
      if (isOutage(error) || !patched('a-refusal-is-no-outage')) {
        wasOutage = true;
        state.outageEndMs = Date.now();
      }
      show(state, {
        doing,
        waitingFor: 'a Kubernetes API server to answer',
        blockedOn: 'KubernetesApi',
        error,
        unblock,
      });
      isReported ||= pauseMs === maxPauseMs;
      if (isReported) showSearchAttributes(state);
      return waitForChange(state, before, pauseMs);
    },
  });
  if (answer === null) throw new MachineGoneError();
  if (wasOutage) state.outageEndMs = Date.now();
  if (hasFailed) {
    restoreProgress(state, progress);
    forgetError(state);
  }
  if (isReported) showSearchAttributes(state);
  return answer;
}

/**
 * Reads the Machine, and its Node if it has one, from the API servers. The answer is true, also where it is older than
 * what was known: then a backup was restored. Where a change arrives during the reading it is repeated.
 */
export async function refresh(state: MachineState): Promise<void> {
  const seen = await readLive(state);
  state.stale = false;
  const wasRestored = isNewer(state.machine.resourceVersion, seen.machine.resourceVersion);
  if (wasRestored || seen.node.state === 'unknown') state.outageEndMs = Date.now();
  if (wasRestored) delete state.placeVersion;
  // What was removed when its Node joined may be back as well.
  if (wasRestored && patched(isPastCreation(seen.machine.stage) ? 'user-data-of-any-backup' : 'user-data-of-a-backup'))
    state.mayHaveUserData = true;
  if (seen.machine.deletingSince === undefined) Object.assign(state, { forceDeletion: false, skipDrain: false });
  putNode(state, seen.node);
  putMachine(state, seen.machine);
  if (seen.node.state !== 'unknown') delete state.maintenance;
  if (seen.maintenance !== undefined) state.maintenance = seen.maintenance;
  if (!state.wasRead) await recover(state);
  state.onChange?.();
}

/**
 * How long a call of a lost run may go on, ms. Its worker learns that the run is gone with its next heartbeat or from
 * the missing answer: 10 s, and 5 s that the SDK adds.
 */
const lostCallMs = 15_000;

/** The Machine was read for the first time: what an earlier run that was lost may have done follows from it. */
async function recover(state: MachineState): Promise<void> {
  const { managed, providerID, stage } = state.machine;
  const isNamed = providerID !== undefined;
  if (isNamed && hasJoined(stage)) state.joinedVm = providerID;
  state.creation = recoverCreation(managed, isNamed, hasJoined(stage));
  state.hasCreation = !isPastCreation(stage);
  state.mayHaveUserData = managed;
  state.outageEndMs = Date.now();
  state.wasRead = true;
  if (!managed || isNamed) return;
  show(state, {
    doing: 'waiting until calls of an earlier run have certainly ended',
    until: timeIn(lostCallMs),
  });
  const summary = 'calls of an earlier run end';
  await CancellationScope.nonCancellable(() => sleep(lostCallMs, { summary }));
}

async function readLive(state: MachineState): Promise<MachineReading> {
  let before: number | undefined;
  const read = () => {
    before = state.changes;
    return kubernetes.observeMachine(state.ref);
  };
  state.stale = true; // until it is read: a run that ends before that hands it on
  state.isRefreshing = true;
  try {
    let seen: MachineReading;
    do seen = await untilAnswered(state, 'reading the Machine', read);
    while (state.changes !== before);
    return seen;
  } finally {
    state.isRefreshing = false;
  }
}

/** Reads everything again. Answers whether anything differs from what was known. */
async function refreshAndCompare(state: MachineState): Promise<boolean> {
  const { progress } = state;
  const known = () => JSON.stringify([state.machine, state.node].map((view) => ({ ...view, resourceVersion: '' })));
  const before = known();
  const { maintenance } = state;
  await refresh(state);
  restoreProgress(state, progress); // the wait goes on
  const isDue = state.maintenance !== undefined && state.maintenance !== maintenance;
  return known() !== before || (isDue && patched('maintenance-that-was-read'));
}
