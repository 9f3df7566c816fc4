/** Ids of workflows, and the calls that start and signal them. */

import { type Client, WorkflowNotFoundError, type WorkflowStartOptions } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { optionalTsToDate } from '@temporalio/common/lib/time.js';
import { dialectOf } from '../api/dialects.ts';
import type { MachineObservation } from '../api/model/machine.ts';
import type { OwnerView } from '../api/model/owner.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { searchAttributes } from '../api/names.ts';
import { type WorkflowKind, workflowId } from '../api/workflow-id.ts';
import { observedSignal } from '../workflows/machine/messages.ts';
import { refreshSignal, retryNowSignal } from '../workflows/messages.ts';
import { ownerObservedSignal } from '../workflows/rollout/messages.ts';
import { reasonOf } from './connection.ts';
import { withSearchAttributes } from './search-attributes.ts';

/** Where an installation's workflows are. */
export interface Installation {
  readonly client: Client;
  /** Name of the installation: prefix of its workflow ids, and its task queue. */
  readonly name: string;
  /** UID of its control cluster, where that is known: part of the input of workflows. */
  readonly cluster?: string | undefined;
}

/** The input of a workflow, with the cluster of the installation. */
export function ofInstallation<T extends object>({ cluster }: Installation, input: T): T {
  return cluster === undefined ? input : { ...input, cluster };
}

/** A failed run is followed by another one: the first after 1 s, the next ones with growing pauses. */
export const retryOfFailedRun = {
  initialInterval: 1_000,
  backoffCoefficient: 2,
  maximumInterval: 60_000,
} as const;

const types = { Machine: 'machine', MachineDeployment: 'rollout', MachineSet: 'machineSet' } as const;

/** Whether each workflow of a type belongs to a Machine or to an owner of machines. */
export function isOfObject(type: string): boolean {
  return Object.values<string>(types).includes(type);
}

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);
export const installationKey = keyword(searchAttributes.installation);
const deploymentKey = keyword(searchAttributes.deployment);
const revisionKey = keyword(searchAttributes.revision);
const phaseKey = keyword(searchAttributes.phase);

/**
 * Starts the workflow of an object unless it is open; an open workflow gets no event.
 * @param seen of a machine, as a watcher saw it: one that is new is not read again
 */
export async function startWorkflow(to: Installation, kind: WorkflowKind, ref: ObjectRef, seen?: MachineObservation) {
  const { args, ...options } = startOptions(to, kind, ref, seen);
  await withSearchAttributes(to.client, () =>
    to.client.workflow.start(types[kind], { ...options, args: seen === undefined ? args : [...args, seen] }),
  );
}

/** A check that has not ended by then is given up. Its calls take less, even if all have to be repeated. */
const checkTimeoutMs = 30 * 60_000;

/** Id of the workflow that checks a version of a source. Each has its own: a check of an old one delays no other. */
export function sourceCheckId(installation: string, { namespace, name }: ObjectRef, version: string): string {
  return `${installation}/source-check/${namespace}/${name}/${version}`;
}

/**
 * Starts the check of a source object, unless one of this version is open. Nothing repeats it: the controller asks
 * again.
 * @param hasUnsigned Machines of it have places to be signed
 */
export async function startSourceCheck(
  to: Installation,
  ref: ObjectRef,
  version: string,
  hasUnsigned: boolean,
): Promise<void> {
  const options = {
    taskQueue: to.name,
    workflowId: sourceCheckId(to.name, ref, version),
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowExecutionTimeout: checkTimeoutMs,
    args: [ofInstallation(to, ref), ...(hasUnsigned ? [true] : [])],
    staticSummary: `check of ${ref.namespace}/${ref.name}`,
    typedSearchAttributes: [{ key: installationKey, value: to.name }],
  } satisfies WorkflowStartOptions;
  await withSearchAttributes(to.client, () => to.client.workflow.start('sourceCheck', options));
}

/** Id of the workflow that gives the VMs of a source its tags. */
export function tagUpdateId(installation: string, { namespace, name }: ObjectRef): string {
  return `${installation}/tag-update/${namespace}/${name}`;
}

/**
 * Starts the workflow that gives the VMs of a source its tags, unless it is open. Nothing repeats it, as with a check.
 */
export async function startTagUpdate(to: Installation, ref: ObjectRef): Promise<void> {
  const options = {
    taskQueue: to.name,
    workflowId: tagUpdateId(to.name, ref),
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    args: [ofInstallation(to, ref)],
    staticSummary: `tags of the VMs of ${ref.namespace}/${ref.name}`,
    typedSearchAttributes: [{ key: installationKey, value: to.name }],
  } satisfies WorkflowStartOptions;
  await withSearchAttributes(to.client, () => to.client.workflow.start('tagUpdate', options));
}

/** Signals an observation to the workflow of a machine, and starts it if it is not open. */
export async function signalMachine(to: Installation, ref: ObjectRef, seen: MachineObservation): Promise<void> {
  await withSearchAttributes(to.client, () =>
    to.client.workflow.signalWithStart(types.Machine, {
      ...startOptions(to, 'Machine', ref, seen),
      signal: observedSignal,
      signalArgs: [seen],
    }),
  );
}

/** Signals an observation to the workflow of an owner, and starts it if it is not open. */
export async function signalOwner(to: Installation, ref: ObjectRef, seen: OwnerView): Promise<void> {
  await withSearchAttributes(to.client, () =>
    to.client.workflow.signalWithStart(types[seen.kind], {
      ...startOptions(to, seen.kind, ref),
      signal: ownerObservedSignal,
      signalArgs: [seen],
    }),
  );
}

/** Makes the workflow with this id read its objects live, if it is open. */
export async function requestRefresh(to: Installation, id: string): Promise<void> {
  try {
    await to.client.workflow.getHandle(id).signal(refreshSignal);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

/** Makes the workflow of an object retry at once whatever it waits for, as a person wants. Returns whether it is open. */
export async function retryNow(to: Installation, kind: WorkflowKind, ref: ObjectRef): Promise<boolean> {
  try {
    await to.client.workflow
      .getHandle(workflowId(to.name, kind, ref))
      .signal(retryNowSignal, to.client.options.identity);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** Workflows that an error names. */
const maxNamed = 5;

/**
 * Signals several workflows: one that refuses keeps the signal from none of the others. Answers which of them were
 * open. Throws an Error that names those that have refused, after all were tried.
 * @param signal answers whether the workflow was open
 */
export async function signalEach<T>(
  of: readonly T[],
  nameOf: (each: T) => string,
  signal: (each: T) => Promise<boolean>,
): Promise<T[]> {
  const refused: string[] = [];
  const areOpen = await Promise.all(
    of.map((each) =>
      signal(each).catch((error: unknown) => {
        refused.push(`${nameOf(each)}: ${reasonOf(error)}`);
        return false;
      }),
    ),
  );
  if (refused.length === 0) return of.filter((_, i) => areOpen[i]);
  const which = refused.slice(0, maxNamed).join('; ');
  throw new Error(`${refused.length} of ${of.length} workflows could not be signalled, all others were: ${which}`);
}

/** How long reading a history may take, ms. */
const timeoutMs = 10_000;

/**
 * When somebody last sent `retryNow` to the newest run of an object's workflow; undefined for never. Reads the history
 * of the run.
 */
export async function findRetry(to: Installation, kind: WorkflowKind, ref: ObjectRef): Promise<Date | undefined> {
  try {
    const handle = to.client.workflow.getHandle(workflowId(to.name, kind, ref));
    const { events } = await to.client.withDeadline(Date.now() + timeoutMs, () => handle.fetchHistory());
    const isRetry = (event: NonNullable<typeof events>[number]) =>
      event.workflowExecutionSignaledEventAttributes?.signalName === retryNowSignal.name;
    return optionalTsToDate(events?.findLast(isRetry)?.eventTime);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

/** An open workflow, with the phase in its search attributes if it is that of a machine. */
export interface OpenWorkflow {
  readonly id: string;
  readonly phase: string | undefined;
  /** Of its run. */
  readonly startTime: Date;
}

/** The open workflows of an installation's objects, by a list of the server that may be some seconds behind. */
export async function listOpenWorkflows(of: Installation): Promise<OpenWorkflow[]> {
  const workflows = Object.values(types).map((type) => `'${type}'`);
  const ofObjects = `WorkflowType IN (${workflows.join(', ')})`;
  const query = `${searchAttributes.installation} = '${of.name}' AND ${ofObjects} AND ExecutionStatus = 'Running'`;
  const open: OpenWorkflow[] = [];
  for await (const { workflowId: id, typedSearchAttributes, startTime } of of.client.workflow.list({ query })) {
    open.push({ id, phase: typedSearchAttributes.get(phaseKey), startTime });
  }
  return open;
}

function startOptions(to: Installation, kind: WorkflowKind, ref: ObjectRef, seen?: MachineObservation) {
  const { creationPhase } = dialectOf(ref.dialect).machine;
  const about = seen?.machine;
  const deployment = kind === 'MachineDeployment' ? ref.name : seen?.deployment;
  return {
    taskQueue: to.name,
    workflowId: workflowId(to.name, kind, ref),
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    args: [ofInstallation(to, ref)],
    staticSummary: `${kind} ${ref.namespace}/${ref.name}`,
    retry: retryOfFailedRun,
    typedSearchAttributes: [
      { key: installationKey, value: to.name },
      ...(deployment === undefined ? [] : [{ key: deploymentKey, value: deployment }]),
      ...(about?.revision === undefined ? [] : [{ key: revisionKey, value: about.revision }]),
      ...(about === undefined ? [] : [{ key: phaseKey, value: about.phase || creationPhase }]),
    ],
  } satisfies WorkflowStartOptions;
}
