/**
 * The decisions of a run beside those of today's code: pure. Temporal compares only their kinds; here the content
 * counts, too.
 */
import { isDeepStrictEqual } from 'node:util';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { Commands } from '../workflows/replay-interceptors.ts';
import {
  attributesOf,
  type HistoryEvent,
  isCommand,
  isObject,
  type Json,
  jsonOf,
  payloadsOf,
  textOf,
} from './history.ts';

/** Something that a workflow asked for. */
export interface Decision {
  /** For people: `activity actOnOwner`. */
  readonly what: string;
  /** What it asked for in detail; left out where the history does not keep it. */
  readonly content?: unknown;
}

interface Keyed extends Decision {
  /** The same for the same decision of two replays of a run. */
  readonly key: string;
}

interface Recorded extends Keyed {
  readonly event: HistoryEvent;
}

/** The first decision that differs. */
export interface Difference {
  /** Id of the recorded event; left out where the code asks for something after the last one. */
  readonly event?: string;
  readonly recorded?: Decision;
  /** Left out where the code asks for nothing there. */
  readonly now?: Decision;
  /** What differs in the content of two decisions of one kind, one line each. */
  readonly details: readonly string[];
  /** What the workflow got to know just before: results of activities, signals, timers. */
  readonly madeFrom: readonly { readonly event: string; readonly what: string; readonly content?: unknown }[];
}

/**
 * The first decision that differs; undefined where none does.
 * @param asked by the replay, in order
 * @param stopped whether Temporal has stopped the replay, or the code has failed: then what the replay did not reach
 * differs
 */
export function firstDifference(
  events: readonly HistoryEvent[],
  asked: readonly Commands[],
  stopped: boolean,
): Difference | undefined {
  const recorded = toRecorded(events);
  const activations = toAsked(asked);
  const now = new Map(activations.flat().map((decision) => [decision.key, decision]));
  const differing = recorded.find(({ key, what, content }) => {
    const other = now.get(key);
    if (other === undefined) return stopped;
    return other.what !== what || (content !== undefined && !isSame(content, other.content));
  });
  if (differing === undefined && !stopped) return undefined;
  const known = new Set(recorded.map(({ key }) => key));
  const unknown = activations.map((each) => each.filter(({ key }) => !known.has(key)));
  // What is asked for and not recorded may be a timer that was cancelled at once. The replay has stopped at the last
  // one.
  const additional = stopped ? unknown.findLast(({ length }) => length > 0)?.[0] : undefined;
  const other = (differing && now.get(differing.key)) ?? additional;
  const isOfOneKind = differing !== undefined && differing.what === other?.what;
  return {
    ...(differing !== undefined && { event: differing.event.eventId, recorded: toDecision(differing) }),
    ...(other !== undefined && { now: toDecision(other) }),
    details: isOfOneKind ? differences(differing.content, other?.content) : [],
    madeFrom: basisOf(events, differing?.event ?? events.at(-1)),
  };
}

/** Number of decisions of a run. */
export function countDecisions(events: readonly HistoryEvent[]): number {
  return toRecorded(events).length;
}

/** The search attribute in which the SDK lists what `patched` was asked for; no workflow asks for its writes. */
const versionsOfPatches = 'TemporalChangeVersion';

function toDecision({ what, content }: Keyed): Decision {
  return { what, ...(content !== undefined && { content }) };
}

/** As JSON has them: a field that is undefined is one that is missing. */
function isSame(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(toJson(a), toJson(b));
}

function toJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

function toRecorded(events: readonly HistoryEvent[]): Recorded[] {
  const count = newCounter();
  return events.filter(isCommand).flatMap((event) => {
    const decision = toKeyed(event.eventType.replace('EVENT_TYPE_', ''), attributesOf(event), count);
    return decision === undefined ? [] : [{ ...decision, event }];
  });
}

/** Some decisions have no id: the first of a kind is that of the other replay, too. */
function newCounter(): (kind: string) => string {
  const counts = new Map<string, number>();
  return (kind) => {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return `${kind} ${counts.get(kind)}`;
  };
}

type Attributes = { readonly [key: string]: Json };

function toKeyed(type: string, attributes: Attributes, count: (kind: string) => string): Keyed | undefined {
  const text = (key: string) => textOf(attributes[key]);
  switch (type) {
    case 'ACTIVITY_TASK_SCHEDULED': {
      const content = payloadsOf(attributes['input']);
      return { key: `call ${text('activityId')}`, what: `activity ${nameIn(attributes['activityType'])}`, content };
    }
    case 'MARKER_RECORDED':
      return toKeyedMarker(attributes, count);
    case 'TIMER_STARTED':
      return { key: `timer ${text('timerId')}`, what: timerOf(Number.parseFloat(text('startToFireTimeout'))) };
    case 'TIMER_CANCELED':
      return { key: `cancelled timer ${text('timerId')}`, what: 'end of a timer' };
    case 'UPSERT_WORKFLOW_SEARCH_ATTRIBUTES': {
      const { indexedFields = {} } = isObject(attributes['searchAttributes']) ? attributes['searchAttributes'] : {};
      const fields = Object.entries(isObject(indexedFields) ? indexedFields : {});
      if (fields.some(([name]) => name === versionsOfPatches)) return undefined;
      const content = Object.fromEntries(fields.map(([name, payload]) => [name, jsonOf(payload)]));
      return { key: count('search attributes'), what: 'search attributes', content };
    }
    case 'WORKFLOW_EXECUTION_COMPLETED':
      return { key: 'end', what: 'end of the workflow' };
    case 'WORKFLOW_EXECUTION_CONTINUED_AS_NEW':
      return { key: 'end', what: 'continue as new', content: payloadsOf(attributes['input']) };
    case 'WORKFLOW_EXECUTION_FAILED': {
      const failure = isObject(attributes['failure']) ? attributes['failure'] : {};
      return { key: 'end', what: failureOf(nameIn(failure['applicationFailureInfo'], 'type')) };
    }
    default:
      return undefined; // Temporal compares it
  }
}

/** A marker keeps the result of a local activity and not its arguments. */
function toKeyedMarker(attributes: Attributes, count: (kind: string) => string): Keyed | undefined {
  const details = isObject(attributes['details']) ? attributes['details'] : {};
  const [about] = payloadsOf(details['data']);
  if (!isObject(about) || attributes['markerName'] !== 'core_local_activity') return undefined;
  const id = textOf(about['activity_id']) || count('local');
  return { key: `call ${id}`, what: `local activity ${textOf(about['activity_type'])}` };
}

/** Nanoseconds are cut off somewhere on the way. */
function timerOf(seconds: number): string {
  return `timer of ${Math.round(seconds * 1_000) / 1_000} s`;
}

/** The message may name the installation, which a replay does not know: its task queue has another name. */
function failureOf(type: string): string {
  return `failure of the workflow, ${type}`;
}

function nameIn(value: Json | undefined, key = 'name'): string {
  return isObject(value) ? textOf(value[key]) : '';
}

function toAsked(activations: readonly Commands[]): Keyed[][] {
  const count = newCounter();
  return activations.map((commands) => commands.flatMap((command) => toKeyedCommand(command, count) ?? []));
}

function toKeyedCommand(command: Commands[number], count: (kind: string) => string): Keyed | undefined {
  const { scheduleActivity, scheduleLocalActivity, startTimer, cancelTimer } = command;
  const { upsertWorkflowSearchAttributes: upsert, continueAsNewWorkflowExecution: next } = command;
  const { failWorkflowExecution: failed, completeWorkflowExecution: completed } = command;
  if (scheduleActivity) {
    const { activityId, activityType, arguments: given } = scheduleActivity;
    return { key: `call ${activityId}`, what: `activity ${activityType}`, content: given?.map(decoded) ?? [] };
  }
  if (scheduleLocalActivity) {
    const { activityId, activityType, arguments: given } = scheduleLocalActivity;
    return { key: `call ${activityId}`, what: `local activity ${activityType}`, content: given?.map(decoded) ?? [] };
  }
  if (startTimer) {
    const { seconds, nanos } = startTimer.startToFireTimeout ?? {};
    return { key: `timer ${startTimer.seq}`, what: timerOf(Number(seconds ?? 0) + (nanos ?? 0) / 1e9) };
  }
  if (cancelTimer) return { key: `cancelled timer ${cancelTimer.seq}`, what: 'end of a timer' };
  if (upsert) {
    const fields = Object.entries(upsert.searchAttributes?.indexedFields ?? {});
    const content = Object.fromEntries(fields.map(([name, payload]) => [name, decoded(payload)]));
    return { key: count('search attributes'), what: 'search attributes', content };
  }
  if (next) return { key: 'end', what: 'continue as new', content: next.arguments?.map(decoded) ?? [] };
  if (failed) return { key: 'end', what: failureOf(failed.failure?.applicationFailureInfo?.type ?? '') };
  if (completed) return { key: 'end', what: 'end of the workflow' };
  return undefined;
}

function decoded(payload: Payload): unknown {
  // The bytes come from the sandbox of the workflow, whose Uint8Array is another class.
  const bytes = (given: Uint8Array) => Uint8Array.from(given);
  const metadata = Object.fromEntries(Object.entries(payload.metadata ?? {}).map(([key, each]) => [key, bytes(each)]));
  const data = payload.data ? { data: bytes(payload.data) } : {};
  return defaultPayloadConverter.fromPayload({ metadata, ...data }) ?? null;
}

/** Differences of two values, one line each: the path, what was recorded and what is now. At most 20. */
function differences(recorded: unknown, now: unknown): string[] {
  const all = differencesAt('', toJson(recorded), toJson(now));
  return all.length > 20 ? [...all.slice(0, 20), `and ${all.length - 20} more`] : all;
}

function differencesAt(path: string, recorded: unknown, now: unknown): string[] {
  if (isDeepStrictEqual(recorded, now)) return [];
  const [a, b] = [recorded, now];
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
    return [`${path}: recorded ${shown(a)}, now ${shown(b)}`];
  }
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const step = (key: string) => (Array.isArray(a) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`);
  return keys.flatMap((key) => differencesAt(step(key), (a as Attributes)[key], (b as Attributes)[key]));
}

function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** What the workflow learned since its last decisions, for those of one workflow task. */
function basisOf(events: readonly HistoryEvent[], decision: HistoryEvent | undefined): Difference['madeFrom'] {
  if (decision === undefined) return [];
  const at = events.indexOf(decision);
  const taskId = attributesOf(decision)['workflowTaskCompletedEventId'];
  const task = events.findIndex(({ eventId }) => eventId === taskId);
  // Without a result since the task before, an earlier one is what the workflow knows.
  let news: HistoryEvent[] = [];
  let until = at;
  while (news.length === 0 && until > 0) {
    const before = until === at ? (task < 0 ? at : task) : until;
    const since = events.findLastIndex(
      ({ eventType }, i) => i < before && eventType === 'EVENT_TYPE_WORKFLOW_TASK_COMPLETED',
    );
    news = events.slice(since + 1, until).filter((event) => newsOf(events, event) !== undefined);
    until = since;
  }
  return news.flatMap((event) => {
    const found = newsOf(events, event);
    return found === undefined ? [] : [{ event: event.eventId, ...found }];
  });
}

function newsOf(events: readonly HistoryEvent[], event: HistoryEvent): Decision | undefined {
  const attributes = attributesOf(event);
  const scheduled = () => {
    const of = events.find(({ eventId }) => eventId === attributes['scheduledEventId']);
    return of?.activityTaskScheduledEventAttributes?.activityType.name ?? 'an activity';
  };
  switch (event.eventType.replace('EVENT_TYPE_', '')) {
    case 'WORKFLOW_EXECUTION_STARTED':
      return { what: 'start of the workflow', content: payloadsOf(attributes['input']) };
    case 'WORKFLOW_EXECUTION_SIGNALED':
      return { what: `signal ${textOf(attributes['signalName'])}`, content: payloadsOf(attributes['input'])[0] };
    case 'ACTIVITY_TASK_COMPLETED':
      return { what: `result of ${scheduled()}`, content: payloadsOf(attributes['result'])[0] };
    case 'ACTIVITY_TASK_FAILED':
    case 'ACTIVITY_TASK_TIMED_OUT':
      return { what: `failure of ${scheduled()}`, content: attributes['failure'] };
    case 'TIMER_FIRED':
      return { what: 'end of a timer' };
    case 'MARKER_RECORDED': {
      const details = isObject(attributes['details']) ? attributes['details'] : {};
      const about = toKeyedMarker(attributes, () => '');
      if (about === undefined) return undefined;
      return { what: `result of ${about.what}`, content: payloadsOf(details['result'])[0] ?? attributes['failure'] };
    }
    default:
      return undefined;
  }
}
