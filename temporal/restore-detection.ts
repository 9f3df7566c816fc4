/**
 * Detects that Temporal's database was restored from a backup. A worker must not continue then: workflows in its memory
 * are ahead of the server, and the SDK drops every event whose number it has seen already, so they would stand still.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import type { InjectedSinks } from '@temporalio/worker';
import type { Logger } from '../kube/logger.ts';
import type { ProgressSinks } from '../workflows/interceptors.ts';
import { grpcCodeOf, grpcCodes } from './connection.ts';
import { createTurns } from './turns.ts';

export interface RestoreDetectionOptions {
  readonly connection: ConnectionLike;
  /** Of Temporal. */
  readonly namespace: string;
  /** How many workflows the worker keeps in memory: only these matter. */
  readonly maxCachedWorkflows: number;
  /** Pause between two checks, ms. */
  readonly checkEveryMs: number;
  readonly logger: Logger;
}

export interface RestoreDetection {
  /** For the worker, which reports the events that it has seen. */
  readonly sinks: InjectedSinks<ProgressSinks>;
  /** Rejects when the server was restored. Never resolves before `stop`. */
  readonly detected: Promise<void>;
  stop(): void;
}

/** A run as a worker has seen it. */
interface SeenRun {
  readonly workflowId: string;
  readonly runId: string;
  /** How many events of it the server has certainly stored. */
  readonly historyLength: number;
}

/** How long the server may take to answer, ms. */
const timeoutMs = 5_000;
/**
 * After how many checks every run has had its turn: after four minutes, and after 20 s once the server did not answer.
 */
const checksPerRound = 100;
const checksPerRoundAfterOutage = 10;

/**
 * Compares what the worker has seen with what the server has, until stopped. A database is restored as a whole, so at
 * first the run that was seen last is behind. It may soon have as many events again, and so may a run that others
 * signal: therefore all runs have their turn soon after an outage, without which no database is restored. Closed runs
 * cannot stand still. A run that the server does not have was deleted, or is younger than the backup.
 */
export function detectRestore(options: RestoreDetectionOptions): RestoreDetection {
  const stopping = new AbortController();
  /** By run ID, latest last. */
  const seen = new Map<string, SeenRun>();
  const turns = createTurns();
  /** Runs that were behind in the last check that read them. */
  const suspects = new Set<string>();
  /** How many runs have to have their turn until all had one since the server did not answer. */
  let leftAfterOutage = 0;

  function record({ workflowId, runId, historyLength }: SeenRun): void {
    // The last two events are of the task itself. After a failed attempt the server stores them only once it succeeds.
    const stored = historyLength - 2;
    if (stored <= (seen.get(runId)?.historyLength ?? 0)) return; // the same task again, or a restore to be detected
    seen.delete(runId);
    seen.set(runId, { workflowId, runId, historyLength: stored });
    turns.add(runId);
    const [oldest] = seen.keys();
    // Twice: half of them may be closed, and are forgotten in their turn.
    if (seen.size > 2 * options.maxCachedWorkflows && oldest !== undefined) forget(oldest);
  }

  function forget(runId: string): void {
    seen.delete(runId);
    turns.remove(runId);
    suspects.delete(runId);
  }

  /** The runs to read now: the suspects, the latest one, and those whose turn it is. */
  function choose(): readonly SeenRun[] {
    const latest = [...seen.keys()].at(-1);
    const next = turns.next(leftAfterOutage > 0 ? checksPerRoundAfterOutage : checksPerRound);
    const ids = new Set([...suspects, ...(latest === undefined ? [] : [latest]), ...next]);
    return [...ids].flatMap((id) => seen.get(id) ?? []);
  }

  /** Answers whether the server has fewer events of the run; undefined where it does not answer. */
  async function isBehind(run: SeenRun): Promise<boolean | undefined> {
    try {
      const present = await read(options, run);
      const isShorter = present !== undefined && present.historyLength < run.historyLength;
      if (!isShorter && present?.isOpen !== true) forget(run.runId);
      else turns.pass(run.runId);
      leftAfterOutage = Math.max(0, leftAfterOutage - 1);
      return isShorter;
    } catch (err) {
      options.logger.warn({ err }, 'cannot check whether Temporal was restored from a backup');
      return undefined;
    }
  }

  async function check(): Promise<void> {
    const runs = choose();
    const answers = await Promise.all(runs.map(isBehind));
    for (const [index, run] of runs.entries()) {
      // Twice: a host that has just handed the run over to another host may answer from its memory.
      if (answers[index] === true && suspects.has(run.runId)) throw new Error(restoredMessage(run));
      if (answers[index] === true) suspects.add(run.runId);
      if (answers[index] === false) suspects.delete(run.runId);
    }
    if (answers.includes(undefined)) leftAfterOutage = seen.size + runs.length;
  }

  async function watch(): Promise<void> {
    for (;;) {
      await sleep(options.checkEveryMs, undefined, { signal: stopping.signal, ref: false });
      await check();
    }
  }

  return {
    sinks: { progress: { seen: { fn: record, callDuringReplay: false } } },
    detected: watch().catch((error: unknown) => {
      if (!stopping.signal.aborted) throw error;
    }),
    stop: () => stopping.abort(),
  };
}

function restoredMessage({ workflowId, historyLength }: SeenRun): string {
  return (
    `Temporal was restored from a backup: this worker has seen at least ${historyLength} events of workflow ` +
    `'${workflowId}', and the server has fewer. The worker exits, as the workflows in its memory are ahead of the ` +
    'server; start it again'
  );
}

/** undefined where the server does not know the run. */
async function read(options: RestoreDetectionOptions, { workflowId, runId }: SeenRun) {
  const { connection, namespace } = options;
  try {
    const { workflowExecutionInfo: info } = await connection.withDeadline(Date.now() + timeoutMs, () =>
      connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId, runId } }),
    );
    if (!info?.historyLength) throw new Error(`Temporal does not say how long the history of ${workflowId} is`);
    return { historyLength: Number(info.historyLength), isOpen: !info.closeTime };
  } catch (error) {
    if (grpcCodeOf(error) === grpcCodes.notFound) return undefined;
    throw error;
  }
}
