/**
 * The Millwright that the tests of a run share: one process, in which each installation has workers and controllers of
 * its own, as in `millwright run`. A process for each would cost a second of CPU more. POST / with a HostRequest starts
 * one and answers when it is ready, DELETE /<namespace> ends it.
 */
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import pino from 'pino';
import { takeLessMemory } from '../../cli/process/less-memory.ts';
import { keepAliveTimeout } from '../../deploy/local/keep-alive.ts';
import { until } from './until.ts';

/** What an installation is started with. */
export interface HostRequest {
  readonly namespace: string;
  /** What is given to `millwright run`, by the names of its options. With both kubeconfigs. */
  readonly options: Readonly<Record<string, string>>;
  /** Takes the log, JSON lines. */
  readonly logFile: string;
}

takeLessMemory(); // as `millwright run`, and as there not where the young heap has a size

interface Hosted {
  readonly logFile: string;
  stop(): Promise<void>;
}

const installations = new Map<string, Hosted>();

/** Of Temporal's SDK, which logs for the whole process: a line goes to the installation that it names, else to all. */
const sdkLogger = pino(
  {
    name: 'temporal',
  },
  {
    write(line: string) {
      const named = [...installations].filter(([namespace]) => line.includes(namespace));
      const to = named.length > 0 ? named.map(([, hosted]) => hosted) : installations.values();
      for (const { logFile } of to) appendFileSync(logFile, line);
    },
  },
);

let loaded: ReturnType<typeof load> | undefined;

/** Loads Millwright when the first test wants it: most of the runs of a single file do not. */
async function load() {
  const { FastSandboxWorker } = await import('../../temporal/fast-sandbox.ts');
  shareWorkflowThread(FastSandboxWorker as unknown as WorkerClass);
  const [run, options, servers, components, health, client, config, connection, prometheus] = await Promise.all([
    import('../../cli/commands/serve/command.ts'),
    import('../../cli/options.ts'),
    import('../../cli/temporal-server.ts'),
    import('../../cli/process/components.ts'),
    import('../../cli/process/temporal-health.ts'),
    import('../../kube/client.ts'),
    import('../../kube/config.ts'),
    import('../../temporal/worker-connection.ts'),
    import('prom-client'),
  ]);
  return {
    ...run,
    ...options,
    ...servers,
    ...components,
    ...health,
    ...client,
    ...config,
    ...connection,
    ...prometheus,
  };
}

/** What the SDK's class of workers keeps to itself. */
interface WorkerClass {
  createWorkflowCreator(...args: readonly unknown[]): Promise<{ destroy(): Promise<void> }>;
}

/**
 * One thread runs the workflows of all installations: to start one for each would take half of the CPU of their start.
 * It has the bundle and the names of activities of the first one, which are those of all.
 */
function shareWorkflowThread(workers: WorkerClass): void {
  const create = workers.createWorkflowCreator.bind(workers);
  let shared: ReturnType<typeof create> | undefined;
  const keep = async (...args: Parameters<typeof create>) =>
    Object.assign(await create(...args), { destroy: async () => undefined });
  workers.createWorkflowCreator = (...args) => (shared ??= keep(...args));
}

async function start({ namespace, options: given, logFile }: HostRequest): Promise<void> {
  const millwright = await (loaded ??= load());
  const options = millwright.parseOptions(millwright.runCommand.flags, { namespace, ...given }, process.env);
  const logger = pino({ level: options.logLevel }, pino.destination({ dest: logFile, sync: true }));
  const connect = (path: string) => {
    const limits = { qps: options.kubeApiQps, burst: options.kubeApiBurst };
    const access = millwright.loadKubeconfig(path);
    return millwright.createKubeClient({ access, userAgent: 'millwright/test (run)', ...limits });
  };
  const clients = { control: connect(options.controlKubeconfig), target: connect(options.targetKubeconfig) };
  const stops = [clients.control.close, clients.target.close];
  installations.set(namespace, {
    logFile,
    async stop() {
      for (const stop of stops.toReversed()) await stop();
    },
  });
  // The first connection says where the SDK logs to.
  await (await millwright.connectWorkers(millwright.temporalServer(options), sdkLogger)).close();
  const registry = new millwright.Registry();
  const ending = new AbortController();
  stops.push(async () => ending.abort());
  const deps = {
    ...clients,
    logger,
    command: 'run',
    registry,
    countScrapeFailure: () => undefined,
    temporal: millwright.createTemporalHealth(registry),
    stopping: ending.signal,
  };
  const components: { missing(): readonly string[] }[] = [];
  for (const startComponent of [millwright.startWorkersComponent, millwright.startControllersComponent]) {
    const component = await startComponent(options, deps);
    component.failed?.catch((err: unknown) => logger.error({ err }, 'has ended by itself'));
    stops.push(component.stop);
    components.push(component);
  }
  await until('nothing is missing', (see) => see(components.flatMap(({ missing }) => missing())).length === 0);
}

async function answer(request: IncomingMessage): Promise<void> {
  if (request.method === 'POST') return start(JSON.parse(await text(request)) as HostRequest);
  const namespace = (request.url ?? '').slice(1);
  await installations.get(namespace)?.stop();
  installations.delete(namespace);
}

const server = createServer({ keepAliveTimeout }, (request, response) => {
  answer(request).then(
    () => response.writeHead(204).end(),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
