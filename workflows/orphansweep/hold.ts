/** The brake: a sweep waits until a person has named what goes, and fails when nobody does. */
import { ApplicationFailure, condition, patched } from '@temporalio/workflow';
import type { ListedResource, SweepNotice } from '../../api/model/sweep.ts';
import { inPortions } from '../../api/payloads.ts';
import { commandLine } from '../command-line.ts';
import { type Group, reportedOn } from './groups.ts';
import { type Held, type HeldOrphan, notApprovedFailure } from './messages.ts';
import { toKey, withoutMachineNow } from './ownership.ts';
import { type HeldSweep, type Orphan, resourcesOf } from './plan.ts';
import { nameOf, recordNotices, type Sweep, show, showBlocker } from './progress.ts';
import { stillOrphans } from './remove.ts';
import { toNamed } from './report.ts';

/** Most orphans that are listed; what is not cannot be approved. */
const maxHeld = 500;

/** Pause between two looks at whether what waits has a Machine by now. */
const lookPauseMs = 5 * 60_000;

/** Most orphans in the first question of a look, so that a day of looks is a few MiB of history. */
const maxLooked = 20;
/** Most orphans in each further question: somebody is restoring Machines. */
const maxAsked = 500;

export interface HoldOptions {
  readonly minimumAgeMs: number;
  /** How long it waits. */
  readonly seconds: number;
}

/**
 * Waits until a person approves, or until nothing that waits is an orphan any more. Answers with the keys of what was
 * approved; where nobody approved, with all that waited, and nothing may go. Fails when neither happens in time.
 * @param listed the groups that the plans are of
 */
export async function holdAtBrake(
  sweep: Sweep,
  listed: readonly Group[],
  { reasons, groups, isWhole }: HeldSweep,
  { minimumAgeMs, seconds }: HoldOptions,
): Promise<ReadonlySet<string>> {
  const waiting = new Map(groups.flatMap(({ remove }) => remove).map((orphan) => [orphan.key, orphan]));
  const all = new Set(waiting.keys());
  const toHeld = () => heldOf(waiting, reasons, all.size);
  const notices = groups.flatMap(({ remove }, i) => noticesOf(sweep, listed[i], remove.length, reasons));
  await recordNotices(sweep, notices);
  const deadlineMs = Date.now() + seconds * 1_000;
  const until = new Date(deadlineMs).toISOString();
  show(sweep, { doing: 'waiting for approval', candidates: waiting.size, until, held: toHeld() });
  showBlocker('Brake');
  const look = async () => {
    await dropReturned(sweep, waiting, minimumAgeMs);
    if (waiting.size !== sweep.progress.candidates) show(sweep, { candidates: waiting.size, held: toHeld() });
    return waiting.size === 0;
  };
  if (!(await isSettled(sweep, deadlineMs, look))) {
    const held = toHeld();
    // Where the whole sweep waits the search attribute stays: the next sweep sees by it that nobody has answered.
    if (!isWhole) showBlocker(undefined);
    throw ApplicationFailure.create({
      type: notApprovedFailure,
      nonRetryable: true,
      message: [
        `nobody approved the deletions within ${seconds / 3_600} h, so ${isWhole ? 'nothing' : 'none of them'} was deleted`,
        ...held.reasons,
        ...held.orphans.slice(0, 20).map(nameOf),
        ...(held.count > 20 ? [`and ${held.count - 20} more`] : []),
        `the next sweep looks again and waits for approval; then ${approvalText(sweep)}`,
      ].join('\n'),
    });
  }
  showBlocker(undefined);
  await noteApproval(sweep, listed, groups);
  return sweep.approved ?? all;
}

/** Whether a person approves in time, or nothing waits any more. @param look whether that is so */
async function isSettled(sweep: Sweep, deadlineMs: number, look: () => Promise<boolean>): Promise<boolean> {
  const isApproved = () => sweep.approved !== undefined;
  const mostMs = patched('orphans-with-machines-again') ? lookPauseMs : Number.POSITIVE_INFINITY;
  for (;;) {
    const leftMs = Math.max(1, deadlineMs - Date.now());
    if (await condition(isApproved, Math.min(leftMs, mostMs), { summary: 'approval by a person' })) return true;
    if (leftMs <= mostMs) return false;
    if (await look()) return true;
  }
}

/**
 * Takes out what is no orphan any more, as the API server says now. Asks about some of many, in turn, and goes on where
 * that has found one. Without an answer everything waits on.
 */
async function dropReturned(sweep: Sweep, waiting: Map<string, Orphan>, minimumAgeMs: number): Promise<void> {
  const keysOf = ({ resources }: Orphan) => resources.map(toKey);
  const [first = [], ...others] = inPortions([...waiting.values()], maxLooked, keysOf);
  for (const batch of [first, ...inPortions(others.flat(), maxAsked, keysOf)]) {
    if (sweep.approved !== undefined) return;
    const answer = await withoutMachineNow(sweep, resourcesOf(batch));
    if (answer === undefined) return;
    const left = stillOrphans(batch, answer, minimumAgeMs);
    for (const orphan of batch) {
      waiting.delete(orphan.key);
      if (left.has(orphan.key)) waiting.set(orphan.key, orphan); // behind those that the next look asks about
    }
    if (left.size === batch.length) return;
  }
}

/** Says on each source who has approved what is deleted there. */
async function noteApproval(sweep: Sweep, listed: readonly Group[], groups: HeldSweep['groups']): Promise<void> {
  const { approved, approvedBy } = sweep;
  if (approvedBy === undefined || !patched('orders-are-recorded')) return;
  const notices = groups.flatMap(({ remove }, i): SweepNotice[] => {
    const group = listed[i];
    const count = remove.filter(({ key }) => approved?.has(key)).length;
    if (group === undefined || count === 0) return [];
    const note = `the deletion of ${orphansText(count)} was approved by ${approvedBy}`;
    return [{ object: reportedOn(group), reason: 'OrphansApproved', note }];
  });
  await recordNotices(sweep, notices);
}

function noticesOf(
  sweep: Sweep,
  group: Group | undefined,
  count: number,
  reasons: readonly string[],
): readonly SweepNotice[] {
  if (group === undefined || count === 0) return [];
  const note = [
    `a sweep waits for approval to delete ${orphansText(count)} here: ${approvalText(sweep)}`,
    ...reasons,
  ].join('; ');
  return [{ object: reportedOn(group), reason: 'OrphansHeld', note }];
}

/** Ids are for a shell only where they are quoted: the command quotes them. */
function approvalText({ input }: Sweep): string {
  return `${commandLine('stuck', input)} has the command that approves them, with their ids`;
}

function orphansText(count: number): string {
  return count === 1 ? '1 orphan' : `${count} orphans`;
}

/** @param total how many waited at first */
function heldOf(waiting: ReadonlyMap<string, Orphan>, reasons: readonly string[], total: number): Held {
  const returned = total - waiting.size;
  const none = `${returned} of ${orphansText(total)} ${returned === 1 ? 'is' : 'are'} none any more, and not deleted`;
  const [orphans = []] = inPortions([...waiting.values()].map(toHeldOrphan), maxHeld);
  return { reasons: [...reasons, ...(returned > 0 ? [none] : [])], count: waiting.size, orphans };
}

function toHeldOrphan({ key, resources }: Orphan): HeldOrphan {
  const vms = resources.filter(({ kind }) => kind === 'vm');
  const named: readonly ListedResource[] = vms.length > 0 ? vms : resources.slice(0, 1);
  return { key, named: named.map(toNamed) };
}
