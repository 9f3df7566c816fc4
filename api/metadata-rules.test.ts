/** The rules, compared with what a real API server says. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes } from '../kube/core.ts';
import { isInvalid } from '../kube/errors.ts';
import { testClient } from '../test/support/kube.ts';
import { machines } from './gardener/resources.ts';
import {
  acceptedOf,
  maxAnnotationBytes,
  problemsOfAnnotations,
  problemsOfFinalizers,
  problemsOfLabels,
  problemsOfTaints,
} from './metadata-rules.ts';
import type { KubeObject, NewObject, Resource } from './objects.ts';

let client: KubeClient;
beforeAll(() => {
  client = testClient();
});
afterAll(() => client.close());

/** Whether the API server would create a Node with this. */
function isAccepted(metadata: object, taints: NonNullable<Node['spec']>['taints'] = []): Promise<boolean> {
  return isCreated(nodes, { metadata: { name: 'metadata-rules', ...metadata }, spec: { taints } });
}

/** The same of a Machine: a Node may have finalizers of few names alone. */
function isAcceptedOnMachine(metadata: object): Promise<boolean> {
  return isCreated(machines, { metadata: { namespace: 'default', name: 'metadata-rules', ...metadata } });
}

async function isCreated<T extends KubeObject>(resource: Resource<T>, object: NewObject<T>): Promise<boolean> {
  try {
    await client.create(resource, object, { dryRun: 'All' });
    return true;
  } catch (error) {
    if (isInvalid(error)) return false;
    throw error;
  }
}

const long = (length: number) => 'x'.repeat(length);
const keys = [
  ...['a', 'A.b_c-d', '1', 'example.com/a', 'a.b.example.com/A', `${long(63)}`, `${long(63)}.com/a`, '-', ''],
  ...['bad key!', '-a', 'a-', 'a.', '_a', 'ä', 'a/b/c', '/a', 'a/', 'Example.com/a', 'example..com/a', '-x.com/a'],
  ...[long(64), `${long(64)}.com/a`, `${`${long(62)}.`.repeat(4)}co/a`, `${`${long(62)}.`.repeat(4)}com/a`, 'a\n'],
];
const values = ['', 'a', '1.30.0', 'A_b-c', long(63), long(64), 'two words', '-a', 'a-', 'a/b', 'ä', 'a\n', 'true '];
const taintsOf = (...effects: string[]) => effects.map((effect) => ({ key: 'a', value: 'b', effect }));

describe('what is said to be wrong is what an API server refuses', () => {
  it.each(keys)('of the key %j of a label, an annotation, a taint and a finalizer', async (key) => {
    const taints = [{ key, effect: 'NoSchedule' }];
    expect({
      label: problemsOfLabels({ [key]: 'a' }, 'labels').length === 0,
      annotation: problemsOfAnnotations({ [key]: 'a' }, 'annotations').length === 0,
      taint: problemsOfTaints(taints, 'taints').length === 0,
      finalizer: problemsOfFinalizers([key], 'finalizers').length === 0,
    }).toEqual({
      label: await isAccepted({ labels: { [key]: 'a' } }),
      annotation: await isAccepted({ annotations: { [key]: 'a' } }),
      taint: await isAccepted({}, taints),
      finalizer: await isAcceptedOnMachine({ finalizers: [key] }),
    });
  });

  it.each(values)('of the value %j of a label and a taint', async (value) => {
    const taints = [{ key: 'a', value, effect: 'NoExecute' }];
    expect({
      label: problemsOfLabels({ a: value }, 'labels').length === 0,
      taint: problemsOfTaints(taints, 'taints').length === 0,
    }).toEqual({ label: await isAccepted({ labels: { a: value } }), taint: await isAccepted({}, taints) });
  });

  it.each([
    [taintsOf('NoSchedule', 'PreferNoSchedule', 'NoExecute')],
    [taintsOf('NoSchedul')],
    [taintsOf('')],
    [taintsOf('noSchedule')],
    [taintsOf('NoSchedule', 'NoSchedule')],
    [[...taintsOf('NoSchedule'), { key: 'a', value: 'other', effect: 'NoSchedule' }]],
    [[...taintsOf('NoSchedule'), { key: 'b', effect: 'NoSchedule' }]],
  ])('of the taints %j', async (taints) => {
    expect(problemsOfTaints(taints, 'taints').length === 0).toBe(await isAccepted({}, taints));
  });

  it.each([0, 1])('of annotations with %d bytes more than the most', async (more) => {
    const annotations = { a: 'ä'.repeat(10), b: long(maxAnnotationBytes + more - 22) };
    expect(problemsOfAnnotations(annotations, 'annotations').length === 0).toBe(await isAccepted({ annotations }));
  });
});

it('what is said names the field, the value and what helps', () => {
  expect([
    ...problemsOfLabels({ team: 'two words', 'bad key!': 'a', good: 'a' }, 'labels'),
    ...problemsOfTaints([...taintsOf('NoSchedul'), ...taintsOf('NoExecute'), ...taintsOf('NoExecute')], 'taints'),
  ]).toEqual([
    `labels has team="two words": write the value as at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends`,
    expect.stringMatching(/^labels has the key "bad key!": write it as at most 63 letters.*after a DNS name and '\/'$/),
    'taints has a=b:NoSchedul: its effect: set it to one of NoSchedule, PreferNoSchedule, NoExecute',
    'taints has a=b:NoExecute: it has another taint of this key and effect: leave one',
  ]);
});

it('what is accepted are the rest, and of equal taints the first', () => {
  const given = {
    labels: { team: 'two words', good: 'a' },
    annotations: { 'bad key!': 'a', Good: 'any text' },
    taints: [...taintsOf('NoExecute', 'NoSchedul'), { key: 'a', value: 'other', effect: 'NoExecute' }],
  };
  expect(acceptedOf(given)).toEqual({
    ...{ labels: { good: 'a' }, annotations: { Good: 'any text' } },
    taints: taintsOf('NoExecute'),
  });
});
