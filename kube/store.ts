/** The newest known state of a set of objects, in memory, with indexes. Filled by a reflector. */
import type { KubeObject, ObjectKey } from '../api/objects.ts';

/** A change of the store. `previous` is the state before; after UID changes an object is deleted, then added. */
export type StoreEvent<T extends KubeObject> =
  | { readonly kind: 'added'; readonly object: T }
  | { readonly kind: 'updated'; readonly object: T; readonly previous: T }
  | { readonly kind: 'deleted'; readonly object: T; readonly previous: T }
  /**
   * The store holds what a full list held; comes after every list. `isRestored`: the server is behind what was known
   * before, as after a restore of its etcd from a backup. So any later write may be lost.
   */
  | { readonly kind: 'synced'; readonly isRestored: boolean };

/** Read access. Objects are shared: never change them. */
export interface Store<T extends KubeObject> {
  /** A full list is in; stays true. Before that an absent object means nothing. */
  readonly synced: boolean;
  /**
   * The API server answered last time, so the store is at most a watch behind. When false, states may be old and
   * an absent object may exist. A connection that dies silently is noticed after 150 s.
   */
  readonly reachable: boolean;
  /**
   * How long the API server has answered without an outage, ms: without a time of at least `outageMs` in which it did
   * not. 0 while it does not answer.
   */
  readonly answersForMs: number;
  readonly size: number;
  get(key: ObjectKey): T | undefined;
  list(): T[];
  /** Objects for which the index function gave this value, in no order. Throws for an index that was not declared. */
  byIndex(index: string, value: string): T[];
  /** Whether `byIndex` would find an object. Costs nothing, however many there are. */
  has(index: string, value: string): boolean;
}

/** Values under which an object is found, for each index by name. Pure functions. */
export type Indexes<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

/** Write access, for the reflector alone. */
export interface MutableStore<T extends KubeObject> {
  readonly store: Store<T>;
  setSynced(): void;
  setReachable(reachable: boolean): void;
  /** Takes in a state and returns what changed: nothing when the resourceVersion is known. */
  put(object: T): StoreEvent<T>[];
  /** Removes the object that the given last state belongs to. */
  remove(object: T): StoreEvent<T>[];
  /** Removes every object whose UID is not given. */
  retain(uids: ReadonlySet<string>): StoreEvent<T>[];
}

function keyOf({ namespace = '', name }: ObjectKey): string {
  return `${namespace}/${name}`;
}

/** An empty store that is neither synced nor reachable. @param outageMs see `answersForMs` */
export function createStore<T extends KubeObject>(indexes: Indexes<T> = {}, outageMs = 30_000): MutableStore<T> {
  const objects = new Map<string, T>();
  const indexed = new Map(Object.keys(indexes).map((index) => [index, new Map<string, Set<string>>()]));
  let synced = false;
  let reachable = false;
  /** Times of performance.now(). */
  let lostAtMs = Number.NEGATIVE_INFINITY;
  let answersSinceMs = 0;

  function keysOf(index: string, value: string): ReadonlySet<string> {
    const byValue = indexed.get(index);
    if (byValue === undefined) {
      throw new Error(`index is '${index}': declared are ${[...indexed.keys()].join(', ') || 'none'}`);
    }
    return byValue.get(value) ?? new Set();
  }

  function unindex(key: string, object: T): void {
    for (const [index, byValue] of indexed) {
      for (const value of indexes[index]?.(object) ?? []) {
        const keys = byValue.get(value);
        keys?.delete(key);
        if (keys?.size === 0) byValue.delete(value);
      }
    }
  }

  function write(key: string, object: T, previous: T | undefined): void {
    const values = [...indexed].map(([index, byValue]) => ({ byValue, values: indexes[index]?.(object) ?? [] }));
    if (previous !== undefined) unindex(key, previous);
    objects.set(key, object);
    for (const { byValue, values: own } of values) {
      for (const value of own) {
        const keys = byValue.get(value);
        if (keys === undefined) byValue.set(value, new Set([key]));
        else keys.add(key);
      }
    }
  }

  function drop(key: string, last: T): StoreEvent<T>[] {
    const previous = objects.get(key);
    if (previous === undefined) return [];
    unindex(key, previous);
    objects.delete(key);
    return [{ kind: 'deleted', object: last, previous }];
  }

  return {
    store: {
      get synced() {
        return synced;
      },
      get reachable() {
        return reachable;
      },
      get answersForMs() {
        return reachable ? performance.now() - answersSinceMs : 0;
      },
      get size() {
        return objects.size;
      },
      get: (key) => objects.get(keyOf(key)),
      list: () => [...objects.values()],
      byIndex: (index, value) => [...keysOf(index, value)].flatMap((key) => objects.get(key) ?? []),
      has: (index, value) => keysOf(index, value).size > 0,
    },
    setSynced() {
      synced = true;
    },
    setReachable(value) {
      if (value === reachable) return;
      reachable = value;
      const now = performance.now();
      if (!value) lostAtMs = now;
      else if (now >= lostAtMs + outageMs) answersSinceMs = now;
    },
    put(object) {
      const key = keyOf(object.metadata);
      const previous = objects.get(key);
      if (previous === undefined) {
        write(key, object, undefined);
        return [{ kind: 'added', object }];
      }
      if (previous.metadata.uid !== object.metadata.uid) {
        const deleted = drop(key, previous);
        write(key, object, undefined);
        return [...deleted, { kind: 'added', object }];
      }
      if (previous.metadata.resourceVersion === object.metadata.resourceVersion) return [];
      write(key, object, previous);
      return [{ kind: 'updated', object, previous }];
    },
    remove(object) {
      const key = keyOf(object.metadata);
      return objects.get(key)?.metadata.uid === object.metadata.uid ? drop(key, object) : [];
    },
    retain(uids) {
      const gone = [...objects].filter(([, object]) => !uids.has(object.metadata.uid));
      return gone.flatMap(([key, object]) => drop(key, object));
    },
  };
}
