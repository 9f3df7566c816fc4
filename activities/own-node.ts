/** Reads the Node of a Machine, unless it is that of another one with its name, and judges whether it may be written to. */
import { dialectOf } from '../api/dialects.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { examineNode, type FoundNode, type NodeClaim, rivalFor } from '../api/node.ts';
import type { KubeClient, RequestOptions } from '../kube/client.ts';
import { type Node, nodes } from '../kube/core.ts';

export interface OwnNodeDeps {
  /** Holds the Machines. */
  readonly control: KubeClient;
  /** Holds the Nodes; may be the same. */
  readonly target: KubeClient;
  readonly defaults: MachineLimits;
}

/** The Machine whose Node is asked for. */
export type NodeSeeker = Pick<ObjectRef, 'dialect' | 'namespace' | 'name'> & NodeClaim;

export type OwnNodes = ReturnType<typeof createOwnNodes>;

export function createOwnNodes({ control, target, defaults }: OwnNodeDeps) {
  /** A Node as it was read, if it is that of the machine. Reads another Machine where the Node names that. */
  async function judge(seeker: NodeSeeker, node: Node | undefined, options: RequestOptions): Promise<FoundNode<Node>> {
    const { marks, kinds, machine } = dialectOf(seeker.dialect);
    const name = rivalFor(marks, node, seeker);
    const { namespace } = seeker;
    const rival = name === undefined ? undefined : await control.find(kinds.machine, { namespace, name }, options);
    return examineNode(marks, node, seeker, defaults, rival && machine.toSnapshot(rival, defaults));
  }

  return {
    judge,

    /** The Node with this name, if it is that of the machine. */
    async find(seeker: NodeSeeker, name: string, options: RequestOptions): Promise<FoundNode<Node>> {
      return judge(seeker, await target.find(nodes, { name }, options), options);
    },
  };
}
