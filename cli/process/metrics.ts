/** The metrics that /metrics serves. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { RequestObservation } from '../../kube/client.ts';
import type { WorkersOptions } from '../../temporal/worker.ts';

export interface Metrics {
  readonly registry: Registry;
  /** Counts a request to a cluster, `control` or `target`. */
  observeRequest(cluster: string, request: RequestObservation): void;
}

/** Counts failed runs of workflows, each reported by the run that took over. */
export function countFailedRuns(registry: Registry): (workflowType: string, reason: string) => void {
  const failed = new Counter({
    name: 'millwright_workflow_runs_failed_total',
    help: 'Failed runs of workflows, each followed by another run. Late rollouts do not count.',
    labelNames: ['workflow_type', 'reason'],
    registers: [registry],
  });
  return (workflowType, reason) => failed.inc({ workflow_type: workflowType, reason });
}

/** Shows how fast requests are sent to clouds: a row for each provider, endpoint and credentials. */
export function showRequestRates(registry: Registry): NonNullable<WorkersOptions['onRequestRate']> {
  type Labelled = Parameters<NonNullable<WorkersOptions['onRequestRate']>>;
  const rates = new Map<string, Labelled>();
  const common = { labelNames: ['provider', 'endpoint', 'credentials'], registers: [registry] };
  new Gauge({
    ...common,
    name: 'millwright_cloud_requests_per_second_limit',
    help: 'Requests that a worker sends to a cloud a second at most. Throttling by the cloud lowers it.',
    collect() {
      for (const [labels, rate] of rates.values()) this.set({ ...labels }, rate.state.perSecond);
    },
  });
  new Gauge({
    ...common,
    name: 'millwright_cloud_requests_waiting',
    help: 'Requests that wait until they may be sent to a cloud.',
    collect() {
      for (const [labels, rate] of rates.values()) this.set({ ...labels }, rate.state.waiting);
    },
  });
  new Counter({
    ...common,
    name: 'millwright_cloud_requests_throttled_total',
    help: 'Requests that a cloud has throttled.',
    collect() {
      this.reset();
      for (const [labels, rate] of rates.values()) this.inc({ ...labels }, rate.state.throttled);
    },
  });
  return (labels, rate) => rates.set(Object.values(labels).join(' '), [labels, rate]);
}

/** Metrics of the process itself, and of its requests to API servers. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
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
  return {
    registry,
    observeRequest(cluster, { verb, resource, status, seconds: took }) {
      requests.inc({ cluster, verb, resource, code: status });
      seconds.observe({ cluster, verb, resource }, took);
    },
  };
}
