/** The controllers: watches, and what follows from them. Of all replicas one acts; the others only watch. */
import { hostname } from 'node:os';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { KubeObject } from '../api/objects.ts';
import { controllerOf } from '../api/owner/view.ts';
import type { KubeClient } from '../kube/client.ts';
import { createEventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';
import type { StoreEvent } from '../kube/store.ts';
import { ensureSweepSchedule } from '../temporal/schedules.ts';
import { type Installation, requestRefresh, type WorkflowKind, workflowId } from '../temporal/workflows.ts';
import { createClassKeeper } from './classes.ts';
import { createCountsWriter } from './counts.ts';
import { createMachineWaker } from './machines.ts';
import { keyOf, refOf } from './objects.ts';
import { createOwnerWaker, isKnownLone, ownerOf } from './owners.ts';
import { createQueue } from './queue.ts';
import { createStraySearch } from './strays.ts';
import { byClass, byController, byNode, bySecret, startWatches } from './watches.ts';

export interface ControllersOptions {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly installation: Installation;
  /** Namespace of the control cluster whose machines are looked after. */
  readonly namespace: string;
  readonly defaults: MachineLimits;
  /** How often clouds are swept for what has no Machine; 0: only on demand. */
  readonly sweepPeriodSeconds: number;
  /** Resolves when we are the one that acts. Until then caches are filled, and nothing is written or sent. */
  readonly leading: Promise<void>;
  readonly logger: Logger;
  /** How often everything that needs attention is looked at without an event, ms. Default: 60 s. */
  readonly resyncMs?: number;
}

export interface Controllers {
  /** What is not ready yet to act, or to take over; empty when everything is. */
  missing(): string[];
  stop(): Promise<void>;
}

type Change = Exclude<StoreEvent<KubeObject>, { kind: 'synced' }>;

/** A workflow that is about to end by itself gets this long before it is told to look, ms. */
const lookDelayMs = 2_000;

/** Starts to watch and to wake. Until everything is known once, and while another one acts, nothing is done. */
export function startControllers(options: ControllersOptions): Controllers {
  const { control, namespace, logger, installation, defaults, leading, resyncMs = 60_000 } = options;
  const watches = startWatches({ ...options, onEvent: (kind, event) => dispatch(kind, event) });
  const look = (id: string) => looks.add(id);
  const idOf = (kind: WorkflowKind, object: KubeObject) => workflowId(installation.name, kind, refOf(object));
  const lookAt = (kind: WorkflowKind, object: KubeObject) => look(idOf(kind, object));
  const machineWaker = createMachineWaker({ watches, installation, defaults, look });
  const ownerWaker = createOwnerWaker({ watches, installation, look });
  const writeCounts = createCountsWriter(control, watches);
  const events = createEventRecorder({
    client: control,
    controller: 'millwright',
    instance: hostname().slice(0, 128),
    logger,
  });
  const classKeeper = createClassKeeper({ control, events, watches, installation, namespace });
  const queue = (handle: (key: string) => Promise<void>, delayMs: number, concurrency = 20) =>
    createQueue({ handle, concurrency, delayMs, logger });
  const machineQueue = queue(machineWaker.handle, 0);
  const ownerQueue = queue(ownerWaker.handle, 100);
  const countsQueue = queue(writeCounts, 250);
  const machineRechecks = queue(machineWaker.recheck, 0, 5);
  const ownerRechecks = queue(ownerWaker.recheck, 0, 5);
  const classQueue = queue(classKeeper.handle, 500, 1);
  const sweepSchedule = { namespace, periodSeconds: options.sweepPeriodSeconds };
  const scheduleQueue = queue(() => ensureSweepSchedule(installation, sweepSchedule), 0, 1);
  const straySearch = queue(createStraySearch({ watches, installation, look }), lookDelayMs, 1);
  const looks = queue((id) => requestRefresh(installation, id), lookDelayMs, 5);
  let isStarted = false;
  let wasRestored = false;

  function dispatch(kind: string, event: StoreEvent<KubeObject>): void {
    if (event.kind === 'synced') wasRestored ||= event.isRestored;
    if (!isStarted) return;
    if (event.kind === 'synced') {
      if (wasRestored) lookAtEverything();
      else if (kind === 'Node') wake(watches.machines.list()); // until now all Nodes were unknown
      return;
    }
    if (kind !== 'Node' && kind !== 'Secret') classQueue.add('all');
    const { metadata } = event.object;
    switch (kind) {
      case 'Machine':
        machineQueue.add(keyOf(event.object));
        // Most have let it go themselves and end. One that has not would wait for ever.
        if (event.kind === 'deleted') lookAt('Machine', event.object);
        return tellOwners(event);
      case 'MachineSet':
        return tellOwners(event);
      case 'MachineDeployment':
        tellOwners(event);
        // Should it be gone, its sets have to look after themselves.
        for (const set of watches.sets.byIndex(byController, metadata.uid)) ownersOf(set);
        return;
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
    for (const machine of machines) machineQueue.add(keyOf(machine));
  }

  /** Whoever counts an object or decides about it: itself, its controller and the deployment above. */
  function ownersOf(object: KubeObject): void {
    const { uid } = object.metadata;
    const parent = controllerOf(object) ?? uid;
    for (const each of new Set([uid, parent, ownerOf(watches, parent)])) {
      ownerQueue.add(each);
      countsQueue.add(each);
    }
  }

  function tellOwners(event: Change): void {
    ownersOf(event.object);
    if (event.kind === 'updated' && controllerOf(event.previous) !== controllerOf(event.object))
      ownersOf(event.previous); // somebody has adopted it or let it go
  }

  function wakeEverything(): void {
    wake(watches.machines.list());
    for (const object of [...watches.sets.list(), ...watches.deployments.list()]) ownersOf(object);
  }

  /** After a restore from a backup: statuses, identities and finalizers may be older than what the workflows know. */
  function lookAtEverything(): void {
    wasRestored = false;
    logger.warn({ namespace, machines: watches.machines.size }, 'a cluster was set back: all workflows look live');
    machineWaker.forget();
    ownerWaker.forget();
    for (const machine of watches.machines.list()) lookAt('Machine', machine);
    for (const deployment of watches.deployments.list()) lookAt('MachineDeployment', deployment);
    for (const set of watches.sets.list()) if (isKnownLone(watches, set)) lookAt('MachineSet', set);
    wakeEverything();
  }

  async function begin(): Promise<void> {
    await Promise.all([leading, watches.waitForSync()]);
    isStarted = true;
    if (wasRestored) lookAtEverything();
    else wakeEverything();
    straySearch.add('open workflows');
    classQueue.add('all');
    scheduleQueue.add('orphan sweep');
    logger.info({ namespace, machines: watches.machines.size }, 'controllers started');
  }

  const resync = setInterval(() => {
    if (!isStarted) return;
    for (const machine of watches.machines.list()) machineRechecks.add(keyOf(machine));
    for (const { metadata } of [...watches.deployments.list(), ...watches.sets.list()]) ownerRechecks.add(metadata.uid);
    classQueue.add('all');
    scheduleQueue.add('orphan sweep'); // Temporal's database may have been lost
    straySearch.add('open workflows');
  }, resyncMs);
  begin().catch((err: unknown) => logger.debug({ err }, 'controllers stopped before they had started'));

  return {
    missing: watches.missing,
    async stop() {
      clearInterval(resync);
      await watches.stop();
      const queues = [machineQueue, ownerQueue, countsQueue, machineRechecks, ownerRechecks, straySearch, looks];
      queues.push(classQueue, scheduleQueue);
      await Promise.all(queues.map((each) => each.stop()));
      await events.flush();
    },
  };
}
