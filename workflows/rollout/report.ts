/** What people see of the workflow of an owner: the query `describe`, the details in the Temporal UI, why it failed. */
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { ApplicationFailure, setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import type { LimitWait } from '../../api/model/limits.ts';
import type { OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { type Blocker, blockers, searchAttributes } from '../../api/names.ts';
import { limitText } from '../../api/owner/limit-use.ts';
import { ownerNeeds, toTasks } from '../../api/owner/needs.ts';
import { sumOf } from '../../api/owner/set-counts.ts';
import { waitsOf } from '../../api/owner/waits.ts';
import type { Failure } from '../calls/failure.ts';
import { checkApiServers, findWhoChanges } from '../calls/kubernetes.ts';
import { commandLine } from '../command-line.ts';
import { failedRunText } from '../failed-run.ts';
import { type OwnerDescription, progressDeadlineFailure, type RolloutState } from './messages.ts';
import type { OwnerRun } from './state.ts';

const blockedOnKey = defineSearchAttributeKey(searchAttributes.blockedOn, SearchAttributeType.KEYWORD);

/** Describes a run by its newest reading. */
export function report(run: OwnerRun, view: OwnerView, doing: string): void {
  const { clock, blockedBy, description, notKept } = run;
  const { failedRun, outage, limit, lastError } = description;
  const waitsFor = run.isInvalid ? `a correction of its spec: ${view.problem}` : waitsOf(view);
  run.description = withBlock(run, {
    doing,
    since: doing === description.doing ? description.since : new Date().toISOString(),
    needs: ownerNeeds(view),
    replicas: {
      desired: view.replicas,
      total: sumOf(view.sets, (set) => set.total),
      active: sumOf(view.sets, (set) => set.active),
      available: sumOf(view.sets, (set) => set.available),
    },
    ...(waitsFor !== undefined && { waitsFor }),
    ...(outage !== undefined && view.health?.asking && { outage }),
    ...(limit !== undefined && view.limits && { limit }),
    ...(clock && { progressAt: timeOf(clock.sinceMs), deadline: timeOf(clock.sinceMs + run.deadlineMs) }),
    ...(blockedBy && { blockedBy }),
    ...(run.failuresInARow > 0 && lastError && { lastError }),
    ...(notKept && { lastError: { code: 'FailedPrecondition', ...notKept } }),
    ...(failedRun && { failedRun }),
  });
  setCurrentDetails(toMarkdown(run.description));
}

/**
 * Shows what keeps unhealthy machines from being replaced, and machines from being created; undefined: nothing does.
 */
export function showHolds(run: OwnerRun, outage: string | undefined, limited: LimitWait | undefined): void {
  const { outage: _, limit: __, ...rest } = run.description;
  run.description = {
    ...rest,
    ...(outage !== undefined && { outage }),
    ...(limited !== undefined && { limit: limitText(limited) }),
  };
  setCurrentDetails(toMarkdown(run.description));
}

/** Describes a run whose last request was refused, or not answered in an outage. */
export function reportError(
  run: OwnerRun,
  { code, message, blockedOn }: Pick<Failure, 'code' | 'message' | 'blockedOn'>,
  isOutage: boolean,
): void {
  const at = new Date().toISOString();
  const lastError = { code, message, at, since: run.description.lastError?.since ?? at };
  const isOfLimits = blockedOn === 'WorkflowTask';
  const ofApi = isOutage ? 'waiting for the Kubernetes API' : 'trying again what the Kubernetes API has refused';
  run.description = {
    ...run.description,
    doing: isOfLimits ? 'waiting for the limits of its namespace' : ofApi,
    ...(isOfLimits && { blockedOn }),
    lastError,
  };
  setCurrentDetails(toMarkdown(run.description));
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

/** A description with what blocks the owner, and what helps where its machines do not say that. */
function withBlock(run: OwnerRun, description: OwnerDescription): OwnerDescription {
  const { blockedOn: _, unblock: __, ...rest } = description;
  const blockedOn = blockerOf(run);
  const unblock = remedyOf(run);
  return { ...rest, ...(blockedOn && { blockedOn }), ...(unblock !== undefined && { unblock }) };
}

const reduceMachines =
  'Delete machines that it has too many of or has released, give the released ones their labels back, or raise the replicas.';

const correctSource =
  'Create the class that the template names if it does not exist, or correct it, or name another one in the template; the change is picked up at once.';

function remedyOf({ isInvalid, isRefused, isFrozen, notKept, blockedBy, kind, ref }: OwnerRun): string | undefined {
  if (isInvalid) return 'Correct the spec; the change is picked up at once.';
  if (isRefused) return checkApiServers;
  if (notKept) {
    const { namespace } = ref;
    const retry =
      kind === 'MachineDeployment'
        ? commandLine('rollout retry', ref)
        : commandLine('retry --blocked-on KubernetesApi', { namespace });
    return findWhoChanges('its machines and sets', retry);
  }
  if (blockedBy?.blockedOn === 'Source') return correctSource;
  return isFrozen ? reduceMachines : undefined;
}

/** What an owner waits for that people or other systems have to do. */
function blockerOf({ isInvalid, isHeld, isRefused, isFrozen, notKept, blockedBy }: OwnerRun): Blocker | undefined {
  if (isInvalid) return 'OwnerSpec';
  if (blockedBy !== undefined) return blockedBy.blockedOn;
  if (isRefused || notKept) return 'KubernetesApi';
  return isFrozen ? 'Freeze' : isHeld ? 'Outage' : undefined;
}

/** Sets the search attribute of what the workflow waits for: one event, and only when it changes. */
export function showBlocker(run: OwnerRun): void {
  const blocker = blockerOf(run);
  if (run.shownBlocker === blocker) return;
  run.shownBlocker = blocker;
  upsertSearchAttributes([{ key: blockedOnKey, value: blocker ?? null }]);
  run.description = withBlock(run, run.description);
}

/** The failure of a run past its progress deadline, with the machines that block it and why. */
export function toLateFailure(
  ref: ObjectRef,
  state: RolloutState,
  { deadlineMs, rolledBack }: { readonly deadlineMs: number; readonly rolledBack?: string | undefined },
): Error {
  const message = [
    `the rollout of MachineDeployment ${ref.namespace}/${ref.name} has made no progress for ${deadlineMs / 1_000} s`,
    ...toLines(state.blockedBy),
    rolledBack ?? `the next run continues it; once the cause is fixed: ${commandLine('rollout retry', ref)}`,
  ].join('\n');
  // The next run opens at once, however many runs were late.
  return ApplicationFailure.create({ type: progressDeadlineFailure, message, details: [state], nextRetryDelay: '1s' });
}

/** The same as one line, for an Event. */
export function toLateNote({ progressDeadlineSeconds }: OwnerView, blockedBy: RolloutBlockers | undefined): string {
  return [`no progress for ${progressDeadlineSeconds} s`, ...toLines(blockedBy)].join('; ').replace(/:;/g, ':');
}

/** What an owner is doing, for people. @param isIdle whether the plan is empty */
export function doingOf({ problem, paused, deleting, orphans }: OwnerView, isIdle: boolean): string {
  if (orphans) return 'waiting for the Kubernetes garbage collector';
  if (problem !== undefined && !deleting) return `nothing: the spec is invalid (${problem})`;
  if (!isIdle) return 'changing its machines';
  return paused ? 'waiting for its machines; template changes are on hold while paused' : 'waiting for its machines';
}

/** The description as Markdown. */
export function toMarkdown(description: OwnerDescription): string {
  const { doing, since, needs, replicas, waitsFor, outage, limit, progressAt, deadline } = description;
  const { blockedOn, blockedBy, lastError, unblock, failedRun } = description;
  const { desired, total, active, available } = replicas;
  const lines = [
    `- **Doing**: ${doing}, since ${since}`,
    `- **To do**: ${toTasks(needs)}`,
    `- **Machines**: ${desired} desired, ${total} existing, ${active} active, ${available} available`,
  ];
  if (waitsFor !== undefined) lines.push(`- **Waiting for**: ${waitsFor}`);
  if (outage !== undefined)
    lines.push(
      `- **Not replacing**: ${outage}: that looks like an outage, and no unhealthy machine is replaced meanwhile`,
    );
  if (limit !== undefined) lines.push(`- **Waiting for**: ${limit}`);
  if (progressAt !== undefined && deadline !== undefined) {
    lines.push(`- **Progress**: last at ${progressAt}; deadline ${deadline}`);
  }
  if (blockedOn !== undefined) lines.push(`- **Blocked on**: ${blockedOn}: ${blockers[blockedOn]}`);
  lines.push(...toLines(blockedBy).map((line) => `- ${line}`));
  if (lastError !== undefined)
    lines.push(`- **Last error**: ${lastError.code} at ${lastError.at}: ${lastError.message}`);
  if (unblock !== undefined) lines.push(`- **To unblock**: ${unblock}`);
  if (failedRun !== undefined) lines.push(`- **Last failed run**: ${failedRunText(failedRun)}`);
  return lines.join('\n');
}

function toLines(blockedBy: RolloutBlockers | undefined): string[] {
  if (blockedBy === undefined) return [];
  const { count, machines, problem } = blockedBy;
  const more = count - machines.length;
  return [
    ...(problem === undefined ? [] : [problem]),
    ...(count === 0 ? ['no machine blocks it'] : [`blocked by ${count === 1 ? '1 machine' : `${count} machines`}:`]),
    ...machines.map(({ name, reason }) => `${name}: ${reason}`),
    ...(more > 0 ? [`and ${more} more`] : []),
  ];
}
