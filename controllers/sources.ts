/**
 * The finalizer of source objects (classes): added once a class is used, removed by a sweep when nothing is left of it.
 */

import { type SourceEvent, sourceEvents } from '../api/events.ts';
import { type KubeObject, type Resource, referenceTo } from '../api/objects.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import { startSweep } from '../temporal/schedules.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { bySource, type Change } from './watches.ts';

/** First and longest pause between two sweeps for one class, ms. Each pause is twice the one before. */
const firstPauseMs = 60_000;
const maxPauseMs = 15 * 60_000;

/** Pause between two Events on a class that is still in use, ms: API servers keep Events for an hour. */
const eventPauseMs = 30 * 60_000;

/** Objects that an Event names. */
const maxNamed = 5;

/** What was done for a deleted source. */
interface Deletion {
  readonly uid: string;
  /** When the next Event may say that it is in use, and when the next sweep may be started, by performance.now(). */
  nextEventMs: number;
  nextSweepMs: number;
  sweepPauseMs: number;
}

type SourceControllerContext = Pick<
  ControllerContext,
  'control' | 'events' | 'watches' | 'dialect' | 'installation' | 'namespace'
>;

/**
 * Keys are names of sources; none where Machines are their own source. A deleted source that is in use gets an Event
 * that names its users; one that is not gets a sweep, which removes the finalizer or reports what is left.
 */
export function createSourceController(context: SourceControllerContext): Controller {
  const { control, events, watches, dialect, installation, namespace } = context;
  const { kinds, marks, source } = dialect;
  const deletions = new Map<string, Deletion>();
  const users = [
    { kind: kinds.deployment.kind, store: watches.deployments },
    { kind: kinds.set.kind, store: watches.sets },
    { kind: kinds.machine.kind, store: watches.machines },
  ];

  function deletionOf({ metadata: { name, uid } }: KubeObject): Deletion {
    const known = deletions.get(name);
    if (known?.uid === uid) return known;
    const deletion = { uid, nextEventMs: 0, nextSweepMs: 0, sweepPauseMs: firstPauseMs };
    deletions.set(name, deletion);
    return deletion;
  }

  function reportInUse(
    resource: Resource<KubeObject>,
    { metadata: { name, uid } }: KubeObject,
    deletion: Deletion,
  ): void {
    if (performance.now() < deletion.nextEventMs) return;
    deletion.nextEventMs = performance.now() + eventPauseMs;
    const named = users.flatMap(({ kind, store }) =>
      store.byIndex(bySource, name).map(({ metadata }) => `${kind} ${metadata.name}`),
    );
    const more = named.length > maxNamed ? ` and ${named.length - maxNamed} more` : '';
    const reason: SourceEvent = 'SourceInUse';
    events.record({
      regarding: referenceTo(resource, { namespace, name, uid }),
      type: sourceEvents[reason].type,
      reason,
      note: `cannot be deleted yet: it is used by ${named.slice(0, maxNamed).join(', ')}${more}`,
      action: 'Release',
    });
  }

  async function protect(resource: Resource<KubeObject>, { metadata }: KubeObject): Promise<void> {
    const { name, resourceVersion, finalizers = [] } = metadata;
    const patch = mergePatch({ metadata: { resourceVersion, finalizers: [...finalizers, marks.finalizer] } });
    await ignoreGoneOrChanged(() => control.patch(resource, { namespace, name }, patch));
  }

  async function sweepFor(deletion: Deletion): Promise<void> {
    if (performance.now() < deletion.nextSweepMs) return;
    await startSweep(installation, { dialect: dialect.name, namespace, dryRun: false }, 'sources');
    deletion.nextSweepMs = performance.now() + deletion.sweepPauseMs;
    deletion.sweepPauseMs = Math.min(deletion.sweepPauseMs * 2, maxPauseMs);
  }

  async function handle(name: string): Promise<void> {
    const object = watches.sources.get({ namespace, name });
    if (kinds.source === undefined || object === undefined) return void deletions.delete(name);
    const isProtected = object.metadata.finalizers?.includes(marks.finalizer) === true;
    const isUsed = users.some(({ store }) => store.has(bySource, name));
    if (object.metadata.deletionTimestamp === undefined) {
      if (isUsed && !isProtected) await protect(kinds.source, object);
    } else if (isProtected) {
      const deletion = deletionOf(object);
      if (isUsed) reportInUse(kinds.source, object, deletion);
      else await sweepFor(deletion);
    }
  }

  /** The source of a user, and the one that it named before. */
  const namedBy = (change: Change) =>
    [change.object, ...(change.kind === 'updated' ? [change.previous] : [])].flatMap(
      (object) => source.nameOf(object) ?? [],
    );

  return {
    queue: 'sources',
    hears: {
      machines: namedBy,
      sets: namedBy,
      deployments: namedBy,
      sources: ({ object }) => [object.metadata.name],
    },
    delayMs: 500,
    keys: () => watches.sources.list().map(({ metadata }) => metadata.name),
    handle,
    resync: handle,
  };
}
