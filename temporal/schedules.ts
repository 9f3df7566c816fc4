/** The Schedule of the orphan sweep, and sweeps on demand: their ids, and the only calls that are made for them. */
import { isDeepStrictEqual } from 'node:util';
import {
  type Client,
  ScheduleAlreadyRunning,
  type ScheduleDescription,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  WorkflowFailedError,
  WorkflowNotFoundError,
  type WorkflowStartOptions,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { SweepNamespace } from '../api/model/sweep.ts';
import { searchAttributes } from '../api/names.ts';
import {
  approveUpdate,
  type Held,
  progressQuery,
  retryNowSignal,
  type SweepInput,
  type SweepProgress,
  type SweepReport,
} from '../workflows/orphansweep/messages.ts';
import { withSearchAttributes } from './search-attributes.ts';
import { anotherRun, type Installation, ofInstallation } from './workflows.ts';

export type {
  GroupReport,
  Held,
  NamedResource,
  SweepProgress,
  SweepReport,
} from '../workflows/orphansweep/messages.ts';
export { keptReasons } from '../workflows/orphansweep/messages.ts';

const installationKey = defineSearchAttributeKey(searchAttributes.installation, SearchAttributeType.KEYWORD);
const workflowType = 'orphanSweep';
/** A sweep that Temporal could not begin in time is left to the next one. */
const catchupWindowMs = 60_000;

/** Id of the Schedule, and with a time after it of its workflows. */
export function sweepScheduleId(installation: string): string {
  return `${installation}/orphan-sweep`;
}

/** Sweeps on demand: somebody's, a dry one, and one that deleted classes wait for. */
const turns = ['now', 'dry-run', 'classes'] as const;
type Turn = (typeof turns)[number];

/** Workflow id of a sweep on demand. */
export function sweepIdFor(installation: string, turn: Turn): string {
  return `${sweepScheduleId(installation)}/${turn}`;
}

/**
 * Makes sure that the Schedule is there and is as wanted, and that no sweep stands still; reads alone when that is so.
 * Somebody may have paused it, which it stays. Without a period there is none.
 * @param of.namespace of the control cluster whose Machines count
 */
export async function ensureSweepSchedule(
  to: Installation,
  of: SweepNamespace & { readonly periodSeconds: number },
): Promise<void> {
  const handle = to.client.schedule.getHandle(sweepScheduleId(to.name));
  const wanted = scheduleOf(to, of);
  await Promise.all(turns.map((turn) => nudge(to.client, sweepIdFor(to.name, turn))));
  try {
    const present = await handle.describe();
    if (of.periodSeconds === 0) await handle.delete();
    else if (!isAsWanted(present, wanted)) await handle.update(({ state }) => ({ ...wanted, state }));
    const last = present.info.recentActions.at(-1); // servers need not tell whether it still runs
    if (last !== undefined) await nudge(to.client, last.action.workflow.workflowId);
  } catch (error) {
    if (!(error instanceof ScheduleNotFoundError)) throw error;
    if (of.periodSeconds > 0) await create(to.client, to.name, wanted);
  }
}

/**
 * A run that cannot be replayed ends in the first attempt of a task alone, and only with an event is a later attempt a
 * first one again. Nobody else sends a sweep any, and no other begins while it is open. The longer the history, the more
 * attempts in between: Temporal takes 10,000 signals of a run.
 */
async function nudge(client: Client, workflowId: string): Promise<void> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    const { raw, historyLength } = await handle.describe();
    if ((raw.pendingWorkflowTask?.attempt ?? 1) > 1 + historyLength / 100) await handle.signal(retryNowSignal);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

async function create(client: Client, installation: string, wanted: ReturnType<typeof scheduleOf>): Promise<void> {
  try {
    const scheduleId = sweepScheduleId(installation);
    await withSearchAttributes(client, () => client.schedule.create({ scheduleId, ...wanted }));
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
}

function scheduleOf(
  to: Installation,
  { dialect, namespace, periodSeconds }: SweepNamespace & { readonly periodSeconds: number },
) {
  return {
    spec: { intervals: [{ every: periodSeconds * 1_000 }] },
    action: {
      type: 'startWorkflow' as const,
      workflowType,
      workflowId: sweepScheduleId(to.name),
      ...startOptions(to, { dialect, namespace, dryRun: false }),
    },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: catchupWindowMs },
    typedSearchAttributes: [{ key: installationKey, value: to.name }],
  };
}

function isAsWanted(present: ScheduleDescription, wanted: ReturnType<typeof scheduleOf>): boolean {
  const { spec, action, policies } = present;
  return isDeepStrictEqual(
    [
      spec.intervals?.map(({ every }) => every),
      action.type,
      action.workflowType,
      action.taskQueue,
      action.args,
      action.retry?.maximumInterval,
      policies.overlap,
      policies.catchupWindow,
    ],
    [
      wanted.spec.intervals.map(({ every }) => every),
      'startWorkflow',
      workflowType,
      wanted.action.taskQueue,
      wanted.action.args,
      wanted.action.retry.maximumInterval,
      wanted.policies.overlap,
      wanted.policies.catchupWindow,
    ],
  );
}

function startOptions(to: Installation, input: SweepInput) {
  return {
    taskQueue: to.name,
    args: [ofInstallation(to, input)],
    retry: anotherRun,
    staticSummary: input.dryRun ? 'orphan sweep, dry run' : 'orphan sweep',
    typedSearchAttributes: [{ key: installationKey, value: to.name }],
  };
}

/**
 * Starts a sweep on demand, beside others: they do each other no harm. One that was started for the same and is not over
 * yet is taken as it is. A person's is none that deleted classes wait for, which may have looked before they asked.
 * @returns its workflow id
 */
export async function startSweep(to: Installation, input: SweepInput, asker: 'person' | 'classes'): Promise<string> {
  const which = asker === 'classes' ? asker : input.dryRun ? 'dry-run' : 'now';
  const options = {
    ...startOptions(to, input),
    workflowId: sweepIdFor(to.name, which),
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
  } satisfies WorkflowStartOptions;
  await to.client.workflow.start(workflowType, options);
  return options.workflowId;
}

/** How often a sweep that somebody watches is asked how far it is, ms. */
const askEveryMs = 1_000;
/** How long a worker may take to tell, ms. */
const timeoutMs = 5_000;

/**
 * Resolves with the report of the sweep with this id, and rejects with the failure of one that fails. What it says
 * meanwhile goes to `onProgress`, and undefined when no worker answers; what that throws ends the wait.
 */
export async function followSweep(
  client: Client,
  workflowId: string,
  onProgress: (progress: SweepProgress | undefined) => void,
): Promise<SweepReport> {
  const handle = client.workflow.getHandle(workflowId);
  let isOver = false;
  const result = handle
    .result()
    .catch((error: unknown) => {
      throw error instanceof WorkflowFailedError && error.cause ? error.cause : error;
    })
    .finally(() => {
      isOver = true;
    });
  const asking = (async () => {
    while (!isOver) {
      const pause = new Promise((resolve) => setTimeout(resolve, askEveryMs));
      const progress = await askProgress(client, workflowId);
      if (!isOver) onProgress(progress);
      await Promise.race([pause, result.catch(() => undefined)]);
    }
  })();
  const [report] = await Promise.all([result as Promise<SweepReport>, asking]);
  return report;
}

async function askProgress(client: Client, workflowId: string): Promise<SweepProgress | undefined> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    return await client.withDeadline(Date.now() + timeoutMs, () => handle.query(progressQuery));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw error;
    return undefined;
  }
}

/** A sweep that waits at its brake. */
export interface HeldSweep {
  readonly id: string;
  readonly held: Held;
}

/** The sweeps of an installation that wait for approval. Open ones are asked: the list of workflows may be behind. */
export async function findHeldSweeps({ client, name }: Installation): Promise<HeldSweep[]> {
  const query = `${searchAttributes.installation} = '${name}' AND WorkflowType = '${workflowType}' AND ExecutionStatus = 'Running'`;
  const waiting: HeldSweep[] = [];
  for await (const { workflowId: id } of client.workflow.list({ query })) {
    const { held } = (await askProgress(client, id)) ?? {};
    if (held !== undefined) waiting.push({ id, held });
  }
  return waiting;
}

/** Approves what is named, by id or name, at a sweep that waits. Answers how many orphans that are; throws what it refuses. */
export async function approveOrphans(
  { client }: Installation,
  { id }: HeldSweep,
  named: readonly string[],
): Promise<number> {
  try {
    const handle = client.workflow.getHandle(id);
    return await client.withDeadline(Date.now() + timeoutMs, () =>
      handle.executeUpdate(approveUpdate, { args: [named] }),
    );
  } catch (error) {
    throw error instanceof WorkflowUpdateFailedError && error.cause ? error.cause : error;
  }
}
