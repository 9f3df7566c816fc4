/** The finalizer of classes: added once a class is used, removed by a sweep when nothing of a deleted class is left. */

import { type ClassEvent, classEvents } from '../api/events.ts';
import { apiVersion, finalizers } from '../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import { startSweep } from '../temporal/schedules.ts';
import type { Change, Controller, ControllerContext } from './controller.ts';
import { byClass, classOf } from './watches.ts';

/** First and longest pause between two sweeps for one class, ms. Each pause is twice the one before. */
const firstPauseMs = 60_000;
const maxPauseMs = 15 * 60_000;

/** Pause between two Events on a class that is still in use, ms: API servers keep Events for an hour. */
const eventPauseMs = 30 * 60_000;

/** Objects that an Event names. */
const maxNamed = 5;

/** What was done for a deleted class. */
interface Deletion {
  readonly uid: string;
  /** When the next Event may say that it is in use, and when the next sweep may be started. */
  nextEventMs: number;
  nextSweepMs: number;
  sweepPauseMs: number;
}

type ClassControllerContext = Pick<ControllerContext, 'control' | 'events' | 'watches' | 'installation' | 'namespace'>;

/**
 * Keys are names of classes. A deleted class that is in use gets an Event that names its users; one that is not gets a
 * sweep, which removes the finalizer or reports what is left.
 */
export function createClassController(context: ClassControllerContext): Controller {
  const { control, events, watches, installation, namespace } = context;
  const deletions = new Map<string, Deletion>();
  const users = [
    { kind: machineDeployments.kind, store: watches.deployments },
    { kind: machineSets.kind, store: watches.sets },
    { kind: machines.kind, store: watches.machines },
  ];

  function deletionOf({ metadata: { name, uid } }: MachineClass): Deletion {
    const known = deletions.get(name);
    if (known?.uid === uid) return known;
    const deletion = { uid, nextEventMs: 0, nextSweepMs: 0, sweepPauseMs: firstPauseMs };
    deletions.set(name, deletion);
    return deletion;
  }

  function reportInUse({ metadata: { name, uid } }: MachineClass, deletion: Deletion): void {
    if (Date.now() < deletion.nextEventMs) return;
    deletion.nextEventMs = Date.now() + eventPauseMs;
    const named = users.flatMap(({ kind, store }) =>
      store.byIndex(byClass, name).map(({ metadata }) => `${kind} ${metadata.name}`),
    );
    const more = named.length > maxNamed ? ` and ${named.length - maxNamed} more` : '';
    const reason: ClassEvent = 'ClassInUse';
    events.record({
      regarding: { apiVersion, kind: machineClasses.kind, namespace, name, uid },
      type: classEvents[reason].type,
      reason,
      note: `cannot be deleted yet: it is used by ${named.slice(0, maxNamed).join(', ')}${more}`,
      action: 'Release',
    });
  }

  async function protect({ metadata }: MachineClass): Promise<void> {
    const { name, resourceVersion, finalizers: present = [] } = metadata;
    const patch = mergePatch({ metadata: { resourceVersion, finalizers: [...present, finalizers.machine] } });
    await ignoreGoneOrChanged(() => control.patch(machineClasses, { namespace, name }, patch));
  }

  async function sweepFor(deletion: Deletion): Promise<void> {
    if (Date.now() < deletion.nextSweepMs) return;
    await startSweep(installation, { dialect: 'gardener', namespace, dryRun: false }, 'classes');
    deletion.nextSweepMs = Date.now() + deletion.sweepPauseMs;
    deletion.sweepPauseMs = Math.min(deletion.sweepPauseMs * 2, maxPauseMs);
  }

  async function handle(name: string): Promise<void> {
    const machineClass = watches.classes.get({ namespace, name });
    if (machineClass === undefined) return void deletions.delete(name);
    const isProtected = machineClass.metadata.finalizers?.includes(finalizers.machine) === true;
    const isUsed = users.some(({ store }) => store.has(byClass, name));
    if (machineClass.metadata.deletionTimestamp === undefined) {
      if (isUsed && !isProtected) await protect(machineClass);
    } else if (isProtected) {
      const deletion = deletionOf(machineClass);
      if (isUsed) reportInUse(machineClass, deletion);
      else await sweepFor(deletion);
    }
  }

  /** The class of a user, and the one that it named before. */
  const namedBy = (change: Change) =>
    [change.object, ...(change.kind === 'updated' ? [change.previous] : [])].map(classOf);

  return {
    hears: {
      machines: namedBy,
      sets: namedBy,
      deployments: namedBy,
      classes: ({ object }) => [object.metadata.name],
    },
    delayMs: 500,
    keys: () => watches.classes.list().map(({ metadata }) => metadata.name),
    handle,
    resync: handle,
  };
}
