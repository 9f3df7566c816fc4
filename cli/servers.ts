/** What a command works with: the clusters and the Temporal server that its flags name. */
import { createKubeClient, type KubeClient, type RequestObservation } from '../kube/client.ts';
import { type KubeconfigAccess, loadKubeconfig } from '../kube/config.ts';
import { ConnectionError } from '../kube/errors.ts';
import type { TemporalServer } from '../temporal/connection.ts';
import type { clusterFlags, temporalFlags } from './flags.ts';
import { type Options, UsageError } from './options.ts';
import { version } from './version.ts';

export interface Clusters {
  readonly control: KubeClient;
  /** The same client as `control` where there is one cluster. */
  readonly target: KubeClient;
  close(): Promise<void>;
}

/** How long an API server may take to answer when a process starts, ms. */
const patienceMs = 5_000;

/**
 * Clients of the clusters, which have answered.
 * Throws an Error that names the cluster and the flag when a kubeconfig cannot be used or a server does not answer.
 * @param component - Part of the user agent, so that audit logs tell processes apart.
 */
export async function connectClusters(
  options: Options<(typeof clusterFlags)[number]>,
  component: string,
  observe: (cluster: string, request: RequestObservation) => void = () => undefined,
): Promise<Clusters> {
  const create = (cluster: string, access: KubeconfigAccess) =>
    createKubeClient({
      access,
      userAgent: `millwright-${component}/${version}`,
      qps: options.kubeApiQps,
      burst: options.kubeApiBurst,
      onRequest: (request) => observe(cluster, request),
    });
  const targetAccess = load('--target-kubeconfig', options.targetKubeconfig || 'inClusterConfig');
  const isShared = options.controlKubeconfig === '';
  const control = create('control', isShared ? targetAccess : load('--control-kubeconfig', options.controlKubeconfig));
  const target = isShared ? control : create('target', targetAccess);
  const close = async () => {
    await Promise.all([...new Set([control, target])].map((client) => client.close()));
  };
  try {
    await expectAnswer(isShared ? 'target' : 'control', control);
    if (!isShared) await expectAnswer('target', target);
  } catch (error) {
    await close();
    throw error;
  }
  return { control, target, close };
}

function load(flag: string, path: string): KubeconfigAccess {
  try {
    return loadKubeconfig(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${flag}: ${reason}`, { cause });
  }
}

async function expectAnswer(cluster: 'control' | 'target', client: KubeClient): Promise<void> {
  try {
    await client.getRaw('/version', { timeoutMs: patienceMs, failFast: true });
  } catch (cause) {
    const verb = cause instanceof ConnectionError ? 'does not answer' : 'refuses us';
    const reason = cause instanceof Error ? cause.message : String(cause);
    const fix = `start it, or correct --${cluster}-kubeconfig`;
    throw new Error(`the ${cluster} cluster ${client.server} ${verb} (${reason}): ${fix}`, { cause });
  }
}

/** The Temporal server that the flags name. Throws UsageError when they contradict each other. */
export function temporalServer(options: Options<(typeof temporalFlags)[number]>): TemporalServer {
  const { temporalTls, temporalTlsCa: ca, temporalTlsCert: crt, temporalTlsKey: key, temporalTlsServerName } = options;
  if ((crt === undefined) !== (key === undefined)) {
    throw new UsageError('--temporal-tls-cert and --temporal-tls-key belong together: give both or none');
  }
  const apiKey = options.temporalApiKeyFile?.toString().trim() || options.temporalApiKey;
  const wanted = temporalTls ?? [ca, crt, temporalTlsServerName, apiKey].some((given) => given !== undefined);
  return {
    address: options.temporalAddress,
    namespace: options.temporalNamespace,
    ...(apiKey !== undefined && { apiKey }),
    ...(wanted && {
      tls: {
        ...(ca && { ca }),
        ...(crt && key && { client: { crt, key } }),
        ...(temporalTlsServerName !== undefined && { serverName: temporalTlsServerName }),
      },
    }),
  };
}
