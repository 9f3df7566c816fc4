/** docs/reference/metrics.md, from the metrics that processes register. */
import { Registry } from 'prom-client';
import { dialect } from '../../cli/dialect.ts';
import { countChanges, showStanding } from '../../cli/process/controller-metrics.ts';
import { createMetrics } from '../../cli/process/metrics.ts';
import { countWork, showPauses } from '../../cli/process/worker-metrics.ts';

/** Content of docs/reference/metrics.md. */
export function metricsDoc(): string {
  const controllers = new Registry();
  countChanges(controllers, dialect);
  showStanding(controllers, dialect, { isLeader: () => false, objects: () => undefined, backlogs: async () => [] });
  const workers = new Registry();
  countWork(workers);
  showPauses(workers, () => false);
  return `<!-- Made from cli/process and api/gardener/metrics.ts by \`npm run generate\`. Do not edit. -->
# Metrics

Each process answers \`/metrics\` at \`--address\` and \`--port\`. \`millwright run\` has the metrics of all three tables.

Those that begin with \`mcm_\` and \`rest_client_\` have the names and labels of machine-controller-manager. Unlike there, the series
of an object end with it, and only the leading controllers show objects. Of its metrics these are missing:
\`mcm_workqueue_*\` and \`mcm_reflector_*\`, which describe the inside of client-go;
\`mcm_machine_initialize_duration_seconds\`, because an initialization is part of the creation; and \`mcm_misc_scrape_failure_total\`,
because a scrape reads nothing that can fail.

## Controllers

${tableOf(controllers)}

## Workers

${tableOf(workers)}

## Every process

Besides the usual ones of a Node.js process, \`process_*\` and \`nodejs_*\`:

${tableOf(createMetrics().registry)}
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
