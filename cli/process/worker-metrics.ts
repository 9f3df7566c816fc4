/** The metrics of workers. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { WorkersOptions } from '../../temporal/worker.ts';

/** What a worker calls whenever something happens that is counted. */
export type WorkerObservers = Required<
  Pick<
    WorkersOptions,
    'onFailedRun' | 'onRequestRate' | 'onRequest' | 'onProviderCall' | 'onActivityFailure' | 'onPhaseEnded'
  >
>;

/** Registers what is counted while workers work. */
export function countWork(registry: Registry): WorkerObservers {
  return {
    onFailedRun: countFailedRuns(registry),
    onRequestRate: showRequestRates(registry),
    ...countProviderCalls(registry),
    ...countActivities(registry),
  };
}

/** @param isPaused asked at each scrape */
export function showPauses(registry: Registry, isPaused: () => boolean): void {
  new Gauge({
    name: 'millwright_workers_paused',
    help: '1 while the workers pause because a process other than Millwright holds a Lease.',
    registers: [registry],
    collect() {
      this.set(isPaused() ? 1 : 0);
    },
  });
}

const failedRuns = 'millwright_workflow_runs_failed_total';

/**
 * Counts failed runs of workflows, each followed by another run: workers report those that fail, controllers those that
 * they end. Both may be in one process.
 */
export function countFailedRuns(registry: Registry): (workflowType: string, reason: string) => void {
  const known = registry.getSingleMetric(failedRuns);
  const failed =
    known instanceof Counter
      ? known
      : new Counter({
          name: failedRuns,
          help: 'Failed runs of workflows, each followed by another run; reason "WorkflowTask": one that the controllers have ended. Late rollouts do not count.',
          labelNames: ['workflow_type', 'reason'],
          registers: [registry],
        });
  return (workflowType, reason) => failed.inc({ workflow_type: workflowType, reason });
}

const phaseBuckets = [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_200, 3_600, 4 * 3_600, 24 * 3_600];

function countActivities(registry: Registry): Pick<WorkerObservers, 'onActivityFailure' | 'onPhaseEnded'> {
  const failures = new Counter({
    name: 'millwright_activity_failures_total',
    help: 'Attempts of activities that failed, by code; those of providers are in mcm_cloud_api_driver_requests_failed_total.',
    ...{ labelNames: ['activity', 'code'], registers: [registry] },
  });
  const phases = new Histogram({
    name: 'millwright_machine_phase_duration_seconds',
    help: 'How long machines were in a phase, once they have left it; "New" before the first. The provider is empty where it is not known.',
    ...{ labelNames: ['phase', 'provider'], buckets: phaseBuckets, registers: [registry] },
  });
  return {
    onActivityFailure: (labels) => failures.inc({ ...labels }),
    onPhaseEnded: ({ phase, provider = '', seconds }) => phases.observe({ phase: phase || 'New', provider }, seconds),
  };
}

/** Shows how fast requests are sent to clouds: a row for each provider, endpoint and credentials. */
function showRequestRates(registry: Registry): NonNullable<WorkersOptions['onRequestRate']> {
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

/** Names of machine-controller-manager for what a provider does, by the activity that does it. */
const operations: Readonly<Record<string, string>> = {
  ensureVm: 'create_machine',
  deleteVm: 'delete_machine',
  listVms: 'list_machines',
  volumeIds: 'get_volume_ids',
  updateVm: 'update_machine',
  validateClass: 'validate_class',
  listInterruptions: 'list_interruptions',
};

const requestBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

/**
 * Counts and measures the activities of providers, and their requests to clouds, under the names of
 * machine-controller-manager.
 */
function countProviderCalls(registry: Registry): Required<Pick<WorkersOptions, 'onProviderCall' | 'onRequest'>> {
  const registers = [registry];
  const seconds = new Histogram({
    name: 'mcm_cloud_api_driver_request_duration_seconds',
    help: 'How long an activity of a provider took that succeeded.',
    ...{ labelNames: ['provider', 'operation'], buckets: requestBuckets, registers },
  });
  const failed = new Counter({
    name: 'mcm_cloud_api_driver_requests_failed_total',
    help: 'Activities of a provider that failed, by code.',
    ...{ labelNames: ['provider', 'operation', 'error_code'], registers },
  });
  const requests = new Counter({
    name: 'mcm_cloud_api_requests_total',
    help: 'Requests to a cloud; service is its endpoint.',
    ...{ labelNames: ['provider', 'service'], registers },
  });
  const failedRequests = new Counter({
    name: 'mcm_cloud_api_requests_failed_total',
    help: 'Requests that a cloud has refused or not answered.',
    ...{ labelNames: ['provider', 'service'], registers },
  });
  const requestSeconds = new Histogram({
    name: 'mcm_cloud_api_api_request_duration_seconds',
    help: 'How long a request to a cloud took that succeeded.',
    ...{ labelNames: ['provider', 'service'], buckets: requestBuckets, registers },
  });
  return {
    onProviderCall({ provider, activity, seconds: took, code }) {
      const labels = { provider, operation: operations[activity] ?? activity };
      if (code === undefined) seconds.observe(labels, took);
      else failed.inc({ ...labels, error_code: code });
    },
    onRequest({ provider, endpoint: service, seconds: took, hasFailed }) {
      requests.inc({ provider, service });
      if (hasFailed) failedRequests.inc({ provider, service });
      else requestSeconds.observe({ provider, service }, took);
    },
  };
}
