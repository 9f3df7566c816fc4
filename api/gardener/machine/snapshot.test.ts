import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { MachineLimits, StatusChange } from '../../model/machine.ts';
import { annotations, finalizers, labels } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import type { MachineClass } from '../schema/machine-class.ts';
import {
  classVersion,
  isOfAnother,
  type NodeLike,
  secretRefsOf,
  toKubernetesTime,
  toMachineSnapshot,
  toNodeSnapshot,
  toStatuses,
  toStatusPatch,
} from './snapshot.ts';

const defaults: MachineLimits = {
  creationSeconds: 1200,
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
  it('reads an empty Machine', () => {
    expect(toMachineSnapshot({ metadata }, defaults)).toEqual({
      uid: 'u',
      resourceVersion: '5',
      createdAt: '2026-08-19T10:00:00Z',
      managed: false,
      finalizers: [],
      prioritized: false,
      phase: '',
      class: { kind: '', name: '' },
      forceDeletion: false,
      limits: defaults,
      conditions: {},
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
          [labels.name]: 'pool-a',
          [labels.templateHash]: '42',
          [labels.forceDeletion]: 'True',
        },
        annotations: { [annotations.priority]: '3' },
      },
      spec: {
        class: { kind: 'MachineClass', name: 'small' },
        providerID: 'simulated://1',
        creationTimeout: '90s',
        drainTimeout: '1h30m',
        maxEvictRetries: 7,
        nodeConditions: 'DiskPressure, Other',
      },
      status: {
        currentStatus: { phase: 'Terminating' },
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
      prioritized: true,
      deletingSince: '2026-08-19T11:00:00Z',
      phase: 'Terminating',
      class: { kind: 'MachineClass', name: 'small' },
      providerID: 'simulated://1',
      nodeName: 'node-1',
      deployment: 'pool-a',
      revision: '42',
      forceDeletion: true,
      limits: {
        creationSeconds: 90,
        drainSeconds: 5400,
        maxEvictRetries: 7,
        nodeConditions: ['DiskPressure', 'Other'],
      },
      conditions: { Ready: 'True' },
      lastKnownState: 'state',
    });
    expect(JSON.stringify(snapshot).length).toBeLessThan(1024);
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
      metadata: { ...metadata, labels: { [labels.node]: '', [labels.name]: '' } },
      spec: { providerID: '' },
      status: { lastKnownState: '' },
    };
    const snapshot = toMachineSnapshot(machine, defaults);
    expect(snapshot).toEqual(toMachineSnapshot({ metadata }, defaults));
  });
});

describe('toNodeSnapshot', () => {
  const node: NodeLike = {
    metadata: {
      name: 'node-1',
      uid: 'node-u',
      resourceVersion: '8',
      finalizers: [finalizers.node],
      labels: { [labels.machineName]: 'm' },
    },
    spec: { taints: [{ key: 'node.gardener.cloud/critical-components-not-ready' }] },
    status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
  };

  it('reads what decisions need', () => {
    expect(toNodeSnapshot(node, 'm')).toEqual({
      uid: 'node-u',
      resourceVersion: '8',
      name: 'node-1',
      deleting: false,
      managed: true,
      conditions: { Ready: 'Unknown' },
      startingUp: true,
    });
  });

  it('counts as managed only with our finalizer and the name of this machine', () => {
    const { finalizers: _, ...unfinalized } = node.metadata;
    expect(toNodeSnapshot(node, 'other').managed).toBe(false);
    expect(toNodeSnapshot({ ...node, metadata: unfinalized }, 'm').managed).toBe(false);
    expect(toNodeSnapshot({ metadata: { ...node.metadata, labels: {} } }, 'm')).toMatchObject({
      managed: false,
      conditions: {},
      startingUp: false,
    });
  });
});

describe('toStatuses', () => {
  it('keeps types and statuses alone, so that heartbeats change nothing', () => {
    const condition = fc.record({
      type: fc.constantFrom('Ready', 'DiskPressure'),
      status: fc.constantFrom('True', 'False', 'Unknown'),
    });
    fc.assert(
      fc.property(fc.uniqueArray(condition, { selector: ({ type }) => type }), fc.string(), (conditions, text) => {
        const beaten = conditions.map((one) => ({ ...one, lastHeartbeatTime: text, message: text, reason: text }));
        expect(toStatuses(beaten)).toEqual(toStatuses(conditions));
        expect(Object.keys(toStatuses(conditions))).toHaveLength(conditions.length);
      }),
    );
    expect(toStatuses(undefined)).toEqual({});
  });
});

describe('toStatusPatch', () => {
  const now = new Date('2026-08-19T12:00:00.789Z');
  const time = '2026-08-19T12:00:00Z';

  it('changes the phase alone when the change says no more', () => {
    expect(toStatusPatch({ phase: 'Running' }, now)).toEqual({ status: { currentStatus: { phase: 'Running' } } });
  });

  it('writes an operation as a whole and takes the error code of the last one away', () => {
    const change: StatusChange = {
      phase: 'Pending',
      phaseSince: '2026-08-19T11:59:59.123Z',
      operation: { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
      timeoutActive: true,
      lastKnownState: '',
    };
    expect(toStatusPatch(change, now, [{ type: 'Ready', status: 'True' }])).toEqual({
      status: {
        currentStatus: { phase: 'Pending', timeoutActive: true, lastUpdateTime: '2026-08-19T11:59:59Z' },
        lastOperation: {
          type: 'Create',
          state: 'Processing',
          description: 'Creating machine on cloud provider',
          errorCode: null,
          lastUpdateTime: time,
        },
        lastKnownState: '',
        conditions: [{ type: 'Ready', status: 'True' }],
      },
    });
  });

  it('writes the error code of a failed operation', () => {
    const operation = { type: 'Create', state: 'Failed', description: 'no', errorCode: 'ResourceExhausted' } as const;
    expect(toStatusPatch({ phase: 'CrashLoopBackOff', operation }, now)).toMatchObject({
      status: { lastOperation: { errorCode: 'ResourceExhausted', lastUpdateTime: time } },
    });
  });

  it('never says when preservation ends: that is not its to change', () => {
    const changes = fc.record({
      phase: fc.constantFrom('Running' as const, 'Failed' as const),
      timeoutActive: fc.boolean(),
    });
    fc.assert(
      fc.property(changes, (change) => {
        expect(JSON.stringify(toStatusPatch(change, now))).not.toContain('preserve');
      }),
    );
  });
});

describe('toKubernetesTime', () => {
  it('writes RFC 3339 in whole seconds, never later than it is', () => {
    const dates = fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true });
    fc.assert(
      fc.property(dates, (date) => {
        const text = toKubernetesTime(date);
        expect(text).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
        expect(Math.floor(date.getTime() / 1000)).toBe(Date.parse(text) / 1000);
      }),
    );
  });
});

describe('secretRefsOf', () => {
  const machineClass: MachineClass = { metadata: { ...metadata, namespace: 'shoot' }, providerSpec: {} };

  it('[mcm 6 partly] names secretRef first, so that the keys of credentialsSecretRef win', () => {
    const refs = secretRefsOf({
      ...machineClass,
      credentialsSecretRef: { name: 'credentials', namespace: 'other' },
      secretRef: { name: 'user-data' },
    });
    expect(refs).toEqual([
      { namespace: 'shoot', name: 'user-data' },
      { namespace: 'other', name: 'credentials' },
    ]);
  });

  it('passes over references without a name', () => {
    expect(secretRefsOf(machineClass)).toEqual([]);
    expect(secretRefsOf({ ...machineClass, secretRef: { namespace: 'shoot' } })).toEqual([]);
    expect(secretRefsOf({ ...machineClass, secretRef: { name: '', namespace: '' } })).toEqual([]);
  });
});

describe('classVersion', () => {
  const object = (uid: string, resourceVersion: string) => ({ metadata: { ...metadata, uid, resourceVersion } });

  it('is the same after a change of the metadata of the class alone, as of its finalizers', () => {
    const versionOf = (resourceVersion: string, generation: number) =>
      classVersion({ metadata: { ...metadata, resourceVersion, generation }, providerSpec: {} }, []);

    expect(versionOf('7', 1)).toBe(versionOf('5', 1));
    expect(versionOf('7', 2)).not.toBe(versionOf('7', 1));
  });

  it('differs whenever one of the objects differs, is missing or is there again', () => {
    const anyObject = fc.option(
      fc.record({ uid: fc.constantFrom('a', 'b'), version: fc.constantFrom('1', '2', '12') }),
      { nil: undefined },
    );
    const three = fc.tuple(anyObject, anyObject, anyObject);
    const versionOf = ([first, ...rest]: ({ uid: string; version: string } | undefined)[]) =>
      classVersion(
        first && { ...object(first.uid, first.version), providerSpec: {} },
        rest.map((one) => one && object(one.uid, one.version)),
      );
    fc.assert(
      fc.property(three, three, (a, b) => {
        expect(versionOf(a) === versionOf(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });
});

describe('isOfAnother', () => {
  it.each([
    ['aws:///eu-west-1a/i-1', 'aws:///eu-west-1/i-1', false],
    ['aws:///eu-west-1a/i-2', 'aws:///eu-west-1/i-1', true],
    [
      'azure:///subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/VM-1',
      'azure:///eu/vm-1',
      false,
    ],
    ['openstack:///1', 'openstack:///region/1', false],
    ['gce://project/zone/a', 'gce:///project/zone/a', false],
    ['gce://project/zone/a', 'other:///project/zone/a', true],
    [undefined, 'aws:///eu-west-1/i-1', false],
    ['aws:///eu-west-1a/i-1', undefined, false],
  ])('of a node with %s and a machine with %s is %s', (ofNode, ofMachine, expected) => {
    const node = { metadata, spec: { ...(ofNode !== undefined && { providerID: ofNode }) } };
    expect(isOfAnother(node, ofMachine)).toBe(expected);
  });
});
