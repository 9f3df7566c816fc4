/** The finalizer of classes: on while somebody uses one, and off by a sweep when nothing of a deleted one is left. */

import { type ClassEvent, classEvents } from '../api/events.ts';
import { apiVersion, finalizers, resources } from '../api/gardener/names.ts';
import { machineClasses } from '../api/gardener/resources.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecorder } from '../kube/events.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import { startSweep } from '../temporal/schedules.ts';
import type { Installation } from '../temporal/workflows.ts';
import { byClass, type Watches } from './watches.ts';

export interface ClassKeeperOptions {
  readonly control: KubeClient;
  readonly events: EventRecorder;
  readonly watches: Watches;
  readonly installation: Installation;
  readonly namespace: string;
}

export interface ClassKeeper {
  /**
   * Looks at all classes, and rejects in the end if one of them could not be dealt with. A deleted one has an Event that
   * says who still names it. One for which a sweep could not do what is needed gets another, ever more seldom.
   */
  handle(): Promise<void>;
}

/** Between two sweeps for one class, ms; twice as long each time. */
const firstPauseMs = 60_000;
const maxPauseMs = 15 * 60_000;

/** How long an Event on a class that stays stands for itself, ms: API servers keep Events for an hour. */
const eventAgeMs = 30 * 60_000;

/** Objects that an Event names. */
const mostNamed = 5;

/** @param options.watches stores that are synced */
export function createClassKeeper({
  control,
  events,
  watches,
  installation,
  namespace,
}: ClassKeeperOptions): ClassKeeper {
  /** Deleted classes that nobody uses, by UID: when a sweep may be started for them again. */
  const waiting = new Map<string, { readonly notBeforeMs: number; readonly pauseMs: number }>();

  /** When it was told of a deleted class that it is in use, by UID. */
  const told = new Map<string, number>();

  /** What names a class, `<kind> <name>`. */
  function usersOf(name: string): string[] {
    const { machineDeployments, machineSets, machines } = resources;
    return [
      ...watches.deployments
        .byIndex(byClass, name)
        .map(({ metadata }) => `${machineDeployments.kind} ${metadata.name}`),
      ...watches.sets.byIndex(byClass, name).map(({ metadata }) => `${machineSets.kind} ${metadata.name}`),
      ...watches.machines.byIndex(byClass, name).map(({ metadata }) => `${machines.kind} ${metadata.name}`),
    ];
  }

  function tellInUse({ metadata: { name, uid } }: MachineClass, users: readonly string[]): void {
    const now = Date.now();
    if (now < (told.get(uid) ?? 0) + eventAgeMs) return;
    told.set(uid, now);
    const reason: ClassEvent = 'ClassInUse';
    const more = users.length > mostNamed ? ` and ${users.length - mostNamed} more` : '';
    events.record({
      regarding: { apiVersion, kind: resources.machineClasses.kind, namespace, name, uid },
      type: classEvents[reason].type,
      reason,
      note: `deleted, and stays while it is named by ${users.slice(0, mostNamed).join(', ')}${more}`,
      action: 'Release',
    });
  }

  async function protect({ metadata }: MachineClass): Promise<void> {
    const { name, resourceVersion, finalizers: present = [] } = metadata;
    const patch = mergePatch({ metadata: { resourceVersion, finalizers: [...present, finalizers.machine] } });
    await ignoreGoneOrChanged(() => control.patch(machineClasses, { namespace, name }, patch));
  }

  async function sweepFor(uid: string): Promise<void> {
    const { notBeforeMs, pauseMs } = waiting.get(uid) ?? { notBeforeMs: 0, pauseMs: firstPauseMs };
    if (Date.now() < notBeforeMs) return;
    await startSweep(installation, { dialect: 'gardener', namespace, dryRun: false }, 'classes');
    waiting.set(uid, { notBeforeMs: Date.now() + pauseMs, pauseMs: Math.min(pauseMs * 2, maxPauseMs) });
  }

  async function handleOne(machineClass: MachineClass): Promise<void> {
    const { name, deletionTimestamp } = machineClass.metadata;
    const isProtected = machineClass.metadata.finalizers?.includes(finalizers.machine) === true;
    const users = usersOf(name);
    const isUsed = users.length > 0;
    if (isUsed && !isProtected && deletionTimestamp === undefined) await protect(machineClass);
    if (!isProtected || deletionTimestamp === undefined) return;
    if (isUsed) tellInUse(machineClass, users);
    else await sweepFor(machineClass.metadata.uid);
  }

  return {
    async handle() {
      const classes = watches.classes.list();
      const present = new Set(classes.map(({ metadata }) => metadata.uid));
      for (const known of [waiting, told]) for (const uid of known.keys()) if (!present.has(uid)) known.delete(uid);
      const outcomes = await Promise.allSettled(classes.map(handleOne));
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    },
  };
}
