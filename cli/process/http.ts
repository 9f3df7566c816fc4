/** The endpoints /livez, also as /healthz, /readyz and /metrics. */
import { createServer, type ServerResponse } from 'node:http';
import { forAllowedHosts } from './allowed-hosts.ts';
import { listen } from './listen.ts';
import type { Metrics } from './metrics.ts';

export interface HttpOptions {
  readonly address: string;
  /** 0: any free port. */
  readonly port: number;
  /** Besides those that are always allowed. */
  readonly allowedHosts: readonly string[];
  readonly metrics: Pick<Metrics, 'registry' | 'scrape'>;
  /** What is not ready yet; empty when the process is ready. */
  readonly missing: () => string[];
  /** Further fields of the answer of /readyz. */
  readonly details?: () => object;
}

/**
 * Longer than Prometheus keeps an unused connection (5 min), ms. A request may fail if the server closes its connection
 * just then.
 */
const keepAliveTimeout = 600_000;

/** /livez fails when the event loop was blocked for longer, ms. */
const maxLagMs = 5_000;

/**
 * Serves until closed. /livez reports this process only: a restart does not help against an outage of a server.
 * Throws an Error that names the flags when it cannot listen.
 */
export async function startHttp(options: HttpOptions): Promise<{ readonly url: string; close(): Promise<void> }> {
  const { address, port, allowedHosts, metrics, missing, details } = options;
  const lag = watchEventLoop();

  async function answer(path: string, response: ServerResponse): Promise<void> {
    switch (path) {
      case '/healthz': // of machine-controller-manager
      case '/livez': {
        const lagMs = lag.takeWorstMs();
        return send(response, lagMs < maxLagMs ? 200 : 503, { eventLoopLagMs: lagMs });
      }
      case '/readyz': {
        const waitingFor = missing();
        return send(response, waitingFor.length === 0 ? 200 : 503, { missing: waitingFor, ...details?.() });
      }
      case '/metrics': {
        const text = await metrics.scrape();
        response.writeHead(200, { 'content-type': metrics.registry.contentType }).end(text);
        return;
      }
      default:
        return send(response, 404, { paths: ['/livez', '/readyz', '/metrics'] });
    }
  }

  const listener = forAllowedHosts(allowedHosts, (request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    answer(path, response).catch((error: unknown) => send(response, 500, { error: String(error) }));
  });
  const server = createServer({ keepAliveTimeout }, listener);
  const { url, close } = await listen(server, { address, port }, '--port');
  return {
    url,
    async close() {
      lag.stop();
      await close();
    },
  };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
}

/** Measures how late a timer fires. perf_hooks measures this as well, but misses the time right after a reset. */
function watchEventLoop() {
  const tickMs = 500;
  let tickedAt = performance.now();
  let worstMs = 0;
  const tick = () => {
    const now = performance.now();
    worstMs = Math.max(worstMs, now - tickedAt - tickMs);
    tickedAt = now;
  };
  const timer = setInterval(tick, tickMs).unref();
  return {
    /** Longest time that the event loop was blocked since the last call, ms. */
    takeWorstMs() {
      tick();
      const taken = Math.round(Math.max(worstMs, 0));
      worstMs = 0;
      return taken;
    },
    stop: () => clearInterval(timer),
  };
}
