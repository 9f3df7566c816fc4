/**
 * Freezes sets that have too many machines, and their deployments: pure functions of the caches and of their labels.
 */
import type { FreezeDialect } from '../api/dialect.ts';
import type { setEvents } from '../api/events.ts';
import { apiVersionOf, type KubeObject } from '../api/objects.ts';
import { conditionsOfSet } from '../api/owner/failure.ts';
import {
  countForFreeze,
  freezeThreshold,
  isFrozen,
  isThawAsked,
  isToBeFrozen,
  type MachineCount,
  releasedBy,
  withFreezeLabel,
  withFrozenCondition,
} from '../api/owner/freeze.ts';
import type { OwnerDeployment, OwnerSet } from '../api/owner/objects.ts';
import { controllerOf } from '../api/owner/ownership.ts';
import { toKubernetesTime } from '../api/time.ts';
import { update } from '../kube/update.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { hearOwners, isKnownLone, ownerKeys, ownerOf } from './owners.ts';
import { byController, byUid, type Change } from './watches.ts';

type FreezeContext = Pick<
  ControllerContext,
  'control' | 'watches' | 'dialect' | 'events' | 'freezeLimits' | 'thawedMs'
>;

/** Keys are UIDs of deployments and of sets without one; those of other sets are ignored. */
export function createFreezeController(context: FreezeContext): Controller {
  const { watches, dialect } = context;
  const { freeze } = dialect.owner;
  const owners = hearOwners(watches);
  const thawed = createThawed(context.thawedMs);
  const handle = async (uid: string) => {
    if (freeze !== undefined) await handleOwner(context, freeze, thawed, uid);
  };
  return {
    queue: 'freeze',
    hears: {
      ...owners,
      machines: (change) =>
        isCountChanged(change) ? [...(owners.machines?.(change) ?? []), ...releasersOf(watches, change)] : [],
    },
    delayMs: 20,
    keys: () => ownerKeys(watches),
    handle,
    resync: handle,
  };
}

function isCountChanged(change: Change): boolean {
  return change.kind !== 'updated' || countedBy(change.previous) !== countedBy(change.object);
}

/** The set for which a machine counts: UID of that which owns it, or name of that which has released it. */
function countedBy(machine: KubeObject): string | undefined {
  if (machine.metadata.deletionTimestamp !== undefined) return undefined;
  return controllerOf(machine) ?? releasedBy(machine);
}

/** UIDs of the owners of the sets that have released a machine, before and after its change. */
function releasersOf(watches: ControllerContext['watches'], change: Change): string[] {
  const objects = change.kind === 'updated' ? [change.previous, change.object] : [change.object];
  return objects.flatMap((machine) => {
    const name = releasedBy(machine);
    const set = name === undefined ? undefined : watches.sets.get({ ...machine.metadata, name });
    return set === undefined ? [] : [ownerOf(watches, set.metadata.uid)];
  });
}

/** Sets that a person has thawed, which is forgotten after a restart: then they are frozen again. */
function createThawed(forMs: number) {
  const sets = new Map<string, { count: number; readonly untilMs: number }>();
  return {
    add: (uid: string, count: number) => void sets.set(uid, { count, untilMs: performance.now() + forMs }),
    /** Whether it stays thawed with this number of machines. */
    has(uid: string, count: number): boolean {
      const found = sets.get(uid);
      if (found === undefined) return false;
      const isHeld = count <= found.count && performance.now() < found.untilMs;
      if (isHeld) found.count = count;
      else sets.delete(uid);
      return isHeld;
    },
  };
}

type Thawed = ReturnType<typeof createThawed>;

async function handleOwner(context: FreezeContext, freeze: FreezeDialect, thawed: Thawed, uid: string): Promise<void> {
  const { control, watches, dialect, freezeLimits } = context;
  const [cached]: OwnerDeployment[] = watches.deployments.byIndex(byUid, uid);
  const sets: OwnerSet[] =
    cached === undefined
      ? watches.sets.byIndex(byUid, uid).filter((set) => isKnownLone(watches, set))
      : watches.sets.byIndex(byController, uid);
  const ownerless = watches.machines.byIndex(byController, '');
  const countOf = (set: OwnerSet) =>
    countForFreeze(dialect, set, watches.machines.byIndex(byController, set.metadata.uid), ownerless);

  const isWanted = (set: OwnerSet, deployment: OwnerDeployment | undefined): boolean => {
    const { count } = countOf(set);
    if ([set, deployment].some((each) => each !== undefined && isThawAsked(dialect, each))) {
      thawed.add(set.metadata.uid, count);
      return false;
    }
    const isHeld = thawed.has(set.metadata.uid, count);
    return !(isHeld && !isFrozen(dialect, set)) && isToBeFrozen(dialect, set, deployment, count, freezeLimits);
  };
  const isDue = (object: KubeObject, conditions: ReturnType<typeof conditionsOfSet>, frozen: boolean) =>
    withFreezeLabel(dialect, object, frozen) !== undefined ||
    withFrozenCondition(conditions, frozen ? noCondition : undefined, new Date()) !== undefined;

  const due = sets.filter((set) => isDue(set, conditionsOfSet(dialect, set), isWanted(set, cached)));
  const isOwnerFrozen = sets.some((set) => isWanted(set, cached));
  const isOwnerDue = cached !== undefined && isDue(cached, cached.status?.conditions ?? [], isOwnerFrozen);
  if (due.length === 0 && !isOwnerDue) return;

  // The caches of the kinds differ in age: machines of a scale-up may be known before the replicas.
  const deployment = cached && (await control.find(dialect.kinds.deployment, keyOf(cached)));
  if (cached !== undefined && deployment?.metadata.uid !== uid) return;
  const fresh: string[] = [];
  const states = await Promise.all(
    sets.map(async (set) => {
      if (!due.includes(set)) return isFrozen(dialect, set);
      const message = messageOf(set, countOf(set), freezeThreshold(dialect, set, deployment, freezeLimits));
      const result = await freezeSet(context, freeze, set, message, (live) => isWanted(live, deployment));
      if (result.isFresh) fresh.push(message);
      return result.isFrozen;
    }),
  );
  if (deployment === undefined) return;
  const [message] = fresh;
  const condition =
    message === undefined
      ? { reason: freeze.reasons.sync, message: 'A MachineSet of the deployment is frozen' }
      : { reason: freeze.reasons.overshoot, message };
  await freezeDeployment(context, deployment, states.some(Boolean), condition);
}

const noCondition = { reason: '', message: '' };

/** As MCM words it. */
function messageOf({ metadata }: KubeObject, { count, released }: MachineCount, threshold: number): string {
  const text = `The number of machines backing MachineSet: ${metadata.name} is ${count} >= ${threshold} which is the Max-ScaleUp-Limit`;
  return released === 0 ? text : `${text}; it has released ${released} of them because of their labels`;
}

function keyOf({ metadata: { namespace = '', name, uid } }: KubeObject) {
  return { namespace, name, uid };
}

/** The label decides; the condition follows it. */
async function freezeSet(
  { control, dialect, events }: FreezeContext,
  freeze: FreezeDialect,
  set: OwnerSet,
  message: string,
  isWanted: (live: OwnerSet) => boolean,
): Promise<{ readonly isFrozen: boolean; readonly isFresh: boolean }> {
  const { set: resource } = dialect.kinds;
  let before = false;
  const labelled = await update(control, resource, keyOf(set), (live) => {
    before = isFrozen(dialect, live);
    return withFreezeLabel(dialect, live, isWanted(live));
  });
  if (labelled === undefined) return { isFrozen: false, isFresh: false };
  const after = isFrozen(dialect, labelled);
  if (after !== before) {
    const reason: keyof typeof setEvents = after ? 'FrozeMachineSet' : 'UnfrozeMachineSet';
    const { name } = set.metadata;
    // Without the count, so that repetitions are one Event.
    const note = after ? `Froze MachineSet "${name}" due to overshooting of replicas` : `Unfroze MachineSet "${name}"`;
    const regarding = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...keyOf(set) };
    events.record({ regarding, type: 'Normal', reason, note, action: reason });
  }
  const wanted = after ? { reason: freeze.reasons.overshoot, message } : undefined;
  const change = (live: OwnerSet) => {
    const conditions = withFrozenCondition(conditionsOfSet(dialect, live), wanted, new Date());
    return conditions && { status: { [dialect.owner.setConditions]: conditions } };
  };
  await update(control, resource, keyOf(set), change, { subresource: 'status' });
  return { isFrozen: after, isFresh: after && !before };
}

async function freezeDeployment(
  { control, dialect }: FreezeContext,
  deployment: OwnerDeployment,
  frozen: boolean,
  condition: { readonly reason: string; readonly message: string },
): Promise<void> {
  if (deployment.metadata.deletionTimestamp !== undefined) return;
  const { deployment: resource } = dialect.kinds;
  const label = (live: OwnerDeployment) => withFreezeLabel(dialect, live, frozen);
  await update(control, resource, keyOf(deployment), label);
  const change = (live: OwnerDeployment) => {
    const now = new Date();
    const wanted = frozen ? { ...condition, lastUpdateTime: toKubernetesTime(now) } : undefined;
    const conditions = withFrozenCondition(live.status?.conditions ?? [], wanted, now);
    return conditions && { status: { conditions } };
  };
  await update(control, resource, keyOf(deployment), change, { subresource: 'status' });
}
