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
  /** Pause between two looks. A set-back that loses less may be missed. */
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
const patienceMs = 5_000;

/**
 * Compares what the worker has seen with what the server has, again and again. A database is set back as a whole, so one run is enough: the one in which the worker has seen something last. Where the
 * server does not have that, it may have been deleted by hand, or have begun after the copy; the next one tells.
 */
export function watchForSetBack(options: SetBackOptions): SetBackWatch {
  const stopping = new AbortController();
  /** Latest last. */
  const seen = new Map<string, SeenRun>();
  const newestFirst = () => [...seen.values()].toReversed();

  function note({ workflowId, runId, historyLength }: SeenRun): void {
    seen.delete(runId);
    // The last two events are of the task itself. After a failed try the server keeps them only when it has succeeded.
    seen.set(runId, { workflowId, runId, historyLength: historyLength - 2 });
    const [eldest] = seen.keys();
    if (seen.size > options.maxCachedWorkflows && eldest !== undefined) seen.delete(eldest);
  }

  async function judge(runs: readonly SeenRun[]): Promise<void> {
    for (const run of runs) {
      const historyLength = await lengthOf(options, run);
      if (historyLength === undefined) {
        if (seen.get(run.runId) === run) seen.delete(run.runId);
        continue;
      }
      if (historyLength >= run.historyLength) return;
      throw new SetBackError(run, historyLength);
    }
  }

  async function watch(): Promise<void> {
    for (;;) {
      // Before the pause: what the worker sees in it may be of a server that is set back by then.
      const runs = newestFirst();
      await sleep(options.lookEveryMs, undefined, { signal: stopping.signal, ref: false });
      try {
        await judge(runs);
      } catch (err) {
        if (err instanceof SetBackError) throw err;
        options.logger.debug({ err }, 'cannot find out whether Temporal was set back');
      }
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

class SetBackError extends Error {
  constructor({ workflowId, historyLength }: SeenRun, present: number) {
    super(
      `Temporal was set back: this worker has seen ${historyLength} events of workflow '${workflowId}', of which there are ` +
        `${present} now. It ends, as what it remembers is not so any more; start it again`,
    );
  }
}

/** undefined where the server does not know the run. */
async function lengthOf(options: SetBackOptions, { workflowId, runId }: SeenRun): Promise<number | undefined> {
  const { connection, namespace } = options;
  try {
    const { workflowExecutionInfo } = await connection.withDeadline(Date.now() + patienceMs, () =>
      connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId, runId } }),
    );
    return Number(workflowExecutionInfo?.historyLength ?? 0);
  } catch (error) {
    if (grpcCodeOf(error) === grpcCodes.notFound) return undefined;
    throw error;
  }
}
