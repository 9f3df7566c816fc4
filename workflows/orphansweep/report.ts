/** The report of a sweep, from what was planned and what came of it. */
import type { ListedResource } from '../../api/model/sweep.ts';
import { jsonBytes, maxListBytes } from '../../api/payloads.ts';
import type { Group, Removal } from './groups.ts';
import type { GroupReport, KeptReason, NamedResource, Tally } from './messages.ts';
import { type GroupLooks, type GroupPlan, isDoubtful, type Orphan, resourcesOf } from './plan.ts';

/**
 * How much of a group is reported: less of each the more groups there are, for a report has to fit into a payload.
 */
interface Room {
  /** Resources that are named for one reason. */
  readonly named: number;
  /** Characters of a message. */
  readonly message: number;
}

/** Bytes of all messages of a report about groups that were not listed, at most 3 for a character. */
const messageBytes = maxListBytes / 4;

interface Findings {
  readonly unlisted: readonly Group[];
  readonly listed: readonly { readonly group: Group & GroupLooks; readonly plan: GroupPlan | undefined }[];
}

/** A group with the report of it. */
export interface ReportedGroup {
  readonly group: Group;
  readonly report: GroupReport;
}

/** The reports of all groups, by the name of their first source. */
export function reportGroups(findings: Findings): ReportedGroup[] {
  const groups = findings.unlisted.length + findings.listed.length;
  const message = Math.max(100, Math.floor(messageBytes / groups));
  for (let named = Math.max(2, Math.min(50, Math.floor(1_000 / groups))); ; named = Math.floor(named / 2)) {
    const reported = reportIn(findings, { named, message });
    if (named === 0 || jsonBytes(reported.map(({ report }) => report)) <= maxListBytes) return reported;
  }
}

function reportIn({ unlisted, listed }: Findings, most: Room): ReportedGroup[] {
  const reports: ReportedGroup[] = [
    ...listed.map(({ group, plan }) => ({
      group,
      report: {
        ...aboutGroup(group),
        seen: (group.second ?? group.first).seen,
        ...(plan === undefined ? nothing : outcomeOf(plan, group.removal, most)),
      },
    })),
    ...unlisted.map((group) => ({
      group,
      report: {
        ...aboutGroup(group),
        seen: 0,
        ...removalOf(group.removal, most),
        kept: [],
        error: errorOf(group, most),
      },
    })),
  ];
  return reports.toSorted((a, b) => ((a.report.sources[0] ?? '') < (b.report.sources[0] ?? '') ? -1 : 1));
}

const nothing = { kept: [], deleted: { count: 0, resources: [] }, failed: [], failedCount: 0 } as const;

function aboutGroup({ provider, sources }: Group) {
  return { provider, sources: sources.map(({ object }) => object.name) };
}

function errorOf({ failure }: Group, most: Room) {
  const { code = 'Unknown', message = 'it was not listed' } = failure ?? {};
  return { code, message: message.slice(0, most.message) };
}

/** @param removal missing in a dry run, and where nothing was to be removed */
function outcomeOf({ remove, owned, kept }: GroupPlan, removal: Removal | undefined, most: Room) {
  const spared = removal === undefined ? remove : [];
  const reasons = new Map<KeptReason, readonly ListedResource[]>(
    kept.map(({ reason, resources }) => [reason, resources]),
  );
  const add = (reason: KeptReason, orphans: readonly Orphan[]) =>
    reasons.set(reason, [...(reasons.get(reason) ?? []), ...resourcesOf(orphans)]);
  add(
    'dryRun',
    spared.filter((orphan) => !isDoubtful(orphan)),
  );
  add('doubtful', [...spared.filter(isDoubtful), ...(removal?.doubtful ?? [])]);
  add('cameBack', removal?.cameBack ?? []);
  add('deleting', removal?.deleting ?? []);
  const tallies = [...reasons].map(([reason, resources]) => ({ reason, ...tally(resources, most) }));
  return {
    kept: [{ reason: 'machine' as const, count: owned, resources: [] }, ...tallies].filter(({ count }) => count > 0),
    ...removalOf(removal, most),
  };
}

/** What was deleted, and what could not be. */
function removalOf(removal: Removal | undefined, most: Room) {
  const failed = (removal?.failed ?? []).flatMap(({ orphan, failure: { code, message } }) =>
    orphan.resources.map((resource) => ({ ...toNamed(resource), code, message })),
  );
  return {
    deleted: tally(resourcesOf(removal?.deleted ?? []), most),
    failed: failed.slice(0, most.named),
    failedCount: failed.length,
  };
}

function tally(resources: readonly ListedResource[], most: Room): Tally {
  return { count: resources.length, resources: resources.slice(0, most.named).map(toNamed) };
}

/** A resource as a report names it. */
export function toNamed({ kind, id, uid, name, excessOf, doubts }: ListedResource): NamedResource {
  return {
    ...{ kind, id, ...(uid !== undefined && { uid }), name },
    ...(excessOf !== undefined && { excessOf }),
    ...(doubts !== undefined && { doubts }),
  };
}
