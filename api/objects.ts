/**
 * Shapes that every Kubernetes object shares. Objects are plain JSON as the server sends it: times are RFC 3339
 * strings.
 */

/** Owner of an object, in the same namespace or cluster-scoped. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** `metadata` of an object that exists on a server. The client drops `managedFields` when an object comes in. */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  generateName?: string;
}

/** A custom resource as the server sends it: what its schema says, and what every object has. */
export type CustomResource<Fields> = Fields & { apiVersion?: string; kind?: string; metadata: ObjectMeta };

/**
 * An object that exists on a server. Items of a list carry neither `apiVersion` nor `kind`, as the server sends them.
 */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

/** `metadata` of an object that is to be created: a name, or a prefix to which the server adds five characters. */
export type NewObjectMeta = Omit<Partial<ObjectMeta>, 'name' | 'generateName'> &
  ({ name: string } | { generateName: string });

/** An object that is to be created; `apiVersion` and `kind` come from the resource. */
export type NewObject<T extends KubeObject> = Omit<T, 'metadata' | 'apiVersion' | 'kind'> & {
  metadata: NewObjectMeta;
};

/** Where a resource is found. T, the type of its objects, exists for the compiler alone. */
export interface Resource<T extends KubeObject> {
  /** '' for the core group. */
  readonly group: string;
  readonly version: string;
  /** As in the URL, for example `machinedeployments`. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly __object?: T;
}

/** Names the coordinates of a resource and the type of its objects: `defineResource<Node>({...})`. */
export function defineResource<T extends KubeObject>(resource: Omit<Resource<T>, '__object'>): Resource<T> {
  return resource;
}

/** `apiVersion` of a resource's objects: `v1`, `apps/v1`. */
export function apiVersionOf(resource: { readonly group: string; readonly version: string }): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** Name of an object; a namespace exactly where the resource is namespaced. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** How an Event or a condition refers to an object. */
export function referenceTo(
  resource: { readonly group: string; readonly version: string; readonly kind: string },
  { namespace, name, uid }: { readonly namespace: string; readonly name: string; readonly uid: string },
) {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name, uid };
}
