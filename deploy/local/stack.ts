import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { request } from 'undici';
import { searchAttributes } from '../../api/names.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { freePort } from './ports.ts';
import { removeWhenOrphaned, type ServerHandle, type StartServer, startServer } from './process.ts';
import { findServer, findServers } from './servers.ts';

export interface StackOptions {
  /**
   * Folder for data, logs and kubeconfigs. It stays, and a new stack on it continues with its objects. Default: a
   * temporary folder.
   */
  readonly dir?: string;
  /**
   * `dbFile`: SQLite file with the workflows. Default: in memory. `isBare`: it is started without Millwright's search
   * attributes, as a server is that does not know Millwright.
   */
  readonly temporal?: { readonly dbFile?: string; readonly isBare?: boolean };
  /** Number of API servers. Both use one etcd, with a prefix each. Default 1. */
  readonly clusters?: 1 | 2;
  /**
   * Also run the controllers for garbage collection, namespaces, disruption budgets, ReplicaSets and Deployments.
   * Default false.
   */
  readonly controllerManager?: boolean;
  /** Whether the API servers write audit logs. Default false. */
  readonly isAudited?: boolean;
}

/** The servers that Millwright works with: Temporal, etcd, one or two API servers, all on free ports of 127.0.0.1. */
export interface Stack {
  readonly dir: string;
  /** Of the first cluster. */
  readonly kubeconfig: string;
  /** All clusters. */
  readonly clusters: readonly [Cluster, ...Cluster[]];
  /** `127.0.0.1:<port>`, gRPC; the namespace is `default`. */
  readonly temporalAddress: string;
  /** Temporal's web interface. */
  readonly uiUrl: string;
  readonly temporal: ServerHandle;
  readonly etcd: ServerHandle;
  /** `http://127.0.0.1:<port>`, for direct access. Keys of the first cluster begin with `/cluster-1/`. */
  readonly etcdUrl: string;
  /** Stops all servers and removes a temporary folder. May be called again. */
  stop(): Promise<void>;
}

/** All servers are Go programs. Less frequent garbage collection saves a tenth of their CPU and costs 200 MB each. */
export const goSettings = { GOGC: '400' };

/**
 * Starts a local stack and resolves when every server answers. The servers end with this process, even after kill -9.
 * When one does not start, it stops the others and throws with the end of the log of that server.
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  // All programs first: a build takes longer than servers wait for each other.
  const programs = await findServers(['etcd', 'temporal', 'kube-apiserver']);
  const controllerManager = options.controllerManager ? await findServer('kube-controller-manager') : undefined;
  const dir = options.dir ? resolve(options.dir) : await mkdtemp(join(tmpdir(), 'millwright-stack-'));
  await mkdir(dir, { recursive: true });
  const releaseFolder = options.dir ? undefined : removeWhenOrphaned(dir);
  const etcdPort = await freePort();

  const servers: ServerHandle[] = [];
  const giveUp = new AbortController();
  const start: StartServer = async (command) => {
    const server = await startServer({ ...command, env: goSettings }, giveUp.signal);
    servers.push(server);
    return server;
  };
  const cluster = (name: string) =>
    startCluster(start, {
      name,
      dir: join(dir, name),
      etcdPort,
      apiServer: programs['kube-apiserver'],
      controllerManager,
      isAudited: options.isAudited ?? false,
    });
  const starting = [
    startTemporal(start, programs.temporal, dir, options.temporal),
    startEtcd(start, programs.etcd, dir, etcdPort),
    cluster('cluster-1'),
    ...(options.clusters === 2 ? [cluster('cluster-2')] : []),
  ] as const;
  let etcd: ServerHandle | undefined;
  const stop = async () => {
    // An API server that has lost its etcd does not end before a deadline of its own.
    await Promise.all(servers.filter((server) => server !== etcd).map((server) => server.kill()));
    await etcd?.kill();
    if (!releaseFolder) return;
    await rm(dir, { recursive: true, force: true });
    releaseFolder();
  };
  try {
    const [temporal, etcdServer, ...clusters] = await Promise.all(starting);
    etcd = etcdServer;
    const etcdUrl = `http://127.0.0.1:${etcdPort}`;
    return { dir, kubeconfig: clusters[0].kubeconfig, clusters, ...temporal, etcd, etcdUrl, stop };
  } catch (error) {
    giveUp.abort();
    await Promise.allSettled(starting);
    await stop();
    throw error;
  }
}

/** Starts an etcd of its own, without TLS, and resolves when it answers. */
export async function startEtcd(
  start: StartServer,
  executable: string,
  dir: string,
  port: number,
): Promise<ServerHandle> {
  const url = `http://127.0.0.1:${port}`;
  return start({
    name: 'etcd',
    executable,
    args: [
      `--data-dir=${join(dir, 'etcd')}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=http://127.0.0.1:${await freePort()}`,
      '--unsafe-no-fsync',
      '--log-level=warn',
    ],
    logFile: join(dir, 'etcd.log'),
    ready: () => answers(`${url}/health`),
  });
}

/** Starts a Temporal server, with its workflows in a file or in memory, and resolves when it answers. */
export async function startTemporal(
  start: StartServer,
  executable: string,
  dir: string,
  { dbFile, isBare = false }: NonNullable<StackOptions['temporal']> = {},
) {
  const [port, uiPort, httpPort] = [await freePort(), await freePort(), await freePort()];
  const uiUrl = `http://127.0.0.1:${uiPort}`;
  const namespaceUrl = `http://127.0.0.1:${httpPort}/api/v1/namespaces/default`;
  const dynamicConfig = [
    'system.enableActivityEagerExecution=true',
    'history.hostLevelCacheMaxSize=32768',
    // One server has nothing from parts of a task queue: they take a fifth of its CPU.
    'matching.numTaskqueueReadPartitions=1',
    'matching.numTaskqueueWritePartitions=1',
    'frontend.namespaceRPS.visibility=1000',
    // Tests that signal or terminate workflows by a query do so side by side.
    'frontend.MaxConcurrentBatchOperationPerNamespace=100',
    // As a server has it that is no development server: otherwise each read of search attributes asks the database.
    'system.forceSearchAttributesCacheRefreshOnRead=false',
    // Says after seconds instead of a minute that the code of a workflow fails.
    'system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2',
  ];
  const temporal = await start({
    name: 'temporal',
    executable,
    args: [
      ...['server', 'start-dev', '--ip', '127.0.0.1', '--log-level', 'error', '--ui-disable-news-fetch'],
      ...['--port', `${port}`, '--ui-port', `${uiPort}`, '--http-port', `${httpPort}`],
      // Without these two pragmas a database file makes the server 2.3 times slower.
      ...(dbFile
        ? ['--db-filename', dbFile, '--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=NORMAL']
        : []),
      ...dynamicConfig.flatMap((value) => ['--dynamic-config-value', value]),
      ...(isBare ? [] : Object.values(searchAttributes)).flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
    ],
    logFile: join(dir, 'temporal.log'),
    ready: async () => (await answers(namespaceUrl)) && (await answers(`${namespaceUrl}/workflow-count`)),
  });
  return { temporal, temporalAddress: `127.0.0.1:${port}`, uiUrl };
}

async function answers(url: string): Promise<boolean> {
  const { statusCode, body } = await request(url);
  await body.dump();
  return statusCode === 200;
}
