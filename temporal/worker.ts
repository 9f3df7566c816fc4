/**
 * The workers of an installation: one for workflows and their Kubernetes activities, one for drains, one for each
 * provider.
 */
import { hostname } from 'node:os';
import { Client } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, type DataConverter } from '@temporalio/common';
import {
  type ActivityInterceptorsFactory,
  type NativeConnection,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import { boundary } from '../activities/boundary.ts';
import { createFailedRunActivities, type FailedRunDeps } from '../activities/failed-runs.ts';
import { createInterruptionActivities } from '../activities/interruptions.ts';
import { createLimitActivities } from '../activities/limits.ts';
import { type WatchAttachments, watchAttachments } from '../activities/machine/drain/attachments.ts';
import { createDrainActivities } from '../activities/machine/drain/index.ts';
import type { VolumePolicy } from '../activities/machine/drain/moves.ts';
import { createMachineActivities, type EndedPhase } from '../activities/machine/index.ts';
import { createOrderActivities } from '../activities/orders.ts';
import { createOutageFinder } from '../activities/outage.ts';
import { refuseOtherClusters } from '../activities/own-cluster.ts';
import { createOwnerActivities } from '../activities/owner/index.ts';
import { hideSecret } from '../activities/providers/kit/masks.ts';
import { type Provider, type ProviderDeps, ProviderError, type SecretData } from '../activities/providers/provider.ts';
import { createProvider } from '../activities/providers/registry.ts';
import { createVmActivities } from '../activities/providers/serve.ts';
import { createSigningActivities } from '../activities/sign-places.ts';
import { createSigners } from '../activities/signatures.ts';
import { createSweepActivities } from '../activities/sweep.ts';
import { createVerdictActivities } from '../activities/verdict.ts';
import { createVmTagsActivities } from '../activities/vm-tags.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { SweepLimits } from '../api/model/sweep.ts';
import { drainTaskQueue, providerTaskQueue } from '../api/names.ts';
import type { MostReplacing } from '../api/owner/health.ts';
import type { KubeClient } from '../kube/client.ts';
import { secrets } from '../kube/core.ts';
import { createEventRecorder, type EventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';
import { coalesceReads } from '../kube/shared-finds.ts';
import { loadWorkflowBundle } from './bundle.ts';
import { workerIdentity } from './clusters.ts';
import { encodesFailures } from './data-converter.ts';
import { FastSandboxWorker } from './fast-sandbox.ts';
import { createClaimMachines } from './limits.ts';
import type { LiveConnection } from './live-connection.ts';
import { createSweepMemory } from './past-sweeps.ts';
import { type Refusal, refuseActivities, type Workers } from './pausable-workers.ts';
import { detectRestore, type RestoreDetection } from './restore-detection.ts';

export interface WorkersOptions {
  /** For calls. */
  readonly connection: NativeConnection;
  /** What the workers poll with, where it is replaced in the course of time. Default: `connection`. */
  readonly live?: Pick<LiveConnection<NativeConnection>, 'newest' | 'onReplace'>;
  /** Of Temporal. */
  readonly namespace: string;
  /** Default: that of the SDK, which encrypts nothing. */
  readonly dataConverter?: DataConverter;
  /** Name of the installation: its task queue, and prefix of those of its providers. */
  readonly installation: string;
  /** The control cluster, where its UID is known: see clusters.ts. */
  readonly clusterId?: string | undefined;
  /** Of the process for its identity, see clusters.ts. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Cluster of the Machines, classes and Secrets. */
  readonly control: KubeClient;
  /** Namespace of the Machines, the only one whose Secrets are given to providers. */
  readonly machineNamespace: string;
  /** Cluster of the Nodes and Pods; may be the same. */
  readonly target: KubeClient;
  /** For machines whose spec does not say otherwise. */
  readonly defaults: MachineLimits;
  /**
   * How many workflows are kept in memory: 0, or at least 500, as the SDK loses running tasks from a small full cache.
   */
  readonly maxCachedWorkflows: number;
  /** Whether workflows run in the sandbox of fast-sandbox.ts. Default: in the SDK's. */
  readonly fastSandbox?: boolean;
  /** `auth-extra-groups` of bootstrap tokens: comma list, empty for none. */
  readonly bootstrapTokenExtraGroups: string;
  /** How sure a sweep has to be before it deletes. */
  readonly sweep: SweepLimits;
  readonly onFailedRun: FailedRunDeps['onFailedRun'];
  /** Providers to serve, of `providerNames`. */
  readonly providers: readonly string[];
  /** Whether they use the credentials of this process where Secrets have none. Default: not. */
  readonly defaultCredentials?: boolean;
  /** Where the token files are that Secrets may name. Default: `standardTokenFolder`. */
  readonly tokenFolder?: string;
  /** Called with each rate at which requests are sent to a cloud. */
  readonly onRequestRate?: NonNullable<ProviderDeps['onRequestRate']>;
  readonly onRequest?: NonNullable<ProviderDeps['onRequest']>;
  /** Called after each activity of a provider. A call that was cancelled has neither succeeded nor failed. */
  readonly onProviderCall?: (call: ProviderCall) => void;
  /** Called after each attempt of any other activity that has failed. */
  readonly onActivityFailure?: (failure: ActivityFailure) => void;
  /** Called when a machine has another phase, or is gone. */
  readonly onPhaseEnded?: (phase: EndedPhase) => void;
  /** How many unhealthy machines of an owner may be replaced at once. */
  readonly mostReplacing: MostReplacing;
  /** Whether rollouts keep the autoscaler from removing Nodes. Default: they do. */
  readonly keepsAutoscalerAway?: boolean;
  /** Above this share of unhealthy Nodes, in percent, no unhealthy machine is replaced. */
  readonly outagePercent: number;
  /** How drains treat pods with volumes. */
  readonly volumes: VolumePolicy;
  /** When a drain is stuck, see DrainDeps, ms. */
  readonly drainStuckAfterMs: number;
  /** Asked before each attempt of an activity. */
  readonly refusal: Refusal;
  readonly logger: Logger;
}

/** Pause between two evictions of a pod that its budget protects. */
const evictionRetryMs = 20_000;

/** Pause between two checks whether Temporal was restored from a backup, ms: two small requests each with 100 runs. */
const checkEveryMs = 2_000;

/** What an activity is, and what it failed with: a code of api/failures.ts. */
export interface ActivityFailure {
  readonly activity: string;
  readonly code: string;
}

/** Options of every worker. The numbers were measured to be enough for 60 new machines a second. */
function everyWorker({ connection, live, dataConverter, clusterId, refusal }: WorkersOptions) {
  return {
    connection: live?.newest() ?? connection,
    ...(dataConverter && { dataConverter }),
    interceptors: { activity: [refuseActivities(refusal), boundary, refuseOtherClusters(clusterId)] },
    shutdownGraceTime: '20 seconds',
    // Before Kubernetes kills the pod, 30 s after it was asked to end.
    shutdownForceTime: '25 seconds',
    maxConcurrentActivityTaskExecutions: 500,
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 10 },
  } satisfies Partial<WorkerOptions>;
}

/** Options of the workers of Kubernetes activities. */
function kubernetesWorker(options: WorkersOptions) {
  const { interceptors, ...every } = everyWorker(options);
  const observe = observeCalls(({ activity, code }) => {
    if (code !== undefined) options.onActivityFailure?.({ activity, code });
  });
  return { ...every, interceptors: { activity: [observe, ...interceptors.activity] } };
}

/** Starts the workers. Resolves when all of them poll; after an error none runs. The caller closes the connection. */
export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  const { control, logger, onRequestRate, onRequest, defaultCredentials = false, tokenFolder } = options;
  const deps = {
    readSecret: secretReader(control, options.machineNamespace),
    defaultCredentials,
    ...(tokenFolder !== undefined && { tokenFolder }),
    ...(onRequestRate && { onRequestRate }),
    ...(onRequest && { onRequest }),
  };
  const clouds = await Promise.all(
    options.providers.map(async (name) => ({ name, provider: await createProvider(name, deps) })),
  );
  const events = createEventRecorder({
    client: control,
    controller: 'millwright',
    instance: hostname().slice(0, 128),
    logger,
  });
  const restore = detectRestore({ ...options, checkEveryMs });
  const attachments = watchAttachments(options);
  const workers: Worker[] = [];
  try {
    workers.push(await createInstallationWorker(options, events, restore));
    workers.push(await createDrainWorker(options, attachments));
    for (const cloud of clouds) workers.push(await createProviderWorker(options, cloud));
  } catch (error) {
    restore.stop();
    // Only a worker that has run releases its task queue.
    await Promise.allSettled(workers.map((worker) => worker.runUntil(Promise.resolve())));
    throw error;
  }

  function pollWith(newest: NativeConnection): void {
    for (const worker of workers) if (!['STOPPED', 'FAILED'].includes(worker.getState())) worker.connection = newest;
  }
  const { live } = options;
  const ignoreReplacements = live?.onReplace(pollWith);
  if (live !== undefined) pollWith(live.newest()); // replaced while they were created
  let stopping = false;
  const runs = workers.map(async (worker) => {
    await worker.run();
    if (!stopping) throw new Error(`the worker of task queue ${worker.options.taskQueue} has ended by itself`);
  });
  const failed = Promise.all([restore.detected, ...runs]).then(() => new Promise<never>(() => undefined));
  failed.catch(() => undefined); // callers that await it later still get the error

  return {
    missing: () =>
      workers
        .filter((worker) => worker.getState() !== 'RUNNING')
        .map(({ options: { taskQueue } }) => `worker of ${taskQueue}`),
    failed,
    async stop() {
      stopping = true;
      restore.stop();
      for (const worker of workers) {
        if (worker.getState() === 'RUNNING') worker.shutdown();
      }
      const outcomes = await Promise.allSettled(runs);
      ignoreReplacements?.(); // not before: what is under way has to be answered
      await attachments.stop();
      await events.flush();
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
    },
  };
}

/** The worker of workflows, their local activities, and longer Kubernetes activities. */
async function createInstallationWorker(
  options: WorkersOptions,
  events: EventRecorder,
  { sinks }: RestoreDetection,
): Promise<Worker> {
  const { connection, namespace, dataConverter, installation, outagePercent } = options;
  const client = new Client({ connection, namespace, ...(dataConverter && { dataConverter }) });
  const findOutage = createOutageFinder({ ...options, percent: outagePercent });
  const findSigner = createSigners(options.control);
  const claimMachines = createClaimMachines({ client, name: installation, cluster: options.clusterId });
  return (options.fastSandbox ? FastSandboxWorker : Worker).create({
    ...kubernetesWorker(options),
    namespace,
    taskQueue: installation,
    identity: workerIdentity(options),
    workflowBundle: await loadWorkflowBundle({ encodesFailures: encodesFailures(dataConverter) }),
    sinks,
    activities: {
      ...createMachineActivities({ ...options, events, findOutage, findSigner }),
      ...createOwnerActivities({ ...options, events, findOutage, claimMachines }),
      ...createLimitActivities(options),
      ...createSweepActivities({ ...options, events, past: createSweepMemory({ client, name: installation }) }),
      ...createVerdictActivities({ ...options, events }),
      ...createInterruptionActivities(options),
      ...createSigningActivities({ ...options, findSigner }),
      ...createVmTagsActivities({ ...options, events, findSigner }),
      ...createFailedRunActivities({ ...options, events }),
      ...createOrderActivities({ ...options, events }),
    },
    // A run of another build that cannot be replayed fails, and the next run finds out how far it was.
    workflowFailureErrorTypes: { '*': ['NondeterminismError', 'DeterminismViolationError'] },
    maxCachedWorkflows: options.maxCachedWorkflows,
    // A task waits for its local activities. With 200 slots a hundred new machines made tasks of over 5 s, and a task
    // that times out sends its requests again. Without a cache the SDK drops a task with running local activities when
    // another task comes in, until it times out.
    maxConcurrentWorkflowTaskExecutions: options.maxCachedWorkflows === 0 ? 1 : 40,
    maxConcurrentLocalActivityExecutions: 500,
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 20 },
  });
}

/**
 * The worker of drains, which may wait for pods and volumes for long: they must not hold slots of other activities.
 * 2000 waiting drains were measured to take 0.3 GB of memory and a tenth of a core. Further ones wait for a slot.
 */
async function createDrainWorker(options: WorkersOptions, attachments: WatchAttachments): Promise<Worker> {
  const { namespace, installation, drainStuckAfterMs: stuckAfterMs } = options;
  return Worker.create({
    ...kubernetesWorker(options),
    namespace,
    taskQueue: drainTaskQueue(installation),
    identity: workerIdentity(options),
    activities: createDrainActivities({ ...options, evictionRetryMs, stuckAfterMs, attachments }),
    maxConcurrentActivityTaskExecutions: 2_000,
    // A drain does not end by itself for hours; it continues on another worker. No pod is evicted by two at once.
    shutdownGraceTime: 0,
  });
}

/** The worker of a cloud's activities: trouble there delays nothing else. */
async function createProviderWorker(options: WorkersOptions, { name, provider }: { name: string; provider: Provider }) {
  const { namespace, installation, onProviderCall } = options;
  const { interceptors, ...every } = everyWorker(options);
  const observe =
    onProviderCall === undefined ? [] : [observeCalls((call) => onProviderCall({ provider: name, ...call }))];
  return Worker.create({
    ...every,
    interceptors: { activity: [...observe, ...interceptors.activity] },
    namespace,
    taskQueue: providerTaskQueue(installation, name),
    activities: createVmActivities(provider),
    // Calls send a heartbeat every 5 s and may be late by as much. The SDK would hold one back until 8 s after the
    // last.
    maxHeartbeatThrottleInterval: '3 seconds',
  });
}

/** An activity of a provider that has ended. */
export interface ProviderCall {
  readonly provider: string;
  /** Type of the activity. */
  readonly activity: string;
  readonly seconds: number;
  /** Code of api/failures.ts; left out after a success. */
  readonly code?: string;
}

/** `onCall` is called after each attempt of an activity. A cancelled one has neither succeeded nor failed. */
function observeCalls(onCall: (call: Omit<ProviderCall, 'provider'>) => void): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      async execute(input, next) {
        const startMs = performance.now();
        const end = (failed: Pick<ProviderCall, 'code'> = {}) =>
          onCall({
            activity: info.activityType,
            seconds: (performance.now() - startMs) / 1_000,
            ...failed,
          });
        try {
          const answer = await next(input);
          end();
          return answer;
        } catch (error) {
          if (!(error instanceof CancelledFailure))
            end({ code: error instanceof ApplicationFailure ? (error.type ?? 'Unknown') : 'Unknown' });
          throw error;
        }
      },
    },
  });
}

/** Calls for machines that are made or deleted together read their Secrets together, ms. */
const gatherMs = 100;

/** For providers: what an activity reads is hidden in what it says. */
function secretReader(control: KubeClient, namespace: string): ProviderDeps['readSecret'] {
  const find = coalesceReads(control, {}, gatherMs);
  return async (key, signal) => {
    if (key.namespace !== namespace) {
      const why = `is not in the namespace "${namespace}" of the Machines: move it there, and correct what names it`;
      throw new ProviderError('InvalidArgument', `Secret "${key.namespace}/${key.name}" ${why}`);
    }
    const secret = await find(secrets, key);
    signal.throwIfAborted();
    if (secret === undefined) return undefined;
    const decoded = Object.entries(secret.data ?? {}).map(([name, value]) => [name, Buffer.from(value, 'base64')]);
    const data: SecretData = Object.fromEntries(decoded);
    hideSecret(data);
    return data;
  };
}
