/** Who owns a machine, and which machines go first, before anything is counted. */
import { toAdoptionPatch, toOwnerPatch } from '../../api/owner/adoption.ts';
import type { OwnerDeployment } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { update } from '../../kube/update.ts';
import { temporalNowMs } from '../boundary.ts';
import { inBatches, ownSets, type Step } from './step.ts';

/**
 * Adopts and releases the machines that the plan names. Each set is read live before, and the machine with the write: what
 * has changed meanwhile is left to the next step.
 */
export async function changeOwners(step: Step): Promise<void> {
  const { deps, api, ref, plan } = step;
  await inBatches(step, plan.ownerChanges ?? [], async ({ name, uid, isAdopted }, set) => {
    if (set.metadata.deletionTimestamp !== undefined) return;
    const key = { namespace: ref.namespace, name, uid };
    await update(deps.control, api.kinds.machine, key, (machine) => toOwnerPatch(api, set, machine, isAdopted));
  });
}

/** Adopts the sets that the plan names, where nobody controls them still. */
export async function adoptSets(step: Step, deployment: OwnerDeployment): Promise<void> {
  const { deps, api, sets, ref, plan } = step;
  for (const { name, uid } of plan.adopt ?? []) {
    await update(deps.control, sets, { namespace: ref.namespace, name, uid }, (set) =>
      toAdoptionPatch(api, deployment, set),
    );
  }
}

/**
 * Marks the machines that a deployment lists to be deleted, then removes from the list what is no machine that can be
 * deleted. A list that somebody has changed meanwhile is left to the next step.
 */
export async function markMachines(step: Step, deployment: OwnerDeployment): Promise<void> {
  const { deps, api, deployments, ref } = step;
  const { scaleDown } = api.owner;
  if (scaleDown === undefined) return;
  const { namespace } = ref;
  const own = new Set((await ownSets(step)).map(({ metadata }) => metadata.uid));
  const now = new Date(temporalNowMs());
  const names = scaleDown.listedBy(deployment);
  const found = await Promise.all(names.map((name) => deps.control.find(api.kinds.machine, { namespace, name })));
  const machines = found.filter((machine) => machine !== undefined).filter((one) => own.has(controllerOf(one) ?? ''));
  const plan = scaleDown.planMarks(deployment, machines, now);
  for (const { name, uid, annotations } of plan?.machines ?? []) {
    const change = { metadata: { annotations } };
    await update(deps.control, api.kinds.machine, { namespace, name, uid }, () => change);
  }
  const list = JSON.stringify(plan?.deployment);
  if (list === undefined) return;
  await update(deps.control, deployments, ref, (live) => {
    const again = scaleDown.planMarks(live, machines, now)?.deployment;
    return JSON.stringify(again) === list && String(scaleDown.listedBy(live)) === String(names)
      ? { metadata: { annotations: again } }
      : undefined;
  });
}
