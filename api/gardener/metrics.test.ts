import { describe, expect, it } from '@jest/globals';
import type { MachineChange } from '../metrics.ts';
import type { KubeObject } from '../objects.ts';
import { machineMetrics, objectMetrics, toLive } from './metrics.ts';
import { deletionSteps, descriptions } from './names.ts';

const metadata = (name: string, more: object = {}) => ({
  ...{ name, namespace: 'n', uid: name, resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z', ...more },
});
const objects = {
  machines: [
    {
      metadata: metadata('a', { labels: { node: 'node-a' } }),
      spec: { class: { kind: 'MachineClass', name: 'small' }, providerID: 'aws:///i-1' },
      status: { currentStatus: { phase: 'Failed' }, conditions: [{ type: 'Ready', status: 'Unknown' }] },
    },
  ],
  sets: [
    {
      metadata: metadata('set'),
      spec: { replicas: 3, machineClass: { name: 'small' } },
      status: {
        ...{ replicas: 2, readyReplicas: 1, machineSetCondition: [{ type: 'Frozen', status: 'True' }] },
        failedMachines: [{ name: 'a', ownerRef: 'set', lastOperation: { state: 'Failed', type: 'Create' } }],
      },
    },
  ],
  deployments: [
    {
      metadata: metadata('pool'),
      spec: { replicas: 3, paused: true, strategy: { rollingUpdate: { maxSurge: '25%', maxUnavailable: 1 } } },
      status: { availableReplicas: 2 },
    },
  ],
  isFrozen: true,
};
const samplesOf = (name: string) => objectMetrics.find((metric) => metric.name === `mcm_${name}`)?.samplesOf(objects);
const valueOf = (name: string) => samplesOf(name)?.[0]?.value;

describe('the gauges of objects', () => {
  it('show a machine by its phase, identity and conditions', () => {
    expect(samplesOf('machine_current_status_phase')).toEqual([{ labels: { name: 'a', namespace: 'n' }, value: -3 }]);
    expect(samplesOf('machine_info')?.[0]?.labels).toEqual({
      ...{ name: 'a', namespace: 'n', createdAt: '1893456000', spec_provider_id: 'aws:///i-1', node_name: 'node-a' },
      ...{ spec_class_api_group: '', spec_class_kind: 'MachineClass', spec_class_name: 'small' },
    });
    expect(samplesOf('machine_status_condition')).toEqual([
      { labels: { name: 'a', namespace: 'n', condition: 'Ready' }, value: 2 },
    ]);
  });

  it('[mcm 111] show a set by its replicas, and not by its ready ones', () => {
    expect([valueOf('machine_set_status_replicas'), valueOf('machine_set_status_ready_replicas')]).toEqual([2, 1]);
    expect(samplesOf('machine_set_failed_machines')?.[0]?.labels).toMatchObject({
      ...{ name: 'set', failed_machine_name: 'a', failed_machine_provider_id: '', failed_machine_owner_ref: 'set' },
      ...{ failed_machine_last_operation_state: 'Failed' },
    });
  });

  it('show of a deployment what it says, and leave out what it does not', () => {
    expect(valueOf('machine_deployment_info_spec_paused')).toBe(1);
    expect(valueOf('machine_deployment_info_spec_rolling_update_max_surge')).toBe(25);
    expect(samplesOf('machine_deployment_info_spec_progress_deadline_seconds')).toEqual([]);
    expect(valueOf('machine_deployment_status_available_replicas')).toBe(2);
    expect(valueOf('machine_controller_frozen')).toBe(1);
  });

  it('have the labels that they declare, and no others', () => {
    for (const { labelNames, samplesOf } of objectMetrics) {
      for (const { labels } of samplesOf(objects))
        expect(Object.keys(labels).toSorted()).toEqual(labelNames.toSorted());
    }
  });
});

describe('what is measured of changes', () => {
  const labels = { name: 'pool', node: 'node-a' };
  const machine = (phase: string, lastUpdateTime: string, more: object = {}) => ({
    metadata: metadata('a', { labels, ...more }),
    spec: { nodeTemplate: { metadata: { labels: { 'topology.kubernetes.io/zone': 'a' } } } },
    status: { currentStatus: { phase, lastUpdateTime } },
  });
  const series = { namespace: 'n', machine_deployment: 'pool', instance_type: 'small', zone: 'a' };
  const source = { metadata: metadata('class'), nodeTemplate: { instanceType: 'small' } };

  function measured(change: Partial<MachineChange> & Pick<MachineChange, 'previous' | 'object'>) {
    const all = machineMetrics.map(({ name, sampleOf }) => {
      return [name, sampleOf({ isGone: false, source, nowMs: Date.parse('2030-01-01T00:10:00Z'), ...change })] as const;
    });
    return Object.fromEntries(all.filter(([, sample]) => sample !== undefined));
  }

  const created = machine('', '2030-01-01T00:00:00Z');
  const pending = machine('Pending', '2030-01-01T00:00:34Z');
  const running = machine('Running', '2030-01-01T00:01:15Z');

  it('is how long a creation, a join and a deletion took', () => {
    const deletionTimestamp = '2030-01-01T00:09:00Z';
    const gone = machine('Terminating', '2030-01-01T00:09:00Z', { deletionTimestamp });

    expect(measured({ previous: created, object: pending })).toEqual({
      mcm_machine_create_duration_seconds: { labels: series, value: 34 },
      mcm_machine_initialize_duration_seconds: { labels: series, value: 0 },
    });
    expect(measured({ previous: pending, object: running })).toEqual({
      mcm_machine_join_duration_seconds: { labels: series, value: 41 },
      millwright_machine_time_to_running_seconds: { labels: {}, value: 75 },
    });
    const unhealthy = machine('Unknown', '2030-01-01T00:00:40Z');
    expect(measured({ previous: unhealthy, object: running })).toEqual({});
    expect(measured({ previous: gone, object: gone, isGone: true })).toEqual({
      mcm_machine_delete_duration_seconds: { labels: series, value: 60 },
    });
    expect(measured({ previous: running, object: running })).toEqual({});
  });

  it('is how long the set-up of a VM took that was refused at first', () => {
    const refused = machine('CrashLoopBackOff', '2030-01-01T00:00:30Z');
    const lastOperation = { description: `${descriptions.initializing}: no such interface` };
    const previous: KubeObject = Object.assign({}, refused, { status: { ...refused.status, lastOperation } });

    expect(measured({ previous, object: pending })).toMatchObject({
      mcm_machine_initialize_duration_seconds: { labels: series, value: 4 },
    });
    expect(measured({ previous: refused, object: pending })).toMatchObject({
      mcm_machine_initialize_duration_seconds: { labels: series, value: 0 },
    });
  });

  it('is how long a drain took', () => {
    const deletionTimestamp = '2030-01-01T00:09:00Z';
    const draining = machine('Terminating', '2030-01-01T00:09:00Z', { deletionTimestamp });
    const status = { ...draining.status, lastOperation: { description: deletionSteps.deleteVm } };

    const deleting: KubeObject = Object.assign({}, draining, { status });

    expect(measured({ previous: draining, object: deleting })).toEqual({
      mcm_machine_drain_duration_seconds: { labels: { namespace: 'n', machine_deployment: 'pool' }, value: 60 },
      millwright_machine_time_to_drain_seconds: { labels: {}, value: 60 },
    });
  });

  it('is how long a replacement took, from the request of the Machine or from its deletion', () => {
    const gone = (more: object) =>
      machine('Terminating', '2030-01-01T00:09:00Z', { deletionTimestamp: '2030-01-01T00:09:00Z', ...more });
    const name = 'millwright_machine_time_to_replace_seconds';
    const seconds = (annotations?: object) => {
      const object = gone({ annotations });
      return measured({ previous: object, object, isGone: true })[name]?.value;
    };

    expect(seconds({ 'millwright.dev/replaced': 'true' })).toBe(60);
    const replace = '2030-01-01T00:07:00Z';
    expect(seconds({ 'millwright.dev/replaced': 'true', 'millwright.dev/replace': replace })).toBe(180);
    expect(seconds({ 'millwright.dev/replace': replace })).toBeUndefined();
  });

  it('is that a Node did not join, and that a failed machine was deleted', () => {
    const failed = machine('Failed', '2030-01-01T00:05:00Z');
    const replaced = machine('Failed', '2030-01-01T00:05:00Z', {
      deletionTimestamp: '2030-01-01T00:05:01Z',
      annotations: { 'millwright.dev/replaced': 'true' },
    });

    expect(measured({ previous: pending, object: failed })).toEqual({
      mcm_machine_num_failed_join: { labels: series, value: 1 },
    });
    expect(measured({ previous: failed, object: replaced })).toEqual({
      mcm_machine_stale_machines_total: { labels: {}, value: 1 },
    });
  });

  it('[mcm 111] is of the deployment that a label names, or else that of its set, nothing of a machine without one, and no crash for a class without a nodeTemplate', () => {
    const { metadata: own, ...rest } = pending;
    const alone = { ...rest, metadata: { ...own, labels: {} } };

    expect(measured({ previous: created, object: alone })).toEqual({});
    expect(measured({ previous: created, object: alone, deployment: 'owner' })).toMatchObject({
      mcm_machine_create_duration_seconds: { labels: { machine_deployment: 'owner' } },
    });
    expect(measured({ previous: created, object: pending, deployment: 'owner' })).toMatchObject({
      mcm_machine_create_duration_seconds: { labels: { machine_deployment: 'pool' } },
    });
    expect(measured({ previous: created, object: pending, source: undefined })).toMatchObject({
      mcm_machine_create_duration_seconds: { labels: { instance_type: '' } },
    });
  });
});

it('the series of a deployment live as long as it, or a machine of its name', () => {
  const labelled = (name: string) => metadata(name, { labels: { name: 'pool' } });
  const none = { machines: [], sets: [], deployments: [], isFrozen: false };
  const template = { metadata: { labels: { name: 'workers' } } };
  const isLive = toLive({
    ...none,
    machines: [{ metadata: labelled('a') }],
    deployments: [{ metadata: metadata('own'), spec: { template } }] as never,
  });
  const of = (name: string) => ({ namespace: 'n', machine_deployment: name, zone: 'a' });

  expect(['pool', 'own', 'workers', 'gone'].map((name) => isLive(of(name)))).toEqual([true, true, true, false]);
  expect(isLive({ ...of('pool'), namespace: 'other' })).toBe(false);
  expect(isLive({})).toBe(true); // it is about no deployment
});
