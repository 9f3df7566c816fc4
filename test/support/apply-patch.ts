import type { Patch } from '../../kube/patch.ts';

/**
 * Server-side apply: creates the object or sets the given fields. Fields that this manager set before and now leaves out
 * are removed. `force` takes fields over from other managers (else 409).
 */
export function applyPatch(
  body: { apiVersion: string; kind: string },
  options: { fieldManager: string; force: boolean },
): Patch {
  const { fieldManager, force } = options;
  return { contentType: 'application/apply-patch+yaml', body, query: { fieldManager, force: String(force) } };
}
