/** Tells the Nodes of Machines from those of others, by the caches. */
import { examineNode, type FoundNode, rivalFor } from '../api/node.ts';
import type { KubeObject } from '../api/objects.ts';
import type { Node } from '../kube/core.ts';
import type { ControllerContext } from './controller.ts';

export type Caches = Pick<ControllerContext, 'watches' | 'dialect' | 'defaults'>;

/** A Node of the name that a Machine stores, if it is that of the Machine, and whether it may be written to. */
export function judgeSeen(
  { watches, dialect: { marks, machine: of }, defaults }: Caches,
  machine: KubeObject,
  node: Node | undefined,
): FoundNode<Node> {
  const { namespace = '', name } = machine.metadata;
  const seeker = { ...of.toSnapshot(machine, defaults), namespace, name };
  const rivalName = rivalFor(marks, node, seeker);
  const rival = rivalName === undefined ? undefined : watches.machines.get({ namespace, name: rivalName });
  return examineNode(marks, node, seeker, defaults, rival && of.toSnapshot(rival, defaults));
}
