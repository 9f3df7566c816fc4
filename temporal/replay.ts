/** Replaying: whether workflow code, as it is now, does what the recorded runs did. */
import type { HistoryAndWorkflowId } from '@temporalio/client';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, type InjectedSinks, makeTelemetryFilterString, Runtime, Worker } from '@temporalio/worker';
import type { ProgressSinks } from '../workflows/interceptors.ts';
import type { Commands, ReplaySinks } from '../workflows/replay-interceptors.ts';
import { loadReplayBundle } from './bundle.ts';
import { countDecisions, type Difference, firstDifference } from './decisions.ts';
import { attributesOf, type HistoryEvent, isObject, readable, textOf } from './history.ts';

export type { Commands };

/** What came of a replay: no error when Temporal finds that the workflow does again what it did. */
export interface Outcome {
  readonly error?: Error;
  /** The commands of each activation, if the bundle is that of `loadReplayBundle`; else none. */
  readonly asked: readonly Commands[];
}

/**
 * Replays histories against a bundle of workflow code, one after the other. Throws when one cannot be read.
 * @param worker class of the worker that replays them
 * @param taskQueue of the workflows, which some name in what they ask for. Default: a name of the SDK's
 */
export async function replayHistories(
  bundle: { readonly code: string },
  histories: readonly HistoryAndWorkflowId[],
  worker: typeof Worker = Worker,
  taskQueue?: string,
): Promise<Outcome[]> {
  let asked: Commands[] = [];
  const sinks: InjectedSinks<ProgressSinks & ReplaySinks> = {
    progress: { seen: { fn: () => undefined } },
    replay: { asked: { fn: (_, commands) => void asked.push(commands), callDuringReplay: true } },
  };
  const options = { workflowBundle: bundle, sinks, ...(taskQueue !== undefined && { taskQueue }) };
  const outcomes: Outcome[] = [];
  for await (const { error } of worker.runReplayHistories(options, histories)) {
    outcomes.push({ asked, ...(error !== undefined && { error }) });
    asked = [];
  }
  if (outcomes.length !== histories.length) {
    throw new Error(`only ${outcomes.length} of ${histories.length} histories were replayed`);
  }
  return outcomes;
}

/** What a replay of one run says. */
export interface ReplayReport {
  readonly workflowId: string;
  readonly workflowType: string;
  readonly events: number;
  readonly decisions: number;
  readonly same: boolean;
  readonly difference?: Difference;
  /** What Temporal says of it; left out where it would not notice, because it compares kinds and ids alone. */
  readonly error?: string;
}

/** A history as Temporal writes it in JSON. */
export interface RunHistory {
  readonly text: string;
  /** Where the text is from, for messages. */
  readonly source: string;
}

/**
 * Replays a run against the workflow code of this checkout. Throws an Error when it cannot: the text is no history, or
 * the code has no such workflow.
 */
export async function replayRun(text: string, source: string): Promise<ReplayReport> {
  const [report] = await replayRuns([{ text, source }]);
  return report!;
}

/** The same for many runs, in one worker. */
export async function replayRuns(runs: readonly RunHistory[]): Promise<ReplayReport[]> {
  const parsed = runs.map(({ text, source }) => {
    const { events, history } = parseHistory(text, source);
    const started = events[0]?.workflowExecutionStartedEventAttributes;
    const workflowType = started?.workflowType.name ?? '';
    const taskQueue = started?.taskQueue?.name;
    return { source, events, history, workflowType, taskQueue, workflowId: textOf(started?.['workflowId']) || source };
  });
  silenceSdk();
  const bundle = await loadReplayBundle();
  const outcomes = new Map<(typeof parsed)[number], Outcome>();
  for (const [taskQueue, ofIt] of Map.groupBy(parsed, (run) => run.taskQueue)) {
    const replayed = await replayHistories(bundle, ofIt, Worker, taskQueue);
    for (const [i, run] of ofIt.entries()) outcomes.set(run, replayed[i]!);
  }
  return parsed.map((run) => {
    const { source, events, workflowId, workflowType } = run;
    const { error, asked } = outcomes.get(run)!;
    if (error !== undefined && /no such function is exported/.test(error.message)) {
      throw new Error(`${source} is of a workflow '${workflowType}', which this version of Millwright does not have`);
    }
    const difference = firstDifference(events, asked, error !== undefined);
    return {
      ...{ workflowId, workflowType, events: events.length, decisions: countDecisions(events) },
      same: difference === undefined,
      ...(difference !== undefined && { difference }),
      ...(error !== undefined && { error: reasonOf(error) }),
    };
  });
}

function parseHistory(text: string, source: string) {
  try {
    const all = readable(text);
    const events = all.slice(0, ownEnd(all));
    const { events: raw } = JSON.parse(text) as { events: unknown[] };
    return { events, history: historyFromJSON({ events: raw.slice(0, events.length) }) };
  } catch (cause) {
    const fix = 'give a file as `temporal workflow show -o json` or `--export` writes it';
    throw new Error(`${source} is no history of a run: ${fix}`, { cause });
  }
}

/** Index of the end that Temporal has given a run which could not be replayed: no code of ours has decided that. */
function ownEnd(events: readonly HistoryEvent[]): number {
  const last = events.at(-1);
  if (last === undefined) return 0;
  const { failure, workflowTaskCompletedEventId } = attributesOf(last);
  const message = isObject(failure) ? textOf(failure['message']) : '';
  if (!message.startsWith('[TMPRL1100]')) return events.length;
  return events.findIndex(({ eventId }) => eventId === workflowTaskCompletedEventId);
}

/** The words of the SDK's core, without what it wraps them in. */
function reasonOf({ message }: Error): string {
  return /message: "((?:[^"\\]|\\.)*)"/.exec(message)?.[1] ?? message;
}

/** What it logs is in the report. */
function silenceSdk(): void {
  const filter = makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' });
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => undefined),
    telemetryOptions: { logging: { filter, forward: {} } },
  });
}
