/** Who owns a machine, and which machines go first, before anything is counted. */
import { type MachineEvent, machineEvents } from '../../api/events.ts';
import { type KubeObject, referenceTo } from '../../api/objects.ts';
import { toAdoptionPatch, toOwnerPatch, unmetLabels } from '../../api/owner/adoption.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { update } from '../../kube/update.ts';
import { temporalNowMs } from '../boundary.ts';
import { recordOn, recordOnOwner } from './report.ts';
import { inBatches, type Owner, ownSets, type Step } from './step.ts';

/**
 * Adopts and releases the machines that the plan names. Each set is read live before, and the machine with the write:
 * what has changed meanwhile is left to the next step.
 */
export async function changeOwners(step: Step): Promise<void> {
  const { deps, api, ref, plan } = step;
  await inBatches(step, plan.ownerChanges ?? [], async ({ name, uid, isAdopted }, set, owner) => {
    if (set.metadata.deletionTimestamp !== undefined) return;
    const key = { namespace: ref.namespace, name, uid };
    let isDue = false;
    const machine = await update(deps.control, api.kinds.machine, key, (live) => {
      const patch = toOwnerPatch(api, set, live, isAdopted);
      isDue = patch !== undefined;
      return patch;
    });
    if (isDue && machine !== undefined) recordOwnerChange(step, owner, set, machine, isAdopted);
  });
}

function recordOwnerChange(step: Step, owner: Owner, set: OwnerSet, machine: KubeObject, isAdopted: boolean): void {
  const { deps, api } = step;
  const { namespace = '', name, uid } = machine.metadata;
  const change = isAdopted ? 'adopted' : 'released';
  const cause = ` because of its ${unmetLabels(set, machine)}: it keeps its VM, and nobody replaces or deletes it`;
  const noteOn = (what: string) => `MachineSet ${set.metadata.name} has ${change} ${what}${isAdopted ? '' : cause}`;
  const reason: MachineEvent = isAdopted ? 'Adopted' : 'Released';
  const regarding = referenceTo(api.kinds.machine, { namespace, name, uid });
  deps.events.record({ regarding, type: machineEvents[reason].type, reason, note: noteOn('it'), action: reason });
  recordOnOwner(step, owner, isAdopted ? 'AdoptedMachine' : 'ReleasedMachine', noteOn(`machine ${name}`));
}

/** Adopts the sets that the plan names, where nobody controls them still. */
export async function adoptSets(step: Step, deployment: OwnerDeployment): Promise<void> {
  const { deps, api, sets, deployments, ref, plan } = step;
  for (const { name, uid } of plan.adopt ?? []) {
    let isDue = false;
    const set = await update(deps.control, sets, { namespace: ref.namespace, name, uid }, (live) => {
      const patch = toAdoptionPatch(api, deployment, live);
      isDue = patch !== undefined;
      return patch;
    });
    if (!isDue || set === undefined) continue;
    recordOn(deps.events, deployments, deployment, 'AdoptedMachineSet', `Adopted MachineSet ${name}`);
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
