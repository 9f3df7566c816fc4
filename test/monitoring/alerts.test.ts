/** The alerts of deploy/chart/monitoring, with Prometheus' own engine. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { findServer } from '../../deploy/local/servers.ts';
import { documentedMetrics, sorted } from '../support/documented-metrics.ts';
import { checkRules, type InputSeries, testRules } from '../support/promtool.ts';

interface Alert {
  readonly alert: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}

interface Indicator {
  readonly record: string;
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const file = `${root}deploy/chart/monitoring/alerts.yaml`;
const rules = readFileSync(file, 'utf8');
const { groups } = parse(rules) as { readonly groups: readonly { readonly rules: readonly (Alert | Indicator)[] }[] };
const all = groups.flatMap((group) => group.rules);
const alerts = all.filter((rule) => 'alert' in rule);
const indicators = all.filter((rule) => 'record' in rule).map(({ record }) => record);

beforeAll(() => findServer('promtool'), 900_000); // where it has to be built

/** Hours of minutes with the same value, and with a counter that grows by `step` a minute. */
const steady = (series: string, value: number): InputSeries => ({ series, values: `${value}x200` });
const growing = (series: string, step: number): InputSeries => ({ series, values: `0+${step}x200` });
/** Seconds that grow as time does, from `value` on. */
const waiting = (series: string, value = 0): InputSeries => ({ series, values: `${value}+60x200` });

const allFail = '100% of the calls of provider aws have failed. `millwright stuck` shows the last error of the cloud.';
const pod = 'job="millwright",instance="10.0.0.1:10258",pod="millwright-0"';
const longest = (cause: string, type = 'machine') =>
  `millwright_blocked_longest_seconds{${pod},type="${type}",cause="${cause}"}`;
const blocked = (cause: string, type: string) => `millwright_blocked_workflows{${pod},type="${type}",cause="${cause}"}`;
const failed = (code: string) =>
  `mcm_cloud_api_driver_requests_failed_total{${pod},provider="aws",operation="create_machine",error_code="${code}"}`;
const succeeded = `mcm_cloud_api_driver_request_duration_seconds_count{${pod},provider="aws",operation="create_machine"}`;
const progressing = `mcm_machine_deployment_status_condition{${pod},namespace="shoot",name="pool",condition="Progressing"}`;
const taskFailed = (reason: string) =>
  `temporal_workflow_task_execution_failed{${pod},namespace="default",task_queue="shoot",failure_reason="${reason}"}`;
const backlog = `millwright_task_queue_backlog{${pod},installation="shoot",queue="shoot.drain",kind="activity"}`;
const leader = `millwright_leader{${pod}}`;
const inNamespace = (namespace: string, series: string) => series.replace('}', `,namespace="${namespace}"}`);
const paused = `millwright_workers_paused{${pod}}`;
const expiry = `millwright_temporal_certificate_expiry_timestamp_seconds{${pod}}`;
const throttled = `millwright_cloud_requests_throttled_total{${pod},provider="aws",endpoint="ec2",credentials="a"}`;
const sweepAge = `millwright_sweep_age_seconds{${pod}}`;
const sweepPeriod = `millwright_sweep_period_seconds{${pod}}`;
const unlisted = `millwright_sweep_unlisted_sources{${pod}}`;
const reachable = `millwright_temporal_reachable{${pod}}`;
const age = `millwright_watch_age_seconds{${pod},watch="nodes"}`;

interface Case {
  readonly alert: string;
  readonly when: string;
  readonly series: readonly InputSeries[];
  readonly at: string;
  /** Labels besides `job` and the severity, and the description; left out: it does not fire. */
  readonly fires?: { readonly labels?: Readonly<Record<string, string>>; readonly description?: string };
}

const cases: readonly Case[] = [
  {
    ...{ alert: 'MillwrightMachineStuck', when: 'the cloud has no capacity for longer than 15 min', at: '16m' },
    series: [waiting(longest('CloudCapacity'))],
    fires: {
      labels: { type: 'machine', cause: 'CloudCapacity' },
      description:
        'A machine has waited for 16m 0s on CloudCapacity. `millwright stuck` names it and says what would unblock it.',
    },
  },
  {
    ...{ alert: 'MillwrightMachineStuck', when: 'a budget blocks a drain for longer than an hour', at: '61m' },
    series: [waiting(longest('PodDisruptionBudget'))],
    fires: {
      labels: { type: 'machine', cause: 'PodDisruptionBudget' },
      description:
        'A machine has waited for 1h 1m 0s on PodDisruptionBudget. `millwright stuck` names it and says what would unblock it.',
    },
  },
  {
    ...{ alert: 'MillwrightMachineStuck', when: 'machines wait, each for a few minutes', at: '60m' },
    series: [steady(longest('CloudCapacity'), 600), steady(longest('Drain'), 3_000)],
  },
  {
    ...{ alert: 'MillwrightReplacementsHeld', when: 'an outage keeps unhealthy machines for six minutes', at: '6m' },
    series: [waiting(longest('Outage', 'rollout'))],
    fires: {
      labels: { type: 'rollout', cause: 'Outage' },
      description:
        'Unhealthy machines have waited for 6m 0s, and none is replaced, because that looks like an outage. `millwright stuck` says which Nodes.',
    },
  },
  {
    ...{ alert: 'MillwrightReplacementsHeld', when: 'it keeps them for two minutes, again and again', at: '60m' },
    series: [steady(longest('Outage', 'rollout'), 120)],
  },
  {
    ...{ alert: 'MillwrightProviderFailing', when: 'all calls fail', at: '25m' },
    series: [growing(failed('Unauthenticated'), 1)],
    fires: {
      labels: { provider: 'aws' },
      description: allFail,
    },
  },
  {
    ...{ alert: 'MillwrightProviderFailing', when: 'two of three calls fail', at: '25m' },
    series: [growing(failed('Unavailable'), 2), growing(succeeded, 1)],
    fires: {
      labels: { provider: 'aws' },
      description:
        '66.67% of the calls of provider aws have failed. `millwright stuck` shows the last error of the cloud.',
    },
  },
  {
    ...{ alert: 'MillwrightProviderFailing', when: 'those of another installation succeed', at: '25m' },
    series: [growing(inNamespace('a', failed('Unavailable')), 1), growing(inNamespace('b', succeeded), 9)],
    fires: { labels: { namespace: 'a', provider: 'aws' }, description: allFail },
  },
  {
    ...{ alert: 'MillwrightProviderFailing', when: 'a third of the calls fails', at: '60m' },
    series: [growing(failed('Unavailable'), 1), growing(succeeded, 2)],
  },
  {
    ...{ alert: 'MillwrightProviderFailing', when: 'there is no capacity', at: '60m' },
    series: [growing(failed('ResourceExhausted'), 3)],
  },
  {
    ...{ alert: 'MillwrightProviderFailing', when: 'calls failed for five minutes', at: '20m' },
    series: [{ series: failed('Unavailable'), values: '0x5 1+1x5 5x60' }, growing(succeeded, 1)],
  },
  {
    ...{ alert: 'MillwrightProviderThrottled', when: 'ten requests a minute are throttled', at: '30m' },
    series: [growing(throttled, 10)],
    fires: {
      labels: { provider: 'aws', endpoint: 'ec2' },
      description:
        'Provider aws has throttled more than 6 requests a minute at ec2 for a quarter of an hour, so machines wait. Raise the quota for requests, or find out who else uses it.',
    },
  },
  {
    ...{ alert: 'MillwrightProviderThrottled', when: 'some are, now and then', at: '60m' },
    series: [growing(throttled, 2)],
  },
  {
    ...{ alert: 'MillwrightProviderWithoutWorker', when: 'machines wait for one', at: '6m' },
    series: [waiting(longest('ProviderWorker'))],
    fires: {
      labels: { type: 'machine', cause: 'ProviderWorker' },
      description:
        'Workflows have waited for 6m 0s for a worker of their provider. `millwright doctor` names the provider.',
    },
  },
  {
    ...{ alert: 'MillwrightProviderWithoutWorker', when: 'it is started again', at: '4m' },
    series: [waiting(longest('ProviderWorker'))],
  },
  {
    ...{ alert: 'MillwrightSweepBraked', when: 'a sweep waits', at: '2m' },
    series: [steady(blocked('Brake', 'orphanSweep'), 1)],
    fires: { labels: { type: 'orphanSweep', cause: 'Brake' } },
  },
  {
    ...{ alert: 'MillwrightSweepBraked', when: 'a sweep waits for its cloud', at: '60m' },
    series: [steady(blocked('CloudApi', 'orphanSweep'), 1)],
  },
  {
    ...{ alert: 'MillwrightSweepsDoNotComplete', when: 'one is due every half hour and none completes', at: '157m' },
    series: [waiting(sweepAge, 60), steady(sweepPeriod, 1_800)],
    fires: {
      description:
        'The last sweep has completed 2h 38m 0s ago. Meanwhile no orphan and no deleted class goes. `millwright stuck` says what a sweep waits for.',
    },
  },
  {
    ...{ alert: 'MillwrightSweepsDoNotComplete', when: 'one waits at the brake', at: '170m' },
    series: [waiting(sweepAge), steady(sweepPeriod, 1_800), steady(blocked('Brake', 'orphanSweep'), 1)],
  },
  {
    ...{ alert: 'MillwrightSweepsDoNotComplete', when: 'there is no Schedule of sweeps', at: '170m' },
    series: [waiting(sweepAge), steady(sweepPeriod, 0)],
  },
  {
    ...{ alert: 'MillwrightClassesNotSwept', when: 'a cloud cannot be listed for an hour', at: '61m' },
    series: [steady(unlisted, 2)],
    fires: {
      description:
        'Of 2 classes the sweeps cannot list what the cloud has, so orphans there stay. The report of `millwright sweep --dry-run` names the classes and why.',
    },
  },
  {
    ...{ alert: 'MillwrightClassesNotSwept', when: 'all are listed again', at: '61m' },
    series: [{ series: unlisted, values: '2x30 0x60' }],
  },
  {
    ...{ alert: 'MillwrightRolloutFailed', when: 'the deadline has passed', at: '2m' },
    series: [steady(progressing, 0)],
    fires: {
      labels: { namespace: 'shoot', name: 'pool', condition: 'Progressing' },
      description:
        'MachineDeployment shoot/pool has made no progress within its progressDeadlineSeconds. `millwright rollout status` names the machines that block it.',
    },
  },
  {
    ...{ alert: 'MillwrightRolloutFailed', when: 'a rollout makes progress or is paused', at: '60m' },
    series: [steady(progressing, 1), steady(progressing.replace('pool', 'paused'), 2)],
  },
  {
    ...{ alert: 'MillwrightWorkflowTaskFailing', when: 'Temporal reports it', at: '6m' },
    series: [steady(blocked('WorkflowTask', 'machineLimits'), 3)],
    fires: {
      labels: { type: 'machineLimits' },
      description:
        'Temporal tries failing workflow tasks again and again, and their machines wait. `millwright stuck` names the workflows, their last failure, and whether Millwright ends the run by itself.',
    },
  },
  {
    ...{ alert: 'MillwrightWorkflowTaskFailing', when: 'the workers of an old server report it', at: '30m' },
    series: [growing(taskFailed('WorkflowError'), 1)],
    fires: { labels: { namespace: 'default', task_queue: 'shoot' } },
  },
  {
    ...{ alert: 'MillwrightWorkflowTaskFailing', when: 'runs cannot be replayed after an upgrade', at: '60m' },
    series: [growing(taskFailed('NonDeterminismError'), 10)],
  },
  {
    ...{ alert: 'MillwrightNoLeader', when: 'all stand by', at: '6m' },
    series: [steady(leader, 0), steady(`millwright_leader{job="millwright",pod="other"}`, 0)],
    fires: {},
  },
  {
    ...{ alert: 'MillwrightNoLeader', when: 'those of another installation lead', at: '6m' },
    series: [steady(inNamespace('a', leader), 0), steady(inNamespace('b', leader), 1)],
    fires: { labels: { namespace: 'a' } },
  },
  {
    ...{ alert: 'MillwrightNoLeader', when: 'one of two leads', at: '60m' },
    series: [steady(leader, 0), steady(`millwright_leader{job="millwright",pod="other"}`, 1)],
  },
  {
    ...{ alert: 'MillwrightTemporalUnreachable', when: 'one of two processes gets no answer', at: '3m' },
    series: [steady(reachable, 0), steady(`millwright_temporal_reachable{job="millwright",pod="other"}`, 1)],
    fires: {},
  },
  {
    ...{ alert: 'MillwrightTemporalUnreachable', when: 'it is away for a minute, again and again', at: '60m' },
    series: [{ series: reachable, values: '1 0 1 0 1 0 1x60' }],
  },
  {
    ...{ alert: 'MillwrightCertificateExpires', when: 'it expires within the day', at: '61m' },
    series: [steady(expiry, 40_000)],
    fires: {
      description:
        'The certificate that Millwright uses expires in 10h 5m 40s. It reads the files again every 5 s. Renew them; its log says why it does not use them.',
    },
  },
  {
    ...{ alert: 'MillwrightCertificateExpires', when: 'it is renewed every day', at: '61m' },
    series: [{ series: expiry, values: '80000x30 200000x60' }],
  },
  {
    ...{ alert: 'MillwrightWorkersPaused', when: 'another system holds a Lease for a quarter of an hour', at: '16m' },
    series: [steady(paused, 1)],
    fires: {},
  },
  {
    ...{ alert: 'MillwrightWorkersPaused', when: 'it lets go of it', at: '60m' },
    series: [{ series: paused, values: '1x10 0x60' }],
  },
  {
    ...{ alert: 'MillwrightTasksWait', when: 'tasks wait for a quarter of an hour', at: '16m' },
    series: [steady(backlog, 7)],
    fires: {
      labels: { installation: 'shoot', queue: 'shoot.drain', kind: 'activity' },
      description: '7 tasks of kind activity wait in task queue shoot.drain: it has no worker, or too few.',
    },
  },
  {
    ...{ alert: 'MillwrightTasksWait', when: 'they wait now and then', at: '60m' },
    series: [{ series: backlog, values: '7x9 0 7x9 0 7x9 0 7x9 0 7x9 0 7x9 0 7x9 0' }],
  },
  {
    ...{ alert: 'MillwrightWatchSilent', when: 'the API server is silent for ten minutes', at: '11m' },
    series: [waiting(age)],
    fires: {
      labels: { instance: '10.0.0.1:10258', pod: 'millwright-0', watch: 'nodes' },
      description: 'The API server has said nothing for 11m 0s on the watch of nodes.',
    },
  },
  {
    ...{ alert: 'MillwrightWatchSilent', when: 'it sends bookmarks alone', at: '60m' },
    series: [{ series: age, values: '0 60 0 60 0 60x60' }],
  },
];

it('are rules that Prometheus takes', async () => {
  await checkRules(rules);
});

describe.each(alerts)('$alert', ({ alert, labels, annotations }) => {
  const own = cases.filter((each) => each.alert === alert);

  it.each(own.filter(({ fires }) => fires !== undefined))('fires when $when', async ({ when, series, at, fires }) => {
    const expected = {
      exp_labels: { job: 'millwright', ...labels, ...fires?.labels },
      exp_annotations: { ...annotations, ...(fires?.description && { description: fires.description }) },
    };
    const test = { eval_time: at, alertname: alert, exp_alerts: [expected] };
    await testRules([{ name: when, interval: '1m', input_series: series, alert_rule_test: [test] }], file);
  });

  it.each(own.filter(({ fires }) => fires === undefined))('is silent when $when', async ({ when, series, at }) => {
    const test = { eval_time: at, alertname: alert, exp_alerts: [] };
    await testRules([{ name: when, interval: '1m', input_series: series, alert_rule_test: [test] }], file);
  });

  it('is shown to fire and to be silent', () => {
    expect(new Set(own.map(({ fires }) => fires !== undefined))).toEqual(new Set([true, false]));
  });

  it('names a section of the documentation', () => {
    const [, path = '', anchor = ''] = /\/blob\/main\/(docs\/.+\.md)#(.+)$/.exec(annotations.runbook_url) ?? [];
    const headings = existsSync(root + path) ? readFileSync(root + path, 'utf8').matchAll(/^#+ (.+)$/gm) : [];
    const anchors = [...headings].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^a-z ]/g, '')
        .replaceAll(' ', '-'),
    );

    expect(anchors).toContain(anchor);
  });
});

it('are tested with series as processes have them', () => {
  const documented = documentedMetrics();
  const ofTarget = new Set(['job', 'instance', 'pod', 'namespace']);
  for (const { series } of cases.flatMap((each) => each.series)) {
    const [, metric = '', labels = ''] = /^(\w+?)(?:_count)?\{(.*)\}$/.exec(series) ?? [];
    if (metric.startsWith('temporal_')) continue; // test/end-to-end/failing-code.long.test.ts
    const names = [...labels.matchAll(/(\w+)=/g)].map(([, name = '']) => name);

    const own = documented.get(metric);
    const left = names.filter((name) => own?.includes(name) || !ofTarget.has(name));

    expect([metric, sorted(left)]).toEqual([metric, own]);
  }
});

it.each(['running', 'replace', 'drain'])(
  'indicators say how long it takes to %s, and how many are in time',
  async (what) => {
    const bucket = (le: string, step: number) =>
      growing(`millwright_machine_time_to_${what}_seconds_bucket{${pod},le="${le}"}`, step);
    const inTime = { running: '600', replace: '1800', drain: '3600' }[what] ?? '';
    const series = [
      ...[bucket('30', 0), bucket(inTime, 9), bucket('+Inf', 10)],
      growing(`millwright_machine_time_to_${what}_seconds_count{${pod}}`, 10),
    ];
    const [p95 = '', share = ''] = indicators.filter((name) => name.includes(`time_to_${what}`));
    const sample = (expr: string, value: number) => ({
      ...{ expr, eval_time: '110m' },
      exp_samples: [{ labels: `${expr}{job="millwright"}`, value }],
    });
    const promql_expr_test = [sample(p95, Number(inTime)), sample(share, 0.9)];
    await testRules([{ name: what, interval: '1m', input_series: series, promql_expr_test }], file);
  },
);

it('are all in docs/how-to/monitor.md', () => {
  const text = readFileSync(`${root}docs/how-to/monitor.md`, 'utf8');

  expect([...text.matchAll(/^\| `(Millwright\w+)`/gm)].map(([, name]) => name)).toEqual(
    alerts.map(({ alert }) => alert),
  );
});

it('fires MillwrightNoLeader when nothing is scraped', async () => {
  const { annotations, labels } = alerts.find(({ alert }) => alert === 'MillwrightNoLeader') ?? {};
  const expected = { exp_labels: labels, exp_annotations: annotations };
  const test = { eval_time: '6m', alertname: 'MillwrightNoLeader', exp_alerts: [expected] };
  await testRules([{ name: 'nothing', interval: '1m', input_series: [], alert_rule_test: [test] }], file);
});
