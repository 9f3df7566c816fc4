/** What an owner of machines owns, read by quorum, at a cost that depends on what it owns and not on its neighbours. */
import type { KubeObject, Resource } from '../../api/objects.ts';
import { controllerOf } from '../../api/owner/view.ts';
import type { KubeClient } from '../../kube/client.ts';
import { StatusError } from '../../kube/errors.ts';

/** Objects of a namespace that have certain controllers. */
export interface OwnedQuery<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly namespace: string;
  /** UIDs of the controllers. */
  readonly owners: readonly string[];
  /** The labels that the objects were made with. Anybody can change those, so they are only a hint. */
  readonly labels: Readonly<Record<string, string>> | undefined;
  /** Names that such objects may have, whatever their labels. */
  readonly names?: readonly string[];
  /** How many a watcher has seen. */
  readonly seen?: number | undefined;
}

/** Returns what was asked for, and objects of others. */
export type OwnedReader = <T extends KubeObject>(query: OwnedQuery<T>) => Promise<T[]>;

/** What was last known of a namespace: the UID of the controller of each object, by name. */
interface Known {
  readonly controllers: Map<string, string | undefined>;
  readonly listedAtMs: number;
}

/** How long a full list is the base of lists by label, ms: as long as a resync. */
const maxAgeMs = 60_000;
/** With more absent objects a full list is cheaper than to look for each. */
const maxAbsent = 50;

/**
 * Reads objects by label where that leaves at least half of a namespace out. What it expects and the label does not find,
 * it reads by name. If any of that still belongs to the owner, everything is listed; also when a watcher has seen more, at
 * first, and once a minute.
 */
export function createOwnedReader(control: KubeClient): OwnedReader {
  const lists = new Map<string, Known>();
  const underWay = new Map<string, Promise<unknown>>();

  async function listAll<T extends KubeObject>({ resource, namespace }: OwnedQuery<T>): Promise<T[]> {
    const listedAtMs = Date.now();
    const { items } = await control.list(resource, { namespace });
    const controllers = new Map(items.map((item) => [item.metadata.name, controllerOf(item)]));
    lists.set(keyOf(resource, namespace), { controllers, listedAtMs });
    return items;
  }

  /** undefined: all have to be listed. */
  async function listByLabel<T extends KubeObject>(query: OwnedQuery<T>): Promise<T[] | undefined> {
    const { resource, namespace, owners, labels = {}, names = [], seen = 0 } = query;
    const { controllers, listedAtMs } = lists.get(keyOf(resource, namespace)) ?? { listedAtMs: 0 };
    if (controllers === undefined || Date.now() > listedAtMs + maxAgeMs || Object.keys(labels).length === 0) return;
    const isOwn = (object: KubeObject) => owners.includes(controllerOf(object) ?? '');
    const before = [...controllers].flatMap(([name, owner]) => (owners.includes(owner ?? '') ? [name] : []));
    if (2 * before.length > controllers.size) return;

    const items = await listLabelled(resource, namespace, labels);
    if (items === undefined) return;
    const listed = new Set(items.map(({ metadata }) => metadata.name));
    const absent = [...new Set([...before, ...names])].filter((name) => !listed.has(name));
    if (absent.length > maxAbsent) return;
    const others: T[] = [];
    for (const name of absent) {
      const found = await control.find(resource, { namespace, name });
      if (found === undefined) controllers.delete(name);
      else others.push(found);
    }
    for (const item of [...items, ...others]) controllers.set(item.metadata.name, controllerOf(item));
    const count = items.filter(isOwn).length;
    // A watcher's view may be older than this reading: what has gone since the last reading is no reason to list all.
    if (others.some(isOwn) || count + absent.length < seen) return;
    return [...items, ...others];
  }

  /** undefined: the API server refuses the labels. A lax schema may let through what no object can have. */
  async function listLabelled<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    labels: Readonly<Record<string, string>>,
  ): Promise<T[] | undefined> {
    const labelSelector = Object.entries(labels)
      .map(([key, value]) => `${key}=${value}`)
      .join();
    try {
      return (await control.list(resource, { namespace, labelSelector })).items;
    } catch (error) {
      if (error instanceof StatusError && error.code === 400) return undefined;
      throw error;
    }
  }

  return async (query) => {
    const key = keyOf(query.resource, query.namespace);
    // A list that began earlier is no answer to this reading: it only says which names to expect.
    await underWay.get(key)?.catch(() => undefined);
    const found = await listByLabel(query);
    if (found !== undefined) return found;
    const all = listAll(query);
    underWay.set(key, all);
    try {
      return await all;
    } finally {
      if (underWay.get(key) === all) underWay.delete(key);
    }
  };
}

function keyOf({ group, plural }: Resource<KubeObject>, namespace: string): string {
  return `${group}/${plural}/${namespace}`;
}
