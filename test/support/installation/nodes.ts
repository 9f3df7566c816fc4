import { labels } from '../../../api/gardener/names.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import { type Node, nodes } from '../../../kube/core.ts';
import { until } from '../until.ts';
import type { Scene } from './scene.ts';

/** What tests ask of the Nodes of an installation. */
export function nodeVerbs({ target, cloud, story }: Scene) {
  /** Those that exist, by their names: a cluster has the Nodes of other tests, too. */
  async function find(names: Iterable<string>): Promise<Node[]> {
    const found = await Promise.all([...names].map((name) => target.find(nodes, { name })));
    return found.flatMap((node) => node ?? []);
  }

  return {
    /** Nodes of this installation's machines: their names are those of their VMs. */
    async nodes(): Promise<Node[]> {
      return find(new Set((await cloud.vms({ all: true })).map((vm) => vm.name).toSorted()));
    },

    /** Nodes of these Machines, of any cloud. */
    async nodesOf(owners: readonly Machine[]): Promise<Node[]> {
      const providerIDs = new Set(owners.map(({ spec }) => spec?.providerID));
      const found = await find(owners.flatMap(({ metadata }) => metadata.labels?.[labels.node] ?? []));
      return found.filter(({ spec }) => providerIDs.has(spec?.providerID));
    },

    /** Waits until the Node is as it is checked, and returns it. @param what after its name, such as `is cordoned` */
    async untilNode(
      { name }: { readonly name: string },
      what: string,
      check: (node: Node) => boolean | undefined,
      timeoutMs?: number,
    ): Promise<Node> {
      const read = async (see: (node: Node) => Node) => {
        const node = see(await target.get(nodes, { name }));
        return check(node) === true && node;
      };
      return until(`Node ${name} ${what}`, read, { timeoutMs, describe: story });
    },
  };
}
