/** The controllers of an installation. Of all replicas one acts; the others only watch. */
import { hostname } from 'node:os';
import { dialectOf } from '../api/dialects.ts';
import type { MachineChange, WatchedObjects } from '../api/metrics.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import { canHaveWorkers } from '../api/names.ts';
import type { KubeObject } from '../api/objects.ts';
import type { FreezeLimits } from '../api/owner/freeze.ts';
import { deploymentOf } from '../api/owner/ownership.ts';
import type { KubeClient } from '../kube/client.ts';
import { createEventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';
import { type Installation, requestRefresh } from '../temporal/workflows.ts';
import { createBrokenRunController } from './broken-runs.ts';
import { type ControllerContext, type ObserveQueue, runController } from './controller.ts';
import { createCountsController } from './counts.ts';
import { createFreezeController } from './freeze.ts';
import { withKeptWrites } from './kept-writes.ts';
import { createLimitController } from './limits.ts';
import { createMachineController } from './machines.ts';
import { createNodeController } from './nodes.ts';
import { createOwnerController } from './owners.ts';
import { createQueue } from './queue.ts';
import { createRolloutMarkController } from './rollout-marks.ts';
import { createInterruptionScheduleController, createSweepScheduleController } from './schedules.ts';
import { createSecretController } from './secrets.ts';
import { createSourceCheckController } from './source-checks.ts';
import { createSourceController } from './sources.ts';
import { createStaleWorkflowFinder } from './stale-workflows.ts';
import { byUid, type Change, type ObserveWatch, startWatches, type Watches } from './watches.ts';

/** Each is a file of its own; the order does not matter. */
const controllers = [
  createMachineController,
  createOwnerController,
  createLimitController,
  createCountsController,
  createFreezeController,
  createRolloutMarkController,
  createSourceController,
  createSecretController,
  createNodeController,
  createSourceCheckController,
  createSweepScheduleController,
  createInterruptionScheduleController,
  createStaleWorkflowFinder,
  createBrokenRunController,
];

export interface ControllersOptions {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly installation: Installation;
  /** Name of the API of its machines, as in api/dialects.ts. */
  readonly dialect: string;
  /** Namespace of the control cluster whose machines are managed. */
  readonly namespace: string;
  readonly defaults: MachineLimits;
  /** How often clouds are swept for resources without a Machine; 0: only on demand. */
  readonly sweepPeriodSeconds: number;
  /** How often clouds are asked for VMs that they are about to take away, where they may take any; 0: never. */
  readonly interruptionPeriodSeconds: number;
  /** Default: as in machine-controller-manager, 2 machines up and 1 down. */
  readonly freezeLimits?: FreezeLimits;
  /** How long a set that a person has thawed is not frozen again unless a machine is added, ms. Default: 60 000. */
  readonly thawedMs?: number;
  /** Whether the cluster autoscaler leaves the Nodes of a deployment alone while it rolls out. Default: true. */
  readonly keepsAutoscalerAway?: boolean;
  /** How long the API server of the Nodes may not answer until that is an outage, ms. Default: 30 000. */
  readonly outageMs?: number;
  /** Resolves when this process is the one that acts. Until then caches are filled, and nothing is written or sent. */
  readonly leading: Promise<void>;
  /** Called for each change of a Machine that existed before. */
  readonly onMachineChange?: (change: MachineChange) => void;
  /** Called with the type of a workflow whose run was ended, and followed by another one. */
  readonly onRunReplaced?: (workflowType: string) => void;
  readonly observeQueue?: ObserveQueue;
  readonly observeWatch?: ObserveWatch;
  readonly logger: Logger;
  /** Time between two resyncs, ms; every tenth lists all open workflows. Default: 60 000. */
  readonly resyncMs?: number;
}

export interface Controllers {
  /** What is watched, also while these controllers stand by. */
  readonly watches: Pick<Watches, 'machines' | 'sets' | 'deployments' | 'sources' | 'secrets' | 'nodes'>;
  /** The providers that the watched sources name. */
  providers(): Promise<readonly string[]>;
  /** What is watched, once everything is listed and these controllers act: no other replica shows the same. */
  objects(): WatchedObjects | undefined;
  /** What is not ready yet to act, or to take over; empty when everything is. */
  missing(): string[];
  stop(): Promise<void>;
}

/** A workflow that is about to end by itself gets this long before it is refreshed, ms. */
const refreshDelayMs = 2_000;

/** Starts the watches. The controllers act once everything is listed and `leading` has resolved. */
export function startControllers(options: ControllersOptions): Controllers {
  const { control, installation, namespace, leading, logger, observeQueue, resyncMs = 60_000 } = options;
  const events = createEventRecorder({
    client: control,
    controller: 'millwright',
    instance: hostname().slice(0, 128),
    logger,
  });
  const refresh = (id: string) => requestRefresh(installation, id);
  const refreshes = createQueue({
    ...{ handle: refresh, concurrency: 5, delayMs: refreshDelayMs, logger },
    observer: observeQueue?.(() => 'refreshes'),
  });
  let isStarted = false;
  let isRestored = false;

  const dialect = dialectOf(options.dialect);
  const watches = startWatches({
    ...options,
    dialect,
    onChange(kind, change) {
      if (!isStarted) return;
      for (const each of running) each.onChange(kind, change);
      if (kind === 'machines' && change.kind !== 'added') noteMachine(change);
    },
    onListed(kind, afterRestore) {
      isRestored ||= afterRestore;
      if (!isStarted) return;
      if (isRestored) onRestored();
      else for (const each of running) each.onListed(kind);
    },
  });
  function noteMachine({ kind, object, previous }: Exclude<Change, { kind: 'added' }>): void {
    const key = { namespace, name: dialect.source.nameOf(object) ?? '' };
    const source = watches.sources.get(key);
    const deployment = deploymentOf(dialect, object, (uid) => watches.sets.byIndex(byUid, uid)[0]);
    const isGone = kind === 'deleted';
    options.onMachineChange?.({ object, previous, source, deployment, isGone, nowMs: Date.now() });
  }

  const context: ControllerContext = {
    freezeLimits: { safetyUp: 2, safetyDown: 1 },
    keepsAutoscalerAway: true,
    thawedMs: 60_000,
    ...options,
    control: withKeptWrites(control, logger),
    target: withKeptWrites(options.target, logger),
    dialect,
    watches,
    resyncMs,
    events,
    refresh: refreshes.add,
  };
  const running = controllers.map((create) => runController(create(context), logger, observeQueue));

  function onRestored(): void {
    isRestored = false;
    const message = 'a cluster was restored from a backup: all workflows read their objects again';
    logger.warn({ namespace, machines: watches.machines.size }, message);
    for (const each of running) each.onRestored();
  }

  async function start(): Promise<void> {
    await Promise.all([leading, watches.waitForSync()]);
    isStarted = true;
    if (isRestored) onRestored();
    else for (const each of running) each.handleAll();
    logger.info({ namespace, machines: watches.machines.size }, 'controllers started');
  }

  start().catch((err: unknown) => logger.debug({ err }, 'controllers stopped before they had started'));
  const resync = setInterval(() => {
    if (isStarted) for (const each of running) each.resync();
  }, resyncMs);

  return {
    watches,
    async providers() {
      const watched = dialect.kinds.source === undefined ? watches.machines : watches.sources;
      // It asks for its own sources alone.
      const list = async <T extends KubeObject>() => watched.list() as readonly KubeObject[] as readonly T[];
      const named = (await dialect.source.list(list)).map(({ provider }) => provider);
      return [...new Set(named)].filter((provider) => canHaveWorkers(installation.name, provider));
    },
    objects() {
      const { machines, sets, deployments, nodes } = watches;
      return isStarted
        ? { machines: machines.list(), sets: sets.list(), deployments: deployments.list(), isFrozen: !nodes.reachable }
        : undefined;
    },
    missing: watches.missing,
    async stop() {
      clearInterval(resync);
      await watches.stop();
      await Promise.all([...running, refreshes].map((each) => each.stop()));
      await events.flush();
    },
  };
}
