/** The Schedule of the orphan sweep, and sweeps on demand: their ids, and all calls for them. */
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
import { encodeToPayloads } from '@temporalio/common/lib/internal-non-workflow/codec-helpers.js';
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
import { keyIdOf } from './codec.ts';
import { withSearchAttributes } from './search-attributes.ts';
import { type Installation, ofInstallation, retryOfFailedRun } from './workflows.ts';

const installationKey = defineSearchAttributeKey(searchAttributes.installation, SearchAttributeType.KEYWORD);
/** Workflow type of a sweep. */
export const sweepType = 'orphanSweep';
/** A sweep that Temporal starts later than this is left to the next one, ms. */
const catchupWindowMs = 60_000;

/** Id of the Schedule. Its workflows have this id with a time appended. */
export function sweepScheduleId(installation: string): string {
  return `${installation}/orphan-sweep`;
}

/** Sweeps on demand: by a person, a dry run, and for deleted classes. */
const turns = ['now', 'dry-run', 'sources'] as const;
type Turn = (typeof turns)[number];

/** Workflow id of a sweep on demand. */
export function sweepIdFor(installation: string, turn: Turn): string {
  return `${sweepScheduleId(installation)}/${turn}`;
}

/**
 * Creates or updates the Schedule if it differs, and signals sweeps that stand still; else it only reads. A paused
 * Schedule stays paused. Without a period there is none.
 * @param of.namespace of the control cluster whose Machines count
 */
export async function ensureSweepSchedule(
  to: Installation,
  of: SweepNamespace & { readonly periodSeconds: number },
): Promise<void> {
  await Promise.all(turns.map((turn) => nudge(to.client, sweepIdFor(to.name, turn))));
  const scheduleId = sweepScheduleId(to.name);
  const action = { workflowType: sweepType, ...startOptions(to, { ...namespaceOf(of), dryRun: false }) };
  const present = await ensureSchedule(to, scheduleId, of.periodSeconds, action);
  const last = present?.info.recentActions.at(-1); // servers need not report whether it still runs
  if (last !== undefined) await nudge(to.client, last.action.workflow.workflowId);
}

/** The Schedule of sweeps, as far as people have to know it. */
export interface SweepState {
  readonly paused: boolean;
  /** Why, as who has paused it says. */
  readonly note?: string | undefined;
  /** When it starts a sweep next; left out: it starts none. */
  readonly next?: Date | undefined;
}

/** Whether the Schedule of an installation is paused, and who says why; undefined: there is none. */
export async function findSweepState(client: Client, installation: string): Promise<SweepState | undefined> {
  try {
    const { state, info } = await client.schedule.getHandle(sweepScheduleId(installation)).describe();
    return { paused: state.paused, note: state.note, next: state.paused ? undefined : info.nextActionTimes[0] };
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return undefined;
    throw error;
  }
}

/** Id of the Schedule of the checks for interruptions. Its workflows have this id with a time appended. */
export function interruptionScheduleId(installation: string): string {
  return `${installation}/interruptions`;
}

/** A check that has not ended by then is given up, ms: others follow. */
const interruptionTimeoutMs = 10 * 60_000;

/** Creates or updates the Schedule of the checks for interruptions, or deletes it where the period is 0. */
export async function ensureInterruptionSchedule(
  to: Installation,
  of: SweepNamespace & { readonly periodSeconds: number },
): Promise<void> {
  await ensureSchedule(to, interruptionScheduleId(to.name), of.periodSeconds, {
    workflowType: 'interruptionCheck',
    taskQueue: to.name,
    args: [ofInstallation(to, namespaceOf(of))],
    retry: retryOfFailedRun,
    workflowExecutionTimeout: interruptionTimeoutMs,
    staticSummary: 'check for interruptions',
    typedSearchAttributes: [{ key: installationKey, value: to.name }],
  });
}

function namespaceOf({ dialect, namespace }: SweepNamespace): SweepNamespace {
  return { dialect, namespace };
}

/** Has a Schedule as it is wanted; without a period there is none. Answers the one that was there. */
async function ensureSchedule(
  to: Installation,
  scheduleId: string,
  periodSeconds: number,
  action: Action,
): Promise<ScheduleDescription | undefined> {
  const handle = to.client.schedule.getHandle(scheduleId);
  const wanted = scheduleOf(to, scheduleId, periodSeconds, action);
  try {
    const present = await handle.describe();
    if (periodSeconds === 0) await handle.delete();
    else if (!isAsWanted(present, wanted) || !(await isEncodedAsNow(to, present, wanted)))
      await handle.update(({ state }) => ({ ...wanted, state }));
    return present;
  } catch (error) {
    if (!(error instanceof ScheduleNotFoundError)) throw error;
    if (periodSeconds > 0) await create(to.client, scheduleId, wanted);
    return undefined;
  }
}

/**
 * A run that cannot be replayed fails only in the first attempt of a workflow task, and only a new event makes a later
 * attempt a first one. Nothing else signals a sweep. The longer the history, the more attempts between two signals:
 * Temporal accepts 10,000 signals for each run.
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

async function create(client: Client, scheduleId: string, wanted: ReturnType<typeof scheduleOf>): Promise<void> {
  try {
    await withSearchAttributes(client, () => client.schedule.create({ scheduleId, ...wanted }));
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
}

/** What a Schedule starts. */
interface Action extends Omit<ReturnType<typeof startOptions>, 'args'> {
  readonly workflowType: string;
  readonly args: SweepNamespace[];
  readonly workflowExecutionTimeout?: number;
}

function scheduleOf(to: Installation, scheduleId: string, periodSeconds: number, action: Action) {
  return {
    spec: { intervals: [{ every: periodSeconds * 1_000 }] },
    action: { type: 'startWorkflow' as const, workflowId: scheduleId, ...action },
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
      wanted.action.workflowType,
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
    retry: retryOfFailedRun,
    staticSummary: input.dryRun ? 'orphan sweep, dry run' : 'orphan sweep',
    typedSearchAttributes: [{ key: installationKey, value: to.name }],
  };
}

/** Whether the arguments are encrypted as they would be now. Nothing else replaces a key that is to be removed. */
async function isEncodedAsNow(
  { client: { options } }: Installation,
  { raw }: ScheduleDescription,
  { action }: ReturnType<typeof scheduleOf>,
): Promise<boolean> {
  const [present = {}] = raw.schedule?.action?.startWorkflow?.input?.payloads ?? [];
  const [now = {}] = (await encodeToPayloads(options.loadedDataConverter, ...action.args)) ?? [];
  return keyIdOf(present) === keyIdOf(now);
}

/**
 * Starts a sweep on demand; several may run at once. An open sweep of the same purpose is used instead of a new one. A
 * sweep started by hand does not release deleted classes: it may have listed the cloud before they were deleted.
 * @returns its workflow id
 */
export async function startSweep(to: Installation, input: SweepInput, asker: 'person' | 'sources'): Promise<string> {
  const which = asker === 'sources' ? asker : input.dryRun ? 'dry-run' : 'now';
  const options = {
    ...startOptions(to, input),
    workflowId: sweepIdFor(to.name, which),
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
  } satisfies WorkflowStartOptions;
  await to.client.workflow.start(sweepType, options);
  return options.workflowId;
}

/** Pause between two queries of the progress of a watched sweep, ms. */
const askEveryMs = 1_000;
/** How long a worker may take to answer a query, ms. */
const timeoutMs = 5_000;
/** The same for an approval, ms: a worker that is late accepts it all the same, and its sender has to know. */
const approvalTimeoutMs = 30_000;

/**
 * Resolves with the report of the sweep with this id; rejects with the failure of the sweep. `onProgress` gets its
 * progress meanwhile, or undefined when no worker answers; an error that it throws ends the wait.
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

/** What a sweep answers; undefined: no worker answers in time. Throws where Temporal does not know it. */
export async function askProgress(client: Client, workflowId: string): Promise<SweepProgress | undefined> {
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

/**
 * The sweeps of an installation that wait for approval. Queries the open ones: the list of workflows may be behind. One
 * that does not answer, or is gone, hides no other.
 */
export async function findHeldSweeps({ client, name }: Installation): Promise<HeldSweep[]> {
  const query = `${searchAttributes.installation} = '${name}' AND WorkflowType = '${sweepType}' AND ExecutionStatus = 'Running'`;
  const waiting: HeldSweep[] = [];
  for await (const { workflowId: id } of client.workflow.list({ query })) {
    const { held } = (await askProgress(client, id).catch(() => undefined)) ?? {};
    if (held !== undefined) waiting.push({ id, held });
  }
  return waiting;
}

/**
 * Approves the orphans with these ids or names at a sweep that waits. Returns how many there are; throws its refusal.
 */
export async function approveOrphans(
  { client }: Installation,
  { id }: HeldSweep,
  named: readonly string[],
): Promise<number> {
  try {
    const handle = client.workflow.getHandle(id);
    return await client.withDeadline(Date.now() + approvalTimeoutMs, () =>
      handle.executeUpdate(approveUpdate, { args: [named, client.options.identity] }),
    );
  } catch (error) {
    throw error instanceof WorkflowUpdateFailedError && error.cause ? error.cause : error;
  }
}
