/** What people see of the workflow of an owner: the query `describe`, the details in the Temporal UI, why it failed. */
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { ApplicationFailure, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { toTasks } from '../../api/attention.ts';
import type { OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { type Blocker, blockers, searchAttributes } from '../../api/names.ts';
import { failedRunText } from '../failed-run.ts';
import { type OwnerDescription, progressDeadlineFailure, type RolloutState } from './messages.ts';

const blockedOnKey = defineSearchAttributeKey(searchAttributes.blockedOn, SearchAttributeType.KEYWORD);

/** Sets the search attribute of what a workflow waits for: one event. */
export function showBlocker(blockedOn: Blocker | undefined): void {
  upsertSearchAttributes([{ key: blockedOnKey, value: blockedOn ?? null }]);
}

/** The failure of a run past its progress deadline, which names the machines that hold it up and says why. */
export function toLateFailure({ namespace, name }: ObjectRef, state: RolloutState, deadlineMs: number): Error {
  const heldUp = state.blockedBy === undefined ? [] : toLines(state.blockedBy);
  const { taskQueue: installation } = workflowInfo();
  const other = installation === namespace ? '' : ` --installation ${installation}`;
  const message = [
    `the rollout of MachineDeployment ${namespace}/${name} has made no progress for ${deadlineMs / 1_000} s`,
    ...heldUp,
    `it goes on in the next run; once the cause is away: millwright rollout retry ${name} -n ${namespace}${other}`,
  ].join('\n');
  // However often it was late, the next run opens as soon.
  return ApplicationFailure.create({ type: progressDeadlineFailure, message, details: [state], nextRetryDelay: '1s' });
}

/** The same as one line, for an Event. */
export function toLateNote({ progressDeadlineSeconds }: OwnerView, blockedBy: RolloutBlockers | undefined): string {
  const heldUp = blockedBy === undefined ? [] : toLines(blockedBy);
  return [`no progress for ${progressDeadlineSeconds} s`, ...heldUp].join('; ').replace(/:;/g, ':');
}

/** What a reading says, for people. */
export function doingOf({ problem, paused, deleting, orphans }: OwnerView, isIdle: boolean): string {
  if (orphans) return 'waiting for the garbage collector of Kubernetes';
  if (problem !== undefined && !deleting) return `nothing, for it is not valid: ${problem}`;
  if (!isIdle) return 'changing its machines';
  return paused
    ? 'waiting for its machines; a change of its template waits, for it is paused'
    : 'waiting for its machines';
}

/** The description as Markdown. */
export function toMarkdown(described: OwnerDescription): string {
  const { doing, since, needs, replicas, waitsFor, progressAt, deadline, blockedOn, blockedBy, lastError, failedRun } =
    described;
  const { desired, total, active, available } = replicas;
  const lines = [
    `- **Doing**: ${doing}, since ${since}`,
    `- **To do**: ${toTasks(needs)}`,
    `- **Machines**: ${desired} desired, ${total} existing, ${active} active, ${available} available`,
  ];
  if (waitsFor !== undefined) lines.push(`- **Waiting for**: ${waitsFor}`);
  if (progressAt !== undefined && deadline !== undefined) {
    lines.push(`- **Progress**: last at ${progressAt}; too late from ${deadline} on`);
  }
  if (blockedOn !== undefined) lines.push(`- **Blocked on**: ${blockedOn}: ${blockers[blockedOn]}`);
  if (blockedBy !== undefined) lines.push(...toLines(blockedBy).map((line) => `- ${line}`));
  if (lastError !== undefined)
    lines.push(`- **Last error**: ${lastError.code} at ${lastError.at}: ${lastError.message}`);
  if (failedRun !== undefined) lines.push(`- **Last failed run**: ${failedRunText(failedRun)}`);
  return lines.join('\n');
}

function toLines({ count, machines, problem }: RolloutBlockers): string[] {
  const more = count - machines.length;
  return [
    ...(problem === undefined ? [] : [problem]),
    count === 1 ? '1 machine holds it up:' : `${count} machines hold it up${count === 0 ? '' : ':'}`,
    ...machines.map(({ name, reason }) => `${name}: ${reason}`),
    ...(more > 0 ? [`and ${more} more`] : []),
  ];
}
