import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isOfAnother, type NodeLike, toNodeSnapshot, toStatuses } from './node.ts';

const marks = {
  finalizer: 'example.com/machine',
  nodeFinalizer: 'example.com/node',
  nodeMachineLabel: 'example.com/machine-name',
  startupTaints: ['example.com/not-ready'],
  terminating: { type: 'Terminating', unhealthy: 'Unhealthy', otherwise: 'Deleted' },
};

describe('toNodeSnapshot', () => {
  const node: NodeLike = {
    metadata: {
      name: 'node-1',
      uid: 'node-u',
      resourceVersion: '8',
      finalizers: [marks.nodeFinalizer],
      labels: { [marks.nodeMachineLabel]: 'm' },
    },
    spec: { taints: [{ key: 'example.com/not-ready' }] },
    status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
  };

  it('reads what decisions need', () => {
    expect(toNodeSnapshot(marks, node, 'm')).toEqual({
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
    expect(toNodeSnapshot(marks, node, 'other').managed).toBe(false);
    expect(toNodeSnapshot(marks, { ...node, metadata: unfinalized }, 'm').managed).toBe(false);
    expect(toNodeSnapshot(marks, { metadata: { ...node.metadata, labels: {} } }, 'm')).toMatchObject({
      managed: false,
      conditions: {},
      startingUp: false,
    });
  });
});

describe('the interruption of a Node', () => {
  const condition = (type: string, message: string, status = 'True') => ({ type, status, message });
  const preempt = 'Preempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMT. EventId: 1';
  const interruptionOf = (taints: { key: string; value?: string }[], conditions: ReturnType<typeof condition>[] = []) =>
    toNodeSnapshot(
      marks,
      { metadata: { name: 'n', uid: 'u', resourceVersion: '1' }, spec: { taints }, status: { conditions } },
      'm',
    ).interruption;

  it.each([
    ['aws-node-termination-handler/spot-itn', '17e6c1'],
    ['aws-node-termination-handler/scheduled-maintenance', '17e6c1'],
    ['aws-node-termination-handler/asg-lifecycle-termination', '17e6c1'],
    ['cloud.google.com/impending-node-termination', ''],
  ])('is the taint %s', (key, value) => {
    expect(interruptionOf([{ key: 'other' }, { key, value }])).toBe(`the taint ${key}`);
  });

  it('is our own taint, with its value', () => {
    const text = 'the taint millwright.dev/vm-interrupted (marked-for-termination)';
    expect(interruptionOf([{ key: 'millwright.dev/vm-interrupted', value: 'marked-for-termination' }])).toBe(text);
  });

  it.each([
    [condition('VMEventScheduled', preempt), 'the condition VMEventScheduled (Preempt)'],
    [condition('VMEventScheduled', 'Preempt Started: .'), 'the condition VMEventScheduled (Preempt)'],
    [condition('VMEventScheduled', 'Terminate Scheduled: soon'), 'the condition VMEventScheduled (Terminate)'],
    [condition('PreemptionScheduled', preempt), 'the condition PreemptionScheduled (Preempt)'],
    [condition('VMEventScheduled', 'Preempt Scheduled: an hour later'), 'the condition VMEventScheduled (Preempt)'],
  ])('is the condition %j, without its time', (one, text) => {
    expect(interruptionOf([], [condition('Ready', 'ready'), one])).toBe(text);
  });

  it.each([
    [[{ key: 'aws-node-termination-handler/rebalance-recommendation' }], []],
    [[{ key: 'node.kubernetes.io/unschedulable' }], []],
    [[], [condition('VMEventScheduled', 'VM has no scheduled event', 'False')]],
    [[], [condition('VMEventScheduled', preempt, 'False')]],
    [[], [condition('VMEventScheduled', 'Reboot Scheduled: soon')]],
    [[], [condition('VMEventScheduled', 'Freeze Scheduled: soon')]],
    [[], [condition('PreemptionScheduled', 'SpotRebalanceRecommendation Advisory: Preempt Scheduled: soon')]],
    [[], [condition('Other', preempt)]],
  ])('is not %j %j', (taints, conditions) => {
    expect(interruptionOf(taints, conditions)).toBeUndefined();
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
    const node = {
      metadata: { name: 'n', uid: 'u', resourceVersion: '1' },
      spec: { ...(ofNode !== undefined && { providerID: ofNode }) },
    };
    expect(isOfAnother(node, ofMachine)).toBe(expected);
  });
});
