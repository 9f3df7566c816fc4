/** The metrics of every process that serves. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { RequestObservation } from '../../kube/client.ts';
import { revision, version } from '../../temporal/version.ts';

export interface Metrics {
  readonly registry: Registry;
  /** Counts a request to a cluster, `control` or `target`. */
  observeRequest(cluster: string, request: RequestObservation): void;
  /** Counts a part of a scrape that could not be read. */
  countScrapeFailure(kind: ScrapeKind): void;
  /** The answer to a scrape: the metrics of the registry, and those of Temporal's SDK. */
  scrape(): Promise<string>;
}

/** Parts of a scrape that others have to answer. */
export type ScrapeKind = 'backlogs' | 'blocked' | 'sweeps' | 'sdk';

/** HTTP methods of what is not read. */
const methods: Readonly<Record<string, string>> = { create: 'POST', patch: 'PATCH', delete: 'DELETE', evict: 'POST' };

/**
 * Metrics of the process itself, and of its requests to API servers.
 * @param readSdkMetrics answers text for Prometheus; may throw
 */
export function createMetrics(readSdkMetrics: () => Promise<string>): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: 'millwright_build_info',
    help: 'Always 1. The version of Millwright that this process runs, and the commit that it was made of; empty if nobody knows it.',
    labelNames: ['version', 'revision'],
    registers: [registry],
  }).set({ version, revision: revision() }, 1);
  const requests = new Counter({
    name: 'millwright_kube_requests_total',
    help: 'Requests to API servers. Code "error": there was no answer.',
    labelNames: ['cluster', 'verb', 'resource', 'code'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'millwright_kube_request_duration_seconds',
    help: 'Time until API servers answered. For a watch, until it began.',
    labelNames: ['cluster', 'verb', 'resource'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [registry],
  });
  const restRequests = new Counter({
    name: 'rest_client_requests_total',
    help: 'Requests to API servers, as client-go counts them.',
    labelNames: ['code', 'method', 'host'],
    registers: [registry],
  });
  const restSeconds = new Histogram({
    name: 'rest_client_request_latency_seconds',
    help: 'Time until API servers answered, as client-go measures it; url has no names of objects.',
    labelNames: ['verb', 'url'],
    buckets: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30],
    registers: [registry],
  });
  const scrapeFailures = new Counter({
    name: 'mcm_misc_scrape_failure_total',
    help: 'Parts of a scrape that were not answered: backlogs, blocked and sweeps by Temporal, sdk by its SDK in this process.',
    ...{ labelNames: ['kind'], registers: [registry] },
  });
  const countScrapeFailure = (kind: ScrapeKind) => scrapeFailures.inc({ kind });

  async function readSdk(): Promise<string> {
    try {
      return await readSdkMetrics();
    } catch {
      countScrapeFailure('sdk');
      return '';
    }
  }

  return {
    registry,
    countScrapeFailure,
    async scrape() {
      const sdk = await readSdk();
      return `${await registry.metrics()}${sdk}`;
    },
    observeRequest(cluster, { server, verb, resource, status, seconds: took }) {
      requests.inc({ cluster, verb, resource, code: status });
      seconds.observe({ cluster, verb, resource }, took);
      const method = methods[verb] ?? 'GET';
      restRequests.inc({ code: status === 'error' ? '<error>' : status, method, host: new URL(server).host });
      restSeconds.observe({ verb: method, url: `${server}/${resource.replace(/^\//, '')}` }, took);
    },
  };
}
