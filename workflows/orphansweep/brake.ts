/**
 * When a sweep deletes nothing before a person has named what goes: pure decisions, the same in tests and in replay.
 */
import { isNewer } from '../../api/model/ref.ts';
import type { MachineReading, SeenMachines, SweepLimits } from '../../api/model/sweep.ts';
import type { HeldOrphan } from './messages.ts';
import { isDoubtful, type Orphan, type SweepDecision, type SweepPlan } from './plan.ts';

/** What all readings of the Machines in one sweep say. */
export interface Census {
  /** When the first was asked for. */
  readonly at: string;
  readonly least: number;
  readonly most: number;
  /** resourceVersions of the lists. */
  readonly oldest: string;
  readonly newest: string;
}

/** Adds a reading to those before it, which may have been answered in another order. */
export function addReading(census: Census | undefined, reading: MachineReading, at: string): Census {
  const { count, resourceVersion } = reading;
  if (census === undefined) return { at, least: count, most: count, oldest: resourceVersion, newest: resourceVersion };
  return {
    at: census.at,
    least: Math.min(census.least, count),
    most: Math.max(census.most, count),
    oldest: isNewer(census.oldest, resourceVersion) ? resourceVersion : census.oldest,
    newest: isNewer(resourceVersion, census.newest) ? resourceVersion : census.newest,
  };
}

/** Whether more than half of the Machines of the last sweep are missing and were not deleted. */
export function hasFallen({ least }: Census, last: SeenMachines | undefined, deleted = 0): boolean {
  return last !== undefined && last.count - least - deleted > last.count / 2;
}

/** Why the Machines are not believed: objects may have been lost, or another namespace or cluster may be asked. */
export function doubtsOf(census: Census | undefined, last: SeenMachines | undefined, deleted: number): string[] {
  if (census === undefined || last === undefined) return [];
  const { oldest, least } = census;
  return [
    ...(isNewer(last.resourceVersion, oldest)
      ? [
          `the list of Machines has resourceVersion ${oldest}, but a sweep read ${last.resourceVersion} at ${last.at}: ` +
            'the control cluster was restored from a backup, or this is another cluster',
        ]
      : []),
    ...(hasFallen(census, last, deleted)
      ? [
          `there are ${least} Machines, but a sweep read ${last.count} at ${last.at}, and only ${deleted} ` +
            `${deleted === 1 ? 'was' : 'were'} deleted since: Machines were lost, or this is another namespace or cluster`,
        ]
      : []),
  ];
}

/**
 * Has a decision to delete wait for a person: as a whole where it takes too much, or where the list of Machines is
 * doubted; else those orphans alone that may be healthy VMs.
 */
export function brake(
  plan: SweepPlan,
  vms: number,
  { brakeCount, brakeRate }: Pick<SweepLimits, 'brakeCount' | 'brakeRate'>,
  doubts: readonly string[],
): SweepDecision {
  if (plan.kind !== 'remove') return plan;
  const { groups } = plan;
  const all = groups.flatMap(({ remove }) => remove);
  const orphans = all.length;
  const free = brakeRate === 0 ? 0 : Math.max(brakeCount, Math.floor((vms * brakeRate) / 100));
  const bound =
    brakeRate === 0
      ? 'and with `--orphan-brake-rate 0` every deletion needs approval'
      : `but only ${free} may be deleted without approval: the larger of \`--orphan-brake-count ${brakeCount}\` and ` +
        `${brakeRate} % of ${vms} listed VMs (\`--orphan-brake-rate\`)`;
  const whole = [
    ...(orphans > free ? [`there ${orphans === 1 ? 'is 1 orphan' : `are ${orphans} orphans`}, ${bound}`] : []),
    ...doubts,
  ];
  const reasons = [...whole, ...doubtsAbout(all.filter(isDoubtful))];
  if (reasons.length === 0) return plan;
  const only = (isMeant: (orphan: Orphan) => boolean) =>
    groups.map(({ remove, ...group }) => ({ ...group, remove: remove.filter(isMeant) }));
  const isWhole = whole.length > 0;
  const isWaiting = (orphan: Orphan) => isWhole || isDoubtful(orphan);
  return { kind: 'hold', reasons, groups: only(isWaiting), certain: only((orphan) => !isWaiting(orphan)), isWhole };
}

/** Orphans that a reason names. */
const maxNamed = 3;

function doubtsAbout(orphans: readonly Orphan[]): string[] {
  if (orphans.length === 0) return [];
  const named = orphans.slice(0, maxNamed).map(({ resources }) => {
    const { id, name, doubts = [] } = resources.find((each) => each.doubts !== undefined) ?? resources[0]!;
    return `${name || id}: ${doubts.join(', ')}`;
  });
  const more = orphans.length > maxNamed ? [`and ${orphans.length - maxNamed} more`] : [];
  const count = orphans.length === 1 ? '1 orphan' : `${orphans.length} orphans`;
  return [`${count} may be healthy (${[...named, ...more].join('; ')})`];
}

/**
 * The keys of the orphans that a person has named by ids, or by names that only one has; else what is wrong, with the
 * fix.
 */
export function approvedKeys(
  held: readonly HeldOrphan[],
  given: readonly string[],
): { readonly keys: readonly string[] } | { readonly problem: string } {
  const resources = held.flatMap(({ named }) => named);
  const ids = new Set<string>();
  for (const each of given) {
    const found = new Set(resources.filter(({ id, name }) => id === each || name === each).map(({ id }) => id));
    if (found.size === 0)
      return { problem: `'${each}' does not wait for approval: give an id or name that the sweep lists` };
    if (found.size > 1) {
      return { problem: `'${each}' is the name of several resources: give one of the ids ${[...found].join(', ')}` };
    }
    for (const id of found) ids.add(id);
  }
  const approved = held.filter(({ named }) => named.some(({ id }) => ids.has(id)));
  for (const { named } of approved) {
    const missing = named.filter(({ id }) => !ids.has(id)).map(({ id }) => id);
    if (missing.length > 0) {
      return {
        problem: `several VMs carry the UID ${named[0]?.uid} and are deleted together: name ${missing.join(', ')}, too`,
      };
    }
  }
  return { keys: approved.map(({ key }) => key) };
}
