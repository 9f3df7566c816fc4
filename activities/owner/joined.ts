/** Which machines have joined although they say that they are starting. */
import { isHealthy } from '../../api/attention.ts';
import { dialectOf } from '../../api/dialects.ts';
import { maxLabelLength } from '../../api/names.ts';
import { toNodeSnapshot } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import { isStarting } from '../../api/owner/machines.ts';
import { nodes } from '../../kube/core.ts';
import type { OwnerContext } from './step.ts';

/** Most machines that are asked about: their names are a part of the URL of one request. */
const maxNames = 100;
/** How long the API server may take to answer, ms. */
const timeoutMs = 5_000;

/**
 * UIDs of those of the machines that are starting by their status and whose Nodes are theirs and ready: etcd was
 * restored from before they joined, and their workflows are about to say so. Of none where they are more than 100, or
 * where the Nodes cannot be read: then a rollout goes on by what the machines say.
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
  if (starting.length === 0 || starting.length > maxNames) return new Set();
  const labelSelector = `${marks.nodeMachineLabel} in (${starting.map(({ metadata }) => metadata.name).join()})`;
  const found = await target.list(nodes, { labelSelector, failFast: true, timeoutMs }).catch(() => undefined);
  const hasJoined = (machine: KubeObject) =>
    found?.items
      .map((node) => toNodeSnapshot(marks, node, { namespace: ref.namespace, name: machine.metadata.name }))
      .some((node) => node.managed && !node.startingUp && isHealthy(node, limitsOf(machine).nodeConditions)) === true;
  return new Set(starting.filter(hasJoined).map(({ metadata }) => metadata.uid));
}
