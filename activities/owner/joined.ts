/** Which machines have joined although they say that they are starting. */
import { isHealthy } from '../../api/attention.ts';
import { dialectOf } from '../../api/dialects.ts';
import type { MachineSnapshot } from '../../api/model/machine.ts';
import type { NodeSnapshot } from '../../api/model/node.ts';
import { maxLabelLength } from '../../api/names.ts';
import { toNodeSnapshot } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import { isStarting } from '../../api/owner/machines.ts';
import { vmOf } from '../../api/provider-id.ts';
import { nodes } from '../../kube/core.ts';
import type { OwnerContext } from './step.ts';

/** Up to so many machines, their Nodes are asked for by name, in one URL; beyond that, the Nodes of all machines. */
const mostNames = 100;
/** How long the API server may take for all of its answer, ms. */
const timeoutMs = 10_000;

/**
 * UIDs of those of the machines that are starting by their status and have joined by their Nodes: etcd was restored
 * from before they joined, and their workflows are about to say so. If the API server does not answer in time, only
 * those that it has named: a rollout goes on by what the others say.
 */
export async function findJoined(
  { deps, api, ref }: OwnerContext,
  machines: readonly KubeObject[],
): Promise<ReadonlySet<string>> {
  const { target, defaults } = deps;
  const { marks } = api;
  const starting = new Map<string, MachineSnapshot>();
  for (const machine of machines) {
    const { name } = machine.metadata;
    if (!isStarting(api, machine) || name.length > maxLabelLength) continue;
    const snapshot = dialectOf(ref.dialect).machine.toSnapshot(machine, defaults);
    if (!snapshot.limits.hasNoNode) starting.set(name, snapshot);
  }
  const joined = new Set<string>();
  if (starting.size === 0) return joined;
  const { nodeMachineLabel } = marks;
  const isFew = starting.size <= mostNames;
  const labelSelector = isFew ? `${nodeMachineLabel} in (${[...starting.keys()].join()})` : nodeMachineLabel;
  try {
    const query = { labelSelector, signal: AbortSignal.timeout(timeoutMs) };
    for await (const { items } of target.pages(nodes, query)) {
      for (const node of items) {
        const name = node.metadata.labels?.[nodeMachineLabel] ?? '';
        const machine = starting.get(name);
        if (machine === undefined) continue;
        const snapshot = toNodeSnapshot(marks, node, { namespace: ref.namespace, name });
        if (hasJoined(machine, snapshot)) joined.add(machine.uid);
      }
    }
  } catch {
    // The others are not known to have joined.
  }
  return joined;
}

/** Whether the Node of a machine is healthy, or belongs to its VM and has become Unknown. */
function hasJoined({ limits, providerID }: MachineSnapshot, node: NodeSnapshot): boolean {
  if (!node.managed || node.startingUp) return false;
  if (isHealthy(node, limits.nodeConditions)) return true;
  // A former machine of the same name may have left its Node, which is Unknown, too.
  const isOfVm = providerID === undefined || vmOf(node.providerID ?? '') === vmOf(providerID);
  return node.conditions['Ready'] === 'Unknown' && !node.deleting && isOfVm;
}
