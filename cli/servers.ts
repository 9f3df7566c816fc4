/** The clusters and the Temporal server that the flags name. */
import { readFileSync } from 'node:fs';
import { createKubeClient, type KubeClient, type KubeClientOptions } from '../kube/client.ts';
import { type KubeconfigAccess, loadKubeconfig } from '../kube/config.ts';
import { StatusError } from '../kube/errors.ts';
import type { TemporalServer } from '../temporal/connection.ts';
import { version } from '../temporal/version.ts';
import type { clusterFlags, temporalFlags } from './flag-groups.ts';
import type { Options } from './options.ts';

type Cluster = 'control' | 'target';
type ClusterOptions = Options<(typeof clusterFlags)[number]>;

/** Longest wait for an API server when a process starts, ms. */
const timeoutMs = 5_000;

/** Value of --target-kubeconfig of an installation without Nodes, as machine-controller-manager has it. */
const none = 'none';

/** Whether there is no cluster for Nodes. Throws an Error that names the flag where the Machines have none either. */
export function hasNoTarget({ controlKubeconfig, targetKubeconfig }: ClusterOptions): boolean {
  if (targetKubeconfig !== none) return false;
  if (controlKubeconfig !== '') return true;
  throw new Error(
    '--control-kubeconfig is missing: with --target-kubeconfig none it names the cluster of the Machines',
  );
}

/** Whether Machines and Nodes are in the same cluster. */
export function isOneCluster({ controlKubeconfig }: ClusterOptions): boolean {
  return controlKubeconfig === '';
}

/** Kubeconfig of a cluster, as `loadKubeconfig` accepts it. */
export function kubeconfigOf(cluster: Cluster, options: ClusterOptions): string {
  const isOwn = cluster === 'control' && !isOneCluster(options);
  return isOwn ? options.controlKubeconfig : options.targetKubeconfig || 'inClusterConfig';
}

/** User agent of the requests of a command. */
export function userAgentOf(command: string): string {
  return `millwright-${command}/${version}`;
}

/**
 * Client of a cluster that has answered. Throws an Error that names the flag when the kubeconfig is unusable, or when the
 * server does not answer or refuses the request.
 * @param command - Part of the user agent, so that audit logs show which process sent a request.
 */
export async function connectCluster(
  cluster: Cluster,
  options: ClusterOptions,
  command: string,
  observers: Pick<KubeClientOptions, 'onRequest' | 'onServerTime'> = {},
): Promise<KubeClient> {
  hasNoTarget(options);
  const isOwn = cluster === 'control' && !isOneCluster(options);
  const flag = isOwn ? '--control-kubeconfig' : '--target-kubeconfig';
  const client = createKubeClient({
    access: load(flag, kubeconfigOf(cluster, options)),
    userAgent: userAgentOf(command),
    qps: options.kubeApiQps,
    burst: options.kubeApiBurst,
    ...observers,
  });
  try {
    await client.getRaw('/version', { timeoutMs, failFast: true });
    return client;
  } catch (cause) {
    await client.close();
    const problem = cause instanceof StatusError ? 'refuses the request' : 'does not answer';
    const fix = `start it, or correct ${flag}`;
    throw new Error(`the ${cluster} cluster ${client.server} ${problem} (${messageOf(cause)}): ${fix}`, { cause });
  }
}

function load(flag: string, path: string): KubeconfigAccess {
  try {
    return loadKubeconfig(path);
  } catch (cause) {
    throw new Error(`${flag}: ${messageOf(cause)}`, { cause });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The Temporal server that the flags name. Reads their files: throws when one cannot be read any more. */
export function temporalServer(options: Options<(typeof temporalFlags)[number]>): TemporalServer {
  const { temporalTls, temporalTlsServerName } = options;
  const [ca, crt, key] = [options.temporalTlsCa, options.temporalTlsCert, options.temporalTlsKey].map(
    (path) => path && readFileSync(path),
  );
  const { temporalApiKeyFile } = options;
  const apiKey = (temporalApiKeyFile && readFileSync(temporalApiKeyFile, 'utf8').trim()) || options.temporalApiKey;
  const wanted = temporalTls ?? [ca, crt, temporalTlsServerName, apiKey].some((given) => given !== undefined);
  return {
    address: options.temporalAddress,
    namespace: options.temporalNamespace,
    ...(apiKey !== undefined && { apiKey }),
    tls: wanted && {
      ...(ca && { ca }),
      ...(crt && key && { client: { crt, key } }),
      ...(temporalTlsServerName !== undefined && { serverName: temporalTlsServerName }),
    },
  };
}
