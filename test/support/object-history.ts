/** Every version of the objects of a cluster, and how other objects differ from them. */
import type { KubeObject, Resource } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import { startReflector } from '../../kube/reflector.ts';
import { recordingLogger } from './kube.ts';

/** Objects that belong together, by the role of each, such as `Machine` and `Node`. */
export type Scene = Readonly<Record<string, KubeObject>>;

interface Version {
  readonly at: bigint;
  readonly kind: string;
  readonly object: KubeObject;
  readonly isDeleted: boolean;
}

export type ObjectHistory = Awaited<ReturnType<typeof recordObjects>>;

/** Records what happens to the objects of these resources. @param namespace of those that have one */
export async function recordObjects(client: KubeClient, namespace: string, resources: readonly Resource<KubeObject>[]) {
  const versions: Version[] = [];
  const current = new Map<string, KubeObject>();
  const waiting = new Set<() => void>();
  const watches = resources.map((resource) =>
    startReflector<KubeObject>({
      ...{ client, resource, logger: recordingLogger() },
      ...(resource.namespaced && { namespace }),
      onEvent: (event) => {
        if (event.kind === 'synced') return;
        const { kind } = resource;
        const { object } = event;
        const key = `${kind} ${object.metadata.name}`;
        if (event.kind === 'deleted') current.delete(key);
        else current.set(key, object);
        versions.push({
          at: BigInt(object.metadata.resourceVersion),
          kind,
          object,
          isDeleted: event.kind === 'deleted',
        });
        for (const look of waiting) look();
      },
    }),
  );
  await Promise.all(watches.map((watch) => watch.waitForSync()));

  return {
    find: <T extends KubeObject>({ kind }: Resource<T>, name: string) =>
      current.get(`${kind} ${name}`) as T | undefined,
    list: <T extends KubeObject>({ kind }: Resource<T>) =>
      [...current].filter(([key]) => key.startsWith(`${kind} `)).map(([, object]) => object as T),
    /** All that there have ever been, as they were at last. */
    ever: <T extends KubeObject>({ kind }: Resource<T>) => {
      const own = versions.filter((version) => version.kind === kind);
      return [...new Map(own.map(({ object }) => [object.metadata.name, object as T])).values()];
    },

    /**
     * Resolves at the first change after which the check holds, and with what it returns. Fails after three minutes.
     */
    when<T>(what: string, check: () => T | false | undefined): Promise<T> {
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(look);
          reject(new Error(`waited 180 s in vain until ${what}`));
        }, 180_000);
        function look(): void {
          const answer = check();
          if (answer === false || answer === undefined) return;
          clearTimeout(timer);
          waiting.delete(look);
          resolve(answer);
        }
        waiting.add(look);
        look();
      });
    },

    /**
     * The scenes that there have been, the first one first: one after each change of an object that has a role in it.
     * The API server counts the versions of all kinds together, so they are in the order of the writes.
     */
    scenes(roleOf: (kind: string, object: KubeObject) => string | undefined): Scene[] {
      let scene: Scene = {};
      const scenes: Scene[] = [];
      for (const { kind, object, isDeleted } of versions.toSorted((a, b) => (a.at < b.at ? -1 : 1))) {
        const role = roleOf(kind, object);
        if (role === undefined) continue;
        const others = Object.entries(scene).filter(([each]) => each !== role);
        scene = Object.fromEntries(isDeleted ? others : [...others, [role, object]]);
        scenes.push(scene);
      }
      return scenes;
    },

    async stop(): Promise<void> {
      await Promise.all(watches.map((watch) => watch.stop()));
    },
  };
}

/** Texts of a scene, and what stands for them in a comparison, such as for the name of a machine. */
export type Replacements = readonly (readonly [text: string | RegExp, replacement: string])[];

/** A value at a path of a scene, such as `Machine.metadata.labels.node`. */
export interface Difference {
  readonly path: string;
  readonly left: unknown;
  readonly right: unknown;
}

/**
 * What is different in two comparable scenes. An object that is in one alone is as many differences as it has values.
 */
export function differencesBetween(left: unknown, right: unknown, path = ''): Difference[] {
  const keys = new Set([left, right].flatMap((each) => (isFields(each) ? Object.keys(each) : [])));
  const isValue = (each: unknown) => each !== undefined && !isFields(each);
  if (isValue(left) || isValue(right) || keys.size === 0)
    return Object.is(left, right) || (isFields(left) && isFields(right)) ? [] : [{ path, left, right }];
  const valueOf = (each: unknown, key: string) => (isFields(each) ? each[key] : undefined);
  return [...keys]
    .toSorted()
    .flatMap((key) =>
      differencesBetween(valueOf(left, key), valueOf(right, key), path === '' ? key : `${path}.${key}`),
    );
}

/** Fields that are different in any two objects. */
const versionFields = ['resourceVersion', 'generation', 'observedGeneration', 'creationTimestamp', 'managedFields'];

/** A scene as it is compared: with these texts replaced, the longest ones first and patterns at last. */
export function comparable(scene: Scene, replacements: Replacements): unknown {
  const lengthOf = (text: string | RegExp) => (typeof text === 'string' ? text.length : 0);
  const text = replacements
    .toSorted(([a], [b]) => lengthOf(b) - lengthOf(a))
    .reduce((result, [from, to]) => result.replaceAll(from, to), JSON.stringify(scene));
  return keyed(JSON.parse(text));
}

/** Without the fields of versions, and with lists by what names their entries, because their order says nothing. */
function keyed(value: unknown): unknown {
  if (Array.isArray(value)) return Object.fromEntries(value.map((each, i) => [keyOf(each) ?? i, keyed(each)]));
  if (!isFields(value)) return value;
  const fields = Object.entries(value).filter(([key]) => !versionFields.includes(key));
  return Object.fromEntries(fields.map(([key, each]) => [key, keyed(each)]));
}

function keyOf(entry: unknown): string | undefined {
  if (typeof entry === 'string') return entry;
  if (!isFields(entry)) return undefined;
  const { key, type, kind, name, effect } = entry;
  return [key, type, kind, name, effect].filter((each) => typeof each === 'string').join(' ') || undefined;
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
