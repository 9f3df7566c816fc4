/** The timeline of a machine, from the histories that Temporal keeps. */
import type { Client } from '@temporalio/client';
import { searchAttributes } from '../api/names.ts';
import { deletedByOthers } from '../api/owner/deletion-cause.ts';
import { workflowIdPrefix } from '../api/workflow-id.ts';
import { readEvents } from './fetch-history.ts';
import { causeInRun, clockSkewMs } from './owner-deletion.ts';
import { readRetention } from './past-sweeps.ts';
import { type Timeline, toTimeline, withCause } from './timeline.ts';
import type { Installation } from './workflows.ts';

/** What a reading of histories may cost. */
export interface HistoryLimits {
  /** Of a machine that has had more, the newest are read: each is a request. */
  readonly maxRuns: number;
  /** For each list of runs, and for each history, ms. */
  readonly timeoutMs: number;
}

/** What was read before of the causes of deletions, by the id of the workflow of the machine. */
export type KnownCauses = Map<string, { readonly cause: string | undefined; readonly readMs: number }>;

/** After this time the cause of a deletion is looked for again, where none was found, ms. */
const lookAgainMs = 30_000;

const defaults: HistoryLimits = { maxRuns: 100, timeoutMs: 60_000 };

/** The timeline of a workflow with its last run. */
export interface FoundTimeline extends Timeline {
  readonly workflowId: string;
  readonly runId: string;
  /** Number of earlier runs that were not read. */
  readonly omittedRuns: number;
}

/**
 * Of the newest machine that has had the name, with its last run; undefined: Temporal keeps no history of one.
 * @param known gets the cause of its deletion
 */
export async function readTimeline(
  to: Installation,
  machine: { readonly namespace: string; readonly name: string },
  { maxRuns, timeoutMs } = defaults,
  known: KnownCauses = new Map(),
): Promise<FoundTimeline | undefined> {
  const { client, name: installation } = to;
  const prefix = workflowIdPrefix(installation, 'Machine', machine);
  const runs = await client.withDeadline(Date.now() + timeoutMs, () =>
    listRuns(client, `WorkflowId STARTS_WITH '${prefix}'`),
  );
  const newest = runs.at(-1);
  if (newest === undefined) return undefined;
  const { workflowId, runId } = newest;
  const all = runs.filter((run) => run.workflowId === workflowId);
  const own = all.slice(-maxRuns);
  const histories = await Promise.all(own.map((run) => readEvents(client, run, timeoutMs)));
  const timeline = toTimeline(histories.filter((each) => each !== undefined));
  const found = { workflowId, runId, ...timeline, omittedRuns: all.length - own.length };
  const { deletedAt, steps } = timeline;
  if (deletedAt === undefined || steps.some((step) => step.cause !== undefined)) return found;
  const deletedMs = Date.parse(deletedAt);
  const deletion: Deletion = {
    ...{ name: machine.name, uid: workflowId.split('/').at(-1) ?? '', deletedMs },
    deployment: all.findLast(({ start }) => start <= deletedMs)?.deployment,
    isSeen: all.some(({ start }) => start <= deletedMs),
  };
  const before = known.get(workflowId);
  const isKnown = before !== undefined && (before.cause !== undefined || Date.now() - before.readMs < lookAgainMs);
  // What is not known of its owner hides nothing of the machine.
  const cause = isKnown ? before.cause : await findCause(to, deletion, timeoutMs).catch(() => undefined);
  if (!isKnown) known.set(workflowId, { cause, readMs: Date.now() });
  return cause === undefined ? found : withCause(found, cause);
}

/** A deletion of a machine. */
interface Deletion {
  readonly name: string;
  readonly uid: string;
  /** Its deletionTimestamp, ms since the epoch. */
  readonly deletedMs: number;
  /** Name of its MachineDeployment at that time, where it is known; it may have had another one before or after. */
  readonly deployment: string | undefined;
  /** Temporal had the workflow of the machine before: it was not lost since. The runs of owners may still be gone. */
  readonly isSeen: boolean;
}

/** Most runs of owners that are read for the cause of a deletion. */
const maxOwnerRuns = 5;
/** After this time the lists of the server have a run, ms. */
const listedMs = 60_000;

/** Why its owner has deleted a machine, or that it has not; undefined: that is not known, or too much to read. */
async function findCause(
  { client, name: installation }: Installation,
  deletion: Deletion,
  timeoutMs: number,
): Promise<string | undefined> {
  const { name, deletedMs, deployment, isSeen } = deletion;
  const at = (ms: number) => new Date(ms).toISOString();
  const conditions = [
    `${searchAttributes.installation} = '${installation}'`,
    "WorkflowType IN ('rollout', 'machineSet')",
    `StartTime <= '${at(deletedMs + clockSkewMs)}'`,
    `(CloseTime >= '${at(deletedMs - clockSkewMs)}' OR ExecutionStatus = 'Running')`,
  ];
  const listed = await client.withDeadline(Date.now() + timeoutMs, () => listRuns(client, conditions.join(' AND ')));
  const isLikely = (run: ListedRun) =>
    name.startsWith(`${run.workflowId.split('/').at(-2)}-`) ||
    (deployment !== undefined && run.deployment === deployment);
  const { likely = [], others = [] } = Object.groupBy(listed, (run) => (isLikely(run) ? 'likely' : 'others'));
  const read = [...likely, ...others].slice(0, maxOwnerRuns);
  const histories = await Promise.all(read.map((run) => readEvents(client, run, timeoutMs)));
  const cause = histories.map((events) => events && causeInRun(events, deletion)).find((each) => each !== undefined);
  const areAllRead = read.length === listed.length && histories.every((events) => events !== undefined);
  const ageMs = Date.now() - deletedMs;
  if (cause !== undefined || !areAllRead || !isSeen || ageMs <= listedMs) return cause;
  // A run that was open then may have closed at once, and Temporal lists none whose retention has ended.
  const areKept =
    ageMs + clockSkewMs < (await client.withDeadline(Date.now() + timeoutMs, () => readRetention(client)));
  return areKept ? deletedByOthers : undefined;
}

interface ListedRun {
  readonly workflowId: string;
  readonly runId: string;
  /** ms since the epoch. */
  readonly start: number;
  /** Name of the MachineDeployment that it belongs to; left out where there is none. */
  readonly deployment?: string;
}

/** The oldest first. By a list of the server that may be some seconds behind. */
async function listRuns(client: Client, query: string): Promise<ListedRun[]> {
  const runs: ListedRun[] = [];
  for await (const { workflowId, runId, startTime, searchAttributes: attributes } of client.workflow.list({ query })) {
    const [deployment] = attributes[searchAttributes.deployment] ?? [];
    runs.push({ workflowId, runId, start: startTime.getTime(), ...(deployment && { deployment: String(deployment) }) });
  }
  return runs.toSorted((a, b) => a.start - b.start);
}
