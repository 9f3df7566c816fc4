/**
 * In-place updates: who is a candidate, whose turn it is, and who is handed over to the set of the current template.
 */

import { orderOf, toOrder } from '../../api/in-place-order.ts';
import type { UpdatedMachine } from '../../api/model/owner.ts';
import { inPlaceOrders, names } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { setReference } from '../../api/owner/new-objects.ts';
import type { OwnerSet } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { isReleasable } from '../../api/owner/updated-machines.ts';
import { update } from '../../kube/update.ts';
import { inBatches, isAsPlanned, type Step } from './step.ts';

/**
 * Writes only on Machines: their workflows bring the Nodes in line. Each is changed only if it still is as it was
 * planned for.
 */
export async function updateInPlace(step: Step): Promise<void> {
  const { mark = [], select = [], release = [], handOver = [], newSet } = step.plan.update ?? {};
  const { candidate, selected, released } = inPlaceOrders;
  await inBatches(step, mark, (machine, set) =>
    order(step, machine, set, candidate, (live) => orderOf(live) === undefined),
  );
  await inBatches(step, select, (machine, set) =>
    order(step, machine, set, selected, (live) => orderOf(live) === candidate),
  );
  await inBatches(step, release, (machine, set) =>
    order(step, machine, set, released, (live) => isReleasable(step.api, live)),
  );
  if (newSet === undefined || handOver.length === 0) return;
  const to = await step.deps.control.find(step.sets, { namespace: step.ref.namespace, name: newSet.name });
  if (to === undefined || !isAsPlanned(step, to)) return;
  await inBatches(step, handOver, (machine, set) => handOverTo(step, machine, set, to));
}

type Is = (live: KubeObject) => boolean;

function order(step: Step, machine: UpdatedMachine, set: OwnerSet, next: string, isDue: Is) {
  const annotations = { [names.inPlaceUpdate]: toOrder(next, set.metadata.uid) };
  return change(step, machine, set, isDue, () => ({ metadata: { annotations } }));
}

/**
 * One write: the machine never belongs to no set, and never to both. `from` and `to` are one when the template went
 * back.
 */
function handOverTo(step: Step, machine: UpdatedMachine, from: OwnerSet, to: OwnerSet) {
  const { api } = step;
  const { handedOver } = api.owner.inPlaceUpdate ?? {};
  const [before = {}, after = {}] = [from, to].map(({ spec }) => spec?.selector?.matchLabels);
  const removed = Object.fromEntries(Object.keys(before).map((key) => [key, null]));
  const isUpdated = (live: KubeObject) => orderOf(live) === inPlaceOrders.updated;
  return change(step, machine, from, isUpdated, ({ metadata: { ownerReferences = [] } }) => ({
    metadata: {
      ownerReferences: [...ownerReferences.filter((each) => !each.controller), setReference(api, to)],
      labels: { ...removed, ...after, ...handedOver },
      annotations: { [names.inPlaceUpdate]: null },
    },
  }));
}

async function change(
  { deps, api, ref }: Step,
  { name, uid }: UpdatedMachine,
  set: OwnerSet,
  isDue: Is,
  toPatch: (live: KubeObject) => object,
): Promise<void> {
  const isOwn = (live: KubeObject) =>
    controllerOf(live) === set.metadata.uid && live.metadata.deletionTimestamp === undefined;
  const key = { namespace: ref.namespace, name, uid };
  await update(deps.control, api.kinds.machine, key, (live) =>
    isOwn(live) && isDue(live) ? toPatch(live) : undefined,
  );
}
