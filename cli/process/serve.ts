/** The life of a process that serves until a signal ends it. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { KubeClient, RequestObservation } from '../../kube/client.ts';
import { onlyKnownCluster } from '../../kube/known-cluster.ts';
import { createNoCluster } from '../../kube/no-cluster.ts';
import { reasonOf } from '../../temporal/connection.ts';
import { buildName } from '../../temporal/version.ts';
import { readSdkMetrics } from '../../temporal/worker-connection.ts';
import type { serverFlags, temporalFlags } from '../flag-groups.ts';
import { isOneCluster } from '../kubeconfig.ts';
import type { Options } from '../options.ts';
import { connectCluster, hasNoTarget } from '../servers.ts';
import { temporalServer } from '../temporal-server.ts';
import { startHttp } from './http.ts';
import { createLogger } from './logger.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { createTemporalHealth, type TemporalHealth } from './temporal-health.ts';

/** What components share. */
export interface ComponentDeps {
  readonly control: KubeClient;
  /** The same client where there is one cluster; one that finds nothing where there are no Nodes. */
  readonly target: KubeClient;
  readonly logger: Logger;
  /** Name of the command, part of the user agent. */
  readonly command: string;
  /** Metrics of the process. */
  readonly registry: Registry;
  readonly countScrapeFailure: Metrics['countScrapeFailure'];
  /** Has to hear of each connection to Temporal. */
  readonly temporal: TemporalHealth;
  /** Aborted when the process ends. */
  readonly stopping: AbortSignal;
}

/** The running controllers or workers. */
export interface Component {
  /** What is not ready yet; empty when the component is ready. */
  missing(): string[];
  /** Further fields of the answer of /readyz. */
  details?(): object;
  /** Rejects when the component has ended by itself. */
  readonly failed?: Promise<never>;
  stop(): Promise<void>;
}

/** After Ctrl-C the terminal and `npm run` both send the signal. A second one within this time is the same one, ms. */
const sameSignalMs = 500;
/** Kubernetes kills a pod after 30 s. Before that the process logs that something does not end, and exits, ms. */
const endsWithinMs = 28_000;

/**
 * Starts the components in order and serves until SIGTERM or SIGINT. Then /readyz fails, and everything stops in
 * reverse order: components, clients of the clusters, HTTP. A second signal ends the process at once with code 1.
 * Waits for Temporal. Logs why, and throws an Error without a message, when it cannot start, for example because a
 * cluster does not answer, and when a component ends by itself.
 * @param warnings lines about the command line, for the log
 */
export async function serve(
  command: string,
  options: Options<'namespace' | 'installation' | (typeof serverFlags | typeof temporalFlags)[number]>,
  warnings: readonly string[],
  startComponents: readonly ((deps: ComponentDeps) => Promise<Component>)[],
): Promise<void> {
  const logger = createLogger(options);
  for (const warning of warnings) logger.warn({}, warning);
  const metrics = createMetrics(readSdkMetrics);
  const { registry, countScrapeFailure } = metrics;
  const temporal = createTemporalHealth(registry);
  const ending = new AbortController();
  const signal = untilSignal(logger);
  const components: Component[] = [];
  /** Stops what was started, in reverse order. */
  const stops: (() => Promise<void>)[] = [];
  let missing = () => ['start'];
  const details = () =>
    Object.assign(
      { version: buildName(), ...temporal.details() },
      ...components.map((component) => component.details?.()),
    );

  async function connect(cluster: 'control' | 'target'): Promise<KubeClient> {
    const onRequest = (request: RequestObservation) => metrics.observeRequest(cluster, request);
    const client = await connectCluster(cluster, options, command, { onRequest });
    stops.push(client.close);
    return client;
  }

  async function connectTarget(control: KubeClient): Promise<KubeClient> {
    if (hasNoTarget(options)) return createNoCluster();
    const { namespace, installation = namespace } = options;
    const target = isOneCluster(options) ? control : await connect('target');
    return onlyKnownCluster(target, { control, namespace, installation }, logger);
  }

  async function start(): Promise<void> {
    const http = await startHttp({ ...options, metrics, missing: () => missing(), details });
    stops.push(http.close);
    logger.info({ url: http.url }, 'serving health and metrics');
    const control = await connect('control');
    const target = await connectTarget(control);
    for (const startComponent of startComponents) {
      const shared = { control, target, logger, command, registry, countScrapeFailure };
      const component = await startComponent({ ...shared, temporal, stopping: ending.signal });
      components.push(component);
      stops.push(component.stop);
    }
    missing = () => components.flatMap((component) => component.missing());
    const { namespace, installation = namespace } = options;
    const { address: temporalAddress, namespace: temporalNamespace } = temporalServer(options);
    const where = { namespace, installation, temporalAddress, temporalNamespace };
    logger.info({ command, version: buildName(), ...where }, 'started');
  }

  process.once('uncaughtException', (err) => {
    logger.fatal({ err, stack: err.stack }, 'ending because of an unexpected error');
    process.exit(1);
  });
  const starting = start();
  starting.catch(() => undefined); // thrown below, unless a signal came first
  try {
    await Promise.race([starting, signal]).catch((error: unknown) => {
      logger.fatal({ reason: reasonOf(error) }, 'ending: the process cannot start');
      throw new Error('', { cause: error }); // the command prints nothing more
    });
    await Promise.race([signal, ...components.flatMap(({ failed }) => failed ?? [])]).catch((err: unknown) => {
      // Logged now: stopping may take a while.
      logger.error({ err }, 'ending because of a failure');
      throw new Error('', { cause: err });
    });
  } finally {
    missing = () => ['the process is ending'];
    ending.abort();
    setTimeout(() => {
      logger.fatal({}, `ending: not everything stopped within ${endsWithinMs / 1000} s`);
      process.exit(1);
    }, endsWithinMs).unref();
    for (const stop of stops.toReversed()) await stop();
  }
  logger.info({}, 'ended');
}

/** Resolves with the first SIGTERM or SIGINT; the second ends the process. */
async function untilSignal(logger: Logger): Promise<void> {
  await new Promise<void>((resolve) => {
    let endingSince: number | undefined;
    const onSignal = (signal: NodeJS.Signals) => {
      if (endingSince !== undefined) {
        if (performance.now() - endingSince >= sameSignalMs) process.exit(1);
        return;
      }
      endingSince = performance.now();
      logger.info({ signal }, 'ending; a second signal ends at once');
      resolve();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}
