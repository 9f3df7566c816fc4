/** A history of a run with payloads that can be read, and without what is so only where and when it was recorded. */
import { z } from 'zod';

/** JSON that is not changed. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const Failure = z.looseObject({
  applicationFailureInfo: z.looseObject({ type: z.string().optional() }).optional(),
  get cause() {
    return Failure.optional();
  },
});

/** What is looked at of an event; the rest of it is kept as it is. */
export const HistoryEvent = z.looseObject({
  eventId: z.string(),
  eventTime: z.string(),
  /** `EVENT_TYPE_…` */
  eventType: z.string(),
  workflowExecutionStartedEventAttributes: z
    .looseObject({
      workflowType: z.object({ name: z.string() }),
      taskQueue: z.looseObject({ name: z.string() }).optional(),
    })
    .optional(),
  activityTaskScheduledEventAttributes: z.looseObject({ activityType: z.looseObject({ name: z.string() }) }).optional(),
  activityTaskFailedEventAttributes: z.looseObject({ failure: Failure }).optional(),
  workflowExecutionSignaledEventAttributes: z.looseObject({ signalName: z.string() }).optional(),
  markerRecordedEventAttributes: z
    .looseObject({
      details: z.looseObject({
        data: z
          .looseObject({
            payloads: z.array(z.looseObject({ json: z.looseObject({ activity_type: z.string().optional() }) })),
          })
          .optional(),
      }),
      failure: Failure.optional(),
    })
    .optional(),
});
export type HistoryEvent = z.output<typeof HistoryEvent>;

/** Which run, server or process it was: of no consequence for a replay. */
const accidental = new Set([
  ...['identity', 'requestId', 'taskId', 'workerVersion', 'binaryChecksum', 'useWorkflowBuildId'],
  ...['prevAutoResetPoints', 'meteringMetadata', 'stackTrace', 'links', 'header'],
]);

/** Metadata `encoding` of a payload of JSON. */
export const jsonEncoding = Buffer.from('json/plain').toString('base64');

/**
 * The events of a history as Temporal gives it in JSON, readable and without what is accidental. Throws when it is
 * none.
 * @param history text
 */
export function readable(history: string): HistoryEvent[] {
  return z.object({ events: z.array(HistoryEvent) }).parse(withReadablePayloads(JSON.parse(history))).events;
}

/** A payload of JSON becomes `{ "json": <what it says> }`, beside other metadata that it has. */
function withReadablePayloads(value: Json): Json {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(withReadablePayloads);
  const object = value as { readonly [key: string]: Json };
  const { metadata, data } = object;
  if (isObject(metadata) && metadata['encoding'] === jsonEncoding && typeof data === 'string') {
    const { encoding: _, ...others } = metadata;
    const json = JSON.parse(Buffer.from(data, 'base64').toString());
    return { json, ...(Object.keys(others).length > 0 && { metadata: others }) };
  }
  if (object['kind'] === 'TASK_QUEUE_KIND_STICKY') {
    return { name: object['normalName'] ?? '', kind: 'TASK_QUEUE_KIND_NORMAL' };
  }
  const kept = Object.entries(object).filter(([key]) => !accidental.has(key));
  return Object.fromEntries(kept.map(([key, each]) => [key, withReadablePayloads(each)]));
}

/** Whether it is an object, and no list. */
export function isObject(value: unknown): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A string or number of a history as text; '' for anything else. */
export function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** The values of `{ payloads: […] }`; null for one that is no JSON, such as that of undefined. */
export function payloadsOf(value: Json | undefined): readonly Json[] {
  const payloads = isObject(value) ? value['payloads'] : undefined;
  return Array.isArray(payloads) ? payloads.map(jsonOf) : [];
}

/** The value of a payload; null for one that is no JSON. */
export function jsonOf(payload: Json): Json {
  return isObject(payload) && 'json' in payload ? (payload['json'] ?? null) : null;
}

/** What an event says besides its type and time. */
export function attributesOf(event: HistoryEvent): { readonly [key: string]: Json } {
  const attributes = Object.entries(event).find(([key]) => key.endsWith('EventAttributes'))?.[1];
  return isObject(attributes) ? attributes : {};
}

/** Whether the event is there because the workflow has asked for something; a replay has to ask for the same. */
export function isCommand(event: HistoryEvent): boolean {
  return 'workflowTaskCompletedEventId' in attributesOf(event);
}

/** What happened, in words that two histories share when the same happened: `MARKER_RECORDED observeMachine`. */
export function stepOf(event: HistoryEvent): string {
  const marker = event.markerRecordedEventAttributes;
  const failure = event.activityTaskFailedEventAttributes?.failure ?? marker?.failure;
  const words = [
    event.eventType.replace('EVENT_TYPE_', ''),
    event.activityTaskScheduledEventAttributes?.activityType.name,
    event.workflowExecutionSignaledEventAttributes?.signalName,
    marker?.details.data?.payloads[0]?.json.activity_type,
    failure?.applicationFailureInfo?.type ?? failure?.cause?.applicationFailureInfo?.type,
  ];
  return words.filter((word) => word !== undefined).join(' ');
}
