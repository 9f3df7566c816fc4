import type { OwnerApi } from '../../api/dialect.ts';
import type { DeletingOwner } from '../../api/owner/deletion-cause.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { templatesEqual } from '../../api/owner/template.ts';

/** Whose machines a step deletes. @param deployment left out where the set has none */
export function deletingOwner(api: OwnerApi, set: OwnerSet, deployment?: OwnerDeployment): DeletingOwner {
  const { metadata, spec } = deployment ?? set;
  const { kind } = deployment === undefined ? api.kinds.set : api.kinds.deployment;
  return {
    owner: `${kind} ${metadata.name}`,
    isOwnerDeleted: metadata.deletionTimestamp !== undefined,
    set: `${api.kinds.set.kind} ${set.metadata.name}`,
    isSetDeleted: set.metadata.deletionTimestamp !== undefined,
    isOld: deployment !== undefined && !templatesEqual(api, set.spec?.template, spec?.template),
  };
}
