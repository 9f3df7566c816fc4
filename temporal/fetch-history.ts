import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { grpcCodeOf, grpcCodes } from './connection.ts';
import { decodeHistory } from './decode.ts';
import { type HistoryEvent, readable } from './history.ts';

/** How long reading a history may take, ms. */
const defaultTimeoutMs = 60_000;

/** The history of a run in JSON, as other tools of Temporal read it. @param runId default: the newest run */
export async function fetchHistory(
  client: Client,
  workflowId: string,
  runId?: string,
  timeoutMs: number = defaultTimeoutMs,
): Promise<string> {
  try {
    const handle = client.workflow.getHandle(workflowId, runId);
    return historyToJSON(await client.withDeadline(Date.now() + timeoutMs, () => handle.fetchHistory()));
  } catch (cause) {
    const code = grpcCodeOf(cause);
    // An id of a run that no run can have is an invalid argument.
    if (code !== grpcCodes.notFound && code !== grpcCodes.invalidArgument) throw cause;
    const run = runId === undefined ? '' : ` with run '${runId}'`;
    const why = 'the retention of the Temporal namespace may have ended';
    throw new Error(`Temporal knows no workflow '${workflowId}'${run}: ${why}, or correct the ids`, { cause });
  }
}

/** What is read of a history; undefined: its retention has ended since it was listed. */
export async function ifKept<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (grpcCodeOf(error) === grpcCodes.notFound) return undefined;
    throw error;
  }
}

/** The events of a run, with decoded payloads; undefined: its retention has ended since it was listed. */
export async function readEvents(
  client: Client,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
  timeoutMs: number,
): Promise<HistoryEvent[] | undefined> {
  const history = await ifKept(fetchHistory(client, workflowId, runId, timeoutMs));
  return history === undefined ? undefined : readable(await decodeHistory(client.options.loadedDataConverter, history));
}
