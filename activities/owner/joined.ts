/** Which machines have joined although they say that they are starting. */
import { isHealthy } from '../../api/attention.ts';
import { dialectOf } from '../../api/dialects.ts';
import { toNodeSnapshot } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import { isStarting } from '../../api/owner/machines.ts';
import { type Node, nodes } from '../../kube/core.ts';
import type { OwnerContext } from './step.ts';

/** Names in one request: they are a part of its URL. */
const maxNames = 100;

/**
 * UIDs of those of the machines that are starting by their status and whose Nodes are theirs and ready: etcd was
 * restored from before they joined, and their workflows are about to say so. Where the Nodes cannot be read, of all.
 */
export async function findJoined(
  { deps, api, ref }: OwnerContext,
  machines: readonly KubeObject[],
): Promise<ReadonlySet<string>> {
  const { target, defaults } = deps;
  const { marks } = api;
  const { toSnapshot } = dialectOf(ref.dialect).machine;
  const starting = machines.filter(
    (machine) => isStarting(api, machine) && toSnapshot(machine, defaults).limits.hasNoNode !== true,
  );
  const found: Node[] = [];
  try {
    for (let i = 0; i < starting.length; i += maxNames) {
      const names = starting.slice(i, i + maxNames).map(({ metadata }) => metadata.name);
      const labelSelector = `${marks.nodeMachineLabel} in (${names.join()})`;
      found.push(...(await target.list(nodes, { labelSelector })).items);
    }
  } catch {
    return new Set(starting.map(({ metadata }) => metadata.uid));
  }
  const hasNode = (machine: KubeObject) => {
    const { nodeConditions } = toSnapshot(machine, defaults).limits;
    const seeker = { namespace: ref.namespace, name: machine.metadata.name };
    return found
      .map((node) => toNodeSnapshot(marks, node, seeker))
      .some((node) => node.managed && !node.startingUp && isHealthy(node, nodeConditions));
  };
  return new Set(starting.filter(hasNode).map(({ metadata }) => metadata.uid));
}
