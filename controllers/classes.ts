/** The finalizer of classes: on while somebody uses one, and off by a sweep when nothing of a deleted one is left. */
import type { MachineClass } from '../api/gardener/machine-class.ts';
import { finalizers } from '../api/gardener/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { machineClasses } from '../kube/gardener.ts';
import { mergePatch } from '../kube/patch.ts';
import { unlessChanged } from '../kube/update.ts';
import { startSweep } from '../temporal/schedules.ts';
import type { Installation } from '../temporal/workflows.ts';
import { byClass, type Watches } from './watches.ts';

export interface ClassKeeperOptions {
  readonly control: KubeClient;
  readonly watches: Watches;
  readonly installation: Installation;
  readonly namespace: string;
}

export interface ClassKeeper {
  /**
   * Looks at all classes, and rejects in the end if one of them could not be dealt with. A deleted one for which a sweep
   * could not do what is needed gets another, ever more seldom.
   */
  handle(): Promise<void>;
}

/** Between two sweeps for one class, ms; twice as long each time. */
const firstPauseMs = 60_000;
const maxPauseMs = 15 * 60_000;

/** @param options.watches stores that are synced */
export function createClassKeeper({ control, watches, installation, namespace }: ClassKeeperOptions): ClassKeeper {
  /** Deleted classes that nobody uses, by UID: when a sweep may be started for them again. */
  const waiting = new Map<string, { readonly notBeforeMs: number; readonly pauseMs: number }>();

  function isUsed(name: string): boolean {
    const { machines, sets, deployments } = watches;
    return [machines, sets, deployments].some((store) => store.byIndex(byClass, name).length > 0);
  }

  async function protect({ metadata }: MachineClass): Promise<void> {
    const { name, resourceVersion, finalizers: present = [] } = metadata;
    const patch = mergePatch({ metadata: { resourceVersion, finalizers: [...present, finalizers.machine] } });
    await unlessChanged(() => control.patch(machineClasses, { namespace, name }, patch));
  }

  async function sweepFor(uid: string): Promise<void> {
    const { notBeforeMs, pauseMs } = waiting.get(uid) ?? { notBeforeMs: 0, pauseMs: firstPauseMs };
    if (Date.now() < notBeforeMs) return;
    await startSweep(installation, { dialect: 'gardener', namespace, dryRun: false });
    waiting.set(uid, { notBeforeMs: Date.now() + pauseMs, pauseMs: Math.min(pauseMs * 2, maxPauseMs) });
  }

  async function handleOne(machineClass: MachineClass): Promise<void> {
    const { name, deletionTimestamp } = machineClass.metadata;
    const isProtected = machineClass.metadata.finalizers?.includes(finalizers.machine) === true;
    const used = isUsed(name);
    if (used && !isProtected && deletionTimestamp === undefined) await protect(machineClass);
    if (!used && isProtected && deletionTimestamp !== undefined) await sweepFor(machineClass.metadata.uid);
  }

  return {
    async handle() {
      const classes = watches.classes.list();
      const present = new Set(classes.map(({ metadata }) => metadata.uid));
      for (const uid of waiting.keys()) if (!present.has(uid)) waiting.delete(uid);
      const outcomes = await Promise.allSettled(classes.map(handleOne));
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    },
  };
}
