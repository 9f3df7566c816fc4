/** The endpoints for whoever looks after the process: /livez, /readyz and /metrics. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Registry } from 'prom-client';

export interface HttpOptions {
  readonly address: string;
  /** 0 for any that is free. */
  readonly port: number;
  readonly registry: Registry;
  /** What keeps the process from being ready; empty when nothing does. */
  readonly missing: () => string[];
}

/** A process whose event loop stood still for longer is of no use, ms. */
const maxLagMs = 5_000;

/**
 * Serves until closed. /livez tells about this process alone: restarting it helps against no outage of a server.
 * Throws an Error that names the flags when it cannot listen.
 */
export async function startHttp(options: HttpOptions): Promise<{ readonly url: string; close(): Promise<void> }> {
  const { address, port, registry, missing } = options;
  const delay = monitorEventLoopDelay({ resolution: 100 });
  delay.enable();

  async function answer(path: string, response: ServerResponse): Promise<void> {
    switch (path) {
      case '/livez': {
        const lagMs = Math.round(delay.max / 1e6);
        delay.reset();
        return send(response, lagMs < maxLagMs ? 200 : 503, { eventLoopLagMs: lagMs });
      }
      case '/readyz': {
        const waitingFor = missing();
        return send(response, waitingFor.length === 0 ? 200 : 503, { missing: waitingFor });
      }
      case '/metrics':
        response.writeHead(200, { 'content-type': registry.contentType }).end(await registry.metrics());
        return;
      default:
        return send(response, 404, { paths: ['/livez', '/readyz', '/metrics'] });
    }
  }

  const server = createServer((request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    answer(path, response).catch(() => response.writeHead(500).end());
  });
  server.listen(port, address);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`cannot serve HTTP (${reason}): correct --address or --port`, { cause });
  }
  const bound = server.address() as AddressInfo;
  return {
    url: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    async close() {
      delay.disable();
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
}
