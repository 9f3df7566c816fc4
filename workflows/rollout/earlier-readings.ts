/** Readings of release 0.1.0, in recorded histories and of its processes: they are planned as it planned them. */
import type { OwnerView, SetView } from '../../api/model/owner.ts';

/** A view of any release. */
export type AnyView = Omit<OwnerView, 'countsLeaving'> & Partial<Pick<OwnerView, 'countsLeaving'>>;

/**
 * The view as this release plans it. In release 0.1.0 machines that are being deleted counted against replicas +
 * maxSurge always, and machines that are updated in place as available but for the update itself.
 */
export function withRules(view: AnyView): OwnerView {
  const { countsLeaving = 'always' } = view;
  if (countsLeaving !== 'always') return { ...view, countsLeaving };
  const isUpdating = view.strategy === 'InPlace' && !view.paused;
  return { ...view, countsLeaving, sets: isUpdating ? view.sets : view.sets.map(withAllAvailable) };
}

function withAllAvailable(set: SetView): SetView {
  return set.updates === undefined ? set : { ...set, updates: { ...set.updates, selectedAvailable: 0, returning: 0 } };
}
