import { expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import { annotations, labels } from '../api/gardener/names.ts';
import type { KubeObject } from '../api/objects.ts';
import type { Node } from '../kube/core.ts';
import type { Patch } from '../kube/patch.ts';
import { createStore } from '../kube/store.ts';
import { createNodeController } from './nodes.ts';
import { indexesOf, type Watches } from './watches.ts';

const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
const namespace = 'ns';
const old = { resourceVersion: '1', creationTimestamp: '2020-01-01T00:00:00Z' };
const notManaged = { [annotations.notManaged]: '1' };

const machineOf = (name: string, node: string): KubeObject => ({
  metadata: { ...old, namespace, name, uid: name, labels: { [labels.node]: node } },
});
const nodeOf = (name: string, machine?: string, more: Record<string, string> = {}): Node => ({
  metadata: {
    ...{ ...old, name, uid: name, annotations: more },
    ...(machine !== undefined && {
      labels: { [labels.machineName]: machine },
      annotations: { 'millwright.dev/machine': `${namespace}/${machine}`, ...more },
      finalizers: [gardener.marks.nodeFinalizer],
    }),
  },
});

/** What is written to the Node with this name. */
async function writtenTo(name: string, nodes: readonly Node[], machines: readonly KubeObject[]): Promise<unknown> {
  const indexes = indexesOf(gardener, defaults);
  const stores = {
    machines: createStore<KubeObject>(indexes.machines),
    nodes: createStore<Node>(indexes.nodes),
  };
  for (const each of Object.values(stores)) {
    each.setSynced();
    each.setReachable(true);
  }
  for (const node of nodes) stores.nodes.put(node);
  for (const machine of machines) stores.machines.put(machine);
  let written: { metadata: object } | undefined;
  const patch = async (_resource: unknown, _key: unknown, { body }: Patch) => {
    written = body as typeof written;
  };
  const watches = { machines: stores.machines.store, nodes: stores.nodes.store } as unknown as Watches;
  await createNodeController({ target: { patch } as never, watches, dialect: gardener, namespace, defaults }).handle(
    name,
  );
  return written?.metadata;
}

it.each<[string, Node, readonly KubeObject[], object | undefined]>([
  ['says that nobody manages it where it has no Machine', nodeOf('n'), [], { annotations: notManaged, finalizers: [] }],
  [
    'takes our finalizer off where its Machine is gone',
    nodeOf('n', 'm'),
    [],
    { annotations: notManaged, finalizers: [] },
  ],
  [
    'says that somebody manages it again where a Machine has marked it',
    nodeOf('n', 'm', notManaged),
    [machineOf('m', 'n')],
    { annotations: { [annotations.notManaged]: null } },
  ],
  ['writes nothing to the Node of a Machine', nodeOf('n', 'm'), [machineOf('m', 'n')], undefined],
  [
    'writes nothing to a Node that a Machine names and has not marked',
    nodeOf('n', undefined, notManaged),
    [machineOf('m', 'n')],
    undefined,
  ],
])('the controller of Nodes %s', async (_, node, machines, expected) => {
  const written = await writtenTo('n', [node, nodeOf('other')], machines);
  if (expected === undefined) expect(written).toBeUndefined();
  else expect(written).toMatchObject(expected);
});
