/** The clusters that the flags name. */
import { createKubeClient, type KubeClient, type KubeClientOptions } from '../kube/client.ts';
import { StatusError } from '../kube/errors.ts';
import { version } from '../temporal/version.ts';
import type { clusterFlags } from './flag-groups.ts';
import { accessTo, type Cluster, type KubeconfigOptions, kubeconfigFlag } from './kubeconfig.ts';
import type { Options } from './options.ts';

type ClusterOptions = Options<(typeof clusterFlags)[number]> & KubeconfigOptions;

/** Longest wait for an API server when a process starts, ms. */
const timeoutMs = 10_000;

/** Value of --target-kubeconfig of an installation without Nodes, as machine-controller-manager has it. */
const none = 'none';

/** Whether there is no cluster for Nodes. Throws an Error that names the flag where the Machines have none either. */
export function hasNoTarget({ controlKubeconfig, targetKubeconfig }: KubeconfigOptions): boolean {
  if (targetKubeconfig !== none) return false;
  if (controlKubeconfig !== '') return true;
  throw new Error(
    '--control-kubeconfig is missing: with --target-kubeconfig none it names the cluster of the Machines',
  );
}

/** User agent of the requests of a command. */
export function userAgentOf(command: string): string {
  return `millwright-${command}/${version}`;
}

/**
 * Client of a cluster that has answered. Throws an Error that names the flag when the kubeconfig is unusable, or when
 * the server does not answer or refuses the request.
 * @param command - Part of the user agent, so that audit logs show which process sent a request.
 */
export async function connectCluster(
  cluster: Cluster,
  options: ClusterOptions,
  command: string,
  observers: Pick<KubeClientOptions, 'onRequest' | 'onServerTime'> = {},
): Promise<KubeClient> {
  hasNoTarget(options);
  const client = createKubeClient({
    access: accessTo(cluster, options),
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
    const fix = `start it, or correct ${kubeconfigFlag(cluster, options)}`;
    throw new Error(`the ${cluster} cluster ${client.server} ${problem} (${messageOf(cause)}): ${fix}`, { cause });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
