/** Lets go of deleted classes of whose VMs nothing can be left, and tells of the others why they stay. */
import type { ReleasableClass, SweepNotice } from '../../api/model/sweep.ts';
import type { Group } from './groups.ts';
import { type GroupReport, type KeptReason, keptReasons, type SweepReport } from './messages.ts';
import { kubernetes, type Sweep, show, untilAnswered } from './progress.ts';

/** What is kept for one of these needs no class of its own. */
const settledReasons = new Set<KeptReason>(['machine', 'cameBack', 'gone', 'keeperNotAlive']);

/** Lets go of deleted classes once all that their group can see has a Machine. Answers with the names of those that have gone. */
export async function releaseClasses(
  sweep: Sweep,
  groups: readonly Group[],
  report: SweepReport,
): Promise<readonly string[]> {
  const releasable: ReleasableClass[] = [];
  const notices: SweepNotice[] = [];
  for (const { classes } of groups) {
    const leaving = classes.filter((swept) => swept.leaving);
    const found = report.groups.find(({ classes: [name] }) => name === classes[0]?.class.name);
    const left = whatIsLeft(found);
    for (const { uid, class: about } of leaving) {
      const { name, generation } = about;
      if (left === undefined) releasable.push({ name, uid, generation });
      else notices.push({ class: { name, uid }, reason: 'ClassNotReleased', note: `deleted, and stays: ${left}` });
    }
  }
  if (notices.length > 0) await untilAnswered(sweep, () => kubernetes.tellSweep(sweep.input, notices));
  if (releasable.length === 0) return [];
  show(sweep, { doing: 'letting deleted classes go' });
  return untilAnswered(sweep, () => kubernetes.releaseClasses(sweep.input, releasable));
}

/** Why something in the cloud may still need the classes of a group; undefined when nothing does. */
function whatIsLeft(found: GroupReport | undefined): string | undefined {
  if (found === undefined) return 'its cloud was not listed';
  const { error, kept, failed, failedCount } = found;
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
