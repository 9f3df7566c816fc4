/**
 * An API server in memory, to try what would be written and for properties that need thousands of interleavings:
 * objects, preconditions on UID and resourceVersion, finalizers and deletionTimestamp, merge patches and the
 * subresource status. No schemas, no watches.
 */
import type { KubeObject, NewObjectMeta, ObjectKey, Resource } from '../api/objects.ts';
import type { KubeClient, Preconditions, Selection } from './client.ts';
import { StatusError } from './errors.ts';
import type { Patch } from './patch.ts';

type Json = Readonly<Record<string, unknown>>;
type Metadata = KubeObject['metadata'];
type NewNamed = Json & { readonly metadata: NewObjectMeta & { name: string } };

/** Called before every write of a client. Throwing loses the write; a promise that is pending delays it. */
export type WriteGate = () => Promise<void>;

export class MemoryCluster {
  readonly #objects = new Map<string, KubeObject>();
  readonly #time: string;
  #version = 0;

  /** @param time of every creation and deletion, RFC 3339 */
  constructor(time = '2026-08-19T10:00:00Z') {
    this.#time = time;
  }

  /** Adds objects as another API server has them. */
  load<T extends KubeObject>(resource: Resource<T>, objects: readonly T[]): void {
    for (const object of objects) this.#objects.set(idOf(resource, object.metadata), object);
  }

  /** The objects of a resource, oldest first. They are never changed: a write replaces the object. */
  all<T extends KubeObject>({ plural }: Resource<T>): T[] {
    const found: KubeObject[] = [];
    for (const [id, object] of this.#objects) if (id.startsWith(`${plural}/`)) found.push(object);
    return found as T[];
  }

  /** A number that was never returned before. */
  next(): number {
    this.#version += 1;
    return this.#version;
  }

  /** A client of the cluster. The parts of KubeClient that owners use. */
  client(gate: WriteGate = async () => undefined): KubeClient {
    const client: Partial<KubeClient> = {
      find: async <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) => this.#find(resource, key),
      list: async <T extends KubeObject>(resource: Resource<T>, { labelSelector = '' }: Selection = {}) => ({
        items: this.all(resource).filter(({ metadata }) => hasLabels(metadata, labelSelector)),
        resourceVersion: String(this.#version),
      }),
      create: async (resource, object) => {
        await gate();
        return this.create(resource, object as NewNamed);
      },
      patch: async (resource, key, patch, options) => {
        await gate();
        return this.patch(resource, key, patch, options?.subresource === 'status');
      },
      delete: async (resource, key, options) => {
        await gate();
        this.delete(resource, key, options?.preconditions);
      },
    };
    return client as KubeClient;
  }

  create<T extends KubeObject>(resource: Resource<T>, object: NewNamed): T {
    const id = idOf(resource, object.metadata);
    if (this.#objects.has(id)) throw refusal(409, 'AlreadyExists', id);
    const resourceVersion = String(this.next());
    const metadata = { ...object.metadata, uid: `uid-${this.next()}`, resourceVersion, generation: 1 };
    const created = { ...object, metadata: { ...metadata, creationTimestamp: this.#time } } as KubeObject as T;
    this.#objects.set(id, created);
    return created;
  }

  /** A merge patch, of the status alone or of everything else. */
  patch<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, { body }: Patch, isStatus = false): T {
    const present = this.#get(resource, key);
    const { metadata = {}, status, ...rest } = body as Json & { metadata?: Preconditions & Json; status?: unknown };
    this.#check(present, metadata);
    return this.#store(resource, present, isStatus ? { status } : { ...rest, metadata });
  }

  /** Whatever somebody else writes, status included. */
  edit<T extends KubeObject>(resource: Resource<T>, { metadata }: T, change: object): T | undefined {
    const present = this.#find(resource, metadata);
    return present && this.#store(resource, present, change as Json);
  }

  /** What has finalizers stays until they are removed. */
  delete<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, preconditions: Preconditions = {}): void {
    const present = this.#get(resource, key);
    this.#check(present, preconditions);
    if (present.metadata.deletionTimestamp !== undefined) return;
    const { generation = 0 } = present.metadata;
    this.#store(resource, present, { metadata: { deletionTimestamp: this.#time, generation: generation + 1 } });
  }

  #find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey): T | undefined {
    return this.#objects.get(idOf(resource, key)) as T | undefined;
  }

  #get<T extends KubeObject>(resource: Resource<T>, key: ObjectKey): T {
    const present = this.#find(resource, key);
    if (present === undefined) throw refusal(404, 'NotFound', idOf(resource, key));
    return present;
  }

  #check({ metadata }: KubeObject, { uid, resourceVersion }: Preconditions): void {
    const isOther = uid !== undefined && uid !== metadata.uid;
    const isChanged = resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion;
    if (isOther || isChanged) throw refusal(409, 'Conflict', metadata.name);
  }

  #store<T extends KubeObject>(resource: Resource<T>, present: T, change: Json): T {
    const changed = merge(present as KubeObject as unknown as Json, change) as unknown as T & { spec?: unknown };
    if (sameJson(changed, present)) return present;
    const { generation = 0 } = changed.metadata;
    const isOtherSpec = !sameJson(changed.spec, (present as T & { spec?: unknown }).spec);
    const metadata: Metadata = {
      ...changed.metadata,
      uid: present.metadata.uid,
      resourceVersion: String(this.next()),
      generation: isOtherSpec ? generation + 1 : generation,
    };
    const stored = { ...changed, metadata };
    const isGone = metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).length === 0;
    if (isGone) this.#objects.delete(idOf(resource, metadata));
    else this.#objects.set(idOf(resource, metadata), stored);
    return stored;
  }
}

function idOf({ plural }: Resource<KubeObject>, { name }: ObjectKey): string {
  return `${plural}/${name}`;
}

/** @param selector equalities alone */
function hasLabels({ labels = {} }: Metadata, selector: string): boolean {
  const wanted = selector.split(',').filter(Boolean);
  return wanted.every((one) => labels[one.slice(0, one.indexOf('='))] === one.slice(one.indexOf('=') + 1));
}

function refusal(code: number, reason: string, subject: string): StatusError {
  return new StatusError(subject, code, { code, reason });
}

function sameJson(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** RFC 7386. */
function merge(present: Json, patch: Json): Json {
  const merged: Record<string, unknown> = { ...present };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else if (isObject(value)) merged[key] = merge(isObject(merged[key]) ? merged[key] : {}, value);
    else if (value !== undefined) merged[key] = value;
  }
  return merged;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
