import { describe, expect, it } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { firstDifference } from './decisions.ts';
import { type HistoryEvent, readable } from './history.ts';
import type { Commands } from './replay.ts';

const toPayload = (value: unknown) => defaultPayloadConverter.toPayload(value);
const inJson = (value: unknown) => ({
  metadata: { encoding: Buffer.from('json/plain').toString('base64') },
  data: Buffer.from(JSON.stringify(value)).toString('base64'),
});

/** A run that has read 3 machines, and then removed one of them. */
const rawEvents = [
  {
    eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
    workflowExecutionStartedEventAttributes: { workflowType: { name: 'rollout' } },
  },
  { workflowTaskScheduledEventAttributes: {} },
  { workflowTaskStartedEventAttributes: {} },
  { eventType: 'EVENT_TYPE_WORKFLOW_TASK_COMPLETED', workflowTaskCompletedEventAttributes: {} },
  scheduled('1', 'observeOwner', 4, ['pool']),
  { activityTaskStartedEventAttributes: {} },
  {
    eventType: 'EVENT_TYPE_ACTIVITY_TASK_COMPLETED',
    activityTaskCompletedEventAttributes: {
      scheduledEventId: '5',
      result: { payloads: [inJson({ machines: 3 })] },
    },
  },
  { workflowTaskScheduledEventAttributes: {} },
  { workflowTaskStartedEventAttributes: {} },
  { eventType: 'EVENT_TYPE_WORKFLOW_TASK_COMPLETED', workflowTaskCompletedEventAttributes: {} },
  scheduled('2', 'actOnOwner', 10, [{ remove: ['a'] }]),
].map((event, i) => ({ eventType: 'EVENT_TYPE_OTHER', ...event, eventId: String(i + 1), eventTime: '' }));
const events: HistoryEvent[] = readable(JSON.stringify({ events: rawEvents }));

function scheduled(activityId: string, name: string, task: number, input: unknown[]) {
  return {
    eventType: 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED',
    activityTaskScheduledEventAttributes: {
      ...{ activityId, activityType: { name }, workflowTaskCompletedEventId: String(task) },
      input: { payloads: input.map(inJson) },
    },
  };
}

function call(activityId: string, activityType: string, ...given: unknown[]): Commands {
  return [{ scheduleActivity: { activityId, activityType, arguments: given.map(toPayload) } }] as unknown as Commands;
}

const observe = call('1', 'observeOwner', 'pool');

describe('firstDifference', () => {
  it('finds none where the code asks for the same', () => {
    expect(firstDifference(events, [observe, call('2', 'actOnOwner', { remove: ['a'] })], false)).toBeUndefined();
  });

  it('finds none where the history ends before what the code would ask for next', () => {
    const asked = [observe, call('2', 'actOnOwner', { remove: ['a'] }), call('3', 'observeOwner', 'pool')];
    expect(firstDifference(events, asked, false)).toBeUndefined();
  });

  it('finds none in the search attribute that the SDK writes when a workflow asks whether it is patched', () => {
    const upsert = (event: number, field: string, value: unknown) => ({
      ...{ eventId: String(event), eventTime: '', eventType: 'EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES' },
      upsertWorkflowSearchAttributesEventAttributes: {
        workflowTaskCompletedEventId: '10',
        searchAttributes: { indexedFields: { [field]: inJson(value) } },
      },
    });
    const patches = upsert(12, 'TemporalChangeVersion', ['no-room']);
    const own = upsert(13, 'MillwrightPhase', 'Running');
    const written = readable(JSON.stringify({ events: [...rawEvents, patches, own] }));
    const asked = {
      upsertWorkflowSearchAttributes: {
        searchAttributes: { indexedFields: { MillwrightPhase: toPayload('Running') } },
      },
    };

    expect(
      firstDifference(
        written,
        [observe, call('2', 'actOnOwner', { remove: ['a'] }), [asked] as unknown as Commands],
        false,
      ),
    ).toBeUndefined();
  });

  it('finds another content of a decision of the same kind, which Temporal accepts', () => {
    const difference = firstDifference(events, [observe, call('2', 'actOnOwner', { remove: ['b'] })], false);

    expect(difference).toMatchObject({
      event: '11',
      recorded: { what: 'activity actOnOwner' },
      now: { what: 'activity actOnOwner' },
      details: ['[0].remove[0]: recorded "a", now "b"'],
      madeFrom: [{ event: '7', what: 'result of observeOwner', content: { machines: 3 } }],
    });
  });

  it('puts what the code asks for now beside what was recorded, where Temporal stops the replay', () => {
    const timer = [{ startTimer: { seq: 1, startToFireTimeout: { seconds: 5, nanos: 0 } } }] as unknown as Commands;

    expect(firstDifference(events, [observe, timer], true)).toMatchObject({
      event: '11',
      recorded: { what: 'activity actOnOwner', content: [{ remove: ['a'] }] },
      now: { what: 'timer of 5 s' },
      details: [],
      madeFrom: [{ event: '7' }],
    });
  });

  it('names the start of the workflow as what the first decision was made from', () => {
    expect(firstDifference(events, [call('1', 'listBlockers')], true)).toMatchObject({
      event: '5',
      now: { what: 'activity listBlockers' },
      madeFrom: [{ event: '1', what: 'start of the workflow' }],
    });
  });
});
