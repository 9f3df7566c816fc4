/** Read-modify-write with an optimistic lock. */

import type { KubeObject, ObjectKey, Resource } from '../api/objects.ts';
import type { KubeClient, RequestOptions } from './client.ts';
import { isConflict, isNotFound } from './errors.ts';
import { mergePatch } from './patch.ts';

/**
 * Patches an object by what `change` makes of its present state: a merge patch, or undefined for nothing to do. When
 * somebody else was faster it reads again, up to five times; then the 409 is thrown.
 * @returns the object as it is afterwards; undefined when it is gone or has another UID
 */
export async function update<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  key: ObjectKey & { readonly uid: string },
  change: (object: T) => object | undefined,
  options: RequestOptions & { subresource?: 'status' } = {},
): Promise<T | undefined> {
  for (let attempt = 1; ; attempt++) {
    const object = await client.find(resource, key, options);
    if (object === undefined || object.metadata.uid !== key.uid) return undefined;
    const patch = change(object);
    if (patch === undefined) return object;
    const { resourceVersion } = object.metadata;
    const { metadata, ...rest } = patch as { metadata?: object };
    try {
      const locked = mergePatch({ ...rest, metadata: { ...metadata, resourceVersion } });
      return await client.patch(resource, key, locked, options);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      if (!isConflict(error) || attempt === 5) throw error;
    }
  }
}

/** Does a request under preconditions. An object that is gone, or was changed since it was read, is left as it is. */
export async function ignoreGoneOrChanged(request: () => Promise<unknown>): Promise<void> {
  try {
    await request();
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
