/**
 * What the machines of an owner wait for, and which bound holds them: pure, for people. Workflow code imports this
 * file.
 */
import type { OwnerHealth, OwnerView } from '../model/owner.ts';
import { attemptsText } from './failed-attempts.ts';
import {
  countWorking,
  creationHeadroom,
  frozenSets,
  hasOldMachines,
  isRolloutSuspended,
  minAvailable,
  newSetOf,
  sumOf,
  waitsForOldMachines,
} from './set-counts.ts';

/** What has to happen before more can be done, as one sentence of several parts; undefined when nothing has. */
export function waitsOf(view: OwnerView): string | undefined {
  if (view.problem !== undefined && !view.deleting) return undefined;
  const { sets } = view;
  if (view.orphans) return releaseWait('what it owns');
  const orphaning = sets.filter(({ orphans }) => orphans).map(({ name }) => name);
  const joining = sumOf(sets, ({ isNew, active, available, preserved = 0 }) =>
    isNew && !view.deleting ? active - available - preserved : 0,
  );
  const { minReadySeconds } = newSetOf(view) ?? {};
  const orShortly = minReadySeconds === undefined ? '' : `, or not for the ${minReadySeconds} s of minReadySeconds`;
  const preserved = sumOf(sets, (set) => (view.deleting ? 0 : (set.preserved ?? 0)));
  const leaving = sumOf(sets, ({ total, active }) => total - active);
  const which = hasOldMachines(view) ? 'new ' : '';
  const parts = [
    ...(joining > 0 ? [`${count(joining, `${which}machine is`, `${which}machines are`)} not running${orShortly}`] : []),
    ...(preserved > 0 ? [`${count(preserved, 'Failed machine is', 'Failed machines are')} preserved`] : []),
    ...(leaving > 0 ? [`${count(leaving, 'machine is', 'machines are')} being deleted`] : []),
    ...(view.health && view.health.asking > 0 && !view.deleting ? [healthWait(view.health)] : []),
    ...(view.deleting
      ? []
      : sets.flatMap((set) => (set.failedAttempts && attemptsText(set.name, set.failedAttempts)) ?? [])),
    ...frozenSets(view).map(({ name }) => frozenText(name)),
    ...(orphaning.length > 0 ? [releaseWait(`the machines of ${orphaning.join(', ')}`)] : []),
    ...(hasOldMachines(view) && !view.deleting ? rolloutWaits(view) : []),
  ];
  return parts.length === 0 ? undefined : parts.join('; ');
}

/** What people read of a set that may get no machine. */
export function frozenText(set: string): string {
  return `no machine may be created in MachineSet ${set}, as it or its deployment is frozen`;
}

function healthWait({ asking, replacing }: OwnerHealth): string {
  const unhealthy = count(asking, 'unhealthy machine waits', 'unhealthy machines wait');
  return replacing === 0
    ? `${unhealthy} to be replaced`
    : `${unhealthy} until ${count(replacing, 'another one is', 'other ones are')} replaced`;
}

/** What a deletion with `--cascade=orphan` waits for. */
function releaseWait(kept: string): string {
  return (
    `the Kubernetes garbage collector has to release ${kept}, after a deletion with \`--cascade=orphan\`; ` +
    'if it does not, check kube-controller-manager'
  );
}

/** Why no new machine may be created, and why no old one may be deleted. */
function rolloutWaits(view: OwnerView): string[] {
  const { sets, replicas, maxSurge, countsLeaving } = view;
  const newSet = newSetOf(view);
  const old = sumOf(sets, (set) => (set === newSet ? 0 : set.active));
  if (isRolloutSuspended(view)) {
    if (!view.paused || old === 0) return [];
    return [`${count(old, 'old machine stays', 'old machines stay')} while it is paused`];
  }
  if (view.strategy === 'InPlace') return updateWaits(view, old);
  if (waitsForOldMachines(view)) return ['new machines are created when all old ones are gone'];
  const available = sumOf(sets, countWorking);
  const least = minAvailable(view, newSet);
  const isFull = (newSet?.active ?? 0) < replicas && creationHeadroom(view) <= 0;
  const besides = countsLeaving === 'never' ? ' besides those that are being deleted' : '';
  const isScarce = old > 0 && available <= least;
  return [
    ...(isFull ? [`no new machine may be created: at most ${replicas + maxSurge} may exist${besides}`] : []),
    ...(isScarce
      ? [`no old machine may be deleted: ${available} are available, and at least ${least} have to be`]
      : []),
  ];
}

function updateWaits({ sets, selectsManually }: OwnerView, old: number): string[] {
  const selected = sumOf(sets, ({ updates }) => updates?.selected ?? 0);
  const rest = old - selected;
  const turn = selectsManually ? 'to be selected by people' : 'for their turn';
  return [
    ...(selected > 0 ? [`${count(selected, 'machine is', 'machines are')} being updated in place`] : []),
    ...(rest > 0 ? [`${count(rest, 'old machine waits', 'old machines wait')} ${turn}`] : []),
  ];
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}
