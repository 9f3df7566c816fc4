/** What a machine did, and how long it took: from the histories of its runs. Pure. */
import { searchAttributes } from '../api/names.ts';
import { attributesOf, type HistoryEvent, isObject, type Json, payloadsOf, textOf } from './history.ts';

/** Where a machine is in its life. `unhealthy`: its Node is, or is missing. `failed`: its owner replaces it. */
export type LifeStep =
  | 'validate'
  | 'provision'
  | 'join'
  | 'run'
  | 'unhealthy'
  | 'failed'
  | 'update in place'
  | 'drain'
  | 'delete';

/** A step of a machine. Times are RFC 3339. */
export interface TimelineStep {
  readonly step: LifeStep;
  readonly start: string;
  /** Left out for the one that is not over. */
  readonly end?: string;
  /** What failed in it, in order; the same failure several times is one. */
  readonly failures: readonly (StepFailure & { readonly times: number })[];
  /** What it waited for, keys of `blockers`. */
  readonly blockedOn: readonly string[];
  /** Signals of people and of the cloud that came meanwhile. */
  readonly signals: readonly string[];
  /** Why the Machine was deleted, a clause, in the first step of its deletion; left out where that is not known. */
  readonly cause?: string;
}

/** A failure with the code of the provider or of Kubernetes. */
export interface StepFailure {
  readonly code: string;
  readonly message: string;
}

/** A call of a cloud, or another activity that may take long. Times are RFC 3339. */
export interface TimelineCall {
  /** Type of the activity. */
  readonly activity: string;
  readonly start: string;
  /** Left out for one that is not over. */
  readonly end?: string;
  /** More than 1: Temporal has repeated it. */
  readonly attempts: number;
  /** Left out where it went as it should. */
  readonly failure?: StepFailure;
}

/** A time in which the machine was blocked. Times are RFC 3339. */
export interface TimelineWait {
  /** A key of `blockers`. */
  readonly blockedOn: string;
  readonly start: string;
  /** Left out for one that is not over. */
  readonly end?: string;
}

/** The life of a machine, as far as Temporal has kept it. */
export interface Timeline {
  readonly steps: readonly TimelineStep[];
  readonly calls: readonly TimelineCall[];
  readonly waits: readonly TimelineWait[];
  /** The Machine does not exist any more. */
  readonly isGone: boolean;
  /** It was gone without its deletion: its VM may still be there. */
  readonly isLost: boolean;
  /** metadata.deletionTimestamp of the Machine, RFC 3339; left out where it has not been deleted. */
  readonly deletedAt?: string;
}

/** The step of each stage of a Machine; the steps of a creation or a deletion are told apart by what is called. */
const stepOfStage: Readonly<Record<string, LifeStep>> = {
  new: 'validate',
  joining: 'join',
  running: 'run',
  available: 'run',
  unhealthy: 'unhealthy',
  failed: 'failed',
  updating: 'update in place',
  deleting: 'drain',
};

/** What watchers and Millwright itself say all the time. */
const silentSignals = new Set(['observed', 'refresh']);

/** A step that is being read. */
interface OpenStep extends TimelineStep {
  step: LifeStep;
  end?: string;
  readonly failures: (StepFailure & { times: number })[];
  readonly blockedOn: string[];
  readonly signals: string[];
}

type OpenCall = { -readonly [K in keyof TimelineCall]: TimelineCall[K] };

/** @param runs the events of each run of a machine's workflow, the oldest first, see `readable` */
export function toTimeline(runs: readonly (readonly HistoryEvent[])[]): Timeline {
  const steps: OpenStep[] = [];
  const calls: OpenCall[] = [];
  /** Calls that are not over, by the id of the event that has scheduled them. */
  const open = new Map<string, OpenCall>();
  const waits: (TimelineWait & { end?: string })[] = [];
  let isReleased = false;
  let isGone = false;
  let isLost = false;
  let hasDrained = false;
  let deletedAt: string | undefined;
  let isDeletedWithNode = false;

  function enter(step: LifeStep, at: string): void {
    const last = steps.at(-1);
    if (last?.step === step) return;
    if (last !== undefined && !isGone) last.end = at;
    steps.push({ step, start: at, failures: [], blockedOn: [], signals: [] });
  }

  /** A machine without a Node is not drained. */
  function enterDeletion(at: string): void {
    const last = steps.at(-1);
    if (last?.step !== 'drain') return;
    if (hasDrained) enter('delete', at);
    else last.step = 'delete';
  }

  function enterWait(blockedOn: string, at: string): void {
    const last = waits.at(-1);
    const isOpen = last !== undefined && last.end === undefined;
    if (blockedOn === (isOpen ? last.blockedOn : '')) return;
    if (isOpen) last.end = at;
    if (blockedOn !== '') waits.push({ blockedOn, start: at });
  }

  function endCall(scheduledId: string, at: string, failure?: StepFailure): void {
    const call = open.get(scheduledId);
    open.delete(scheduledId);
    if (call === undefined) return;
    call.end = at;
    if (failure !== undefined) call.failure = failure;
  }

  /** What is open when a run has ended, at the latest when the next one starts. */
  function endRun(at: string): void {
    for (const id of open.keys()) endCall(id, at);
  }

  function note({ code, message }: StepFailure): void {
    const failures = steps.at(-1)?.failures;
    const same = failures?.find((each) => each.code === code && each.message === message);
    if (same === undefined) failures?.push({ code, message, times: 1 });
    else same.times += 1;
  }

  for (const event of runs.flat()) {
    const at = new Date(event.eventTime).toISOString(); // the server has nanoseconds
    const attributes = attributesOf(event);
    switch (event.eventType.replace('EVENT_TYPE_', '')) {
      case 'WORKFLOW_EXECUTION_STARTED': {
        const [, seen] = payloadsOf(attributes['input']);
        const stage = stageIn(seen) ?? 'new';
        deletedAt ??= deletedAtIn(seen);
        if (steps.length === 0 || isLost) enter(stepOfStage[stage] ?? 'validate', at);
        isGone = isReleased;
        isLost = false;
        endRun(at);
        enterWait(blockerIn(attributes['searchAttributes']) ?? '', at);
        break;
      }
      case 'ACTIVITY_TASK_SCHEDULED': {
        const activity = event.activityTaskScheduledEventAttributes?.activityType.name ?? '';
        const call = { activity, start: at, attempts: 1 };
        calls.push(call);
        open.set(event.eventId, call);
        if (activity === 'ensureVm' && steps.at(-1)?.step === 'validate') enter('provision', at);
        hasDrained ||= activity === 'drainNode' && steps.at(-1)?.step === 'drain';
        if (activity === 'deleteVm') enterDeletion(at);
        break;
      }
      case 'MARKER_RECORDED': {
        const [result] = payloadsOf(isObject(attributes['details']) ? attributes['details']['result'] : null);
        const stage = stageIn(result);
        const step = stage === undefined ? undefined : stepOfStage[stage];
        const isBack =
          (step === 'validate' && steps.length > 0) || (step === 'drain' && steps.at(-1)?.step === 'delete');
        if (step !== undefined && !isBack) enter(step, at);
        const { activity_type: activity } = event.markerRecordedEventAttributes?.details.data?.payloads[0]?.json ?? {};
        isReleased ||= activity === 'tearDown' && result === true;
        isLost ||= activity === 'noteLostMachine' && result === true && !isReleased;
        isDeletedWithNode ||= activity === 'deleteMachine' && deletedAt === undefined;
        deletedAt ??= deletedAtIn(result);
        if (attributes['failure'] !== undefined) note(readFailure(attributes['failure']));
        break;
      }
      case 'UPSERT_WORKFLOW_SEARCH_ATTRIBUTES': {
        const blockedOn = blockerIn(attributes['searchAttributes']);
        const last = steps.at(-1);
        if (blockedOn !== undefined) enterWait(blockedOn, at);
        if (blockedOn && last?.blockedOn.includes(blockedOn) === false) last.blockedOn.push(blockedOn);
        break;
      }
      case 'WORKFLOW_EXECUTION_SIGNALED': {
        const signal = textOf(attributes['signalName']);
        if (signal === 'observed') deletedAt ??= deletedAtIn(payloadsOf(attributes['input'])[0]);
        if (!silentSignals.has(signal)) steps.at(-1)?.signals.push(signal);
        break;
      }
      case 'ACTIVITY_TASK_STARTED': {
        const call = open.get(textOf(attributes['scheduledEventId']));
        if (call !== undefined) call.attempts = Number(attributes['attempt'] ?? 1);
        break;
      }
      case 'ACTIVITY_TASK_COMPLETED': {
        const [result] = payloadsOf(attributes['result']);
        const failure = isObject(result) ? drainFailure(result) : undefined;
        if (failure !== undefined) note(failure);
        endCall(textOf(attributes['scheduledEventId']), at, failure);
        break;
      }
      case 'ACTIVITY_TASK_CANCELED':
        endCall(textOf(attributes['scheduledEventId']), at);
        break;
      case 'ACTIVITY_TASK_FAILED':
      case 'ACTIVITY_TASK_TIMED_OUT': {
        const failure = readFailure(attributes['failure']);
        note(failure);
        endCall(textOf(attributes['scheduledEventId']), at, failure);
        break;
      }
      case 'WORKFLOW_EXECUTION_FAILED':
        note(readFailure(attributes['failure']));
        endRun(at);
        break;
      case 'WORKFLOW_EXECUTION_TERMINATED':
      case 'WORKFLOW_EXECUTION_CANCELED':
        endRun(at);
        enterWait('', at);
        break;
      case 'WORKFLOW_EXECUTION_COMPLETED': {
        enterWait('', at);
        if (isReleased) enterDeletion(at);
        steps.at(-1)!.end = at;
        isGone = true;
        break;
      }
    }
  }
  const timeline = { steps, calls, waits, isGone, isLost, ...(deletedAt !== undefined && { deletedAt }) };
  return isDeletedWithNode ? withCause(timeline, 'somebody deleted its Node') : timeline;
}

/** The timeline with the cause of the deletion, if the machine is being deleted or gone. */
export function withCause<T extends Timeline>(timeline: T, cause: string): T {
  const first = timeline.steps.findIndex(({ step }) => step === 'drain' || step === 'delete');
  return { ...timeline, steps: timeline.steps.map((step, i) => (i === first ? { ...step, cause } : step)) };
}

/** The stage of a Machine in what an activity has answered, or a watcher has seen. */
function stageIn(value: Json | undefined): string | undefined {
  return textIn(value, 'stage');
}

/** The same of its deletionTimestamp. */
function deletedAtIn(value: Json | undefined): string | undefined {
  return textIn(value, 'deletingSince');
}

function textIn(value: Json | undefined, field: string): string | undefined {
  if (!isObject(value)) return undefined;
  const machine = isObject(value['machine']) ? value['machine'] : value;
  return textOf(machine[field]) || undefined;
}

/** What search attributes say of the blocker; '' where it is none, undefined where they do not say. */
function blockerIn(value: Json | undefined): string | undefined {
  const fields = isObject(value) && isObject(value['indexedFields']) ? value['indexedFields'] : {};
  const field = fields[searchAttributes.blockedOn];
  return isObject(field) ? textOf(field['json']) : undefined;
}

/** What a drain has answered that did not go as it should. */
function drainFailure({
  kind,
  isRefused,
  waitingFor,
  left,
}: {
  readonly [field: string]: Json;
}): StepFailure | undefined {
  if (kind === 'stuck' && isRefused === true && Array.isArray(waitingFor)) {
    return { code: 'FailedPrecondition', message: waitingFor.map(textOf).join('; ') };
  }
  if (kind === 'drained' && typeof left === 'string') {
    return { code: 'DeadlineExceeded', message: `the drain timeout was over, with ${left}` };
  }
  return undefined;
}

/** The innermost failure has the code of the provider or of Kubernetes. */
function readFailure(failure: Json | undefined): StepFailure {
  if (!isObject(failure)) return { code: 'Unknown', message: '' };
  const info = failure['applicationFailureInfo'];
  if (!isObject(info) && isObject(failure['cause'])) return readFailure(failure['cause']);
  const code = isObject(info)
    ? textOf(info['type'])
    : isObject(failure['timeoutFailureInfo'])
      ? 'DeadlineExceeded'
      : '';
  return { code: code || 'Unknown', message: textOf(failure['message']) };
}
