/** Connections to the Temporal server for workers, and the metrics of the SDK that has them. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { IllegalStateError } from '@temporalio/common';
import { NativeConnection, Runtime } from '@temporalio/worker';
import type { Logger } from '../kube/logger.ts';
import { openChecked, sdkOptions, type TemporalServer } from './connection.ts';
import { toSdkLogger } from './sdk-logger.ts';

/** How long the SDK may take to answer a scrape, ms. */
const sdkMetricsMs = 2_000;

/**
 * Connects for workers. From the first such connection on the SDK logs to `logger`; the process handles its signals
 * itself. Throws as `connectClient` does.
 */
export async function connectWorkers(server: TemporalServer, logger: Logger): Promise<NativeConnection> {
  await installRuntime(logger);
  // gzip costs a tenth of the CPU of a machine's life, and gains nothing without a network.
  const grpcCompression = { codec: isLoopback(server.address) ? 'none' : 'gzip' } as const;
  return openChecked(server, () => NativeConnection.connect({ ...sdkOptions(server), grpcCompression }));
}

function isLoopback(address: string): boolean {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  return host === 'localhost' || host.startsWith('127.') || host === '::1';
}

/** Where the SDK serves its metrics, once there was a connection for workers. */
let sdkMetricsUrl: string | undefined;

/**
 * The metrics of the SDK's workers, as text for Prometheus; empty before the first connection for workers. Throws an
 * Error when the SDK does not answer.
 */
export async function readSdkMetrics(): Promise<string> {
  if (sdkMetricsUrl === undefined) return '';
  const answer = await fetch(sdkMetricsUrl, { signal: AbortSignal.timeout(sdkMetricsMs) });
  return answer.text();
}

/** How often a port is looked for that another process takes before the SDK listens on it. */
const portAttempts = 5;

/**
 * The SDK has one runtime in each process, which ends with the last connection. It serves its metrics to this process.
 */
async function installRuntime(logger: Logger): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const bindAddress = `127.0.0.1:${await findFreePort()}`;
    try {
      Runtime.install({
        logger: toSdkLogger(logger),
        telemetryOptions: {
          logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} },
          metrics: { prometheus: { bindAddress, useSecondsForDurations: true }, attachServiceName: false },
        },
        // The process stops its parts in an order of its own.
        shutdownSignals: [],
      });
      sdkMetricsUrl = `http://${bindAddress}/metrics`;
      return;
    } catch (error) {
      if (error instanceof IllegalStateError) return; // there is one already
      const isTaken = error instanceof Error && error.message.includes('Address already in use');
      if (!isTaken || attempt === portAttempts) throw error;
    }
  }
}

/** The SDK does not say which port it got where it could choose one. */
async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
