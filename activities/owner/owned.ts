/** What an owner of machines owns, read by quorum, at a cost that depends on what it owns and not on its neighbours. */
import { randomUUID } from 'node:crypto';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import type { KubeClient } from '../../kube/client.ts';
import { StatusError } from '../../kube/errors.ts';

/** Objects of a namespace that have certain controllers. */
export interface OwnedQuery<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly namespace: string;
  /** UIDs of the controllers. */
  readonly owners: readonly string[];
  /** The labels that the objects were made with. Anybody can change those, so they are only a hint. */
  readonly labels: Readonly<Record<string, string>> | null | undefined;
  /** Names that such objects may have, whatever their labels. */
  readonly names?: readonly string[];
  /** How many a watcher has seen. */
  readonly seen?: number | undefined;
  /** Whether this reader has read them last. */
  readonly isLastReader: boolean;
}

export interface OwnedReader {
  /** Differs in each worker. */
  readonly id: string;
  /** Returns what was asked for, and objects of others. */
  read<T extends KubeObject>(query: OwnedQuery<T>): Promise<T[]>;
}

/** Names of the objects that a controller had. */
interface Known {
  readonly names: ReadonlySet<string>;
  readonly readAtMs: number;
}

/** How long a full list is the base of lists by label, ms: as long as a resync. */
const maxAgeMs = 60_000;
/** How long it is remembered what an owner had that nobody reads, ms. */
const forgetAfterMs = 10 * 60_000;
/** With more absent objects a full list is cheaper than to look for each. */
const maxAbsent = 20;

/**
 * Reads objects by label where that leaves at least half of a namespace out. What it has read before and the label does
 * not find, it reads by name. If any of that still belongs to the owner, everything is listed; also where another
 * worker has read last, when a watcher has seen more, and once a minute.
 */
export function createOwnedReader(control: KubeClient): OwnedReader {
  const lists = new Map<string, { readonly total: number; readonly atMs: number }>();
  const known = new Map<string, Known>();

  async function listAll<T extends KubeObject>({ resource, namespace }: OwnedQuery<T>): Promise<T[]> {
    const atMs = performance.now();
    const { items } = await control.list(resource, { namespace });
    lists.set(listKey(resource, namespace), { total: items.length, atMs });
    for (const [key, { readAtMs }] of known) if (readAtMs < atMs - forgetAfterMs) known.delete(key);
    return items;
  }

  /** undefined: all have to be listed. */
  async function listByLabel<T extends KubeObject>(query: OwnedQuery<T>): Promise<T[] | undefined> {
    const { resource, namespace, owners, names = [], seen = 0, isLastReader } = query;
    const labels = Object.entries(query.labels ?? {});
    const last = lists.get(listKey(resource, namespace));
    if (!isLastReader || labels.length === 0 || last === undefined) return;
    const before = owners.map((owner) => known.get(knownKey(resource, owner))?.names);
    const expected = new Set(before.flatMap((each) => [...(each ?? [])]));
    const isOld = performance.now() > last.atMs + maxAgeMs;
    if (isOld || before.includes(undefined) || 2 * expected.size > last.total) return;

    const labelSelector = labels.map(([key, value]) => `${key}=${value}`).join();
    const items = await listLabelled(resource, namespace, labelSelector);
    if (items === undefined) return;
    const listed = new Set(items.map(({ metadata }) => metadata.name));
    const absent = [...new Set([...expected, ...names])].filter((name) => !listed.has(name));
    if (absent.length > maxAbsent) return;
    const found = await Promise.all(absent.map((name) => control.find(resource, { namespace, name })));
    const isOwn = (object?: KubeObject) => object !== undefined && owners.includes(controllerOf(object) ?? '');
    // A watcher's view may be older than this reading: what has gone since the last reading is no reason to list all.
    const gone = absent.filter((name) => expected.has(name)).length;
    if (found.some((object) => isOwn(object)) || items.filter((item) => isOwn(item)).length + gone < seen) return;
    return items;
  }

  /** undefined: the API server refuses the labels. A lax schema may let through what no object can have. */
  async function listLabelled<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    labelSelector: string,
  ): Promise<T[] | undefined> {
    try {
      return (await control.list(resource, { namespace, labelSelector })).items;
    } catch (error) {
      if (error instanceof StatusError && error.code === 400) return undefined;
      throw error;
    }
  }

  return {
    id: randomUUID(),
    async read(query) {
      const { resource, owners } = query;
      if (owners.length === 0) return [];
      const items = (await listByLabel(query)) ?? (await listAll(query));
      for (const owner of owners) {
        const own = items.filter((item) => controllerOf(item) === owner);
        const names = new Set(own.map(({ metadata }) => metadata.name));
        known.set(knownKey(resource, owner), { names, readAtMs: performance.now() });
      }
      return items;
    },
  };
}

function listKey({ group, plural }: Resource<KubeObject>, namespace: string): string {
  return `${group}/${plural}/${namespace}`;
}

function knownKey({ group, plural }: Resource<KubeObject>, owner: string): string {
  return `${group}/${plural}/${owner}`;
}
