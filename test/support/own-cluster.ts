/** API servers of a test alone: for what looks at all objects of a cluster, or changes what all of them share. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Cluster, startCluster } from '../../deploy/local/cluster.ts';
import { freePort } from '../../deploy/local/ports.ts';
import { removeWhenOrphaned, type ServerHandle, type StartServer, startServer } from '../../deploy/local/process.ts';
import { findServer, findServers } from '../../deploy/local/servers.ts';
import { goSettings, startEtcd } from '../../deploy/local/stack.ts';

export interface OwnClusters {
  /** An API server for each name. */
  readonly clusters: readonly Cluster[];
  stop(): Promise<void>;
}

/**
 * Starts an API server for each of these clusters, on an etcd of their own. Those of one name serve the same objects.
 * @param isControlled they have a kube-controller-manager each, for example for garbage collection
 */
export async function startOwnClusters(
  names: readonly string[],
  { isControlled = false }: { readonly isControlled?: boolean } = {},
): Promise<OwnClusters> {
  const programs = await findServers(['etcd', 'kube-apiserver']);
  const controllerManager = isControlled ? await findServer('kube-controller-manager') : undefined;
  const dir = await mkdtemp(join(tmpdir(), 'millwright-clusters-'));
  const releaseFolder = removeWhenOrphaned(dir);
  const servers: ServerHandle[] = [];
  const start: StartServer = async (command) => {
    const server = await startServer({ ...command, env: goSettings }, new AbortController().signal);
    servers.unshift(server);
    return server;
  };
  async function stop(): Promise<void> {
    for (const server of servers) await server.kill();
    await rm(dir, { recursive: true, force: true });
    releaseFolder();
  }

  try {
    const etcdPort = await freePort();
    await startEtcd(start, programs.etcd, dir, etcdPort);
    const starting = names.map((name, index) =>
      startCluster(start, {
        ...{ name, dir: join(dir, `server-${index}`), etcdPort },
        ...{ apiServer: programs['kube-apiserver'], controllerManager, isAudited: false },
      }),
    );
    return { clusters: await Promise.all(starting), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
