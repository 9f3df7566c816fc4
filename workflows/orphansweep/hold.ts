/** The brake: a sweep waits until a person has named what goes, and fails when nobody does. */
import { ApplicationFailure, condition, patched } from '@temporalio/workflow';
import type { ListedResource, SweepNotice } from '../../api/model/sweep.ts';
import { inPortions } from '../../api/payloads.ts';
import { commandLine } from '../command-line.ts';
import type { Group } from './groups.ts';
import { type HeldOrphan, notApprovedFailure } from './messages.ts';
import type { HeldSweep, Orphan } from './plan.ts';
import { nameOf, recordNotices, type Sweep, show, showBlocker } from './progress.ts';
import { toNamed } from './report.ts';

/** Most orphans that are listed; what is not cannot be approved. */
const maxHeld = 500;

/**
 * Waits for approval and answers with the keys of what may go. Fails when there is none in time: nothing goes then.
 * @param listed the groups that the plans are of
 */
export async function holdAtBrake(
  sweep: Sweep,
  listed: readonly Group[],
  { reasons, groups, isWhole }: HeldSweep,
  seconds: number,
): Promise<ReadonlySet<string>> {
  const byKey = new Map(groups.flatMap(({ remove }) => remove).map((orphan) => [orphan.key, toHeld(orphan)]));
  const [orphans = []] = inPortions([...byKey.values()], maxHeld);
  const held = { reasons, count: byKey.size, orphans };
  const notices = groups.flatMap(({ remove }, i) => noticesOf(sweep, listed[i], remove.length, reasons));
  await recordNotices(sweep, notices);
  const until = new Date(Date.now() + seconds * 1_000).toISOString();
  show(sweep, { doing: 'waiting for approval', candidates: held.count, until, held });
  showBlocker('Brake');
  if (!(await condition(() => sweep.approved !== undefined, seconds * 1_000, { summary: 'approval by a person' }))) {
    // Where the whole sweep waits the search attribute stays: the next sweep sees by it that nobody has answered.
    if (!isWhole) showBlocker(undefined);
    throw ApplicationFailure.create({
      type: notApprovedFailure,
      nonRetryable: true,
      message: [
        `nobody approved the deletions within ${seconds / 3_600} h, so ${isWhole ? 'nothing' : 'none of them'} was deleted`,
        ...reasons,
        ...held.orphans.slice(0, 20).map(nameOf),
        ...(held.count > 20 ? [`and ${held.count - 20} more`] : []),
        `the next sweep looks again and waits for approval; then ${approvalText(sweep)}`,
      ].join('\n'),
    });
  }
  showBlocker(undefined);
  await noteApproval(sweep, listed, groups);
  return sweep.approved ?? new Set();
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
    return [{ object: group.sources[0].object, reason: 'OrphansApproved', note }];
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
  return [{ object: group.sources[0].object, reason: 'OrphansHeld', note }];
}

/** Ids are for a shell only where they are quoted: the command quotes them. */
function approvalText({ input }: Sweep): string {
  return `${commandLine('stuck', input)} has the command that approves them, with their ids`;
}

function orphansText(count: number): string {
  return count === 1 ? '1 orphan' : `${count} orphans`;
}

function toHeld({ key, resources }: Orphan): HeldOrphan {
  const vms = resources.filter(({ kind }) => kind === 'vm');
  const named: readonly ListedResource[] = vms.length > 0 ? vms : resources.slice(0, 1);
  return { key, named: named.map(toNamed) };
}
