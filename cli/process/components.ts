/** The components of `run`, `controllers` and `worker`. */
import { Client, type Connection, type ConnectionLike } from '@temporalio/client';
import type { MachineLimits } from '../../api/model/machine.ts';
import { drainTaskQueue, providerTaskQueue } from '../../api/names.ts';
import { startControllers } from '../../controllers/main.ts';
import type { Logger } from '../../kube/logger.ts';
import { listBlocked } from '../../temporal/blocked.ts';
import {
  type ClusterCheck,
  findClusterId,
  refuseOtherClusters,
  showControllers,
  watchForOtherClusters,
} from '../../temporal/clusters.ts';
import { connectClient } from '../../temporal/connection.ts';
import { keepConnected } from '../../temporal/live-connection.ts';
import { findLastSweep } from '../../temporal/past-sweeps.ts';
import { untilTemporalAnswers } from '../../temporal/patience.ts';
import { startPausableWorkers } from '../../temporal/pausable-workers.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { readBacklog } from '../../temporal/task-queues.ts';
import { startWorkers } from '../../temporal/worker.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { dataConverterOf } from '../data-converter.ts';
import { dialect, dialectName } from '../dialect.ts';
import type {
  controllersFlags,
  kubeconfigFlags,
  leaderFlags,
  machineFlags,
  serverFlags,
  workersFlags,
} from '../flag-groups.ts';
import { startFleetPage } from '../fleet-page/server.ts';
import type { Options } from '../options.ts';
import { hasNoTarget } from '../servers.ts';
import { sharedSettings } from '../shared-settings.ts';
import { temporalServer } from '../temporal-server.ts';
import { watchBlocked } from './blocked.ts';
import { type Backlog, countChanges, showStanding } from './controller-metrics.ts';
import { leasesForWorkers, startLeadership } from './election.ts';
import { watchLastSweep } from './last-sweep.ts';
import { observeQueues, observeWatches } from './queue-metrics.ts';
import type { Component, ComponentDeps } from './serve.ts';
import { countFailedRuns, countWork, showPauses } from './worker-metrics.ts';

/** Starts the controllers, with their own connection to Temporal. They act once they lead. */
export async function startControllersComponent(
  options: Options<(typeof serverFlags | typeof controllersFlags | typeof leaderFlags)[number]>,
  deps: ComponentDeps,
): Promise<Component> {
  const { control, target, logger } = deps;
  const installation = options.installation ?? options.namespace;
  const { namespace: temporalNamespace } = temporalServer(options);
  const { stopping } = deps;
  const dataConverter = dataConverterOf(options, warnOf(logger));
  const live = await keepConnected({
    readServer: () => temporalServer(options),
    open: connectClient,
    stopping,
    logger,
  });
  const { connection } = live;
  const endWatch = deps.temporal.watch(live);
  const clusterId = await findClusterId(control, options.namespace, logger);
  const settings = sharedSettings(options, deps);
  const check = { namespace: temporalNamespace, installation, clusterId, settings };
  await prepareTemporal(connection, check, deps);
  const client = new Client({ connection, namespace: temporalNamespace, dataConverter });
  const leadership = startLeadership(options, deps);
  const sweepPeriodSeconds = options.machineSafetyOrphanVmsPeriod;
  const lastSweep = watchLastSweep(() => findLastSweep({ client, name: installation }));
  const countFailedRun = countFailedRuns(deps.registry);
  const controllers = startControllers({
    control,
    target,
    installation: { client, name: installation, cluster: clusterId },
    dialect: dialectName,
    namespace: options.namespace,
    defaults: machineLimits(options, deps),
    sweepPeriodSeconds,
    interruptionPeriodSeconds: options.interruptionCheckPeriod,
    freezeLimits: { safetyUp: options.safetyUp, safetyDown: options.safetyDown },
    keepsAutoscalerAway: options.autoscalerScaledownAnnotationDuringRollout,
    thawedMs: options.machineSafetyOvershootingPeriod * 1_000,
    outageMs: options.machineSafetyApiserverStatuscheckTimeout * 1_000,
    leading: leadership.leading,
    onMachineChange: countChanges(deps.registry, dialect, () => controllers.objects()),
    onRunReplaced: (type) => countFailedRun(type, 'WorkflowTask'),
    observeQueue: observeQueues(deps.registry),
    observeWatch: observeWatches(deps.registry),
    logger,
  });
  showStanding(deps.registry, dialect, {
    isLeader: leadership.isLeader,
    countScrapeFailure: deps.countScrapeFailure,
    objects: controllers.objects,
    blocked: watchBlocked(() => listBlocked({ client, name: installation })),
    sweeps: sweepPeriodSeconds > 0 ? lastSweep : async () => [],
    sweepPeriodSeconds,
    backlogs: () => readBacklogs(connection, temporalNamespace, installation, controllers.providers),
  });
  const { address, fleetPort: port, allowedHosts, temporalUi } = options;
  const page =
    port === undefined
      ? undefined
      : await startFleetPage({
          ...{ address, port, allowedHosts, temporalUi, control, logger },
          watches: controllers.watches,
          installation: { client, name: installation },
          namespace: options.namespace,
        });
  const otherClusters = watchForOtherClusters(connection, check, {
    control,
    namespace: options.namespace,
    show: () => showControllers(connection, check),
    logger,
  });
  return {
    missing: () => [...leadership.missing(), ...controllers.missing()],
    details: leadership.details,
    failed: otherClusters.found,
    async stop() {
      otherClusters.stop();
      await page?.close();
      await controllers.stop();
      // Last: nothing acts any more.
      await leadership.stop();
      endWatch();
      await live.close();
    },
  };
}

/** Longest question for the backlogs of a scrape, ms. */
const backlogMs = 2_000;

async function readBacklogs(
  connection: Connection,
  namespace: string,
  installation: string,
  listProviders: () => Promise<readonly string[]>,
): Promise<Backlog[]> {
  const providers = await listProviders();
  const queues = [
    { queue: installation, kind: 'workflow' },
    { queue: installation, kind: 'activity' },
    { queue: drainTaskQueue(installation), kind: 'activity' },
    ...providers.map((provider) => ({ queue: providerTaskQueue(installation, provider), kind: 'activity' as const })),
  ] as const;
  return connection.withDeadline(Date.now() + backlogMs, () =>
    Promise.all(
      queues.map(async ({ queue, kind }) => {
        const count = await readBacklog(connection, namespace, queue, kind);
        return { installation, queue, kind, count };
      }),
    ),
  );
}

/** How long a sweep waits for approval, s: a day, so that somebody is at work. */
const approvalSeconds = 24 * 3_600;

/** Starts the workers, with their own connection to Temporal. */
export async function startWorkersComponent(
  options: Options<(typeof serverFlags | typeof workersFlags)[number]>,
  deps: ComponentDeps,
): Promise<Component> {
  const { control, target, logger, registry } = deps;
  const installation = options.installation ?? options.namespace;
  const { namespace: temporalNamespace } = temporalServer(options);
  const dataConverter = dataConverterOf(options, warnOf(logger));
  const live = await keepConnected({
    readServer: () => temporalServer(options),
    open: (server) => connectWorkers(server, logger),
    stopping: deps.stopping,
    logger,
  });
  const { connection } = live;
  const endWatch = deps.temporal.watch(live);
  const clusterId = await findClusterId(control, options.namespace, logger);
  const settings = sharedSettings(options, deps);
  const check = { namespace: temporalNamespace, installation, clusterId, settings };
  await prepareTemporal(connection, check, deps);
  const workersOptions = {
    connection,
    live,
    namespace: temporalNamespace,
    dataConverter,
    installation,
    clusterId,
    settings,
    control,
    machineNamespace: options.namespace,
    target,
    defaults: machineLimits(options, deps),
    maxCachedWorkflows: options.maxCachedWorkflows,
    fastSandbox: options.fastWorkflowSandbox,
    bootstrapTokenExtraGroups: options.bootstrapTokenAuthExtraGroups,
    sweep: {
      confirmAfterSeconds: options.orphanConfirmAfter,
      minimumAgeSeconds: options.orphanMinimumAge,
      brakeCount: options.orphanBrakeCount,
      brakeRate: options.orphanBrakeRate,
      approvalSeconds,
    },
    ...countWork(registry),
    volumes: {
      detachMs: options.machinePvDetachTimeout * 1_000,
      reattachMs: options.machinePvReattachTimeout * 1_000,
      isSerial: options.serialVolumeDrain,
    },
    drainStuckAfterMs: options.drainStuckAfter * 1_000,
    keepsAutoscalerAway: options.autoscalerScaledownAnnotationDuringRollout,
    mostReplacing: options.maxHealthReplacements,
    outagePercent: options.outageShare,
    providers: options.providers,
    defaultCredentials: options.defaultCredentials,
    tokenFolder: options.tokenFolder,
    logger,
  };
  const leases = leasesForWorkers(options, deps);
  const workers = await startPausableWorkers({
    ...leases,
    start: (refusal) => startWorkers({ ...workersOptions, refusal }),
    logger,
  });
  showPauses(registry, workers.isPaused);
  const otherClusters = watchForOtherClusters(connection, check, {
    control,
    namespace: options.namespace,
    logger,
  });
  const failed = Promise.race([workers.failed, otherClusters.found]);
  failed.catch(() => undefined); // not unhandled; later readers still get it
  return {
    missing: workers.missing,
    failed,
    async stop() {
      otherClusters.stop();
      await workers.stop();
      await leases.close();
      endWatch();
      await live.close();
    },
  };
}

/** Logs that keys which have changed cannot be used. */
function warnOf(logger: Logger): (err: unknown) => void {
  return (err) => logger.warn({ err }, 'cannot use the changed codec keys: the old ones stay in use');
}

/** What has to be so before anything works; waits while Temporal is away. */
async function prepareTemporal(
  connection: ConnectionLike,
  check: ClusterCheck,
  { stopping, logger }: ComponentDeps,
): Promise<void> {
  const prepare = async () => {
    await refuseOtherClusters(connection, check);
    await ensureSearchAttributes(connection, check.namespace);
  };
  await untilTemporalAnswers(prepare, { stopping, logger });
}

/** By how much the clocks of two clusters may differ, s. Kubernetes backdates certificates by as much. */
const clockSkewSeconds = 300;

/** The limits of machines that have none of their own. Workers and controllers need the same: see sharedSettings. */
export function machineLimits(
  options: Options<(typeof kubeconfigFlags | typeof machineFlags)[number]>,
  { control, target }: Pick<ComponentDeps, 'control' | 'target'>,
): MachineLimits {
  return {
    ...(hasNoTarget(options) && { hasNoNode: true as const }),
    ...(control.server !== target.server && { clockSkewSeconds }),
    ...(options.controlPlaneNodes && { controlPlaneNodes: true as const }),
    ...(options.ordersInAnnotations && { ordersInAnnotations: true as const }),
    creationSeconds: options.machineCreationTimeout,
    healthSeconds: options.machineHealthTimeout,
    noRoomSeconds: options.resourceExhaustedRetry,
    drainSeconds: options.machineDrainTimeout,
    preserveSeconds: options.machinePreserveTimeout,
    updateSeconds: options.machineInplaceUpdateTimeout,
    maxEvictRetries: options.machineMaxEvictRetries,
    nodeConditions: options.nodeConditions,
  };
}
