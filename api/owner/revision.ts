/** Revisions: which template of a deployment came when. As machine-controller-manager counts them. Pure. */

import { annotations } from '../gardener/names.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';

/** Revision of a set that is newer than all of these. */
export function nextRevision(sets: readonly MachineSet[]): number {
  return 1 + Math.max(0, ...sets.map(revisionOf));
}

/** 0 for a set without a revision, or with one that is no number. */
export function revisionOf({ metadata }: MachineSet): number {
  return Number(metadata.annotations?.[annotations.revision]) || 0;
}

/**
 * A patch that makes the present set the newest one of its deployment, which it is not when its template is used again;
 * undefined when it is. Its revision of before goes to the end of its history.
 * @param own the sets of the deployment
 */
export function withNewestRevision(current: MachineSet, own: readonly MachineSet[]): object | undefined {
  const next = nextRevision(own.filter(({ metadata }) => metadata.uid !== current.metadata.uid));
  const present = revisionOf(current);
  if (present >= next || next === 1) return undefined;
  const history = current.metadata.annotations?.[annotations.revisionHistory];
  const former = [history, present > 0 ? String(present) : undefined].filter(Boolean).join(',');
  const changed = { [annotations.revision]: String(next), ...(former && { [annotations.revisionHistory]: former }) };
  return { metadata: { annotations: changed } };
}

/** A patch that gives the deployment the revision of its present set; undefined when it has it. */
export function withRevision({ metadata }: MachineDeployment, current: MachineSet | undefined): object | undefined {
  const revision = current?.metadata.annotations?.[annotations.revision];
  if (revision === undefined || metadata.annotations?.[annotations.revision] === revision) return undefined;
  return { metadata: { annotations: { [annotations.revision]: revision } } };
}
