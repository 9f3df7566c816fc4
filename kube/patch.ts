/** Three ways to change an object. None reads it first, so fields that we do not know are never lost. */

/** A change of an object, as `KubeClient.patch` sends it. */
export interface Patch {
  readonly contentType: string;
  readonly body: unknown;
  readonly query?: Readonly<Record<string, string>>;
}

/** One operation of RFC 6902; `path` is a JSON pointer. A `test` that fails is a 422, not a 409. */
export type JsonPatchOperation =
  | { op: 'add' | 'replace' | 'test'; path: string; value: unknown }
  | { op: 'remove'; path: string };

/**
 * RFC 7386: given fields are set, `null` removes a field, a list replaces the whole list.
 * With `metadata.resourceVersion` in it, it fails with 409 when the object has changed since (optimistic lock).
 */
export function mergePatch(body: object): Patch {
  return { contentType: 'application/merge-patch+json', body };
}

/** RFC 6902: operations, all or none. */
export function jsonPatch(operations: readonly JsonPatchOperation[]): Patch {
  return { contentType: 'application/json-patch+json', body: operations };
}

/** Merges lists by their keys, for built-in types only: custom resources answer 415. */
export function strategicMergePatch(body: object): Patch {
  return { contentType: 'application/strategic-merge-patch+json', body };
}

/**
 * Server-side apply: creates the object or sets the given fields. Fields that this manager set before and now leaves
 * out are removed. `force` takes fields over from other managers (else 409).
 */
export function applyPatch(
  body: { apiVersion: string; kind: string },
  options: { fieldManager: string; force: boolean },
): Patch {
  const { fieldManager, force } = options;
  return { contentType: 'application/apply-patch+yaml', body, query: { fieldManager, force: String(force) } };
}
