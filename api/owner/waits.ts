/** What the machines of an owner wait for, and which bound holds them: pure, for people. Plain code, as surplus.ts. */
import type { OwnerView } from '../model/owner.ts';
import {
  creationHeadroom,
  hasOldMachines,
  isRolloutSuspended,
  minAvailable,
  sumOf,
  waitsForOldMachines,
} from './replicas.ts';

/** What has to happen before more can be done, as one sentence of several parts; undefined when nothing has. */
export function waitsOf(view: OwnerView): string | undefined {
  if (view.problem !== undefined && !view.deleting) return undefined;
  const { sets } = view;
  if (view.orphans) return releaseWait('what it owns');
  const orphaning = sets.filter(({ orphans }) => orphans).map(({ name }) => name);
  const joining = sumOf(sets, ({ current, active, available }) => (current && !view.deleting ? active - available : 0));
  const leaving = sumOf(sets, ({ total, active }) => total - active);
  const parts = [
    ...(joining > 0 ? [`${machines(joining)} of the template ${joining === 1 ? 'does' : 'do'} not run`] : []),
    ...(leaving > 0 ? [`${machines(leaving)} ${leaving === 1 ? 'is' : 'are'} on the way out`] : []),
    ...(orphaning.length > 0 ? [releaseWait(`the machines of ${orphaning.join(', ')}`)] : []),
    ...(hasOldMachines(view) && !view.deleting ? rolloutWaits(view) : []),
  ];
  return parts.length === 0 ? undefined : parts.join('; ');
}

/** What a deletion with `--cascade=orphan` waits for. */
function releaseWait(kept: string): string {
  return (
    `the garbage collector of Kubernetes has to release ${kept}, after a deletion with --cascade=orphan; ` +
    'if it never does, check kube-controller-manager'
  );
}

/** Why no machine of the template may come, and why none of others may go. */
function rolloutWaits(view: OwnerView): string[] {
  const { sets, replicas, maxSurge } = view;
  const current = sets.find((set) => set.current && !set.deleting);
  const others = sumOf(sets, (set) => (set === current ? 0 : set.active));
  if (isRolloutSuspended(view)) {
    if (!view.paused || others === 0) return [];
    return [`${machines(others)} of older templates ${others === 1 ? 'stays' : 'stay'} while it is paused`];
  }
  if (waitsForOldMachines(view)) return ['new ones come when all of older templates are gone'];
  const available = sumOf(sets, (set) => set.available);
  const least = minAvailable(view, current);
  const isFull = (current?.active ?? 0) < replicas && creationHeadroom(view) <= 0;
  const isScarce = others > 0 && available <= least;
  return [
    ...(isFull ? [`no new one may come, as there may be ${replicas + maxSurge} at most`] : []),
    ...(isScarce ? [`no older one may go, as ${available} of at least ${least} are available`] : []),
  ];
}

function machines(count: number): string {
  return count === 1 ? '1 machine' : `${count} machines`;
}
