/** Which machines have joined although they say that they are starting. */
import { isHealthy } from '../../api/attention.ts';
import { dialectOf } from '../../api/dialects.ts';
import type { MachineLimits } from '../../api/model/machine.ts';
import type { NodeSnapshot } from '../../api/model/node.ts';
import { maxLabelLength } from '../../api/names.ts';
import { type NodeLike, toNodeSnapshot } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import { isStarting } from '../../api/owner/machines.ts';
import { nodes } from '../../kube/core.ts';
import type { OwnerContext } from './step.ts';

/** How many machines one request asks about: their names are a part of its URL. */
const namesOfRequest = 100;
/** How long the API server may take to answer a request, ms. */
const timeoutMs = 5_000;

/**
 * UIDs of those of the machines that are starting by their status and whose Nodes are theirs, and ready or not heard
 * of: etcd was restored from before they joined, and their workflows are about to say so. Of none about which the API
 * server does not answer: then a rollout goes on by what the machines say.
 */
export async function findJoined(
  { deps, api, ref }: OwnerContext,
  machines: readonly KubeObject[],
): Promise<ReadonlySet<string>> {
  const { target, defaults } = deps;
  const { marks } = api;
  const limitsOf = (machine: KubeObject) => dialectOf(ref.dialect).machine.toSnapshot(machine, defaults).limits;
  const starting = machines.filter(
    (machine) =>
      isStarting(api, machine) &&
      machine.metadata.name.length <= maxLabelLength &&
      limitsOf(machine).hasNoNode !== true,
  );
  const found: NodeLike[] = [];
  for (let i = 0; i < starting.length; i += namesOfRequest) {
    const asked = starting.slice(i, i + namesOfRequest).map(({ metadata }) => metadata.name);
    const labelSelector = `${marks.nodeMachineLabel} in (${asked.join()})`;
    const answer = await target.list(nodes, { labelSelector, failFast: true, timeoutMs }).catch(() => undefined);
    if (answer === undefined) break;
    found.push(...answer.items);
  }
  const byName = Map.groupBy(found, ({ metadata }) => metadata.labels?.[marks.nodeMachineLabel]);
  const joined = starting.filter((machine) => {
    const { name } = machine.metadata;
    const own = byName.get(name)?.map((node) => toNodeSnapshot(marks, node, { namespace: ref.namespace, name }));
    return own?.some((node) => isJoined(node, limitsOf(machine)));
  });
  return new Set(joined.map(({ metadata }) => metadata.uid));
}

/** Whether the Node of a machine was ready, or was before the kubelet or the network went silent. */
function isJoined(node: NodeSnapshot, { nodeConditions }: MachineLimits): boolean {
  const isSilent = node.conditions['Ready'] === 'Unknown';
  return node.managed && !node.startingUp && (isSilent || isHealthy(node, nodeConditions));
}
