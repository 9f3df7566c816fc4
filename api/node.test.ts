import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { names } from './names.ts';
import {
  claimToLeft,
  examineNode,
  judgeNode,
  type NodeLike,
  type NodeOwner,
  rivalFor,
  toNodeSnapshot,
  toStatuses,
} from './node.ts';

const marks = {
  finalizer: 'example.com/machine',
  nodeFinalizer: 'example.com/node',
  nodeMachineLabel: 'example.com/machine-name',
  startupTaints: ['example.com/not-ready'],
  terminating: { type: 'Terminating', unhealthy: 'Unhealthy', otherwise: 'Deleted' },
};

const of = { namespace: 'ns', name: 'm' };

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
    expect(toNodeSnapshot(marks, node, of)).toEqual({
      uid: 'node-u',
      resourceVersion: '8',
      name: 'node-1',
      deleting: false,
      managed: true,
      conditions: { Ready: 'Unknown' },
      startingUp: true,
    });
  });

  it.each([
    ['Unknown', '09:00:00', true],
    ['False', '10:00:00', true],
    ['Unknown', '10:06:00', true],
    ['True', '10:00:01', true],
    ['True', '09:56:00', true],
    ['True', '09:54:00', undefined],
  ])(
    'says whether a Node was ready when it was deleted at 10:00:00: Ready is %s since %s',
    (status, time, expected) => {
      const metadata = {
        ...node.metadata,
        creationTimestamp: '2026-08-18T10:00:00Z',
        deletionTimestamp: '2026-08-19T10:00:00Z',
      };
      const conditions = [{ type: 'Ready', status, lastTransitionTime: `2026-08-19T${time}Z` }];
      const snapshot = toNodeSnapshot(marks, { ...node, metadata, status: { conditions } }, of);
      expect(snapshot.deletedUnready).toBe(expected);
    },
  );

  it('counts a new Node as ready from when it is, and one that reports nothing as not ready', () => {
    const since = '2026-08-19T10:00:00Z';
    const metadata = { ...node.metadata, creationTimestamp: '2026-08-19T09:59:00Z', deletionTimestamp: since };
    const ready = { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: since }] };
    expect(toNodeSnapshot(marks, { ...node, metadata, status: ready }, of).deletedUnready).toBeUndefined();
    expect(toNodeSnapshot(marks, { metadata }, of).deletedUnready).toBe(true);
    expect(toNodeSnapshot(marks, node, of).deletedUnready).toBeUndefined();
  });

  it('counts as managed only with our finalizer, the name of this machine, and not that of one in another namespace', () => {
    const { finalizers: _, ...unfinalized } = node.metadata;
    expect(toNodeSnapshot(marks, node, { ...of, name: 'other' }).managed).toBe(false);
    expect(toNodeSnapshot(marks, { ...node, metadata: unfinalized }, of).managed).toBe(false);
    const ofOther = { ...node.metadata, annotations: { [names.machine]: 'elsewhere/m' } };
    expect(toNodeSnapshot(marks, { ...node, metadata: ofOther }, of).managed).toBe(false);
    expect(toNodeSnapshot(marks, { metadata: { ...node.metadata, labels: {} } }, of)).toMatchObject({
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
      of,
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

describe('whose Node it is', () => {
  const created = '2026-10-01T10:00:00Z';
  const machine: NodeOwner = { namespace: 'ns', name: 'm', providerID: 'aws:///eu-west-1/i-1', nodeNotBefore: created };
  const { providerID: _, ...nameless } = machine;
  const copied = { providerID: 'aws:///eu-west-1/I-1' };

  interface Case {
    readonly what: string;
    readonly of?: Partial<NodeOwner>;
    readonly vm?: string;
    readonly label?: string;
    readonly annotation?: string;
    readonly at?: string;
    readonly rival?: Parameters<typeof judgeNode>[3];
    readonly notOwn?: string;
  }
  const vm = 'aws:///eu-west-1a/i-1';
  const older = '2026-10-01T09:59:59Z';

  it.each<Case>([
    { what: 'of its VM', vm },
    { what: 'of its VM that is older, as its Machine was restored', vm, at: older },
    { what: 'of its VM that names a Machine which is gone', vm, label: 'gone' },
    { what: 'of its VM that names a Machine of another VM', vm, label: 'other', rival: { providerID: 'aws:///x/i-2' } },
    { what: 'of its VM that names the Machine of another namespace', vm, annotation: 'other/m' },
    { what: 'without provider ID that has just registered' },
    { what: 'without provider ID that names it', label: 'm', annotation: 'ns/m' },
    { what: 'of a VM whose ID the Machine has lost, that names it', of: nameless, vm, label: 'm' },
  ])('a Node $what is its own', (its) => expectFound(its));

  it.each<Case>([
    {
      what: 'of another VM',
      vm: 'aws:///eu-west-1a/i-2',
      notOwn: 'is that of another VM, aws:///eu-west-1a/i-2: the Machine names aws:///eu-west-1/i-1',
    },
    {
      what: 'of another VM, although it names it',
      ...{
        vm: 'aws:///eu-west-1a/i-2',
        label: 'm',
        notOwn: 'is that of another VM, aws:///eu-west-1a/i-2: the Machine names aws:///eu-west-1/i-1',
      },
    },
    {
      what: 'of its VM that names another Machine of the VM',
      ...{ vm, label: 'other', rival: copied, notOwn: 'is that of Machine ns/other, which names the same VM' },
    },
    { what: 'that names another machine', label: 'other', notOwn: 'is that of Machine ns/other' },
    {
      what: 'that names the Machine of its name in another namespace',
      ...{ label: 'm', annotation: 'other/m', notOwn: 'is that of Machine other/m' },
    },
    { what: 'without provider ID that is older', at: older, notOwn: 'is older than the Machine' },
    {
      what: 'without provider ID that is older, and names one of the same name that was before it',
      ...{ at: older, label: 'm', notOwn: 'is older than the Machine' },
    },
    {
      what: 'of a VM, while the Machine names none',
      ...{ of: nameless, vm, notOwn: `is that of a VM that the Machine does not name, ${vm}` },
    },
  ])('a Node $what is not its own: it $notOwn', (its) => expectFound(its));

  function expectFound({ of = machine, vm: id, label, annotation, at = created, rival, notOwn }: Case): void {
    const metadata = {
      ...{ name: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: at },
      ...(label !== undefined && { labels: { [marks.nodeMachineLabel]: label } }),
      ...(annotation !== undefined && { annotations: { [names.machine]: annotation } }),
    };
    const node = { metadata, ...(id !== undefined && { spec: { providerID: id } }) };
    const seeker = { namespace: 'ns', name: 'm', ...of };
    const found = judgeNode(marks, node, seeker, rival);
    expect(found).toEqual(notOwn === undefined ? { node } : { node: undefined, notOwn: `node n ${notOwn}` });
  }

  it.each([undefined, 'm'])('does not depend on the age of a Machine that was restored: the Node names %s', (label) => {
    const { nodeNotBefore: __, ...restored } = machine;
    expectFound({ what: '', of: restored, at: older, ...(label !== undefined && { label }) });
  });

  it.each([
    ['aws:///eu-west-1a/i-1', 'aws:///eu-west-1/i-1', true],
    ['aws:///eu-west-1a/i-2', 'aws:///eu-west-1/i-1', false],
    [
      'azure:///subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/VM-1',
      'azure:///eu/vm-1',
      true,
    ],
    ['openstack:///1', 'openstack:///region/1', true],
    ['gce://project/zone/a', 'gce:///project/zone/a', true],
    ['gce://project/zone/a', 'other:///project/zone/a', false],
  ])(
    'depends on provider IDs as systems write them: %s is the VM of a machine with %s: %s',
    (ofNode, providerID, isOwn) => {
      const node = { metadata: { name: 'n', uid: 'u', resourceVersion: '1' }, spec: { providerID: ofNode } };
      expect(judgeNode(marks, node, { ...machine, providerID }).node !== undefined).toBe(isOwn);
    },
  );

  it.each([
    ['another Machine of its namespace', { label: 'other' }, 'other'],
    ['it', { label: 'm', annotation: 'ns/m' }, undefined],
    ['one of another namespace', { label: 'other', annotation: 'elsewhere/other' }, undefined],
    ['nobody', {}, undefined],
  ])(
    'is asked of the Machine that the Node names where that is %s',
    (_what, { label, annotation }: Partial<Case>, name) => {
      const metadata = {
        ...{ name: 'n', uid: 'u', resourceVersion: '1' },
        ...(label !== undefined && { labels: { [marks.nodeMachineLabel]: label } }),
        ...(annotation !== undefined && { annotations: { [names.machine]: annotation } }),
      };
      expect(rivalFor(marks, { metadata }, machine)).toBe(name);
    },
  );
});

describe('the standing of a Node', () => {
  const createdAt = '2026-10-01T10:00:00Z';
  const vm = 'cloud:///1';
  const machine: NodeOwner = { ...of, providerID: vm, createdAt };
  const namedAs = (nodeName: string, providerID = vm): NodeOwner => ({
    ...machine,
    namedByCloud: { providerID, nodeName },
  });
  const marked = { labels: { [marks.nodeMachineLabel]: 'm' } };
  const nodeOf = (metadata: Partial<NodeLike['metadata']> = {}, providerID?: string): NodeLike => ({
    metadata: { name: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: createdAt, ...metadata },
    ...(providerID !== undefined && { spec: { providerID } }),
  });
  const objectionTo = (node: NodeLike, claim: NodeOwner, limits: Parameters<typeof examineNode>[3] = {}) =>
    examineNode(marks, node, claim, limits, undefined).objection;
  const unconfirmed = 'node n does not name the Machine, and the cloud has not said that it runs on its VM';
  const older = { creationTimestamp: '2026-10-01T09:59:00Z' };

  it.each<[string, NodeOwner, NodeLike]>([
    ['it names the Machine by its label', machine, nodeOf(marked)],
    ['it names the Machine by its annotation', machine, nodeOf({ annotations: { [names.machine]: 'ns/m' } })],
    ['the cloud has named it', namedAs('n'), nodeOf()],
    ['the cloud has named its VM', namedAs('other'), nodeOf({}, vm)],
    ['it names the Machine, and it is older', machine, nodeOf({ ...older, ...marked }, vm)],
    [
      'the cloud has named it as it deleted a VM',
      { ...of, createdAt, namedByCloud: { nodeName: 'n' } },
      nodeOf({}, vm),
    ],
  ])('has no objection where %s', (_, claim, node) => {
    expect(objectionTo(node, claim)).toBeUndefined();
  });

  it.each<[string, NodeOwner, NodeLike]>([
    ['the Machine alone says that it is its own', machine, nodeOf()],
    ['the Machine alone has its provider ID', machine, nodeOf({}, vm)],
    ['the cloud has named another one', namedAs('other'), nodeOf()],
    ['the cloud has named another VM', namedAs('n', 'cloud:///2'), nodeOf({}, vm)],
    [
      'it names a Machine of that name in another namespace',
      machine,
      nodeOf({ ...marked, annotations: { [names.machine]: 'other/m' } }, vm),
    ],
  ])('has the objection that nobody but the Machine knows it where %s', (_, claim, node) => {
    expect(objectionTo(node, claim)).toBe(unconfirmed);
  });

  it.each([undefined, vm])(
    'has its age as objection, also when the cloud has named it: its provider ID is %s',
    (providerID) => {
      const node = nodeOf(older, providerID);
      expect(objectionTo(node, namedAs('n'))).toBe('node n is older than the Machine and does not name it');
      expect(objectionTo(node, namedAs('n'), { clockSkewSeconds: 60 })).toBeUndefined();
    },
  );

  it.each(['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'])(
    'has the label %s as objection without the flag, also when it names the Machine',
    (label) => {
      const node = nodeOf({ labels: { ...marked.labels, [label]: '' } });
      const objection = new RegExp(`has the label ${label}: .* --control-plane-nodes=true$`);
      expect(objectionTo(node, machine)).toMatch(objection);
      expect(objectionTo(node, machine, { controlPlaneNodes: true })).toBeUndefined();
    },
  );

  it('of one that was left is judged by the VM where the cloud has named both', () => {
    const { namedByCloud } = namedAs('n');
    const edited = { createdAt, providerID: 'cloud:///edited', namedByCloud: namedByCloud! };
    expect(claimToLeft(edited, 'n')).toEqual({ createdAt, providerID: vm, namedByCloud });
    expect(claimToLeft(edited, 'other')).toEqual({ ...edited, namedByCloud: { nodeName: 'other' } });
  });
});
