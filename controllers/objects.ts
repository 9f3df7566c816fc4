/** Small conversions that the wakers share. */
import type { ObjectRef } from '../api/model/ref.ts';
import type { KubeObject, ObjectKey } from '../api/objects.ts';

/** What a workflow is told about its object. */
export function refOf({ metadata }: KubeObject): ObjectRef {
  const { namespace = '', name, uid } = metadata;
  return { dialect: 'gardener', namespace, name, uid };
}

/** `<namespace>/<name>` */
export function keyOf({ metadata: { namespace = '', name } }: KubeObject): string {
  return `${namespace}/${name}`;
}

export function toObjectKey(key: string): ObjectKey {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name };
}

/** Text that is equal when nothing but versions of objects has changed: these change with every write of a status. */
export function textOf(seen: object): string {
  return JSON.stringify(seen, (key, value: unknown) => (key === 'resourceVersion' ? undefined : value));
}
