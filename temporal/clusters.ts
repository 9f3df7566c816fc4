/**
 * Prevents two control clusters from serving one installation by accident: each would take the other's tasks. The
 * identity of a process has the UID of its cluster, and the server remembers for five minutes who has polled it.
 */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import type { KubeClient } from '../kube/client.ts';
import { namespaces } from '../kube/core.ts';
import { isRefused } from '../kube/errors.ts';
import type { Logger } from '../kube/logger.ts';
import { alivePollers, listPollers, measureClock } from './task-queues.ts';
import { buildName } from './version.ts';

const mark = / for cluster ([0-9a-f-]+)$/;

/**
 * UID of the watched namespace, which differs from that of a namespace of the same name in another cluster. undefined,
 * with a warning in the log, where we may not read it. Throws where an API server does not answer, or is busy.
 */
export async function findClusterId(
  control: KubeClient,
  namespace: string,
  logger: Logger,
): Promise<string | undefined> {
  try {
    return await readUid(control, namespace);
  } catch (err) {
    if (!isRefused(err)) throw err;
    const message =
      'cannot check whether another cluster has an installation of the same name: allow get on the namespace';
    logger.warn({ err, namespace }, message);
    return undefined;
  }
}

async function readUid(control: KubeClient, namespace: string): Promise<string | undefined> {
  return (await control.find(namespaces, { name: namespace }))?.metadata.uid;
}

/** What the identity of a process says of it. */
export interface ProcessIdentity {
  /** UID of the cluster that it serves, where it is known. */
  readonly clusterId?: string | undefined;
  /**
   * Values without spaces of flags that all processes of an installation need with one value, by flag, where they are
   * not the defaults. Default: none.
   */
  readonly settings?: Readonly<Record<string, string>>;
}

/** Identity towards Temporal of a process that serves a cluster. */
export function workerIdentity({ clusterId, settings = {} }: ProcessIdentity): string {
  const identity = `${process.pid}@${hostname()} with Millwright ${buildName()}`;
  const texts = Object.entries(settings).map(([flag, value]) => `${flag}=${value}`);
  return `${[identity, ...texts].join(' ')}${clusterId === undefined ? '' : ` for cluster ${clusterId}`}`;
}

/** Version of Millwright that a process with this identity runs; undefined where it does not say. */
export function versionOf(identity: string): string | undefined {
  return / with Millwright (\S+)/.exec(identity)?.[1];
}

/** The `settings` of a process with this identity, by flag. */
export function settingsOf(identity: string): ReadonlyMap<string, string> {
  return new Map([...identity.matchAll(/ (--[a-z-]+)=(\S*)/g)].map(([, flag = '', value = '']) => [flag, value]));
}

export interface ClusterCheck extends ProcessIdentity {
  /** Of Temporal. */
  readonly namespace: string;
  readonly installation: string;
}

/** Throws an Error that names the fix when processes of another cluster serve the installation. */
export async function refuseOtherClusters(connection: ConnectionLike, check: ClusterCheck): Promise<void> {
  const problem = await findOtherCluster(connection, check);
  if (problem !== undefined) throw new Error(problem);
}

async function findOtherCluster(connection: ConnectionLike, check: ClusterCheck): Promise<string | undefined> {
  const { namespace, installation, clusterId } = check;
  if (clusterId === undefined) return undefined;
  const [workers, controllers] = await Promise.all([
    listPollers(connection, namespace, installation, 'workflow'),
    listPollers(connection, namespace, controllersQueue(installation), 'workflow'),
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

/** Controllers run no tasks. They poll this queue, which has none, so that Temporal knows their identity. */
export function controllersQueue(installation: string): string {
  return `${installation}.controllers`;
}

/** How long the controllers poll, ms. Servers refuse polls of less than 2 s. */
const pollMs = 3_000;

/** Makes Temporal remember for five minutes that controllers of this cluster serve the installation. */
export async function showControllers(connection: ConnectionLike, check: ClusterCheck): Promise<void> {
  const { namespace, installation } = check;
  await connection.withDeadline(Date.now() + pollMs, () =>
    connection.workflowService.pollWorkflowTaskQueue({
      namespace,
      taskQueue: { name: controllersQueue(installation) },
      identity: workerIdentity(check),
    }),
  );
}

export interface ClusterWatch {
  /**
   * Rejects when another cluster serves the installation, or the namespace has another UID than before. Never resolves.
   */
  readonly found: Promise<never>;
  stop(): void;
}

export interface ClusterWatchOptions {
  readonly control: KubeClient;
  /** The watched namespace of the control cluster. */
  readonly namespace: string;
  /** Called before each check. */
  readonly show?: () => Promise<void>;
  readonly everyMs?: number;
  readonly logger: Logger;
}

/**
 * Checks repeatedly: two processes that start at the same moment do not see each other at first, a restarted server has
 * forgotten its pollers, and a namespace that was created again has another UID.
 */
export function watchForOtherClusters(
  connection: ConnectionLike,
  own: ClusterCheck,
  options: ClusterWatchOptions,
): ClusterWatch {
  const { control, namespace, show, everyMs = 60_000, logger } = options;
  const stopping = new AbortController();

  async function findChange(): Promise<string | undefined> {
    const { clusterId } = own;
    if (clusterId === undefined) return undefined;
    const now = await readUid(control, namespace);
    if (now === undefined || now === clusterId) return undefined;
    return (
      `the namespace '${namespace}' was created again: its UID was ${clusterId} and is ${now}. This process exits, as its ` +
      'workflows belong to the first one; start it again 5 minutes after all others have ended'
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

  async function check(): Promise<string | undefined> {
    const change = await tryTo('read the UID of the namespace', findChange);
    if (change !== undefined) return change;
    await tryTo('poll Temporal as controllers', async () => show?.());
    return tryTo('ask Temporal for processes of another cluster', () => findOtherCluster(connection, own));
  }

  async function watch(): Promise<never> {
    for (;;) {
      const problem = await check();
      if (stopping.signal.aborted) return new Promise<never>(() => undefined);
      if (problem !== undefined) throw new Error(problem);
      await sleep(everyMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined);
    }
  }

  const found = watch();
  found.catch(() => undefined); // callers that await it later still get the error
  return { found, stop: () => stopping.abort() };
}

/** UIDs of the clusters whose workers serve an installation, as far as their identities have one. */
export async function listServedClusters(
  connection: ConnectionLike,
  { namespace, installation }: Pick<ClusterCheck, 'namespace' | 'installation'>,
): Promise<readonly string[]> {
  const pollers = await listPollers(connection, namespace, installation, 'workflow');
  return [...new Set(pollers.flatMap(({ identity }) => clusterOf(identity) ?? []))];
}

/** Which processes an installation lacks: none has polled for as long as `silentMs`. Takes at most 2 s more. */
export async function findMissingProcesses(
  connection: ConnectionLike,
  { namespace, installation }: Pick<ClusterCheck, 'namespace' | 'installation'>,
): Promise<readonly ('worker' | 'controllers')[]> {
  const queues = [
    ['worker', installation],
    ['controllers', controllersQueue(installation)],
  ] as const;
  const found = await Promise.all(queues.map(([, queue]) => listPollers(connection, namespace, queue, 'workflow')));
  if (found.flat().length === 0) return queues.map(([process]) => process);
  const aheadMs = (await measureClock(connection, namespace, `${installation}.doctor`)) ?? 0;
  const nowMs = Date.now() + aheadMs;
  return queues.flatMap(([process], i) => (alivePollers(found[i] ?? [], nowMs).length > 0 ? [] : process));
}

function clusterOf(identity: string): string | undefined {
  return mark.exec(identity)?.[1];
}
