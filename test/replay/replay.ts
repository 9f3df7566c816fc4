/** Replaying: whether the workflows, as they are now, do what the recorded ones did. */
import type { Worker } from '@temporalio/worker';
import { isCommand, stepOf } from '../../temporal/history.ts';
import { type Commands, replayHistories } from '../../temporal/replay.ts';
import { type HistoryFile, next } from './files.ts';
import { type RecordedHistory, toReplay } from './history.ts';
import { LeanWorker } from './workers.ts';

/** What came of a history: no error when the workflow does again what it did. */
export interface Replayed extends HistoryFile {
  readonly error?: Error;
  readonly asked: readonly Commands[];
}

type Bundle = { readonly code: string };

/** Replays histories against workflow code, one after the other. */
export async function replay(
  bundle: Bundle,
  files: readonly HistoryFile[],
  worker: typeof Worker = LeanWorker,
): Promise<Replayed[]> {
  const histories = files.map(({ history }) => {
    return { workflowId: history.workflowId, history: toReplay(history) };
  });
  const outcomes = await replayHistories(bundle, histories, worker);
  return files.map((file, i) => ({ ...file, ...outcomes[i]! }));
}

/** What somebody who has changed a workflow has to know when histories of a scenario do not replay any more. */
export async function explain(bundle: Bundle, [failed, ...others]: readonly Replayed[]): Promise<string> {
  if (failed === undefined) return '';
  const { name, history, error } = failed;
  const [, reason = error?.message] = /message: "([^"]*)"/.exec(error?.message ?? '') ?? [];
  const event = history.events[(await firstFailing(bundle, failed)) - 1];
  return [
    `test/histories/${name}: the workflow does not do again what it did at event ${event?.eventId}, ${event && stepOf(event)}:`,
    `  ${reason}`,
    ...(others.length === 0 ? [] : [`Nor do ${others.map((other) => other.name).join(', ')}.`]),
    `Every workflow that is there would be stuck on a worker with this change. Where it changes what a workflow asks for,`,
    `keep the old way for those: if (patched('<name of the change>')) the new way, else the old one.`,
    name.startsWith(`${next}/`)
      ? `If no release has had the old way, record it again, which replaces it: npm run record -- ${history.recordedBy}`
      : `Workflows of release ${name.split('/')[0]} are like this one.`,
  ].join('\n');
}

/** How many events of a history it takes for its replay to fail: with fewer it does not. */
async function firstFailing(bundle: Bundle, { name, history }: HistoryFile): Promise<number> {
  let [fine, failing] = [0, history.events.length];
  while (failing - fine > 1) {
    const middle = Math.floor((fine + failing) / 2);
    const beginning = { name, history: { ...history, events: history.events.slice(0, middle) } };
    const [replayed] = await replay(bundle, [beginning]);
    if (replayed?.error === undefined) fine = middle;
    else failing = middle;
  }
  return failing;
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
    activityTaskScheduledEventAttributes: {
      ...{ activityId: '1', activityType: { name: 'anotherThing' } },
      workflowTaskCompletedEventId: '1',
    },
  };
}
