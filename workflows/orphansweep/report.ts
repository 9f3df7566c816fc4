/** The report of a sweep, from what was planned and what came of it. */
import type { ListedResource } from '../../api/model/sweep.ts';
import type { Group } from './groups.ts';
import type { GroupReport, KeptReason, NamedResource, SweepReport, Tally } from './messages.ts';
import { type GroupLooks, type GroupPlan, type Orphan, resourcesOf } from './plan.ts';
import type { Sweep } from './progress.ts';
import type { Removal } from './remove.ts';

/** Resources of a group that are named for one reason: fewer of each the more groups there are, for a report has to fit. */
function maxNamed(groups: number): number {
  return Math.max(2, Math.min(50, Math.floor(1_000 / groups)));
}

interface Findings {
  readonly unlisted: readonly Group[];
  /** A removal is missing where nothing was to be removed, or nothing may be. */
  readonly listed: readonly {
    readonly group: Group & GroupLooks;
    readonly plan: GroupPlan | undefined;
    readonly removal: Removal | undefined;
  }[];
}

/** The report as it is before classes are let go. */
export function reportOf(
  { input, startedAt }: Sweep,
  { unlisted, listed }: Findings,
  about: Pick<SweepReport, 'braked' | 'machines' | 'unanswered'>,
): SweepReport {
  const most = maxNamed(unlisted.length + listed.length);
  const groups = [
    ...listed.map(({ group, plan, removal }) => ({
      ...aboutGroup(group),
      seen: (group.second ?? group.first).seen,
      ...(plan === undefined ? nothing : outcomeOf(plan, removal, most)),
    })),
    ...unlisted.map((group) => ({ ...aboutGroup(group), seen: 0, ...nothing, error: errorOf(group) })),
  ];
  const { dryRun } = input;
  const sorted = groups.toSorted(byFirstClass);
  return { dryRun, startedAt, endedAt: startedAt, groups: sorted, ...about, releasedClasses: [] };
}

const nothing = { kept: [], deleted: { count: 0, resources: [] }, failed: [], failedCount: 0 } as const;

function aboutGroup({ provider, classes }: Group) {
  return { provider, classes: classes.map((swept) => swept.class.name) };
}

function errorOf({ failure }: Group) {
  const { code = 'Unknown', message = 'it was not listed' } = failure ?? {};
  return { code, message };
}

function byFirstClass(a: GroupReport, b: GroupReport): number {
  return (a.classes[0] ?? '') < (b.classes[0] ?? '') ? -1 : 1;
}

function outcomeOf({ remove, owned, kept }: GroupPlan, removal: Removal | undefined, most: number) {
  const spared = removal === undefined ? remove : [];
  const reasons = new Map<KeptReason, readonly ListedResource[]>(
    kept.map(({ reason, resources }) => [reason, resources]),
  );
  const add = (reason: KeptReason, orphans: readonly Orphan[]) =>
    reasons.set(reason, [...(reasons.get(reason) ?? []), ...resourcesOf(orphans)]);
  add('dryRun', spared);
  add('cameBack', removal?.cameBack ?? []);
  add('deleting', removal?.deleting ?? []);
  const failed = (removal?.failed ?? []).flatMap(({ orphan, failure: { code, message } }) =>
    orphan.resources.map((resource) => ({ ...toNamed(resource), code, message })),
  );
  const tallies = [...reasons].map(([reason, resources]) => ({ reason, ...tally(resources, most) }));
  return {
    kept: [{ reason: 'machine' as const, count: owned, resources: [] }, ...tallies].filter(({ count }) => count > 0),
    deleted: tally(resourcesOf(removal?.deleted ?? []), most),
    failed: failed.slice(0, most),
    failedCount: failed.length,
  };
}

function tally(resources: readonly ListedResource[], most: number): Tally {
  return { count: resources.length, resources: resources.slice(0, most).map(toNamed) };
}

/** A resource as a report names it. */
export function toNamed({ kind, id, uid, name, excessOf }: ListedResource): NamedResource {
  return { kind, id, ...(uid !== undefined && { uid }), name, ...(excessOf !== undefined && { excessOf }) };
}
