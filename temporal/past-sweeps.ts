/** What Temporal knows of earlier sweeps and of deleted machines, for the next sweep to compare with. */
import { type Client, type WorkflowExecutionInfo, WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { SweepMemory } from '../activities/sweep.ts';
import type { FailureCode } from '../api/failures.ts';
import type { LostMachine } from '../api/model/sweep.ts';
import { searchAttributes } from '../api/names.ts';
import { namespacePrefix, workflowId, workflowIdPrefix } from '../api/workflow-id.ts';
import type { SweepReport } from '../workflows/orphansweep/messages.ts';
import { reasonOf } from './connection.ts';
import { sweepIdFor } from './schedules.ts';
import type { Installation } from './workflows.ts';

/** The last sweep that has completed. */
export interface LastSweep {
  /** ms since the epoch. */
  readonly startedMs: number;
  readonly completedMs: number;
  /** Names of the sources that it could not list. */
  readonly unlisted: readonly string[];
}

/** How long the question may take, ms. */
const timeoutMs = 2_000;

/** The last sweep of an installation that has completed and was no dry run; undefined: Temporal knows none. */
export async function findLastSweep({ client, name }: Installation): Promise<LastSweep | undefined> {
  const last = await client.withDeadline(Date.now() + timeoutMs, () => lastCompleted(client, sweepsOf(name)));
  if (last === undefined) return undefined;
  const { report, closedAt } = last;
  const unlisted = report.groups.filter(({ error }) => error !== undefined).flatMap(({ sources }) => sources);
  return { startedMs: Date.parse(report.startedAt), completedMs: Date.parse(closedAt), unlisted };
}

/** How many sweeps of an installation wait for approval. */
export async function countHeldSweeps({ client, name }: Installation): Promise<number> {
  const query = `${sweepsOf(name)} AND ExecutionStatus = 'Running' AND ${searchAttributes.blockedOn} = 'Brake'`;
  return (await client.withDeadline(Date.now() + timeoutMs, () => client.workflow.count(query))).count;
}

const ofInstallation = (name: string) => `${searchAttributes.installation} = '${name}'`;
const sweepsOf = (name: string) =>
  `${ofInstallation(name)} AND WorkflowType = 'orphanSweep' AND WorkflowId != '${sweepIdFor(name, 'dry-run')}'`;

/** Reads the list of workflows, which may be some seconds behind. */
export function createSweepMemory({ client, name }: Installation): SweepMemory {
  const own = ofInstallation(name);
  const sweeps = sweepsOf(name);

  return {
    readPast: () =>
      withFix(client, async () => {
        const last = await lastCompleted(client, sweeps);
        const since = last === undefined ? '' : ` AND (ExecutionStatus = 'Running' OR CloseTime > '${last.closedAt}')`;
        const { count } = await client.workflow.count(`${sweeps} AND ${searchAttributes.blockedOn} = 'Brake'${since}`);
        const { machines, unanswered = [] } = last?.report ?? {};
        return { ...(machines && { machines }), unanswered: [...unanswered, ...(count > 0 ? [heldReason] : [])] };
      }),

    countDeletions: (since) =>
      withFix(client, async () => {
        const { phase } = searchAttributes;
        // A workflow whose Machine has vanished completes too, in the phase that it was in.
        const deleted = `${own} AND WorkflowType = 'machine' AND ExecutionStatus = 'Completed' AND ${phase} = 'Terminating'`;
        return (await client.workflow.count(`${deleted} AND CloseTime > '${since}'`)).count;
      }),

    findLosses: async (machines) => {
      const runs = await withFix(client, async () => {
        const known = await inGroups(machines, (machine) => lastWorkflow({ client, name }, machine));
        const unknown = machines.filter(({ uid }, i) => uid !== undefined && known[i] === undefined);
        const renamed = await lastByUid({ client, name }, unknown);
        return machines.map(({ uid = '' }, i) => known[i] ?? renamed.get(uid));
      });
      const isUnknown = ({ uid }: LostMachine, i: number) => uid !== undefined && runs[i] === undefined;
      const keptMs = machines.some(isUnknown) ? await readRetention(client) : 0;
      return machines.map((machine, i) => {
        const last = runs[i];
        if (last !== undefined) return lossOf(last);
        return isUnknown(machine, i) && !(machine.ageMs >= keptMs) ? withoutRun : undefined;
      });
    },
  };
}

/** Requests that are under way at once. */
const groupSize = 20;

async function inGroups<T, A>(items: readonly T[], ask: (item: T) => Promise<A>): Promise<A[]> {
  const answers: A[] = [];
  for (let i = 0; i < items.length; i += groupSize) {
    answers.push(...(await Promise.all(items.slice(i, i + groupSize).map(ask))));
  }
  return answers;
}

type EndedRun = Pick<WorkflowExecutionInfo, 'status' | 'closeTime' | 'searchAttributes'>;

/** The newest run of the workflow that a Machine has, or had; undefined where Temporal knows none. */
async function lastWorkflow(
  { client, name: installation }: Pick<Installation, 'client' | 'name'>,
  { namespace, name, uid }: LostMachine,
): Promise<EndedRun | undefined> {
  if (uid === undefined) {
    const prefix = workflowIdPrefix(installation, 'Machine', { namespace, name });
    for await (const each of client.workflow.list({ query: `WorkflowId STARTS_WITH '${prefix}'`, pageSize: 1 }))
      return each;
    return undefined;
  }
  return describe(client, workflowId(installation, 'Machine', { dialect: '', namespace, name, uid }));
}

/**
 * The same of Machines whose VMs have other names than they, by UID. Temporal finds no id by its end, so one list of
 * the workflows of each namespace is read.
 */
async function lastByUid(
  { client, name: installation }: Pick<Installation, 'client' | 'name'>,
  machines: readonly LostMachine[],
): Promise<ReadonlyMap<string, EndedRun>> {
  const uids = new Set(machines.map(({ uid }) => uid));
  const ids = new Map<string, string>();
  for (const namespace of new Set(machines.map((machine) => machine.namespace))) {
    const prefix = namespacePrefix(installation, 'Machine', namespace);
    // Each workflow has one such run, and any number of those that were continued.
    const query = `WorkflowId STARTS_WITH '${prefix}' AND ExecutionStatus != 'ContinuedAsNew'`;
    for await (const { workflowId: id } of client.workflow.list({ query })) {
      const uid = id.slice(id.lastIndexOf('/') + 1);
      if (uids.has(uid)) ids.set(uid, id);
    }
  }
  const found = await inGroups([...ids], async ([uid, id]) => ({ uid, last: await describe(client, id) }));
  return new Map(found.flatMap(({ uid, last }) => (last === undefined ? [] : [[uid, last] as const])));
}

async function describe(client: Client, id: string): Promise<EndedRun | undefined> {
  try {
    return await client.workflow.getHandle(id).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

/** What a run says against it that its Machine was deleted with its VM. */
function lossOf({ status, closeTime, searchAttributes: shown }: EndedRun): string | undefined {
  if (status.name === 'RUNNING') return 'its workflow is open';
  const [phase = 'unknown'] = shown[searchAttributes.phase] ?? [];
  const at = closeTime?.toISOString();
  if (status.name !== 'COMPLETED') return `its workflow ended at ${at} as ${status.name}`;
  return phase === 'Terminating' ? undefined : `it was gone in the phase ${phase}, as its workflow saw at ${at}`;
}

const withoutRun =
  'it has no workflow of it, although the VM is younger than the retention of the Temporal namespace, ' +
  "so Temporal's database was lost or restored, or Millwright did not make the VM";

/** How long Temporal keeps closed runs, ms; infinite where the namespace has no retention. Throws where it does not say. */
export async function readRetention(client: Client): Promise<number> {
  const { namespace } = client.options;
  const { config } = await withFix(client, () => client.workflowService.describeNamespace({ namespace }), {
    asked: 'the retention of its namespace',
    command: 'operator namespace describe',
  });
  const seconds = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  return seconds > 0 ? seconds * 1_000 : Number.POSITIVE_INFINITY;
}

const workflowList = { asked: 'the list of workflows', command: 'workflow list' };

/** Asks Temporal. The failure names the request, the reason and the fix. */
async function withFix<T>(
  { options: { namespace } }: Client,
  ask: () => Promise<T>,
  { asked, command } = workflowList,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const fix = `see whether \`temporal ${command} -n ${namespace}\` answers, and correct what it says`;
    const message = `Temporal does not answer ${asked}: ${reasonOf(error)}; ${fix}`;
    throw ApplicationFailure.create({ type: 'Unavailable' satisfies FailureCode, message });
  }
}

const heldReason = 'an earlier sweep waits for approval, or ended without it';

/** The last completed sweep that was no dry run. Lists start with the workflow that closed last. */
async function lastCompleted(client: Client, sweeps: string) {
  const query = `${sweeps} AND ExecutionStatus = 'Completed'`;
  for await (const { workflowId, runId, closeTime } of client.workflow.list({ query, pageSize: 1 })) {
    const report: SweepReport = await client.workflow.getHandle(workflowId, runId).result();
    return { report, closedAt: (closeTime ?? new Date(report.endedAt)).toISOString() };
  }
  return undefined;
}
