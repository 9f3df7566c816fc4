/** Releases deleted source objects once nothing that was made from them can be left, and reports why others stay. */
import { failures, isFailureCode } from '../../api/failures.ts';
import type { ReleasableSource, SweepNotice } from '../../api/model/sweep.ts';
import { inPortions } from '../../api/payloads.ts';
import { type GroupReport, type KeptReason, keptReasons } from './messages.ts';
import { kubernetes, recordNotices, type Sweep, show, untilAnswered } from './progress.ts';
import type { ReportedGroup } from './report.ts';

/** What is kept for one of these reasons needs no source of its own. */
const settledReasons = new Set<KeptReason>(['machine', 'cameBack', 'gone', 'keeperNotAlive']);

/** Releases deleted source objects once all that their group can see has a Machine. Answers with their names. */
export async function releaseSources(sweep: Sweep, groups: readonly ReportedGroup[]): Promise<readonly string[]> {
  const releasable: ReleasableSource[] = [];
  const notices: SweepNotice[] = [];
  for (const { group, report } of groups) {
    const left = whatIsLeft(report);
    for (const { object, release } of group.sources) {
      if (release === undefined) continue;
      const isUnneeded = isListRefused(report) && !release.hasLost;
      if (left === undefined || isUnneeded) releasable.push({ ...object, generation: release.generation });
      if (left === undefined) continue;
      const note = isUnneeded ? `released all the same: ${left}. ${allGone}` : `deleted, and stays: ${left}`;
      notices.push({ object, reason: isUnneeded ? 'SourceNotSwept' : 'SourceNotReleased', note });
    }
  }
  await recordNotices(sweep, notices);
  if (releasable.length === 0) return [];
  show(sweep, { doing: 'releasing deleted sources' });
  const released: string[] = [];
  for (const portion of inPortions(releasable)) {
    released.push(...(await untilAnswered(sweep, () => kubernetes.releaseSources(sweep.input, portion))));
  }
  return released;
}

/** Said of a source whose cloud refuses to be listed: a Machine is gone only when its VM is. */
const allGone = 'All Machines that were made from it were deleted with their VMs';

/** Whether the cloud refuses to be listed: waiting does not help, as it would in an outage. */
function isListRefused({ error }: GroupReport): boolean {
  return error !== undefined && isFailureCode(error.code) && !failures[error.code].transient;
}

/** Why something in the cloud may still need the sources of a group; undefined when nothing does. */
function whatIsLeft({ error, kept, failed, failedCount }: GroupReport): string | undefined {
  if (error !== undefined) return `its cloud cannot be listed: ${error.code}: ${error.message}`;
  const parts = kept
    .filter(({ reason }) => !settledReasons.has(reason))
    .map(({ reason, count, resources: [first] }) => nameSome(count, first, keptReasons[reason]));
  if (failedCount > 0) parts.push(nameSome(failedCount, failed[0], `could not be deleted: ${failed[0]?.message}`));
  return parts.length === 0 ? undefined : parts.join('; ');
}

function nameSome(count: number, first: { kind: string; id: string } | undefined, what: string): string {
  const more = count > 1 ? ` (and ${count - 1} more)` : '';
  return `${first?.kind} ${first?.id}${more} ${what}`;
}
