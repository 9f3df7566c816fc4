/**
 * Finds out that the server's database was set back to a copy, for example after it was lost. A worker that goes on would
 * leave workflows standing: those in its memory are ahead of the server, and the SDK drops every event whose number it has
 * seen already.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import type { InjectedSinks } from '@temporalio/worker';
import type { Logger } from '../kube/logger.ts';
import type { ProgressSinks } from '../workflows/interceptors.ts';
import { grpcCodeOf, grpcCodes } from './connection.ts';

export interface SetBackOptions {
  readonly connection: ConnectionLike;
  /** Of Temporal. */
  readonly namespace: string;
  /** How many workflows the worker keeps in memory: only of those it matters. */
  readonly maxCachedWorkflows: number;
  /** Pause between two looks. */
  readonly lookEveryMs: number;
  readonly logger: Logger;
}

export interface SetBackWatch {
  /** For the worker: how it tells what it has seen. */
  readonly sinks: InjectedSinks<ProgressSinks>;
  /** Rejects when the server was set back. Never resolves before `stop`. */
  readonly noticed: Promise<void>;
  stop(): void;
}

/** A run as a worker has seen it. */
interface SeenRun {
  readonly workflowId: string;
  readonly runId: string;
  /** How many events of it the server has kept for sure. */
  readonly historyLength: number;
}

/** How long the server may take to answer. */
const timeoutMs = 5_000;
/** How many runs one look asks for: the latest, and as many of the others in turn. */
const perLook = 5;

/**
 * Compares what the worker has seen with what the server has, for as long as it runs. A database is set back as a whole, so
 * what was seen last is behind at first. It may soon have as many events again; what stands still is behind for as long as
 * that, and has its turn. A run that is closed stands still nowhere, and one that the server does not have was deleted, or
 * has begun after the copy.
 */
export function watchForSetBack(options: SetBackOptions): SetBackWatch {
  const stopping = new AbortController();
  /** By run ID, latest last. */
  const seen = new Map<string, SeenRun>();

  function note({ workflowId, runId, historyLength }: SeenRun): void {
    // The last two events are of the task itself. After a failed try the server keeps them only when it has succeeded.
    const kept = historyLength - 2;
    if (kept <= (seen.get(runId)?.historyLength ?? 0)) return; // the same task again, or what a look is to find
    seen.delete(runId);
    seen.set(runId, { workflowId, runId, historyLength: kept });
    const [eldest] = seen.keys();
    if (seen.size > options.maxCachedWorkflows && eldest !== undefined) seen.delete(eldest);
  }

  /** Those that have not had their turn yet. */
  let inTurn: SeenRun[] = [];
  function choose(): readonly SeenRun[] {
    const latestFirst = [...seen.values()].toReversed();
    if (inTurn.length === 0) inTurn = latestFirst.slice(perLook);
    return [...latestFirst.slice(0, perLook), ...inTurn.splice(0, perLook)];
  }

  /** Of a run that cannot be asked for nothing is known. */
  async function isBehind(run: SeenRun): Promise<boolean | undefined> {
    try {
      const present = await read(options, run);
      const isShorter = present !== undefined && present.historyLength < run.historyLength;
      if (!isShorter && present?.isOpen !== true) seen.delete(run.runId);
      return isShorter;
    } catch (err) {
      options.logger.warn({ err }, 'cannot ask Temporal whether it was set back');
      return undefined;
    }
  }

  async function watch(): Promise<void> {
    let suspect: SeenRun | undefined;
    for (;;) {
      await sleep(options.lookEveryMs, undefined, { signal: stopping.signal, ref: false });
      if (suspect === undefined) {
        const runs = choose();
        const behind = await Promise.all(runs.map(isBehind));
        suspect = runs[behind.indexOf(true)];
        continue;
      }
      // Twice: a host that has just handed the run over to another one may answer from its memory.
      const isStill = await isBehind(suspect);
      if (isStill === true) throw new Error(setBackText(suspect));
      if (isStill === false) suspect = undefined;
    }
  }

  return {
    sinks: { progress: { seen: { fn: note, callDuringReplay: false } } },
    noticed: watch().catch((error: unknown) => {
      if (!stopping.signal.aborted) throw error;
    }),
    stop: () => stopping.abort(),
  };
}

function setBackText({ workflowId, historyLength }: SeenRun): string {
  return (
    `Temporal was set back: this worker has seen at least ${historyLength} events of workflow '${workflowId}', and there ` +
    'are fewer now. It ends, as what it remembers is not so any more; start it again'
  );
}

/** undefined where the server does not know the run. */
async function read(options: SetBackOptions, { workflowId, runId }: SeenRun) {
  const { connection, namespace } = options;
  try {
    const { workflowExecutionInfo: info } = await connection.withDeadline(Date.now() + timeoutMs, () =>
      connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId, runId } }),
    );
    if (!info?.historyLength) throw new Error(`Temporal does not say how long ${workflowId} is`);
    return { historyLength: Number(info.historyLength), isOpen: !info.closeTime };
  } catch (error) {
    if (grpcCodeOf(error) === grpcCodes.notFound) return undefined;
    throw error;
  }
}
