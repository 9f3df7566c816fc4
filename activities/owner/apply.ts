/** What a step of an owner of machines does: sets and machines are made, scaled and deleted as planned. */

import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { Candidate, OwnerPlan } from '../../api/model/owner.ts';
import { names } from '../../api/names.ts';
import { replicasAnnotations } from '../../api/owner/bounds.ts';
import { type Creation, encodeNames, isUnderWay, pendingNamesOf } from '../../api/owner/creations.ts';
import { toNewMachine, toNewMachineSet } from '../../api/owner/new-objects.ts';
import { templateHash, templatesEqual } from '../../api/owner/template.ts';
import { controllerOf, isClosed } from '../../api/owner/view.ts';
import { isAlreadyExists } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged, update } from '../../kube/update.ts';
import { addFinalizers, release, removeFinalizer } from './finalizers.ts';
import { type Failures, noteFailure, recordOn, report, reportFailures } from './report.ts';
import { inBatches, type Owner, ownSets, readAsPlanned, type Step } from './step.ts';

/**
 * Does a step that was planned. Safe to repeat: machines have their names, deletions and changes the version that they
 * were planned for. What was planned for another generation of the owner, or for a set that has other replicas by now, is
 * left to the next reading: an attempt may come long after its plan. Whatever it throws, nothing is under way any more.
 */
export async function applyPlan(step: Step): Promise<void> {
  const failures: Failures = new Map();
  try {
    await runStep(step, failures);
  } catch (error) {
    // What is told is why machines are missing; that it could not be told is not.
    await reportFailures(step, failures).catch(() => undefined);
    throw error;
  }
}

async function runStep(step: Step, failures: Failures): Promise<void> {
  const { deps, ref, kind, plan } = step;
  const { control } = deps;
  let owner = await readAsPlanned(step);
  if (owner !== undefined && plan.addFinalizers) {
    await addFinalizers(control, ref, kind);
    // Again: only what had our finalizer before it was deleted still has its workflow.
    owner = await readAsPlanned(step);
  }
  if (owner === undefined) return;

  const scaled = await growSets(step, owner, failures);
  await inBatches(step, plan.remove, (candidate) => deleteMachine(step, candidate, failures));
  for (const set of plan.releaseSets) await removeFinalizer(control, machineSets, { ...set, namespace: ref.namespace });
  if (plan.release) await release(control, ref, kind);
  if (plan.report !== undefined) await report(step, owner, plan.report, scaled);
}

/** Makes and changes sets, and creates machines in them. Answers the generations of the sets that it has scaled. */
async function growSets(step: Step, owner: Owner, failures: Failures): Promise<Map<string, number>> {
  const { plan } = step;
  const { deployment } = owner;
  const scaled = new Map<string, number>();
  if (deployment !== undefined && plan.createSet !== undefined) await createSet(step, deployment, plan.createSet);
  const changed = new Set([...plan.scale, ...plan.create].map(({ set }) => set));
  for (const name of changed) await changeSet(step, owner, name, scaled);
  for (const creation of plan.create) await createMachines(step, creation, failures);
  return scaled;
}

async function createMachines(step: Step, creation: Creation, failures: Failures): Promise<void> {
  const wanted = creation.names.map((name) => ({ set: creation.set, name }));
  await inBatches(step, wanted, async ({ name }, set, owner) => {
    if (isUnderWay(creation, set))
      await noteFailure(failures, set.metadata.name, 'FailedCreate', () => createMachine(step, name, set, owner));
  });
}

/** A name that another template has taken counts one collision up: the next reading finds another name. */
async function createSet(
  { deps, ref, kind }: Step,
  deployment: MachineDeployment,
  planned: NonNullable<OwnerPlan['createSet']>,
): Promise<void> {
  const { control, events } = deps;
  const { namespace } = ref;
  if (templateHash(deployment.spec?.template, deployment.status?.collisionCount) !== planned.hash) return;
  const others = await ownSets(control, ref, kind);
  try {
    await control.create(machineSets, toNewMachineSet(deployment, others, planned));
    const note = `Created machine set ${planned.name} with ${planned.replicas} replicas`;
    recordOn(events, 'MachineDeployment', deployment, 'ScalingMachineSet', note);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const taken = await control.find(machineSets, { namespace, name: planned.name });
    const isOurs = taken !== undefined && controllerOf(taken) === ref.uid;
    if (isOurs && templatesEqual(taken.spec?.template, deployment.spec?.template)) return;
    const countUp = ({ status }: MachineDeployment) => ({
      status: { collisionCount: (status?.collisionCount ?? 0) + 1 },
    });
    await update(control, machineDeployments, ref, countUp, { subresource: 'status' });
  }
}

/**
 * All that a step has to change of a set before it makes or deletes machines there, in one patch: its replicas, what it
 * tells of its deployment, and which machines are created next. The names are there before the first of them is: whoever
 * takes over from a step that was lost, and may still be under way, makes the same machines and none beside them. They
 * stay until the next creation, or until the rollout is complete.
 *
 * A set of which the spec was changed since the plan was made, or in which another creation has begun, is left as it is. A
 * status that was written meanwhile is no reason: counts are written all the time.
 */
async function changeSet(
  { deps, ref, plan }: Step,
  { deployment }: Owner,
  name: string,
  scaled: Map<string, number>,
): Promise<void> {
  const planned = plan.sets.find((set) => set.name === name);
  if (planned === undefined) return;
  const scale = plan.scale.find(({ set }) => set === name);
  const creation = plan.create.find(({ set }) => set === name);
  const key = { namespace: ref.namespace, name, uid: planned.uid };
  const { generation: before } = planned;
  let isAsPlanned = false;
  const changed = await update(deps.control, machineSets, key, (set) => {
    const text = pendingNamesOf(set);
    isAsPlanned = set.metadata.generation === before && (creation === undefined || text === (creation.after ?? ''));
    if (!isAsPlanned) return undefined;
    const creating = creation === undefined ? null : encodeNames(creation);
    const annotations = {
      ...(scale !== undefined && deployment !== undefined && replicasAnnotations(deployment, scale.told)),
      ...((creation !== undefined || scale?.finished === text) && { [names.creating]: creating }),
    };
    return { metadata: { annotations }, ...(scale !== undefined && { spec: { replicas: scale.replicas } }) };
  });
  const { generation = before } = changed?.metadata ?? {};
  if (!isAsPlanned || generation === before || deployment === undefined) return;
  scaled.set(name, generation);
  const note = `Scaled machine set ${name} to ${scale?.replicas}`;
  recordOn(deps.events, 'MachineDeployment', deployment, 'ScalingMachineSet', note);
}

async function createMachine({ deps }: Step, name: string, set: MachineSet, { deployment }: Owner): Promise<void> {
  if (set.metadata.deletionTimestamp !== undefined || isClosed(set, deployment)) return;
  try {
    await deps.control.create(machines, toNewMachine(set, name));
    recordOn(deps.events, 'MachineSet', set, 'SuccessfulCreate', `Created machine ${name}`);
  } catch (error) {
    // Ours when an earlier attempt made it; another's then makes the next reading one short, which takes a new name.
    if (!isAlreadyExists(error)) throw error;
  }
}

/**
 * Why it was deleted is written once it is: a deletion that loses its precondition leaves nothing that would count when the
 * machine goes later. Where that is lost, the replacement waits until the machine is gone.
 */
async function deleteMachine({ deps, ref }: Step, candidate: Candidate, failures: Failures): Promise<void> {
  const { control } = deps;
  const { name, uid, resourceVersion, failed } = candidate;
  const key = { namespace: ref.namespace, name };
  const request = async () => {
    await control.delete(machines, key, { preconditions: { uid, resourceVersion } });
    if (!failed) return;
    const metadata = { uid, annotations: { [names.replaced]: 'true' } };
    await control.patch(machines, key, mergePatch({ metadata }));
  };
  await noteFailure(failures, candidate.set, 'FailedDelete', () => ignoreGoneOrChanged(request));
}
