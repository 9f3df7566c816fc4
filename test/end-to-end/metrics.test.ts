/** The metrics of machine-controller-manager, on a real installation. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { documentedMetrics, sorted } from '../support/documented-metrics.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { type InputSeries, lintMetrics, testRules } from '../support/promtool.ts';
import { until } from '../support/until.ts';

const key = ['name', 'namespace'];
const failed = [
  ...['failed_machine_last_operation_machine_operation_type', 'failed_machine_last_operation_state'],
  ...['failed_machine_name', 'failed_machine_owner_ref', 'failed_machine_provider_id'],
];
const perDeployment = ['instance_type', 'machine_deployment', 'namespace', 'zone'];
const classOf = (prefix: string) => ['api_group', 'kind', 'name'].map((field) => `${prefix}_${field}`);

/** Names and labels as in machine-controller-manager, of what a rollout and a machine that fails make. */
const expected: Readonly<Record<string, readonly string[]>> = {
  mcm_machine_items_total: [],
  mcm_machine_controller_frozen: [],
  mcm_machine_stale_machines_total: [],
  mcm_machine_current_status_phase: key,
  mcm_machine_info: [...key, 'createdAt', 'node_name', 'spec_provider_id', ...classOf('spec_class')],
  mcm_machine_status_condition: [...key, 'condition'],
  mcm_machine_create_duration_seconds: perDeployment,
  mcm_machine_initialize_duration_seconds: perDeployment,
  mcm_machine_join_duration_seconds: perDeployment,
  mcm_machine_delete_duration_seconds: perDeployment,
  mcm_machine_drain_duration_seconds: ['machine_deployment', 'namespace'],
  mcm_machine_num_failed_join: perDeployment,
  mcm_cloud_api_requests_total: ['provider', 'service'],
  mcm_cloud_api_requests_failed_total: ['provider', 'service'],
  mcm_cloud_api_api_request_duration_seconds: ['provider', 'service'],
  mcm_cloud_api_driver_request_duration_seconds: ['operation', 'provider'],
  mcm_cloud_api_driver_requests_failed_total: ['error_code', 'operation', 'provider'],
  mcm_misc_scrape_failure_total: ['kind'],
  ...Object.fromEntries(
    [
      ...['depth', 'adds_total', 'queue_duration_seconds', 'work_duration_seconds', 'unfinished_work_seconds'],
      ...['longest_running_processor_seconds', 'retries_total'],
    ].map((name) => [`mcm_workqueue_${name}`, ['name']]),
  ),
  ...Object.fromEntries(
    [
      ...['lists_total', 'list_duration_seconds', 'items_per_list', 'watches_total', 'short_watches_total'],
      ...['watch_duration_seconds', 'items_per_watch', 'last_resource_version'],
    ].map((name) => [`mcm_reflector_${name}`, ['name']]),
  ),
  mcm_machine_set_items_total: [],
  mcm_machine_set_info: [...key, 'createdAt', ...classOf('spec_machine_class')],
  ...Object.fromEntries(
    [
      ...['info_spec_replicas', 'info_spec_min_ready_seconds', 'status_available_replicas'],
      ...['status_fully_labelled_replicas', 'status_ready_replicas', 'status_replicas'],
    ].map((name) => [`mcm_machine_set_${name}`, key]),
  ),
  mcm_machine_set_status_condition: [...key, 'condition'],
  mcm_machine_set_failed_machines: [...failed, ...key],
  mcm_machine_deployment_items_total: [],
  mcm_machine_deployment_info: [...key, 'createdAt', 'spec_strategy_type'],
  ...Object.fromEntries(
    [
      ...['paused', 'replicas', 'min_ready_seconds', 'rolling_update_max_surge', 'rolling_update_max_unavailable'],
      ...['revision_history_limit', 'progress_deadline_seconds', 'rollback_to_revision'],
    ].map((name) => [`mcm_machine_deployment_info_spec_${name}`, key]),
  ),
  mcm_machine_deployment_status_condition: [...key, 'condition'],
  ...Object.fromEntries(
    [
      'available_replicas',
      'unavailable_replicas',
      'ready_replicas',
      'updated_replicas',
      'replicas',
      'collision_count',
    ].map((name) => [`mcm_machine_deployment_status_${name}`, key]),
  ),
  mcm_machine_deployment_failed_machines: [...failed, ...key],
  rest_client_requests_total: ['code', 'host', 'method'],
  rest_client_request_latency_seconds: ['url', 'verb'],
};

const monitoring = fileURLToPath(new URL('../../deploy/chart/monitoring/', import.meta.url));

/**
 * Metrics without a series until something fails, which it need not do here; test/end-to-end/failing-code.long.test.ts
 * has one.
 */
const onlyAfterMistakes = [
  'millwright_activity_failures_total',
  'temporal_workflow_task_execution_failed',
  'millwright_workflow_runs_failed_total',
];
/** Series of them, as if each was counted once between two scrapes. */
const mistakes: InputSeries[] = onlyAfterMistakes.map((name) => ({ series: `${name}{job="any"}`, values: '0+1x10' }));

/** The queries of all panels, with all jobs. */
function dashboardQueries(): string[] {
  const { panels } = JSON.parse(readFileSync(`${monitoring}dashboard.json`, 'utf8')) as {
    readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  return queries.map((expr) => expr.replaceAll('$job', '.*').replaceAll('$__rate_interval', '10m'));
}

/** The series of scrapes as if there was a minute between them. */
function seriesOf(texts: readonly string[]): InputSeries[] {
  const values = new Map<string, string[]>();
  for (const [i, text] of texts.entries()) {
    for (const [, series = '', value = ''] of text.matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)) {
      const known = values.get(series) ?? texts.map(() => '_');
      known[i] = value;
      values.set(series, known);
    }
  }
  return [...values].map(([series, known]) => ({ series, values: known.join(' ') }));
}

describe('the metrics of machine-controller-manager', () => {
  let millwright: Installation;
  /** Series that were seen at some time, by metric. */
  const seen = new Map<string, Set<string>>();
  /** Answers to scrapes at different times of the run. */
  const scrapes: string[] = [];
  beforeAll(async () => {
    await findServer('promtool');
    millwright = await startInstallation({ alone: 'its metrics are read' });
  }, 900_000); // where promtool has to be built
  afterAll(() => millwright?.stop());

  async function scrape(): Promise<string> {
    const text = await (await fetch(`${millwright.processes[0]?.url}/metrics`)).text();
    for (const [, name = '', labels = ''] of text.matchAll(
      /^((?:mcm|rest)_\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? /gm,
    )) {
      const names = [...labels.matchAll(/(\w+)="/g)].map(([, label = '']) => label).filter((label) => label !== 'le');
      seen.set(name, (seen.get(name) ?? new Set()).add(sorted(names)));
    }
    return text;
  }

  it('[mcm 111] have its names and labels, and the series of what is gone end', async () => {
    const spec = { progressDeadlineSeconds: 600, revisionHistoryLimit: 2 };
    await millwright.createDeployment('pool', 2);
    await until('they run', async () =>
      /^mcm_machine_deployment_status_available_replicas\{.*\} 2$/m.test(await scrape()),
    );
    scrapes.push(await scrape());
    const kinds = ['machines', 'sets', 'deployments', 'sources', 'secrets', 'nodes'];
    const theirNames = ['machine', 'machineset', 'machinedeployment', 'machineclass', 'secret', 'node'];
    const measured = [
      // On a busy machine a task of a workflow is done again, and its step is counted again.
      /^millwright_machine_phase_duration_seconds_count\{phase="Pending",provider="simulated"\} [23]$/m,
      /^temporal_workflow_task_schedule_to_start_latency_count\{.*\} \d/m,
      ...kinds.map((kind) => new RegExp(`^millwright_watch_age_seconds\\{watch="${kind}"\\} \\d`, 'm')),
      ...theirNames.map((name) => new RegExp(`^mcm_reflector_lists_total\\{name="${name}"\\} 1$`, 'm')),
      ...theirNames.map((name) => new RegExp(`^mcm_workqueue_adds_total\\{name="${name}"\\} \\d`, 'm')),
    ];
    await until('phases, watches, queues and requests to Temporal are measured', async (see) => {
      const text = see(await scrape());
      return measured.every((pattern) => pattern.test(text));
    });
    scrapes.push(await scrape());
    const [first] = await millwright.machines();
    const name = first?.metadata.name ?? '';
    expect(await scrape()).toMatch(new RegExp(`^mcm_machine_current_status_phase\\{name="${name}",.*\\} 1$`, 'm'));

    const { namespace } = millwright;
    const queues = [namespace, `${namespace}.drain`, `${namespace}.provider-simulated`];
    const backlogOf = (queue: string) =>
      `millwright_task_queue_backlog{installation="${namespace}",queue="${queue}",kind="activity"} `;
    await until('the backlogs of its queues are shown', async (see) => {
      const read = see(await scrape());
      return queues.every((queue) => read.includes(backlogOf(queue)));
    });

    await millwright.cloud.setFaults({ kind: 'capacity' });
    await millwright.createDeployment('refused', 1, spec);
    await until('one is refused', async () =>
      /^mcm_cloud_api_driver_requests_failed_total\{.*error_code="ResourceExhausted"\} /m.test(await scrape()),
    );
    await millwright.scale('pool', 0);
    await until('they are gone', async () => /^mcm_machine_items_total 1$/m.test(await scrape()));
    scrapes.push(await scrape());

    const refused = [
      /^millwright_blocked_workflows\{type="machine",cause="CloudCapacity"\} 1$/m,
      /^mcm_machine_deployment_failed_machines\{/m,
    ];
    // After a slow list of blocked workflows the next one is made up to two minutes later.
    await until(
      'the one that is refused is shown as blocked and failed',
      async (see) => {
        const read = see(await scrape());
        return refused.every((pattern) => pattern.test(read));
      },
      { timeoutMs: 150_000 },
    );

    const text = await scrape();
    scrapes.push(text, await scrape());
    expect(text).not.toContain(name);
    expect(text).toMatch(/^mcm_machine_delete_duration_seconds\{.*machine_deployment="pool".*\} [\d.]+$/m);
    const documented = documentedMetrics();
    for (const [metric, labels] of Object.entries(expected))
      expect([metric, documented.get(metric)]).toEqual([metric, sorted(labels)]);
    const wrong = Object.entries(expected).filter(([metric, labels]) => {
      return [...(seen.get(metric) ?? [])].some((found) => found !== sorted(labels));
    });
    expect(wrong).toEqual([]);
    for (const metric of Object.keys(expected)) expect(text).toContain(`\n# TYPE ${metric} `);

    await millwright.control.delete(machineDeployments, { namespace, name: 'refused' });
    await until('nothing is left of the deployment', async () => !/^mcm_.*"refused/m.test(await scrape()));
  });

  it('are found by each query of the dashboard', async () => {
    expect(scrapes.length).toBe(5);
    const queries = dashboardQueries();
    expect(queries.length).toBeGreaterThan(40);

    await testRules([
      {
        ...{ name: 'the dashboard', interval: '1m', input_series: [...seriesOf(scrapes), ...mistakes] },
        promql_expr_test: queries.map((expr) => ({
          expr: `count(${expr}) > bool 0`,
          eval_time: `${scrapes.length - 1}m`,
          exp_samples: [{ labels: '{}', value: 1 }],
        })),
      },
    ]);
  });

  it('can be read by Prometheus, and have names as it wants where they are our own', async () => {
    const found = await lintMetrics(scrapes.at(-1) ?? '');

    expect(found.filter((line) => line.startsWith('millwright_'))).toEqual([]);
  });

  it('are those that alerts ask for', () => {
    const asked = readFileSync(`${monitoring}alerts.yaml`, 'utf8').matchAll(/\b((?:mcm|millwright|temporal)_\w+)\{?/g);
    const names = new Set([...asked].map(([, name = '']) => name.replace(/_(count|bucket)$/, '')));
    const unknown = [...names].filter((name) => !scrapes.at(-1)?.includes(`\n# TYPE ${name} `));

    expect(unknown.filter((name) => !onlyAfterMistakes.includes(name))).toEqual([]);
  });
});
