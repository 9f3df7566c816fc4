import type { KubeObject } from '../api/objects.ts';

/** A change for `update` that takes a finalizer off an object that is being deleted. */
export function withoutFinalizer(finalizer: string) {
  return ({ metadata }: KubeObject): object | undefined => {
    const { finalizers = [], deletionTimestamp } = metadata;
    if (!finalizers.includes(finalizer) || deletionTimestamp === undefined) return undefined;
    return { metadata: { finalizers: finalizers.filter((each) => each !== finalizer) } };
  };
}
