/** Replaying: whether the workflows, as they are now, do what the recorded ones did. */
import type { HistoryAndWorkflowId } from '@temporalio/client';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { Worker } from '@temporalio/worker';
import type { HistoryFile } from './files.ts';
import { isCommand, type RecordedHistory, stepOf, toReplay } from './history.ts';

/** What came of a history: no error when the workflow does again what it did. */
export interface Replayed extends HistoryFile {
  readonly error?: Error;
}

/** Replays histories against workflow code, one after the other. */
export async function replay(bundle: { code: string }, files: readonly HistoryFile[]): Promise<Replayed[]> {
  const histories = files.map(({ history }): HistoryAndWorkflowId => {
    return { workflowId: history.workflowId, history: historyFromJSON(toReplay(history)) };
  });
  const replayed: Replayed[] = [];
  for await (const { error } of Worker.runReplayHistories({ workflowBundle: bundle }, histories)) {
    replayed.push({ ...files[replayed.length]!, ...(error !== undefined && { error }) });
  }
  if (replayed.length !== files.length) throw new Error(`only ${replayed.length} of ${files.length} were replayed`);
  return replayed;
}

/** What somebody who has changed a workflow has to know when a history does not replay any more. */
export function explain({ name, history, error }: Replayed): string {
  const [, id = 'unknown'] = /HistoryEvent\(id: (\d+)/.exec(error?.message ?? '') ?? [];
  const event = history.events.find(({ eventId }) => eventId === id);
  const [reason] = /\[TMPRL\d+\][^"]*/.exec(error?.message ?? '') ?? [error?.message];
  return [
    `test/histories/${name}: the workflow does not do again what it did, at event ${id} (${event && stepOf(event)})`,
    `  ${reason}`,
    `Every workflow that is there would be stuck on a worker with this change. Where it changes what a workflow asks for,`,
    `keep the old way for those: if (patched('<name of the change>')) the new way, else the old one.`,
    `If no release has had the old way, record it anew, which replaces it: npm run record -- ${history.recordedBy}`,
  ].join('\n');
}

/** The history of a workflow that would have asked for another thing the last time. To replay it has to be an error. */
export function withOtherEnd({ name, history }: HistoryFile): HistoryFile {
  const last = history.events.findLast(isCommand);
  return {
    name,
    history: { ...history, events: history.events.map((event) => (event === last ? other(event) : event)) },
  };
}

function other(command: RecordedHistory['events'][number]): RecordedHistory['events'][number] {
  const { eventId, eventTime } = command;
  return {
    ...{ eventId, eventTime, eventType: 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED' },
    activityTaskScheduledEventAttributes: { activityId: '1', activityType: { name: 'anotherThing' } },
  };
}
