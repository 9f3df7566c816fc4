/**
 * Keeps two control clusters from serving one installation by accident: each would take the other's tasks. Processes say
 * in their identity which cluster they serve, and the server knows for five minutes who has asked it for work.
 */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import type { KubeClient } from '../kube/client.ts';
import { namespaces } from '../kube/core.ts';
import { isUnreachable } from '../kube/errors.ts';
import type { Logger } from '../kube/logger.ts';

/** TASK_QUEUE_TYPE_WORKFLOW of Temporal's API. */
const workflowTasks = 1;
const mark = / for cluster ([0-9a-f-]+)$/;

/**
 * What tells the watched namespace from one of the same name elsewhere: its UID. undefined, with a line in the log, where
 * we may not read it.
 */
export async function findClusterId(
  control: KubeClient,
  namespace: string,
  logger: Logger,
): Promise<string | undefined> {
  try {
    return await readUid(control, namespace);
  } catch (err) {
    if (isUnreachable(err)) throw err;
    const message =
      'cannot tell whether another cluster has an installation of the same name: allow get on the namespace';
    logger.warn({ err, namespace }, message);
    return undefined;
  }
}

async function readUid(control: KubeClient, namespace: string): Promise<string | undefined> {
  return (await control.find(namespaces, { name: namespace }))?.metadata.uid;
}

/** How a process that serves a cluster names itself to Temporal. */
export function workerIdentity(clusterId: string | undefined): string {
  const identity = `${process.pid}@${hostname()}`;
  return clusterId === undefined ? identity : `${identity} for cluster ${clusterId}`;
}

export interface ClusterCheck {
  /** Of Temporal. */
  readonly namespace: string;
  readonly installation: string;
  readonly clusterId: string | undefined;
}

/** Throws an Error that says what to do when processes of another cluster serve the installation. */
export async function refuseOtherClusters(connection: ConnectionLike, check: ClusterCheck): Promise<void> {
  const problem = await findOtherCluster(connection, check);
  if (problem !== undefined) throw new Error(problem);
}

async function findOtherCluster(connection: ConnectionLike, check: ClusterCheck): Promise<string | undefined> {
  const { namespace, installation, clusterId } = check;
  if (clusterId === undefined) return undefined;
  const [workers, controllers] = await Promise.all([
    listPollers(connection, namespace, installation),
    listPollers(connection, namespace, controllersQueue(installation)),
  ]);
  for (const { identity } of [...workers, ...controllers]) {
    const other = clusterOf(identity);
    if (other === undefined || other === clusterId) continue;
    return (
      `installation '${installation}' in the Temporal namespace '${namespace}' is served by another cluster: process ` +
      `'${identity}' with namespace UID ${other} was seen in the last 5 minutes; ours is ${clusterId}. Give each cluster ` +
      'its own --installation. After a move to this cluster, stop the old processes and start this one 5 minutes later'
    );
  }
  return undefined;
}

/** Controllers take no tasks. They ask for some here, where there are none, so that Temporal knows of them. */
function controllersQueue(installation: string): string {
  return `${installation}.controllers`;
}

/** How long the controllers wait for a task that never comes, ms. Servers refuse to be asked for less than 2 s. */
const pollMs = 3_000;

/** Has Temporal know for five minutes that controllers of this cluster serve the installation. */
export async function showControllers(connection: ConnectionLike, check: ClusterCheck): Promise<void> {
  const { namespace, installation, clusterId } = check;
  if (clusterId === undefined) return;
  await connection.withDeadline(Date.now() + pollMs, () =>
    connection.workflowService.pollWorkflowTaskQueue({
      namespace,
      taskQueue: { name: controllersQueue(installation) },
      identity: workerIdentity(clusterId),
    }),
  );
}

export interface ClusterWatch {
  /** Rejects when processes of another cluster serve the installation, or its own is another one now. Never resolves. */
  readonly found: Promise<never>;
  stop(): void;
}

export interface ClusterWatchOptions {
  readonly control: KubeClient;
  /** The watched one, in Kubernetes. */
  readonly namespace: string;
  /** Called before each look for others. */
  readonly show?: () => Promise<void>;
  readonly everyMs?: number;
  readonly logger: Logger;
}

/**
 * Looks again and again: two that start at the same moment do not see each other at first, a server that was restarted
 * has forgotten whom it knew, and a namespace that was made again has another UID.
 */
export function watchForOtherClusters(
  connection: ConnectionLike,
  check: ClusterCheck,
  options: ClusterWatchOptions,
): ClusterWatch {
  const { control, namespace, show, everyMs = 60_000, logger } = options;
  const stopping = new AbortController();

  async function findChange(): Promise<string | undefined> {
    const { clusterId } = check;
    if (clusterId === undefined) return undefined;
    const now = await readUid(control, namespace);
    if (now === undefined || now === clusterId) return undefined;
    return (
      `the namespace '${namespace}' was made again: its UID was ${clusterId} and is ${now}. This process ends, as its ` +
      'workflows are for the first one; start it again 5 minutes after all others have ended'
    );
  }

  async function tryTo<T>(doing: string, step: () => Promise<T>): Promise<T | undefined> {
    try {
      return await step();
    } catch (err) {
      logger.debug({ err }, `cannot ${doing}`);
      return undefined;
    }
  }

  async function look(): Promise<string | undefined> {
    const change = await tryTo('read the UID of the namespace', findChange);
    if (change !== undefined) return change;
    await tryTo('show Temporal the controllers', async () => show?.());
    return tryTo('ask Temporal for processes of another cluster', () => findOtherCluster(connection, check));
  }

  async function watch(): Promise<never> {
    for (;;) {
      const problem = await look();
      if (stopping.signal.aborted) return new Promise<never>(() => undefined);
      if (problem !== undefined) throw new Error(problem);
      await sleep(everyMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined);
    }
  }

  const found = watch();
  found.catch(() => undefined); // whoever looks at it later still sees it
  return { found, stop: () => stopping.abort() };
}

/** UIDs of the clusters whose workers serve an installation, as far as they say so. */
export async function listServedClusters(
  connection: ConnectionLike,
  { namespace, installation }: Pick<ClusterCheck, 'namespace' | 'installation'>,
): Promise<readonly string[]> {
  const pollers = await listPollers(connection, namespace, installation);
  return [...new Set(pollers.flatMap(({ identity }) => clusterOf(identity) ?? []))];
}

/** Whether an installation has workers, or had some in the last five minutes, as far as Temporal remembers. */
export async function hasWorkers(
  connection: ConnectionLike,
  of: Pick<ClusterCheck, 'namespace' | 'installation'>,
): Promise<boolean> {
  return (await listPollers(connection, of.namespace, of.installation)).length > 0;
}

function clusterOf(identity: string | null | undefined): string | undefined {
  return mark.exec(identity ?? '')?.[1];
}

async function listPollers(connection: ConnectionLike, namespace: string, name: string) {
  const { pollers } = await connection.workflowService.describeTaskQueue({
    namespace,
    taskQueue: { name },
    taskQueueType: workflowTasks,
  });
  return pollers ?? [];
}
