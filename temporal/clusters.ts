/**
 * Keeps two control clusters from serving one installation by accident: each would take the other's tasks, find none of
 * its objects and end its workflows. Workers say in their identity which cluster they serve, and the server knows for
 * five minutes who has asked it for work.
 */
import { hostname } from 'node:os';
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
    return (await control.find(namespaces, { name: namespace }))?.metadata.uid;
  } catch (err) {
    if (isUnreachable(err)) throw err;
    const message =
      'cannot tell whether another cluster has an installation of the same name: allow get on the namespace';
    logger.warn({ err, namespace }, message);
    return undefined;
  }
}

/** How a worker names itself to Temporal. */
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

/** Throws an Error that says what to do when workers of another cluster serve the installation. */
export async function refuseOtherClusters(connection: ConnectionLike, check: ClusterCheck): Promise<void> {
  const { namespace, installation, clusterId } = check;
  if (clusterId === undefined) return;
  for (const { identity } of await listPollers(connection, check)) {
    const other = mark.exec(identity ?? '')?.[1];
    if (other === undefined || other === clusterId) continue;
    throw new Error(
      `installation '${installation}' in the Temporal namespace '${namespace}' is served for another cluster: its worker ` +
        `'${identity}' was there in the last 5 minutes, and this cluster is ${clusterId}. Give each its own --installation; ` +
        'after a move from one cluster to another, stop the workers of the first and wait',
    );
  }
}

/** Whether an installation has workers, or had some in the last five minutes, as far as Temporal remembers. */
export async function hasWorkers(
  connection: ConnectionLike,
  of: Pick<ClusterCheck, 'namespace' | 'installation'>,
): Promise<boolean> {
  return (await listPollers(connection, of)).length > 0;
}

async function listPollers(
  connection: ConnectionLike,
  { namespace, installation }: Pick<ClusterCheck, 'namespace' | 'installation'>,
) {
  const { pollers } = await connection.workflowService.describeTaskQueue({
    namespace,
    taskQueue: { name: installation },
    taskQueueType: workflowTasks,
  });
  return pollers ?? [];
}
