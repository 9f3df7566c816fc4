/** Marks Nodes that no Machine has: others see that nobody manages them, and our finalizer does not keep them. */

import { isDeepStrictEqual } from 'node:util';
import { names } from '../api/names.ts';
import { writableNode } from '../api/node.ts';
import { type Node, nodes } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { judgeSeen } from './own-nodes.ts';
import { byNode, indexesOf } from './watches.ts';

type NodeControllerContext = Pick<ControllerContext, 'target' | 'watches' | 'dialect' | 'namespace' | 'defaults'>;

/**
 * Keys are names of Nodes. One without a Machine is marked when it is older than the creation timeout: a Machine in
 * creation may not know its name yet. Nodes that may be those of another installation are left alone.
 */
export function createNodeController(context: NodeControllerContext): Controller {
  const { target, watches, dialect, namespace, defaults } = context;
  const indexes = indexesOf(dialect, defaults);
  const { notManaged, nodeFinalizer, nodeMachineLabel } = dialect.marks;

  async function handle(name: string): Promise<void> {
    const node = watches.nodes.get({ name });
    const areSeen = watches.nodes.reachable && watches.machines.reachable;
    if (notManaged === undefined || node === undefined || !areSeen) return;
    const { resourceVersion, annotations = {}, finalizers = [] } = node.metadata;
    const machines = indexes.nodes[byNode](node).flatMap((key) => watches.machines.byIndex(byNode, key));
    const isManaged = machines.length > 0;
    if (isManaged && machines.every((each) => writableNode(judgeSeen(context, each, node)) === undefined)) return;
    if (!isManaged && (!isOld(node) || isOfOthers(node))) return;
    const { [notManaged.key]: mark } = annotations;
    const others = finalizers.filter((each) => each !== nodeFinalizer);
    const wanted = isManaged ? { mark: undefined, finalizers } : { mark: notManaged.value, finalizers: others };
    if (isDeepStrictEqual(wanted, { mark, finalizers })) return;
    const change = { annotations: { [notManaged.key]: wanted.mark ?? null }, finalizers: wanted.finalizers };
    await ignoreGoneOrChanged(() =>
      target.patch(nodes, { name }, mergePatch({ metadata: { resourceVersion, ...change } })),
    );
  }

  /**
   * Whether somebody else may manage a Node: its annotation says so, or it has marks and does not say whose they are.
   */
  function isOfOthers({ metadata: { annotations, finalizers, labels } }: Node): boolean {
    const machine = annotations?.[names.machine];
    if (machine !== undefined) return !machine.startsWith(`${namespace}/`);
    return finalizers?.includes(nodeFinalizer) === true || labels?.[nodeMachineLabel] !== undefined;
  }

  function isOld({ metadata }: Node): boolean {
    return Date.now() > Date.parse(metadata.creationTimestamp) + defaults.creationSeconds * 1_000;
  }

  const all = () => watches.nodes.list().map(({ metadata }) => metadata.name);
  return {
    queue: 'nodes',
    hears: {
      nodes: ({ object }) => [object.metadata.name],
      machines: ({ object }) =>
        indexes.machines[byNode](object)
          .flatMap((key) => watches.nodes.byIndex(byNode, key))
          .map(({ metadata }) => metadata.name),
    },
    hearsLists: { nodes: all },
    delayMs: 1_000, // a Machine that is deleted takes its Node along
    keys: all,
    handle,
    resync: handle,
  };
}
