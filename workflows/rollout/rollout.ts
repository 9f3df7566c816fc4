/**
 * The owner of machines: everything that creates or deletes the machines of a MachineDeployment, or of a MachineSet
 * without one, is decided here. A loop of observe, plan, act and wait, open while the owner needs something.
 */
import {
  ActivityFailure,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { OwnerActivities, OwnerKind } from '../../activities/owners.ts';
import { deploymentNeeds } from '../../api/attention.ts';
import type { ObjectRef, OwnerReading, OwnerView } from '../../api/model.ts';
import { safeAlphabet } from '../../api/names.ts';
import { hasSurplus } from '../../api/surplus.ts';
import { toFailure } from '../machine/failure.ts';
import {
  describeOwnerQuery,
  lookOwnerSignal,
  type OwnerDescription,
  ownerObservedSignal,
  retryNowSignal,
} from './messages.ts';
import { isEmpty, planOwner } from './plan.ts';

const { observeOwner } = proxyActivities<OwnerActivities>({
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
 * rollout: another template begins another run.
 */
export async function rollout(ref: ObjectRef): Promise<void> {
  await own(ref, 'MachineDeployment');
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
  /** Steps in a row that Kubernetes has refused. */
  refusals: number;
  description: OwnerDescription;
}

/** Steps begin this far apart, so that what comes in meanwhile is done in one. */
const stepPauseMs = 250;

/** Of an older reading nothing is planned, ms: all workers may have been down since. By the server's clock alone. */
const maxReadingAgeMs = 60_000;

/** A run gives way to the next one above this many events. */
const maxEvents = 1_000;

async function own(ref: ObjectRef, kind: OwnerKind): Promise<void> {
  const owning = startOwning(ref, kind);
  for (;;) {
    delete owning.seen;
    owning.lookNow = false;
    const step = await takeStep(owning);
    if (step === 'gone') return;
    if (step === 'done' && owning.seen === undefined && !owning.lookNow) return;
    // The next run begins with a reading, which serves every wish that this one was told.
    if (step === 'replaced' || isLong()) await continueAsNew<typeof rollout>(ref);
    owning.refusals = step === 'refused' ? owning.refusals + 1 : 0;
    if (step === 'refused') await condition(() => owning.lookNow, Math.min(500 * 2 ** owning.refusals, 5_000));
    if (step === 'waiting') await condition(() => owning.lookNow || isWorthAStep(owning.seen) || isLong());
  }
}

function isLong(): boolean {
  return workflowInfo().historyLength > maxEvents;
}

type Step = 'gone' | 'done' | 'replaced' | 'outdated' | 'acted' | 'refused' | 'waiting';

/** One round of observe, plan and act. */
async function takeStep(owning: Owning): Promise<Step> {
  const { ref, kind } = owning;
  const askedMs = Date.now();
  try {
    const reading = await observeOwner(ref, kind, owning.nextStepMs);
    owning.nextStepMs = Date.now() + stepPauseMs;
    if (reading === null) return 'gone';
    if (Date.now() > askedMs + maxReadingAgeMs) return 'outdated';
    const { hash } = reading.view.template;
    owning.hash ??= hash;
    if (owning.hash !== hash) return 'replaced';
    const needs = deploymentNeeds(reading.view);
    const plan = planOwner(reading, newName);
    show(owning, reading, needs, doingOf(reading.view, isEmpty(plan)));
    if (!isEmpty(plan)) {
      await actOnOwner(ref, kind, plan);
      return 'acted';
    }
    return needs.length === 0 ? 'done' : 'waiting';
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    const { code, message } = toFailure(error);
    const lastError = { code, message, at: new Date().toISOString() };
    owning.description = { ...owning.description, doing: 'waiting for the Kubernetes API', lastError };
    setCurrentDetails(toMarkdown(owning.description));
    return 'refused';
  }
}

/**
 * Whether what a watcher saw is worth reading everything by quorum: there would be something to do, or nothing more to
 * wait for. A cache that is behind costs a reading or a moment, never a machine: plans are made from readings.
 */
function isWorthAStep(seen: OwnerView | undefined): boolean {
  if (seen === undefined) return false;
  const asIfRead: OwnerReading = { view: seen, candidates: [], begun: [] };
  return hasSurplus(seen) || deploymentNeeds(seen).length === 0 || !isEmpty(planOwner(asIfRead, (set) => set));
}

/** `<set>-` and five characters, as Kubernetes generates names, from the workflow's own seeded random. */
function newName(set: string): string {
  return `${set}-${Array.from({ length: 5 }, randomCharacter).join('')}`;
}

function randomCharacter(): string {
  return safeAlphabet.charAt(Math.floor(Math.random() * safeAlphabet.length));
}

function doingOf({ problem, paused, deleting }: OwnerView, isIdle: boolean): string {
  if (problem !== undefined && !deleting) return `nothing, for it is not valid: ${problem}`;
  if (!isIdle) return 'changing its machines';
  return paused
    ? 'waiting for its machines; a change of its template waits, for it is paused'
    : 'waiting for its machines';
}

function startOwning(ref: ObjectRef, kind: OwnerKind): Owning {
  const description: OwnerDescription = {
    doing: 'starting',
    since: new Date().toISOString(),
    needs: [],
    replicas: { desired: 0, total: 0, active: 0, available: 0 },
  };
  const owning: Owning = { ref, kind, lookNow: false, nextStepMs: 0, refusals: 0, description };
  setHandler(describeOwnerQuery, () => owning.description, { description: 'What is being done for the machines.' });
  setHandler(
    ownerObservedSignal,
    (seen) => {
      owning.seen = seen;
    },
    { description: 'A watcher saw the owner or its machines.' },
  );
  const lookNow = () => {
    owning.lookNow = true;
  };
  setHandler(retryNowSignal, lookNow, { description: 'Look again now.' });
  setHandler(lookOwnerSignal, lookNow, { description: 'The owner may be gone: read it live.' });
  return owning;
}

function show(owning: Owning, { view }: OwnerReading, needs: OwnerDescription['needs'], doing: string): void {
  const sum = (count: 'total' | 'active' | 'available') => view.sets.reduce((total, set) => total + set[count], 0);
  owning.description = {
    doing,
    since: doing === owning.description.doing ? owning.description.since : new Date().toISOString(),
    needs,
    replicas: { desired: view.replicas, total: sum('total'), active: sum('active'), available: sum('available') },
  };
  setCurrentDetails(toMarkdown(owning.description));
}

function toMarkdown({ doing, since, needs, replicas, lastError }: OwnerDescription): string {
  const { desired, total, active, available } = replicas;
  const lines = [
    `- **Doing**: ${doing}, since ${since}`,
    `- **Needs**: ${needs.join(', ') || 'nothing'}`,
    `- **Machines**: ${desired} desired, ${total} existing, ${active} active, ${available} available`,
  ];
  if (lastError !== undefined)
    lines.push(`- **Last error**: ${lastError.code} at ${lastError.at}: ${lastError.message}`);
  return lines.join('\n');
}
