/** What a sweep deletes: a pure decision over what was listed twice, the same in tests and in replay. */
import type { ListedResource } from '../../api/model/sweep.ts';
import type { KeptReason } from './messages.ts';

/** What goes together: everything that carries a UID, one VM without, or one surplus VM. */
export interface Orphan {
  readonly key: string;
  /** Left out for a VM without a UID tag. */
  readonly uid?: string;
  readonly resources: readonly ListedResource[];
  /** Of a surplus VM: the VM that its Machine names. It goes alone, as both carry the UID. */
  readonly keeper?: string;
}

/** A VM with the UID of a Machine that names another one. */
export interface Surplus {
  readonly resource: ListedResource;
  /** The VM of the Machine, as `vmOf` its provider ID. */
  readonly keeper: string;
}

/** What one look at the cloud of a group, and after it at the Machines, has found. */
export interface Look {
  /** When the look began, ms since the epoch. Ages are counted to here. */
  readonly atMs: number;
  /** Resources that were listed. */
  readonly seen: number;
  /** VMs among them. */
  readonly vms: number;
  /** Those of them without a Machine. */
  readonly ownerless: readonly ListedResource[];
  /** UIDs that belong to a Machine all the same, see `Ownership`. */
  readonly adopted: readonly string[];
  /** VMs of Machines that name others. */
  readonly surplus: readonly Surplus[];
  /** VMs that were listed as alive, as `vmOf` their ids. */
  readonly alive: ReadonlySet<string>;
  /** Keys of listed resources of which the look before this one was suspicious, one for each resource. */
  readonly present: readonly string[];
}

/** A look, judged. Every resource that was seen is in one of these. */
export interface JudgedLook {
  /** How many have a Machine. */
  readonly owned: number;
  readonly orphans: readonly Orphan[];
  readonly young: readonly Orphan[];
  /** Surplus VMs that may be all that their Machines have: the ones that those name are not known to be alive. */
  readonly needed: readonly Orphan[];
  /** No VMs, and no UID tag says of which Machine they are. */
  readonly unattributed: readonly ListedResource[];
}

/** Patch of what is deleted of an orphan without a VM, and when. */
export const withoutVmPatch = 'orphans-without-a-vm';

/** What a resource goes with: all that has its UID. Without one, itself. */
export function keyOf({ uid, id }: Pick<ListedResource, 'uid' | 'id'>): string {
  return uid === undefined ? `id ${id}` : `uid ${uid}`;
}

/** The key of a surplus VM: what else carries its UID stays. */
export function surplusKeyOf({ id }: Pick<ListedResource, 'id'>): string {
  return `surplus ${id}`;
}

/** Judges one look. A thing is as old as the youngest of its resources; one whose age is not known is young. */
export function judge(look: Look, minimumAgeMs: number): JudgedLook {
  const adopted = new Set(look.adopted);
  const ownerless = look.ownerless.filter(({ uid }) => uid === undefined || !adopted.has(uid));
  const isAttributed = ({ kind, uid }: ListedResource) => uid !== undefined || kind === 'vm';
  const surplus = look.surplus.map(({ resource, keeper }) => ({
    ...{ key: surplusKeyOf(resource), resources: [resource], keeper },
    ...(resource.uid !== undefined && { uid: resource.uid }),
  }));
  const isNeeded = ({ keeper }: Pick<Surplus, 'keeper'>) => !look.alive.has(keeper);
  const things: Orphan[] = [
    ...groupByKey(ownerless.filter(isAttributed)),
    ...surplus.filter((each) => !isNeeded(each)),
  ];
  const isOld = ({ resources }: Orphan) =>
    resources.every(({ createdAt }) => look.atMs - Date.parse(createdAt) >= minimumAgeMs);
  return {
    owned: look.seen - ownerless.length - surplus.length,
    orphans: things.filter(isOld),
    young: things.filter((thing) => !isOld(thing)),
    needed: surplus.filter(isNeeded),
    unattributed: ownerless.filter((resource) => !isAttributed(resource)),
  };
}

function groupByKey(resources: readonly ListedResource[]): Orphan[] {
  const things = new Map<string, Orphan>();
  for (const resource of resources) {
    const key = keyOf(resource);
    const { uid } = resource;
    const others = things.get(key)?.resources ?? [];
    things.set(key, { key, ...(uid !== undefined && { uid }), resources: [...others, resource] });
  }
  return [...things.values()];
}

/** What is kept, and why. */
export interface Kept {
  readonly reason: KeptReason;
  readonly resources: readonly ListedResource[];
}

/** What to do about a group. */
export interface GroupPlan {
  readonly remove: readonly Orphan[];
  /** How many resources have a Machine, without those that were orphans in the first look. */
  readonly owned: number;
  readonly kept: readonly Kept[];
}

/** What a sweep would do by its looks alone. */
export type SweepPlan = { readonly kind: 'nothing' | 'remove'; readonly groups: readonly GroupPlan[] };

/** A sweep in which something waits until a person has named it. */
export interface HeldSweep {
  readonly kind: 'hold';
  readonly reasons: readonly string[];
  /** What waits. */
  readonly groups: readonly GroupPlan[];
  /** What goes at once, of the same groups. */
  readonly certain: readonly GroupPlan[];
  /** Too much would go, or the list of Machines is doubted: everything waits, also in the next sweep. */
  readonly isWhole: boolean;
}

/** What a sweep does after its looks. */
export type SweepDecision = SweepPlan | HeldSweep;

/** The looks at one group: the second is there where the first had something to be suspicious of. */
export interface GroupLooks {
  readonly first: Look;
  readonly second?: Look;
}

/**
 * Decides what goes, over all groups that could be listed: what was an orphan in both looks at its group.
 * @param approved keys of what a person has named, where nothing else may go
 * @param done keys of what has gone before a person was asked
 */
export function planSweep(
  looks: readonly GroupLooks[],
  minimumAgeMs: number,
  approved?: ReadonlySet<string>,
  done: ReadonlySet<string> = new Set(),
): SweepPlan {
  const groups = looks.map((group) => planGroup(group, minimumAgeMs, approved, done));
  return { kind: groups.some(({ remove }) => remove.length > 0) ? 'remove' : 'nothing', groups };
}

function planGroup(
  { first, second }: GroupLooks,
  minimumAgeMs: number,
  approved: ReadonlySet<string> | undefined,
  done: ReadonlySet<string>,
): GroupPlan {
  const before = withoutKeys(judge(first, minimumAgeMs), done);
  const now = second === undefined ? before : withoutKeys(judge(second, minimumAgeMs), done);
  const suspects = new Set(before.orphans.map(({ key }) => key));
  const certain = second === undefined ? [] : now.orphans.filter(({ key }) => suspects.has(key));
  const mayGo = ({ key }: Orphan) => approved === undefined || approved.has(key);
  const seenOnce = now.orphans.filter(({ key }) => second !== undefined && !suspects.has(key));
  const still = new Set([...now.orphans, ...now.young, ...now.needed].map(({ key }) => key));
  const present = new Set(second?.present);
  const changed = second === undefined ? [] : before.orphans.filter(({ key }) => !still.has(key));
  const cameBack = changed.filter(({ key }) => present.has(key));
  const returned = new Set(cameBack.map(({ key }) => key));
  const returnedCount = second?.present.filter((key) => returned.has(key)).length ?? 0;
  const kept: Kept[] = [
    { reason: 'cameBack', resources: resourcesOf(cameBack) },
    { reason: 'gone', resources: resourcesOf(changed.filter(({ key }) => !present.has(key))) },
    { reason: 'seenOnce', resources: resourcesOf(seenOnce) },
    { reason: 'young', resources: resourcesOf(now.young) },
    { reason: 'keeperNotAlive', resources: resourcesOf(now.needed) },
    { reason: 'unattributed', resources: now.unattributed },
    { reason: 'notApproved', resources: resourcesOf(certain.filter((orphan) => !mayGo(orphan))) },
  ];
  return {
    remove: certain.filter(mayGo),
    owned: now.owned - returnedCount,
    kept: kept.filter(({ resources }) => resources.length > 0),
  };
}

function withoutKeys({ orphans, ...look }: JudgedLook, done: ReadonlySet<string>): JudgedLook {
  return { ...look, orphans: orphans.filter(({ key }) => !done.has(key)) };
}

/** Whether something says that an orphan is a healthy VM. */
export function isDoubtful({ resources }: Orphan): boolean {
  return resources.some(({ doubts }) => doubts !== undefined);
}

/** The resources of several things. */
export function resourcesOf(things: readonly Orphan[]): ListedResource[] {
  return things.flatMap(({ resources }) => resources);
}
