/** The controllers: watches, and what follows from them. Of all replicas one acts; the others only watch. */
import type { Machine } from '../api/gardener/machine.ts';
import { controllerOf } from '../api/gardener/owner.ts';
import type { MachineLimits } from '../api/model.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Logger } from '../kube/logger.ts';
import type { StoreEvent } from '../kube/store.ts';
import type { KubeObject } from '../kube/types.ts';
import type { Installation } from '../temporal/workflows.ts';
import { createCountsWriter } from './counts.ts';
import { createMachineWaker } from './machines.ts';
import { createOwnerWaker, ownerOf } from './owners.ts';
import { createQueue } from './queue.ts';
import { byClass, byNode, bySecret, startWatches } from './watches.ts';

export interface ControllersOptions {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly installation: Installation;
  /** Namespace of the control cluster whose machines are looked after. */
  readonly namespace: string;
  readonly defaults: MachineLimits;
  /** Resolves when we are the one that acts. Until then caches are filled, and nothing is written or sent. */
  readonly leading: Promise<void>;
  readonly logger: Logger;
}

export interface Controllers {
  /** What is not ready yet to act, or to take over; empty when everything is. */
  missing(): string[];
  stop(): Promise<void>;
}

/** How often everything that needs attention is looked at without an event, ms. */
const resyncMs = 60_000;

/** Starts to watch and to wake. Until everything is known once, and while another one acts, nothing is done. */
export function startControllers(options: ControllersOptions): Controllers {
  const { control, namespace, logger, installation, defaults, leading } = options;
  const watches = startWatches({ ...options, onEvent: (kind, event) => dispatch(kind, event) });
  const machineWaker = createMachineWaker({ watches, installation, defaults });
  const ownerWaker = createOwnerWaker({ watches, installation });
  const writeCounts = createCountsWriter(control, watches);
  const queue = (handle: (key: string) => Promise<void>, delayMs: number) =>
    createQueue({ handle, concurrency: 20, delayMs, logger });
  const machineQueue = queue(machineWaker.handle, 0);
  const ownerQueue = queue(ownerWaker.handle, 100);
  const countsQueue = queue(writeCounts, 250);
  let isStarted = false;

  function dispatch(kind: string, event: StoreEvent<KubeObject>): void {
    if (!isStarted || event.kind === 'synced') return;
    const { metadata } = event.object;
    switch (kind) {
      case 'Machine':
        machineQueue.add(`${metadata.namespace}/${metadata.name}`);
        return ownersOf(event.object);
      case 'MachineSet':
      case 'MachineDeployment':
        return ownersOf(event.object);
      case 'Node':
        return wake(watches.machines.byIndex(byNode, metadata.name));
      case 'MachineClass':
        return wake(watches.machines.byIndex(byClass, metadata.name));
      case 'Secret':
        for (const machineClass of watches.classes.byIndex(bySecret, metadata.name)) {
          wake(watches.machines.byIndex(byClass, machineClass.metadata.name));
        }
    }
  }

  function wake(machines: readonly Machine[]): void {
    for (const { metadata } of machines) machineQueue.add(`${metadata.namespace}/${metadata.name}`);
  }

  /** The object, its controller and the deployment above: whoever counts it or decides about it. */
  function ownersOf(object: KubeObject): void {
    const { uid } = object.metadata;
    const parent = controllerOf(object);
    const top = ownerOf(watches, parent ?? uid);
    ownerQueue.add(top);
    for (const each of new Set([uid, parent ?? uid, top])) countsQueue.add(each);
  }

  async function begin(): Promise<void> {
    await Promise.all([leading, watches.waitForSync()]);
    isStarted = true;
    wake(watches.machines.list());
    for (const object of [...watches.sets.list(), ...watches.deployments.list()]) ownersOf(object);
    logger.info({ namespace, machines: watches.machines.size }, 'controllers started');
  }

  const resync = setInterval(() => {
    if (!isStarted) return;
    Promise.all([machineWaker.resync(), ownerWaker.resync()]).catch((err: unknown) =>
      logger.warn({ err }, 'looking at everything that needs attention failed'),
    );
  }, resyncMs);
  begin().catch((err: unknown) => logger.debug({ err }, 'controllers stopped before they had started'));

  return {
    missing: watches.missing,
    async stop() {
      clearInterval(resync);
      await watches.stop();
      await Promise.all([machineQueue.stop(), ownerQueue.stop(), countsQueue.stop()]);
    },
  };
}
