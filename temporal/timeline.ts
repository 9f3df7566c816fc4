/** What a machine did, and how long it took: from the histories of its runs. Pure. */
import { searchAttributes } from '../api/names.ts';
import { attributesOf, type HistoryEvent, isObject, type Json, textOf } from './history.ts';

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
  readonly failures: readonly { readonly code: string; readonly message: string; readonly times: number }[];
  /** What it waited for, keys of `blockers`. */
  readonly blockedOn: readonly string[];
  /** Signals of people and of the cloud that came meanwhile. */
  readonly signals: readonly string[];
}

/** The life of a machine, as far as Temporal has kept it. */
export interface Timeline {
  readonly steps: readonly TimelineStep[];
  /** The VM is deleted, and the Machine released. */
  readonly isGone: boolean;
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
  readonly failures: { readonly code: string; readonly message: string; times: number }[];
  readonly blockedOn: string[];
  readonly signals: string[];
}

/** @param runs the events of each run of a machine's workflow, the oldest first, see `readable` */
export function toTimeline(runs: readonly (readonly HistoryEvent[])[]): Timeline {
  const steps: OpenStep[] = [];
  let isGone = false;
  let hasDrained = false;

  function enter(step: LifeStep, at: string): void {
    const last = steps.at(-1);
    if (last?.step === step) return;
    if (last !== undefined) last.end = at;
    steps.push({ step, start: at, failures: [], blockedOn: [], signals: [] });
  }

  /** A machine without a Node is not drained. */
  function enterDeletion(at: string): void {
    const last = steps.at(-1);
    if (last?.step !== 'drain') return;
    if (hasDrained) enter('delete', at);
    else last.step = 'delete';
  }

  function fail(failure: Json | undefined): void {
    note(readFailure(failure));
  }

  function note({ code, message }: { readonly code: string; readonly message: string }): void {
    const failures = steps.at(-1)?.failures;
    const same = failures?.find((each) => each.code === code && each.message === message);
    if (same === undefined) failures?.push({ code, message, times: 1 });
    else same.times += 1;
  }

  /** What a drain has answered that did not go as it should. */
  function noteDrain({ kind, isRefused, waitingFor, left }: { readonly [field: string]: Json }): void {
    if (kind === 'stuck' && isRefused === true && Array.isArray(waitingFor)) {
      note({ code: 'FailedPrecondition', message: waitingFor.map(textOf).join('; ') });
    }
    if (kind === 'drained' && typeof left === 'string') {
      note({ code: 'DeadlineExceeded', message: `the drain timeout was over, with ${left}` });
    }
  }

  for (const event of runs.flat()) {
    const at = new Date(event.eventTime).toISOString(); // the server has nanoseconds
    const attributes = attributesOf(event);
    switch (event.eventType.replace('EVENT_TYPE_', '')) {
      case 'WORKFLOW_EXECUTION_STARTED': {
        const stage = stageIn(payloadsOf(attributes['input'])[1]) ?? 'new';
        if (steps.length === 0) enter(stepOfStage[stage] ?? 'validate', at);
        break;
      }
      case 'ACTIVITY_TASK_SCHEDULED': {
        const activity = event.activityTaskScheduledEventAttributes?.activityType.name;
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
        isGone ||= activity === 'tearDown' && result === true;
        if (attributes['failure'] !== undefined) fail(attributes['failure']);
        break;
      }
      case 'UPSERT_WORKFLOW_SEARCH_ATTRIBUTES': {
        const blockedOn = blockerIn(attributes['searchAttributes']);
        const last = steps.at(-1);
        if (blockedOn !== '' && last?.blockedOn.includes(blockedOn) === false) last.blockedOn.push(blockedOn);
        break;
      }
      case 'WORKFLOW_EXECUTION_SIGNALED': {
        const signal = textOf(attributes['signalName']);
        if (!silentSignals.has(signal)) steps.at(-1)?.signals.push(signal);
        break;
      }
      case 'ACTIVITY_TASK_COMPLETED': {
        const [result] = payloadsOf(attributes['result']);
        if (isObject(result)) noteDrain(result);
        break;
      }
      case 'ACTIVITY_TASK_FAILED':
      case 'ACTIVITY_TASK_TIMED_OUT':
      case 'WORKFLOW_EXECUTION_FAILED':
        fail(attributes['failure']);
        break;
      case 'WORKFLOW_EXECUTION_COMPLETED': {
        if (!isGone) break;
        enterDeletion(at);
        steps.at(-1)!.end = at;
        break;
      }
    }
  }
  return { steps, isGone };
}

function payloadsOf(value: Json | undefined): readonly Json[] {
  const payloads = isObject(value) ? value['payloads'] : undefined;
  return Array.isArray(payloads)
    ? payloads.map((payload: Json) => (isObject(payload) ? (payload['json'] ?? null) : null))
    : [];
}

/** The stage of a Machine in what an activity has answered, or a watcher has seen. */
function stageIn(value: Json | undefined): string | undefined {
  if (!isObject(value)) return undefined;
  const machine = isObject(value['machine']) ? value['machine'] : value;
  return typeof machine['stage'] === 'string' ? machine['stage'] : undefined;
}

function blockerIn(value: Json | undefined): string {
  const fields = isObject(value) && isObject(value['indexedFields']) ? value['indexedFields'] : {};
  const field = fields[searchAttributes.blockedOn];
  return isObject(field) ? textOf(field['json']) : '';
}

/** The innermost failure has the code of the provider or of Kubernetes. */
function readFailure(failure: Json | undefined): { code: string; message: string } {
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
