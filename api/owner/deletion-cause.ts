/** Why an owner deletes a machine, for people. Pure. */
import type { Candidate } from '../model/owner.ts';

/** Why a machine is deleted that neither its owner nor its Node explains. Objects do not say who has deleted them. */
export const deletedByOthers =
  'a person or another program has deleted it; only an audit log of the API server says who';

/** Whose machine it is: a MachineDeployment, or a MachineSet without one. Each as `<kind> <name>`. */
export interface DeletingOwner {
  readonly owner: string;
  readonly isOwnerDeleted: boolean;
  readonly set: string;
  readonly isSetDeleted: boolean;
  /** The template of the set is an older one of its deployment. */
  readonly isOld: boolean;
}

/** As a clause. */
export function deletionCause(
  { failed, isOfReplacement, unneeded }: Pick<Candidate, 'failed' | 'isOfReplacement' | 'unneeded'>,
  { owner, isOwnerDeleted, set, isSetDeleted, isOld }: DeletingOwner,
): string {
  if (isOwnerDeleted) return `${owner} is being deleted`;
  if (isSetDeleted) return `${set} is being deleted`;
  if (failed) return `it has failed, and ${owner} replaces it`;
  if (isOfReplacement) return `${owner} replaces an unhealthy machine`;
  if (unneeded) return `it is listed on ${owner} as not needed`;
  return isOld ? `rollout of ${owner}: its template is an older one` : `scale-down of ${owner}`;
}
