/** The life of a process that serves until it is told to end. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { KubeClient, RequestObservation } from '../../kube/client.ts';
import type { serverFlags } from '../flags.ts';
import type { Options } from '../options.ts';
import { connectCluster, isOneCluster } from '../servers.ts';
import { startHttp } from './http.ts';
import { createLogger } from './logger.ts';
import { createMetrics } from './metrics.ts';

/** What parts are made with. */
export interface PartDeps {
  readonly control: KubeClient;
  /** The same client where there is one cluster. */
  readonly target: KubeClient;
  readonly logger: Logger;
  /** Command that runs, part of the user agent. */
  readonly component: string;
  /** Of the metrics of the process. */
  readonly registry: Registry;
}

/** A running half of Millwright: the controllers or the workers. */
export interface Part {
  /** What is not ready yet; empty when everything is. */
  missing(): string[];
  /** What else /readyz tells. */
  details?(): object;
  /** Rejects when it has ended by itself. */
  readonly failed?: Promise<never>;
  stop(): Promise<void>;
}

/** Ctrl-C reaches all processes of a terminal, and `npm run` hands it on to us as well: one signal that comes twice, ms. */
const sameSignalMs = 500;
/** Kubernetes kills a pod 30 s after it was asked to end; before that we give up and say so, ms. */
const endsWithinMs = 28_000;

/**
 * Starts the parts in order and serves until SIGTERM or SIGINT, then ends in the reverse order: no longer ready, the
 * parts, the clients of the clusters, HTTP. A second signal ends at once with code 1. Throws an Error of one line when a
 * server does not answer at the start or a part ends by itself.
 */
export async function serve(
  component: string,
  options: Options<(typeof serverFlags)[number]>,
  startParts: readonly ((deps: PartDeps) => Promise<Part>)[],
): Promise<void> {
  const logger = createLogger(options);
  const metrics = createMetrics();
  const { registry } = metrics;
  const signal = untilSignal(logger);
  const parts: Part[] = [];
  /** What was started, to be stopped in reverse. */
  const stops: (() => Promise<void>)[] = [];
  let missing = () => ['start'];
  const details = () => Object.assign({}, ...parts.map((part) => part.details?.()));

  async function connect(cluster: 'control' | 'target'): Promise<KubeClient> {
    const observe = (request: RequestObservation) => metrics.observeRequest(cluster, request);
    const client = await connectCluster(cluster, options, component, observe);
    stops.push(client.close);
    return client;
  }

  async function start(): Promise<void> {
    const http = await startHttp({ ...options, registry, missing: () => missing(), details });
    stops.push(http.close);
    logger.info({ url: http.url }, 'serving health and metrics');
    const control = await connect('control');
    const target = isOneCluster(options) ? control : await connect('target');
    for (const startPart of startParts) {
      const part = await startPart({ control, target, logger, component, registry });
      parts.push(part);
      stops.push(part.stop);
    }
    missing = () => parts.flatMap((part) => part.missing());
    logger.info({}, 'started');
  }

  process.once('uncaughtException', (err) => {
    logger.fatal({ err, stack: err.stack }, 'ending because of an unexpected error');
    process.exit(1);
  });
  const starting = start();
  starting.catch(() => undefined); // told below, unless a signal came first
  try {
    await Promise.race([starting, signal]);
    await Promise.race([signal, ...parts.flatMap(({ failed }) => failed ?? [])]).catch((err: unknown) => {
      // Now, as what is under way takes its time to end.
      logger.error({ err }, 'ending because of a failure');
      throw err;
    });
  } finally {
    missing = () => ['the process is ending'];
    setTimeout(() => {
      logger.fatal({}, `something has not ended within ${endsWithinMs / 1000} s`);
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
