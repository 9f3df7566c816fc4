/** A recorded history as it is kept in test/histories: one event a line, with payloads that can be read. */
import { type History, historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { z } from 'zod';
import { HistoryEvent, isObject, type Json, jsonEncoding } from '../../temporal/history.ts';

const RecordedHistory = z.object({
  /** The test that records it, from the root of the repository. */
  recordedBy: z.string(),
  workflowId: z.string(),
  events: z.array(HistoryEvent),
});

/** A history with the payloads of `readable`. */
export type RecordedHistory = z.output<typeof RecordedHistory>;

/** Events as Temporal's SDK takes them. Most events are replayed several times. */
const converted = new WeakMap<HistoryEvent, History['events']>();

/** The history as Temporal's SDK takes it. */
export function toReplay({ events }: Pick<RecordedHistory, 'events'>): History {
  return {
    events: events.flatMap((event) => {
      const known = converted.get(event) ?? historyFromJSON({ events: [withPayloads(event as Json)] }).events;
      converted.set(event, known);
      return known ?? [];
    }),
  };
}

function withPayloads(value: Json): Json {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(withPayloads);
  const { json, ...object } = value as { readonly [key: string]: Json };
  if (json === undefined)
    return Object.fromEntries(Object.entries(object).map(([key, each]) => [key, withPayloads(each)]));
  const others = isObject(object['metadata']) ? object['metadata'] : {};
  return {
    metadata: { encoding: jsonEncoding, ...others },
    data: Buffer.from(JSON.stringify(json)).toString('base64'),
  };
}

/** A file of test/histories. */
export function toText({ events, ...about }: RecordedHistory): string {
  const lines = events.map((event) => JSON.stringify(event));
  return `${JSON.stringify(about).slice(0, -1)},"events":[\n${lines.join(',\n')}\n]}\n`;
}

/** Reads a file of test/histories. Throws when it is not one. */
export function fromText(text: string): RecordedHistory {
  return RecordedHistory.parse(JSON.parse(text));
}

export function workflowTypeOf({ events }: RecordedHistory): string {
  return events[0]?.workflowExecutionStartedEventAttributes?.workflowType.name ?? '';
}
