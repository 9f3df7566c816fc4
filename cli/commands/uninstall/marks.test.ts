import { describe, expect, it } from '@jest/globals';
import { annotations, finalizers, labels, taints } from '../../../api/gardener/names.ts';
import { names } from '../../../api/names.ts';
import { docCommentsIn } from '../../../deploy/generators/comments.ts';
import type { Node } from '../../../kube/core.ts';
import { dialect } from '../../dialect.ts';
import { type Found, surveyOf, unmanagedNode, withoutMarks } from './marks.ts';

const created = '2026-08-19T10:00:00Z';

function object(name: string, metadata: object = {}, fields: object = {}): Node {
  return {
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: created, ...metadata },
    ...fields,
  };
}

describe('withoutMarks', () => {
  it('removes every name of our own that no user writes', () => {
    const comments = docCommentsIn('api/names.ts', 'export const names');
    const isOfUsers = (name: string) => /Written by (users|`millwright rollout)/.test(comments.get(name) ?? '');
    const all = Object.fromEntries(Object.values(names).map((name) => [name, 'x']));

    const removed = withoutMarks(object('any', { annotations: { ...all, other: 'x' } }))?.metadata?.annotations;

    const expected = Object.entries(names).filter(([name]) => !isOfUsers(name));
    expect(Object.keys(removed ?? {}).toSorted()).toEqual(expected.map(([, name]) => name).toSorted());
  });

  it('removes one finalizer and keeps the others', () => {
    const held = object('any', { finalizers: ['a', finalizers.machine, 'b'] });

    expect(withoutMarks(held, finalizers.machine)).toEqual({ metadata: { finalizers: ['a', 'b'] } });
    expect(withoutMarks(held)).toBeUndefined();
  });
});

describe('unmanagedNode', () => {
  it('removes finalizer, annotations, taints and the cordon of a preservation', () => {
    const node = object(
      'node',
      {
        finalizers: [finalizers.node],
        annotations: {
          ...{ [names.machine]: 'ns/node', [names.cordonedBy]: 'preservation' },
          ...{ [annotations.scaleDownDisabled]: 'true', [annotations.scaleDownDisabledByMcm]: 'true' },
        },
      },
      {
        spec: {
          unschedulable: true,
          taints: [
            { key: names.vmInterrupted, effect: 'NoSchedule' },
            taints.preferNoSchedule,
            { key: 'own', effect: 'x' },
          ],
        },
      },
    );

    expect(unmanagedNode(dialect, node)).toEqual({
      metadata: {
        finalizers: [],
        annotations: {
          ...{ [names.machine]: null, [names.cordonedBy]: null },
          ...{ [annotations.scaleDownDisabled]: null, [annotations.scaleDownDisabledByMcm]: null },
        },
      },
      spec: { taints: [{ key: 'own', effect: 'x' }], unschedulable: null },
    });
  });

  it('keeps what others have put on a Node', () => {
    const cordon = { unschedulable: true, taints: [{ key: 'own', effect: 'NoSchedule' }] };
    const disabled = { [annotations.scaleDownDisabled]: 'true' };

    expect(unmanagedNode(dialect, object('node', { annotations: disabled }, { spec: cordon }))).toBeUndefined();
  });
});

describe('surveyOf', () => {
  const survey = (found: Partial<Found>) =>
    surveyOf(dialect, { namespace: 'ns', machines: [], sources: [], nodes: [], ...found });
  const marked = { finalizers: [finalizers.machine] };

  it.each([
    [
      'a Machine that is being deleted',
      { machines: [object('m', { ...marked, deletionTimestamp: created }, { spec: { providerID: 'aws:///i-1' } })] },
      'Machine m is being deleted: its VM aws:///i-1 may exist',
    ],
    [
      'a Machine whose VM is being created',
      { machines: [object('m', marked)] },
      'Machine m names no VM: a VM with the tag millwright.dev/machine-uid=uid-m may exist',
    ],
    [
      'a class that has lost a Machine',
      { sources: [object('c', { annotations: { [names.lostMachine]: created } })] },
      'class c has lost a Machine whose VM may exist: look for its tags in the cloud',
    ],
    [
      'a Node whose Machine does not exist',
      { nodes: [object('n', { annotations: { [names.machine]: 'ns/m' } }, { spec: { providerID: 'aws:///i-1' } })] },
      'Node n is that of Machine m, which does not exist: the VM aws:///i-1 may exist',
    ],
    [
      'a Node with the finalizer that names no Machine',
      { nodes: [object('n', { finalizers: [finalizers.node] })] },
      `Node n keeps the finalizer ${finalizers.node}: no Machine here has it`,
    ],
  ])('lists %s', (_, found, line) => {
    expect(survey(found).attention).toEqual([line]);
  });

  it('lists nothing for a Machine with a VM, and for one that no VM was created for', () => {
    const machines = [object('m', marked, { spec: { providerID: 'aws:///i-1' } }), object('new')];

    expect(survey({ machines }).attention).toEqual([]);
  });

  it('takes for its own the Nodes that name its Machines, or that its Machines name, and none of another namespace', () => {
    const machines = [
      object('a', marked, { spec: { providerID: 'aws:///i-a' } }),
      object('b', { ...marked, labels: { [labels.node]: 'node-b' } }, { spec: { providerID: 'aws:///i-b' } }),
    ];
    const held = { finalizers: [finalizers.node] };
    const nodes = [
      object('node-a', { ...held, annotations: { [names.machine]: 'ns/a' } }),
      object('node-b', { ...held, labels: { [labels.machineName]: 'b' } }, { spec: { providerID: 'aws:///i-b' } }),
      object('node-c', { ...held, annotations: { [names.machine]: 'other/a' } }),
      object('node-d'),
    ];

    const { ownNodes, attention } = survey({ machines, nodes });

    expect(ownNodes.map(({ metadata }) => metadata.name)).toEqual(['node-a', 'node-b']);
    expect(attention).toEqual([]);
  });
});
