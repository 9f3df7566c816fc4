/** Why an owner deletes a machine, for people. Pure. */
import type { OwnerApi } from '../../api/dialect.ts';
import type { Candidate } from '../../api/model/owner.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { templatesEqual } from '../../api/owner/template.ts';

/** @param deployment left out where the set has none */
export function deletionCause(
  api: OwnerApi,
  { failed, isOfReplacement, unneeded }: Candidate,
  set: OwnerSet,
  deployment?: OwnerDeployment,
): string {
  const { metadata, spec } = deployment ?? set;
  const owner = `${deployment === undefined ? api.kinds.set.kind : api.kinds.deployment.kind} ${metadata.name}`;
  if (metadata.deletionTimestamp !== undefined) return `${owner} is being deleted`;
  if (set.metadata.deletionTimestamp !== undefined)
    return `${api.kinds.set.kind} ${set.metadata.name} is being deleted`;
  if (failed) return `it has failed, and ${owner} replaces it`;
  if (isOfReplacement) return `${owner} replaces an unhealthy machine`;
  if (unneeded) return `it is listed on ${owner} as not needed`;
  const isOld = deployment !== undefined && !templatesEqual(api, set.spec?.template, spec?.template);
  return isOld ? `rollout of ${owner}: its template is an older one` : `scale-down of ${owner}`;
}
