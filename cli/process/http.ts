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
 * For how long /livez fails after such a block, ms. One or two of the chart's probes, every 10 s, notice it. Three
 * failures in a row would end the process.
 */
const lagKeptMs = 15_000;

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
        const lagMs = lag.worstMs();
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
  const { url, close } = await listen(server, { address, port }, '--address or --port');
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

/** Measures how late a timer fires. perf_hooks measures this as well, but only until it is read. */
export function watchEventLoop() {
  const tickMs = 500;
  let tickedAt = performance.now();
  let ticks: { readonly at: number; readonly lateMs: number }[] = [];
  const isKept = ({ at }: { readonly at: number }) => performance.now() - at < lagKeptMs;
  const lateMs = () => performance.now() - tickedAt - tickMs;
  const timer = setInterval(() => {
    const tick = { at: performance.now(), lateMs: lateMs() };
    ticks = [...ticks.filter(isKept), tick];
    tickedAt = tick.at;
  }, tickMs).unref();
  return {
    /** Longest time that the event loop was blocked recently, ms. Reading it changes nothing: several may ask. */
    worstMs: () => Math.round(Math.max(0, lateMs(), ...ticks.filter(isKept).map((tick) => tick.lateMs))),
    stop: () => clearInterval(timer),
  };
}
