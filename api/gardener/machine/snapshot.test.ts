import { describe, expect, it } from '@jest/globals';
import type { MachineLimits } from '../../model/machine.ts';
import { names } from '../../names.ts';
import { annotations, finalizers, labels } from '../names.ts';
import type { Machine, MachineSpec } from '../schema/machine.ts';
import { toMachineSnapshot } from './snapshot.ts';

const defaults: MachineLimits = {
  creationSeconds: 1200,
  healthSeconds: 600,
  drainSeconds: 7200,
  maxEvictRetries: 360,
  nodeConditions: ['DiskPressure'],
};
const metadata = {
  name: 'm',
  namespace: 'n',
  uid: 'u',
  resourceVersion: '5',
  creationTimestamp: '2026-08-19T10:00:00Z',
};

describe('toMachineSnapshot', () => {
  it('reads orders in annotations only where these are on', () => {
    const annotated = { metadata: { ...metadata, annotations: { [names.skipDrain]: 'true', [names.retry]: '10:00' } } };
    const orders = { skipDrain: true, retry: '10:00' };
    expect(toMachineSnapshot(annotated, { ...defaults, ordersInAnnotations: true })).toMatchObject(orders);
    for (const order of Object.keys(orders)) expect(toMachineSnapshot(annotated, defaults)).not.toHaveProperty(order);
  });

  it('reads an empty Machine', () => {
    expect(toMachineSnapshot({ metadata }, defaults)).toEqual({
      uid: 'u',
      resourceVersion: '5',
      createdAt: '2026-08-19T10:00:00Z',
      managed: false,
      finalizers: [],
      hasPriority: false,
      phase: '',
      forceDeletion: false,
      limits: defaults,
      conditions: {},
      stage: 'new',
      source: '',
      problem: 'spec.class.kind is empty: set it to MachineClass',
      alone: true,
      onNodeDeleted: 'deleteMachine',
    });
  });

  it('reads everything that decisions need', () => {
    const machine: Machine = {
      metadata: {
        ...metadata,
        deletionTimestamp: '2026-08-19T11:00:00Z',
        finalizers: ['example.com/other', finalizers.machine],
        labels: {
          [labels.node]: 'node-1',
          [labels.templateHash]: '42',
          [labels.forceDeletion]: 'True',
        },
        annotations: { [annotations.priority]: '3' },
        ownerReferences: [
          { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineSet', name: 's', uid: 's', controller: true },
        ],
      },
      spec: {
        class: { kind: 'MachineClass', name: 'small' },
        providerID: 'simulated://1',
        creationTimeout: '90s',
        healthTimeout: '2m',
        drainTimeout: '1h30m',
        maxEvictRetries: 7,
        nodeConditions: 'DiskPressure, Other',
      },
      status: {
        currentStatus: { phase: 'Terminating', lastUpdateTime: '2026-08-19T11:00:01Z' },
        conditions: [{ type: 'Ready', status: 'True', lastHeartbeatTime: '2026-08-19T10:30:00Z', message: 'well' }],
        lastKnownState: 'state',
      },
    };
    const snapshot = toMachineSnapshot(machine, defaults);
    expect(snapshot).toEqual({
      uid: 'u',
      resourceVersion: '5',
      createdAt: '2026-08-19T10:00:00Z',
      managed: true,
      finalizers: ['example.com/other', finalizers.machine],
      hasPriority: true,
      deletingSince: '2026-08-19T11:00:00Z',
      phase: 'Terminating',
      stage: 'deleting',
      stageSince: '2026-08-19T11:00:01Z',
      source: 'small',
      onNodeDeleted: 'deleteMachine',
      providerID: 'simulated://1',
      nodeName: 'node-1',
      revision: '42',
      forceDeletion: true,
      limits: {
        creationSeconds: 90,
        healthSeconds: 120,
        drainSeconds: 5400,
        maxEvictRetries: 7,
        nodeConditions: ['DiskPressure', 'Other'],
      },
      conditions: { Ready: 'True' },
      lastKnownState: 'state',
    });
    expect(JSON.stringify(snapshot).length).toBeLessThan(1024);
  });

  it.each([
    ['{"tenancy":"dedicated"}', { tenancy: 'dedicated' }],
    ['tenancy=dedicated', 'tenancy=dedicated'],
  ])('takes the placement from the annotation awsPlacement %j of the node template', (text, placement) => {
    const nodeTemplate = { metadata: { annotations: { [annotations.awsPlacement]: text } } };

    expect(toMachineSnapshot({ metadata, spec: { nodeTemplate } }, defaults)).toMatchObject({
      providerSpecDefaults: { placement },
    });
  });

  it.each(['1', 't', 'T', 'TRUE', 'true', 'True'])('takes force-deletion=%s as true, as Go does', (value) => {
    const labelled = { metadata: { ...metadata, labels: { [labels.forceDeletion]: value } } };
    expect(toMachineSnapshot(labelled, defaults).forceDeletion).toBe(true);
  });

  it.each(['', '0', 'false', 'yes', 'tRUE'])('takes force-deletion=%p as false', (value) => {
    const labelled = { metadata: { ...metadata, labels: { [labels.forceDeletion]: value } } };
    expect(toMachineSnapshot(labelled, defaults).forceDeletion).toBe(false);
  });

  it('takes the default for a timeout that cannot be read', () => {
    expect(toMachineSnapshot({ metadata, spec: { creationTimeout: 'soon' } }, defaults).limits).toEqual(defaults);
  });

  it('has no health timeout where that is switched off', () => {
    const spec = { healthTimeout: '2m', disableHealthTimeout: true };
    expect(toMachineSnapshot({ metadata, spec }, defaults).limits.healthSeconds).toBeUndefined();
  });

  it('asks to be replaced only while it is Unknown and its health check has Failed', () => {
    const askedAt = '2026-08-19T10:20:00Z';
    const requestOf = (phase: string, state: string, annotated?: string) => {
      const currentStatus = { phase, lastUpdateTime: '2026-08-19T10:10:00Z' };
      const lastOperation = { type: 'HealthCheck', state, lastUpdateTime: askedAt };
      const ofOwner = annotated === undefined ? {} : { annotations: { [names.replace]: annotated } };
      const machine: Machine = { metadata: { ...metadata, ...ofOwner }, status: { currentStatus, lastOperation } };
      return toMachineSnapshot(machine, defaults).request;
    };
    const request = { askedAt, unhealthySince: '2026-08-19T10:10:00Z', isGranted: false };
    expect(requestOf('Unknown', 'Failed')).toEqual(request);
    expect(requestOf('Unknown', 'Failed', '2026-08-19T10:15:00Z')).toEqual(request);
    expect(requestOf('Unknown', 'Failed', askedAt)).toEqual({ ...request, isGranted: true });
    expect(requestOf('Unknown', 'Processing', askedAt)).toBeUndefined();
    expect(requestOf('Failed', 'Failed', askedAt)).toBeUndefined();
  });

  it.each([
    [{ creationTimeout: 'soon' }, 'spec.creationTimeout is "soon": set it to a duration such as 90s, 20m or 1h30m'],
    [{ drainTimeout: '-1s' }, 'spec.drainTimeout is "-1s": set it to a duration such as 90s, 20m or 1h30m'],
    [{ maxEvictRetries: -1 }, 'spec.maxEvictRetries is -1: set it to 0 or more'],
    [{ creationTimeout: '0s', drainTimeout: null, maxEvictRetries: 0 }, undefined],
  ])('says what is wrong with %p', (limits, problem) => {
    const spec = { class: { kind: 'MachineClass', name: 'small' }, ...limits } as MachineSpec;
    expect(toMachineSnapshot({ metadata, spec }, defaults).problem).toBe(problem);
  });

  it('keeps durations between nothing and a year, so that none of them stops a workflow', () => {
    const spec = { creationTimeout: '1000000h', drainTimeout: '-1h' };
    const { limits } = toMachineSnapshot({ metadata, spec }, defaults);
    expect(limits).toMatchObject({ creationSeconds: 365 * 24 * 3600, drainSeconds: 0 });
  });

  it('[mcm 32 partly] watches no condition when the Machine says so', () => {
    const { limits } = toMachineSnapshot({ metadata, spec: { nodeConditions: '' } }, defaults);
    expect(limits.nodeConditions.filter((type) => type !== '')).toEqual([]);
  });

  it('takes a phase that it does not know as none, also one that every object has', () => {
    for (const phase of ['Sleeping', 'toString', 'constructor']) {
      expect(toMachineSnapshot({ metadata, status: { currentStatus: { phase } } }, defaults).phase).toBe('');
    }
  });

  it('takes empty texts as absent', () => {
    const machine: Machine = {
      metadata: { ...metadata, labels: { [labels.node]: '' } },
      spec: { providerID: '' },
      status: { lastKnownState: '' },
    };
    const snapshot = toMachineSnapshot(machine, defaults);
    expect(snapshot).toEqual(toMachineSnapshot({ metadata }, defaults));
  });
});
