/** The workers of an installation: one for its workflows and what they do in Kubernetes, one for drains, and one for each provider. */
import { hostname } from 'node:os';
import { Client } from '@temporalio/client';
import { type NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import { boundary } from '../activities/boundary.ts';
import { createFailedRunActivities, type FailedRunDeps } from '../activities/failed-runs.ts';
import { createDrainActivities } from '../activities/machine/drain.ts';
import { createMachineActivities } from '../activities/machine/index.ts';
import { refuseOtherClusters } from '../activities/own-cluster.ts';
import { createOwnerActivities } from '../activities/owner/index.ts';
import type { Provider, ProviderDeps } from '../activities/providers/provider.ts';
import { createProvider } from '../activities/providers/registry.ts';
import { createVmActivities } from '../activities/providers/serve.ts';
import { createSweepActivities } from '../activities/sweep.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { SweepLimits } from '../api/model/sweep.ts';
import { drainTaskQueue, providerTaskQueue } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { secrets } from '../kube/core.ts';
import { createEventRecorder, type EventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';
import { coalesceReads } from '../kube/shared-finds.ts';
import { loadWorkflowBundle } from './bundle.ts';
import { workerIdentity } from './clusters.ts';
import { createSweepMemory } from './past-sweeps.ts';
import { type Refusal, refuseActivities } from './pausable-workers.ts';
import { type SetBackWatch, watchForSetBack } from './restore-detection.ts';

export interface WorkersOptions {
  readonly connection: NativeConnection;
  /** Of Temporal. */
  readonly namespace: string;
  /** Name of the installation: its task queue, and prefix of those of its providers. */
  readonly installation: string;
  /** Which control cluster it is, where that is known: see clusters.ts. */
  readonly clusterId?: string | undefined;
  /** Cluster of the Machines, classes and Secrets. */
  readonly control: KubeClient;
  /** Cluster of the Nodes and Pods; may be the same. */
  readonly target: KubeClient;
  /** For machines that do not say otherwise. */
  readonly defaults: MachineLimits;
  /** How many workflows are kept in memory: 0 or at least 500, as the SDK loses tasks under way from a small full cache. */
  readonly maxCachedWorkflows: number;
  /** `auth-extra-groups` of bootstrap tokens: comma list, empty for none. */
  readonly bootstrapTokenExtraGroups: string;
  /** How sure a sweep has to be before it deletes. */
  readonly sweep: SweepLimits;
  readonly onFailedRun: FailedRunDeps['onFailedRun'];
  /** Providers to serve, of `providerNames`. */
  readonly providers: readonly string[];
  /** Asked before each attempt of an activity. */
  readonly refusal: Refusal;
  readonly logger: Logger;
}

/** Running workers. */
export interface Workers {
  /** What is not ready yet; empty when everything is. */
  missing(): string[];
  /** Rejects when a worker ends by itself, and when Temporal was set back. Never resolves. */
  readonly failed: Promise<never>;
  /** Takes no new work, lets activities end for 20 s before they are cancelled, and writes the Events that are due. */
  stop(): Promise<void>;
}

/** As machine-controller-manager's pause between two evictions of a pod that its budget protects. */
const evictionRetryMs = 20_000;

/** How often it is asked whether Temporal was set back: up to ten small requests each time. */
const lookEveryMs = 2_000;

/** What every worker of ours is made with; the numbers are measured to be enough for 60 new machines a second. */
function everyWorker({ clusterId, refusal }: WorkersOptions) {
  return {
    interceptors: { activity: [refuseActivities(refusal), boundary, refuseOtherClusters(clusterId)] },
    shutdownGraceTime: '20 seconds',
    // Before Kubernetes kills the pod, 30 s after it was asked to end.
    shutdownForceTime: '25 seconds',
    maxConcurrentActivityTaskExecutions: 500,
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 10 },
  } satisfies Partial<WorkerOptions>;
}

/** Starts the workers; resolves when all of them poll, or leaves none. The connection stays the caller's. */
export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  const { control, logger } = options;
  const deps = { readSecret: secretReader(control) };
  const clouds = await Promise.all(
    options.providers.map(async (name) => ({ name, provider: await createProvider(name, deps) })),
  );
  const events = createEventRecorder({
    client: control,
    controller: 'millwright',
    instance: hostname().slice(0, 128),
    logger,
  });
  const setBack = watchForSetBack({ ...options, lookEveryMs });
  const workers: Worker[] = [];
  try {
    workers.push(await createInstallationWorker(options, events, setBack));
    workers.push(await createDrainWorker(options));
    for (const cloud of clouds) workers.push(await createProviderWorker(options, cloud));
  } catch (error) {
    setBack.stop();
    // Only one that has run gives its task queue back.
    await Promise.allSettled(workers.map((worker) => worker.runUntil(Promise.resolve())));
    throw error;
  }

  let stopping = false;
  const runs = workers.map(async (worker) => {
    await worker.run();
    if (!stopping) throw new Error(`the worker of task queue ${worker.options.taskQueue} has ended by itself`);
  });
  const failed = Promise.all([setBack.noticed, ...runs]).then(() => new Promise<never>(() => undefined));
  failed.catch(() => undefined); // whoever looks at it later still sees it

  return {
    missing: () =>
      workers
        .filter((worker) => worker.getState() !== 'RUNNING')
        .map(({ options: { taskQueue } }) => `worker of ${taskQueue}`),
    failed,
    async stop() {
      stopping = true;
      setBack.stop();
      for (const worker of workers) {
        if (worker.getState() === 'RUNNING') worker.shutdown();
      }
      const outcomes = await Promise.allSettled(runs);
      await events.flush();
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
    },
  };
}

/** The worker of workflows, their local activities, and the Kubernetes activities that last longer. */
async function createInstallationWorker(
  options: WorkersOptions,
  events: EventRecorder,
  { sinks }: SetBackWatch,
): Promise<Worker> {
  const { connection, namespace, installation } = options;
  const client = new Client({ connection, namespace });
  return Worker.create({
    ...everyWorker(options),
    connection,
    namespace,
    taskQueue: installation,
    identity: workerIdentity(options.clusterId),
    workflowBundle: await loadWorkflowBundle(),
    sinks,
    activities: {
      ...createMachineActivities({ ...options, events }),
      ...createOwnerActivities({ ...options, events }),
      ...createSweepActivities({ ...options, events, past: createSweepMemory({ client, name: installation }) }),
      ...createFailedRunActivities({ ...options, events }),
    },
    // A run of another build that cannot be replayed ends, and the next one finds out how far it was.
    workflowFailureErrorTypes: { '*': ['NondeterminismError', 'DeterminismViolationError'] },
    maxCachedWorkflows: options.maxCachedWorkflows,
    // A task holds the requests of its local activities. With 200 slots a hundred new machines made tasks of over 5 s,
    // and one that times out makes its requests again.
    // Without a cache the SDK drops a task whose local activities run when another one comes in, until it times out.
    maxConcurrentWorkflowTaskExecutions: options.maxCachedWorkflows === 0 ? 1 : 40,
    maxConcurrentLocalActivityExecutions: 500,
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 20 },
  });
}

/**
 * The worker of drains, which may wait for hours: they hold no slot that anything else needs. Of those that wait 2000
 * were measured to take 0.3 GB of memory and a tenth of a core. Others wait for their turn.
 */
async function createDrainWorker(options: WorkersOptions): Promise<Worker> {
  const { connection, namespace, installation } = options;
  return Worker.create({
    ...everyWorker(options),
    connection,
    namespace,
    taskQueue: drainTaskQueue(installation),
    identity: workerIdentity(options.clusterId),
    activities: createDrainActivities({ ...options, evictionRetryMs }),
    maxConcurrentActivityTaskExecutions: 2_000,
    // It goes on elsewhere, and does not end by itself for hours. Nothing is evicted beside another one that acts.
    shutdownGraceTime: 0,
  });
}

/** The worker of a cloud's activities: what fails there keeps nothing else waiting. */
async function createProviderWorker(options: WorkersOptions, { name, provider }: { name: string; provider: Provider }) {
  const { connection, namespace, installation } = options;
  return Worker.create({
    ...everyWorker(options),
    connection,
    namespace,
    taskQueue: providerTaskQueue(installation, name),
    activities: createVmActivities(provider),
  });
}

function secretReader(control: KubeClient): ProviderDeps['readSecret'] {
  const find = coalesceReads(control);
  return async (key, signal) => {
    const secret = await find(secrets, key);
    signal.throwIfAborted();
    if (secret === undefined) return undefined;
    const decoded = Object.entries(secret.data ?? {}).map(([name, value]) => [name, Buffer.from(value, 'base64')]);
    return Object.fromEntries(decoded);
  };
}
