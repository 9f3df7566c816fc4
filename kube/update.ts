/** Read-modify-write with an optimistic lock. */

import type { KubeObject, ObjectKey, Resource } from '../api/objects.ts';
import type { KubeClient, RequestOptions } from './client.ts';
import { isConflict, isNotFound } from './errors.ts';
import { mergePatch } from './patch.ts';

/**
 * Patches an object by what `change` returns for its current state: a merge patch, or undefined for no change. After a
 * conflict it reads again, up to five times; then the 409 is thrown.
 * @returns the object afterwards; undefined when it is gone or has another UID
 */
export async function update<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  key: ObjectKey & { readonly uid: string },
  change: (object: T) => object | undefined | Promise<object | undefined>,
  options: RequestOptions & { subresource?: 'status' } = {},
): Promise<T | undefined> {
  for (let attempt = 1; ; attempt++) {
    const object = await client.find(resource, key, options);
    if (object === undefined || object.metadata.uid !== key.uid) return undefined;
    const patch = await change(object);
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

/** Sends a request with preconditions. Ignores 404 and 409: the object is gone, or was changed since it was read. */
export async function ignoreGoneOrChanged(request: () => Promise<unknown>): Promise<void> {
  try {
    await request();
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}

/** Sends a request for one object. null: the object is not there. */
export async function orNull<T>(request: () => Promise<T>): Promise<T | null> {
  try {
    return await request();
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}
