/** What is blocked, grouped by cause. Pure. */
import type { Blocker } from '../../../api/names.ts';
import type { BlockedWorkflow } from '../../../temporal/blocked.ts';
import { lacksKey } from '../../../temporal/codec.ts';
import { sweepType } from '../../../temporal/schedules.ts';
import { isDisagreement } from '../../../temporal/task-failure.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import type { Held, SweepProgress } from '../../../workflows/orphansweep/messages.ts';
import type { OwnerDescription } from '../../../workflows/rollout/messages.ts';
import { sinceText } from '../../duration-text.ts';
import { maxApproved } from '../sweep/report.ts';

/** Workflows of a type that wait for the same. */
export interface CauseGroup {
  readonly blockedOn: BlockedWorkflow['blockedOn'];
  readonly type: string;
  /** The oldest first. */
  readonly blocked: readonly [BlockedWorkflow, ...BlockedWorkflow[]];
}

/** What the workflow says that has waited longest. */
export interface Example {
  /** RFC 3339. */
  readonly since?: string;
  readonly problem?: string;
  readonly unblock?: string;
}

export interface Cause extends CauseGroup {
  /** What it means, as a clause. */
  readonly meaning: string;
  readonly longest: Example;
  /** What the first ones say, the one that waits longest included, where each has a cause of its own. */
  readonly own?: readonly Example[];
  /** Command line that has all of them try again; left out where that helps nothing. */
  readonly retry?: string;
}

const outageRemedy =
  'Find out why the Nodes are gone or not ready. A kubelet registers its Node when it starts. To replace a machine all the same, delete it.';

/**
 * The part of a description for this list: since when, the last error, else what it waits for, and what would unblock
 * it.
 */
export function toExample(description: MachineDescription | OwnerDescription): Example {
  const { since, lastError } = description;
  const waitsFor =
    'waitingFor' in description ? description.waitingFor : 'waitsFor' in description && description.waitsFor;
  const outage = 'outage' in description ? description.outage : undefined;
  // What an owner waits for is a sentence, but for the correction of its spec.
  const isNoun = !('replicas' in description) || description.blockedOn === 'OwnerSpec';
  const waits = outage ?? (waitsFor && (isNoun ? `waits for ${waitsFor}` : waitsFor));
  const problem = lastError ? `${lastError.code}: ${lastError.message}` : waits;
  return {
    since: lastError !== undefined && 'since' in lastError ? lastError.since : since,
    ...(problem && { problem }),
    ...(outage !== undefined && { unblock: outageRemedy }),
    ...('unblock' in description && description.unblock !== undefined && { unblock: description.unblock }),
  };
}

/** The same of a sweep. @param approvalOf what to do about orphans that wait */
export function toSweepExample({ since, held, lastError }: SweepProgress, approvalOf: (held: Held) => string): Example {
  if (held !== undefined) {
    const orphans = held.orphans.map(({ named }) => named.map(({ kind, id }) => `${kind} ${id}`).join(' with '));
    const problem = `waits for approval: ${[...held.reasons, firstOf(orphans, held.count, maxApproved)].join('; ')}`;
    return { since, problem, unblock: approvalOf(held) };
  }
  const problem = lastError && `${lastError.code}: ${lastError.message}`;
  return { since, ...(problem && { problem }) };
}

/** How the tasks of workflows have failed, as far as that was read, by workflow id. */
export type TaskFailures = ReadonlyMap<string, Example & { readonly problem: string }>;

const anotherVersion =
  'go back to the version before, with the chart by `helm rollback millwright --namespace millwright`, or install one that corrects it';

const leftOpen = `The controllers do not end this run: ${anotherVersion}. Then it goes on where it is. It may also be terminated: the controllers start the workflow again within a minute, and it finds out how far it was.`;

const theKey =
  'Give the workers the key: add its file to the folder of their --temporal-codec-keys. They go on by themselves.';

const ended = `The controllers end this run within some minutes, because its history and its code disagree or no task was answered in time, and a new run finds out how far it was. If this began with an upgrade, or the new run fails as well, the cause may be the code: ${anotherVersion}. Then runs that were not ended go on where they are. Until then the controllers end each new run that fails in this way, after growing pauses.`;

/** What would unblock a workflow whose tasks fail. @param problem how its last one has failed; undefined: not known */
export function taskRemedy({ isBroken }: Pick<BlockedWorkflow, 'isBroken'>, problem: string | undefined): string {
  if (isBroken || (problem !== undefined && isDisagreement(problem))) return ended;
  return problem?.includes(lacksKey) ? theKey : leftOpen;
}

/**
 * Groups of equal cause and type, the largest first. Those whose tasks fail have one remedy, too: an exception in the
 * code has another one than a history that disagrees with it.
 * @param blocked the oldest first
 */
export function groupByCause(
  blocked: readonly BlockedWorkflow[],
  failures: TaskFailures = new Map<string, never>(),
): CauseGroup[] {
  const groups = Map.groupBy(blocked, (each) => {
    const isFailing = each.blockedOn === 'WorkflowTask';
    const remedy = isFailing ? taskRemedy(each, failures.get(each.workflowId)?.problem) : '';
    return `${each.blockedOn} ${each.type} ${remedy}`;
  });
  return [...groups.values()]
    .map(([first, ...others]) => {
      if (first === undefined) throw new Error('a group is never empty');
      return { blockedOn: first.blockedOn, type: first.type, blocked: [first, ...others] as const };
    })
    .toSorted((a, b) => b.blocked.length - a.blocked.length);
}

/** The group with the one first that says that it waits longest. @param said by the first of the group, one or more */
export function longestFirst(group: CauseGroup, said: readonly Example[]): CauseGroup & { readonly longest: Example } {
  const startMs = ({ since }: Example) => (since === undefined ? Number.POSITIVE_INFINITY : Date.parse(since));
  const all = group.blocked.map((each, i) => ({ each, says: said[i] ?? {} }));
  const longest = all.reduce((a, b) => (startMs(b.says) < startMs(a.says) ? b : a));
  const others = group.blocked.filter((each) => each !== longest.each);
  return { ...group, blocked: [longest.each, ...others], longest: longest.says };
}

/** Ended by something that a try finds out, and no watcher. */
const retried: readonly Blocker[] = ['Credentials', 'CloudCapacity', 'CloudApi', 'KubernetesApi'];

/** Whether `millwright retry` makes them all try at once what has failed, where it is more than one. */
export function isRetriedTogether({ blockedOn, type, blocked }: CauseGroup): boolean {
  return retried.includes(blockedOn) && type !== sweepType && blocked.length > 1;
}

/** Most names in a line, and most that say each what is wrong. */
export const maxNames = 5;

/** A paragraph for each cause. @param namespace of the command: objects in it are named without */
export function causesText(causes: readonly Cause[], namespace: string, nowMs = Date.now()): string {
  if (causes.length === 0) return 'nothing is stuck';
  return causes.map((cause) => paragraphOf(cause, namespace, nowMs).join('\n')).join('\n\n');
}

function paragraphOf(cause: Cause, namespace: string, nowMs: number): string[] {
  const { blockedOn, meaning, type, blocked, longest, own = [longest], retry } = cause;
  const nameOf = (each: BlockedWorkflow) => shortNameOf(each, namespace);
  const lines = own.flatMap(({ since, problem }, i) => {
    const said = [
      ...(since === undefined ? [] : [sinceText(since, nowMs)]),
      ...(problem === undefined ? [] : [problem]),
    ];
    const of = blocked[i];
    return of === undefined || said.length === 0 ? [] : [`  ${nameOf(of)}: ${said.join(', ')}`];
  });
  return [
    `${blockedOn}: ${countText(type, blocked.length)}. ${sentence(meaning)}`,
    ...deploymentLines(blocked),
    ...(lines.length === blocked.length ? [] : [`  ${firstOf(blocked.map(nameOf), blocked.length)}`]),
    ...lines,
    ...(longest.unblock === undefined ? [] : [`  To unblock: ${longest.unblock}`]),
    ...(retry === undefined ? [] : [`  To retry all of them: ${retry}`]),
  ];
}

const nouns: Readonly<Record<string, string>> = {
  machine: 'machine',
  rollout: 'rollout',
  machineSet: 'MachineSet',
  orphanSweep: 'orphan sweep',
  sourceCheck: 'class check',
};

/** What people call a workflow of a type. */
export function nounOf(type: string): string {
  return nouns[type] ?? `workflow ${type}`;
}

function countText(type: string, count: number): string {
  const noun = nounOf(type);
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function deploymentLines(blocked: readonly BlockedWorkflow[]): string[] {
  const counts = Map.groupBy(blocked, ({ deployment }) => deployment);
  if (blocked[0]?.type !== 'machine' || (counts.size === 1 && counts.has(undefined))) return [];
  const parts = [...counts].map(([deployment = 'no deployment', { length }]) => `${deployment} ${length}`);
  return [`  of ${parts.join(', ')}`];
}

/** The first of so many. */
function firstOf(named: readonly string[], count: number, most = maxNames): string {
  const shown = named.slice(0, most);
  const more = count - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** The name of the object, which is in the id of its workflow before the UID; with its namespace if it has another one. */
function shortNameOf({ workflowId }: BlockedWorkflow, namespace: string): string {
  const parts = workflowId.split('/');
  if (parts.length < 5) return workflowId;
  return parts.slice(parts.at(-3) === namespace ? -2 : -3, -1).join('/');
}

function sentence(clause: string): string {
  return `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.`;
}
