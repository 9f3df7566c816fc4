/** docs/reference/metrics.md, from the metrics that processes register. */
import { Registry } from 'prom-client';
import { dialect } from '../../cli/dialect.ts';
import { countChanges, showStanding } from '../../cli/process/controller-metrics.ts';
import { createMetrics } from '../../cli/process/metrics.ts';
import { observeQueues, observeWatches } from '../../cli/process/queue-metrics.ts';
import { createTemporalHealth } from '../../cli/process/temporal-health.ts';
import { countFailedRuns, countWork, showPauses } from '../../cli/process/worker-metrics.ts';

/** Content of docs/reference/metrics.md. */
export function metricsDoc(): string {
  const controllers = new Registry();
  countChanges(controllers, dialect, () => undefined);
  const none = async () => [];
  showStanding(controllers, dialect, {
    ...{ isLeader: () => false, objects: () => undefined },
    ...{ backlogs: none, blocked: none, sweeps: none, sweepPeriodSeconds: 0, countScrapeFailure: () => undefined },
  });
  observeQueues(controllers);
  observeWatches(controllers);
  countFailedRuns(controllers);
  const workers = new Registry();
  countWork(workers);
  showPauses(workers, () => false);
  const { registry: every } = createMetrics(async () => '');
  createTemporalHealth(every);
  return `<!-- Made from cli/process and api/gardener/metrics.ts by \`npm run generate\`. Do not edit. -->
# Metrics

Each process answers \`/metrics\` at \`--address\` and \`--port\`. \`millwright run\` has the metrics of all tables.

Those that begin with \`mcm_\` and \`rest_client_\` have the names and labels of machine-controller-manager. Unlike there, the series
of an object end with it, and only the leading controllers show objects. \`machine_deployment\` is the label \`name\` of the Machine,
as there; of a Machine without this label it is the MachineDeployment that owns it.

Queues and watches have its names where they are the same thing here: \`machine\`, \`machineset\`, \`machinedeployment\`,
\`machineclass\`, \`secret\`, \`node\`, \`machinesafetyovershooting\` and \`machinesafetyorphanvms\`, which keeps the Schedule of the
sweeps. Other queues have names of their own; those that end with \`-resync\` repeat what events may have missed. There is no
queue \`machinetermination\`, because deletions are in \`machine\`, and no \`machinesafetyapiserver\`: the watches notice themselves
when an API server does not answer.

## Controllers

${tableOf(controllers)}

## Workers

${tableOf(workers)}

## Every process

Besides the usual ones of a Node.js process, \`process_*\` and \`nodejs_*\`:

${tableOf(every)}

## Temporal's SDK

Processes with workers also have the [metrics of Temporal's SDK](https://docs.temporal.io/references/sdk-metrics), under the names
there and in seconds. Those that are asked for most:

| metric | meaning |
|---|---|
| \`temporal_workflow_task_schedule_to_start_latency\` | How long workflow tasks wait for a worker. If they wait long, start more workers. |
| \`temporal_workflow_task_execution_latency\` | How long a worker took for a workflow task. |
| \`temporal_workflow_task_execution_failed\` | Workflow tasks that failed: the code of a workflow fails, or cannot be replayed. |
| \`temporal_activity_schedule_to_start_latency\` | The same wait of activities, by task queue. |
| \`temporal_activity_execution_latency\`, \`temporal_local_activity_execution_latency\` | How long an activity took, by type. |
| \`temporal_worker_task_slots_available\` | How much more a worker can take on, by kind. |
| \`temporal_request_failure\`, \`temporal_long_request_failure\` | Requests that Temporal has refused or not answered. |
`;
}

/** What prom-client knows of a metric, beyond its public type. */
interface Registered {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

function tableOf(registry: Registry): string {
  const registered = registry.getMetricsAsArray() as unknown as readonly Registered[];
  const rows = registered
    .filter(({ name }) => !/^(process|nodejs)_/.test(name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, type, labelNames, help }) => {
      const labels = labelNames.map((label) => `\`${label}\``).join(', ');
      return `| \`${name}\` | ${type} | ${labels} | ${help} |`;
    });
  return ['| metric | type | labels | meaning |', '|---|---|---|---|', ...rows].join('\n');
}
