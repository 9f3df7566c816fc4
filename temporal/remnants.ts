/** What an installation leaves in Temporal when its processes have ended: its Schedules and its open workflows. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ScheduleNotFoundError, WorkflowNotFoundError } from '@temporalio/client';
import { searchAttributes } from '../api/names.ts';
import { grpcCodeOf, grpcCodes } from './connection.ts';
import { interruptionScheduleId, sweepScheduleId } from './schedules.ts';
import type { Installation } from './workflows.ts';

export interface Remnants {
  /** Ids. */
  readonly schedules: readonly string[];
  /** By a count of the server that may be some seconds behind. */
  readonly openWorkflows: number;
}

const openOf = ({ name }: Installation) =>
  `${searchAttributes.installation} = '${name}' AND ExecutionStatus = 'Running'`;

/** Reads only. */
export async function findRemnants(of: Installation): Promise<Remnants> {
  const ids = [sweepScheduleId(of.name), interruptionScheduleId(of.name)];
  const described = await Promise.all(
    ids.map((id) => unlessGone(async () => (await of.client.schedule.getHandle(id).describe()).scheduleId)),
  );
  const count = await ifRegistered(async () => (await of.client.workflow.count(openOf(of))).count);
  return { schedules: described.filter((id) => id !== undefined), openWorkflows: count ?? 0 };
}

/** Workflows that are terminated at once. */
const groupSize = 50;
/** Pause before the server is asked again which workflows are open, ms. */
const listEveryMs = 1_000;
/** How often it may list workflows that have ended already: its list is behind. */
const maxLists = 60;

/**
 * Deletes the Schedules, and terminates the workflows until none is open. May be repeated. Throws an Error where the
 * server goes on to list workflows that have ended.
 * @param onProgress gets the number of workflows that were terminated
 */
export async function removeRemnants(of: Installation, onProgress: (terminated: number) => void): Promise<void> {
  for (const id of (await findRemnants(of)).schedules) {
    await unlessGone(() => of.client.schedule.getHandle(id).delete());
  }
  let terminated = 0;
  for (let lists = 0; lists < maxLists; lists++) {
    const open = (await ifRegistered(() => listOpen(of))) ?? [];
    if (open.length === 0) return;
    for (let i = 0; i < open.length; i += groupSize) {
      const ended = await Promise.all(open.slice(i, i + groupSize).map((id) => terminate(of, id)));
      const count = ended.filter(Boolean).length;
      if (count === 0) continue;
      terminated += count;
      lists = 0;
      onProgress(terminated);
    }
    await sleep(listEveryMs);
  }
  throw new Error(`Temporal still lists open workflows of installation '${of.name}': run the command again`);
}

async function listOpen(of: Installation): Promise<string[]> {
  const ids: string[] = [];
  for await (const { workflowId } of of.client.workflow.list({ query: openOf(of) })) ids.push(workflowId);
  return ids;
}

/** Whether it was open. */
async function terminate({ client }: Installation, workflowId: string): Promise<boolean> {
  try {
    await client.workflow.getHandle(workflowId).terminate('Millwright is uninstalled');
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

async function unlessGone<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return undefined;
    throw error;
  }
}

/** undefined where the namespace lacks the search attributes: then it has had no workflow of Millwright. */
async function ifRegistered<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (grpcCodeOf(error) === grpcCodes.invalidArgument) return undefined;
    throw error;
  }
}
