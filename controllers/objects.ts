/** Small conversions that the controllers share. */
import type { Dialect } from '../api/dialect.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import type { KubeObject, ObjectKey } from '../api/objects.ts';

/** The input of an object's workflow, without its cluster. */
export function refOf({ name: dialect }: Pick<Dialect, 'name'>, { metadata }: KubeObject): ObjectRef {
  const { namespace = '', name, uid } = metadata;
  return { dialect, namespace, name, uid };
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
