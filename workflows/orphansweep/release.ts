/** Releases deleted source objects once nothing that was made from them can be left, and reports why others stay. */
import type { ReleasableSource, SweepNotice } from '../../api/model/sweep.ts';
import { type GroupReport, type KeptReason, keptReasons } from './messages.ts';
import { kubernetes, type Sweep, show, untilAnswered } from './progress.ts';
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
      if (left === undefined) releasable.push({ ...object, ...release });
      else notices.push({ object, reason: 'SourceNotReleased', note: `deleted, and stays: ${left}` });
    }
  }
  if (notices.length > 0) await untilAnswered(sweep, () => kubernetes.recordNotices(sweep.input, notices));
  if (releasable.length === 0) return [];
  show(sweep, { doing: 'releasing deleted sources' });
  return untilAnswered(sweep, () => kubernetes.releaseSources(sweep.input, releasable));
}

/** Why something in the cloud may still need the sources of a group; undefined when nothing does. */
function whatIsLeft({ error, kept, failed, failedCount }: GroupReport): string | undefined {
  if (error !== undefined) {
    const { code, message } = error;
    return `its cloud cannot be listed: ${code}: ${message}. Correct the class or its Secret; if no VM was ever made from it, remove the finalizer`;
  }
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
