/** Applies a plan for an owner of machines: creates, scales and deletes sets and machines. */
import type {
  Candidate,
  FailedAttempts,
  MachineBehind,
  OwnerPlan,
  PlannedCreation,
  PreservationChange,
} from '../../api/model/owner.ts';
import { names } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { replicasAnnotations } from '../../api/owner/bounds.ts';
import { encodeCreation, isRecorded, recordedCreation } from '../../api/owner/creations.ts';
import { deletionCause } from '../../api/owner/deletion-cause.ts';
import { attemptsAnnotation, nextAttempt, withKnownAttempts } from '../../api/owner/failed-attempts.ts';
import { limitsOf } from '../../api/owner/limits.ts';
import { toNewMachine, toNewMachineSet } from '../../api/owner/new-objects.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { settingsOfMachine, settingsOfSet } from '../../api/owner/settings.ts';
import { templateHash, templatesEqual } from '../../api/owner/template.ts';
import { isAlreadyExists, StatusError } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged, update } from '../../kube/update.ts';
import { adoptSets, changeOwners, markMachines } from './adoption.ts';
import { deletingOwner } from './deleting-owner.ts';
import { noteAttempts, recordAttempts } from './failed-attempts.ts';
import { addFinalizers, release, removeFinalizer } from './finalizers.ts';
import { updateInPlace } from './in-place.ts';
import { noteKept, reportNotKept } from './not-kept.ts';
import { beginReplacements } from './replacements.ts';
import {
  type Failures,
  noteFailure,
  recordDeletion,
  recordOn,
  report,
  reportFailures,
  reportRefusedSet,
} from './report.ts';
import { recordCompletion, rollBack } from './rollback.ts';
import {
  inBatches,
  noteSet,
  type Owner,
  ownSets,
  readAsPlanned,
  type Step,
  type StepResult,
  slowStart,
} from './step.ts';

/**
 * Runs a step that was planned. One that was thought lost may still run beside the next one: the plan fixes the names
 * of new machines, and the versions of what it changes or deletes, so no additional machine is created. A step may
 * start long after its plan was made: what was planned for another generation of the owner, or for a set that has other
 * replicas by now, is left to the next reading. When it throws, no request is running.
 */
export async function applyPlan(step: Step): Promise<StepResult> {
  const failures: Failures = new Map();
  try {
    return await runStep(step, failures);
  } catch (error) {
    // The first error says why machines are missing; an error while reporting it does not.
    await reportFailures(step, failures).catch(() => undefined);
    throw error;
  }
}

async function runStep(step: Step, failures: Failures): Promise<StepResult> {
  const { deps, api, sets, ref, plan } = step;
  let owner = await readAsPlanned(step);
  if (owner !== undefined && plan.addFinalizers) {
    await addFinalizers(step);
    // Read again: an owner that was deleted before it had our finalizer has no workflow any more.
    owner = await readAsPlanned(step);
  }
  if (owner === undefined) return { isVoid: true };

  if (owner.deployment !== undefined) await adoptSets(step, owner.deployment);
  await changeOwners(step);
  if (plan.mark && owner.deployment !== undefined) await markMachines(step, owner.deployment);
  const replaced: string[] = [];
  const { scaled, limited } = await changeSets(step, owner, failures);
  await inBatches(step, plan.preserve ?? [], (change) => changePreservation(step, change));
  const failed: Candidate[] = [];
  try {
    await inBatches(step, plan.remove, async (candidate, set) => {
      const isDeleted = await deleteMachine(step, candidate, set, failures);
      if (isDeleted)
        recordDeletion(step, candidate, deletionCause(candidate, deletingOwner(api, set, owner.deployment)));
      if (isDeleted && candidate.isOfReplacement) replaced.push(candidate.name);
      if (isDeleted && candidate.failedToJoin) failed.push(candidate);
    });
  } finally {
    await recordAttempts(step, owner, failed);
  }
  await updateInPlace(step);
  await inBatches(step, plan.settings ?? [], (machine, set) => updateMachine(step, machine, set));
  for (const { name, uid, resourceVersion } of plan.forget ?? []) {
    const key = { namespace: ref.namespace, name };
    await ignoreGoneOrChanged(() => deps.control.delete(sets, key, { preconditions: { uid, resourceVersion } }));
  }
  for (const set of plan.releaseSets) {
    await removeFinalizer(deps.control, sets, { ...set, namespace: ref.namespace }, api.marks.finalizer);
  }
  if (plan.release) await release(step);
  // Before its report: a run that takes over from here finds either a rollout that is not late yet, or the earlier
  // template.
  const rolledBack = await rollBack(step);
  if (plan.report !== undefined) await report(step, owner, plan.report, scaled);
  await recordCompletion(step);
  const outage = await beginReplacements(step, owner);
  const notKept = reportNotKept(step, owner);
  return {
    ...(outage !== undefined && { outage }),
    ...(notKept !== undefined && { notKept }),
    ...(step.attempts !== undefined && { attempts: step.attempts }),
    ...(replaced.length > 0 && { replaced }),
    ...(limited !== undefined && { limited }),
    ...(rolledBack !== undefined && { rolledBack }),
  };
}

/**
 * Creates and changes sets, and creates machines in them. Returns the new generations of scaled sets, by name, and
 * which machines a limit of the namespace has kept from being created.
 */
async function changeSets(
  step: Step,
  owner: Owner,
  failures: Failures,
): Promise<Pick<StepResult, 'limited'> & { readonly scaled: Map<string, number> }> {
  const { plan } = step;
  const { deployment } = owner;
  const scaled = new Map<string, number>();
  if (deployment !== undefined && plan.createSet !== undefined) await createSet(step, deployment, plan.createSet);
  const changed = new Set([...plan.scale, ...plan.create].map(({ set }) => set));
  for (const name of changed) await changeSet(step, owner, name, scaled);
  const limited = await claimCreations(step, owner);
  const refused = new Set(limited?.names);
  for (const creation of plan.create) await createMachines(step, creation, refused, failures);
  return { scaled, ...(limited !== undefined && { limited }) };
}

/**
 * Claims the machines to create where the namespace limits them. Their sets record them by now: who grants counts them,
 * even if this answer is lost.
 */
async function claimCreations(step: Step, owner: Owner): Promise<StepResult['limited']> {
  const { deps, ref, kind, plan } = step;
  const names = plan.create.flatMap((creation) => creation.names);
  if (names.length === 0 || limitsOf(owner.deployment ?? owner.set) === undefined) return undefined;
  const { dialect, namespace, name, uid } = ref;
  const { granted, wait } = await deps.claimMachines({ dialect, namespace }, { kind, name, uid, names });
  delete step.reading; // an answer may take half a minute: owner and sets are read again
  return wait && { ...wait, names: names.filter((each) => !granted.includes(each)) };
}

async function createMachines(
  step: Step,
  creation: PlannedCreation,
  refused: ReadonlySet<string>,
  failures: Failures,
): Promise<void> {
  const wanted = creation.names.filter((name) => !refused.has(name)).map((name) => ({ set: creation.set, name }));
  const work = async ({ name }: { readonly name: string }, set: OwnerSet, owner: Owner) => {
    const create = () => createMachine(step, { name, replaces: creation.replaces?.[name] }, set, owner);
    if (isRecorded(creation, set)) await noteFailure(failures, set.metadata.name, 'FailedCreate', create);
  };
  await inBatches(step, wanted, work, slowStart);
}

/** Where a set of another template has the name, collisionCount is raised: the next reading finds another name. */
async function createSet(
  step: Step,
  deployment: OwnerDeployment,
  planned: NonNullable<OwnerPlan['createSet']>,
): Promise<void> {
  const { deps, api, sets, deployments, ref } = step;
  const { control } = deps;
  const { namespace } = ref;
  if (templateHash(api, deployment.spec?.template, deployment.status?.collisionCount) !== planned.hash) return;
  const others = await ownSets(step);
  try {
    await control.create(sets, toNewMachineSet(api, deployment, others, planned));
    if (planned.replicas > 0) recordScaling(step, deployment, planned.name, planned.replicas, 0);
  } catch (error) {
    if (!isAlreadyExists(error)) {
      if (error instanceof StatusError) await reportRefusedSet(step, deployment, planned.name, error.message);
      throw error;
    }
    const taken = await control.find(sets, { namespace, name: planned.name });
    const isOurs = taken !== undefined && controllerOf(taken) === ref.uid;
    if (isOurs && templatesEqual(api, taken.spec?.template, deployment.spec?.template)) return;
    const countUp = ({ status }: OwnerDeployment) => ({
      status: { collisionCount: (status?.collisionCount ?? 0) + 1 },
    });
    await update(control, deployments, ref, countUp, { subresource: 'status' });
  }
}

/**
 * All that a step changes of a set before it creates or deletes machines there, in one patch: replicas, annotations,
 * and the record of the creation. The record is written before the first machine: a step that was thought lost may
 * still run, and its successor creates the same names. It stays until the next creation. A patch for another reason
 * removes it once all of its machines exist.
 *
 * A set whose spec was changed since the plan was made, or that records another creation, is left as it is. A status
 * that was written meanwhile does not matter: counts are written all the time.
 */
async function changeSet(step: Step, { deployment }: Owner, name: string, scaled: Map<string, number>): Promise<void> {
  const { deps, api, sets, ref, plan } = step;
  const planned = plan.sets.find((set) => set.name === name);
  if (planned === undefined) return;
  const scale = plan.scale.find(({ set }) => set === name);
  const creation = plan.create.find(({ set }) => set === name);
  const key = { namespace: ref.namespace, name, uid: planned.uid };
  const { generation: before } = planned;
  let isAsPlanned = false;
  let isScaled = false;
  let replicasBefore = 0;
  let attempts: FailedAttempts | null | undefined;
  const settingsNow = (set: OwnerSet) =>
    scale?.settings && deployment !== undefined ? settingsOfSet(api, deployment, set) : undefined;
  const changed = await update(deps.control, sets, key, (set) => {
    const recorded = recordedCreation(set)?.id;
    const isContinued = creation === undefined || recorded === creation.continues;
    isAsPlanned = set.metadata.generation === before && isContinued;
    if (!isAsPlanned) return undefined;
    replicasBefore = set.spec?.replicas ?? 0;
    isScaled = scale !== undefined && scale.replicas !== replicasBefore;
    const isCompleted = recorded !== undefined && recorded === scale?.completed;
    const known = withKnownAttempts(set, plan.attempts?.[name]);
    attempts = scale?.forgetsAttempts ? null : creation && nextAttempt(known);
    const annotations = {
      ...(scale !== undefined &&
        deployment !== undefined &&
        replicasAnnotations(api, deployment, scale.announcedReplicas)),
      ...(isCompleted && { [names.creating]: null }),
      ...(attempts !== undefined && attemptsAnnotation(attempts)),
      ...(creation !== undefined && { [names.creating]: encodeCreation(creation) }),
    };
    const settings = settingsNow(set);
    return {
      metadata: { annotations: { ...settings?.metadata.annotations, ...annotations } },
      ...(scale !== undefined && { spec: { ...settings?.spec, replicas: scale.replicas } }),
    };
  });
  const { generation = before } = changed?.metadata ?? {};
  noteSet(step, name, changed);
  if (changed !== undefined && isAsPlanned && attempts !== undefined) noteAttempts(step, name, attempts);
  if (changed !== undefined && isAsPlanned) noteKept(step, `machine set ${name}`, settingsNow(changed));
  if (!isAsPlanned || generation === before || deployment === undefined) return;
  scaled.set(name, generation);
  if (isScaled && scale !== undefined) recordScaling(step, deployment, name, scale.replicas, replicasBefore);
}

/** In the words of machine-controller-manager. */
function recordScaling(
  { deps, deployments }: Step,
  deployment: OwnerDeployment,
  set: string,
  replicas: number,
  before: number,
): void {
  const note = `Scaled ${replicas > before ? 'up' : 'down'} machine set ${set} to ${replicas}`;
  recordOn(deps.events, deployments, deployment, 'ScalingMachineSet', note);
}

async function createMachine(
  { deps, api, sets, plan }: Step,
  { name, replaces }: { readonly name: string; readonly replaces: string | undefined },
  set: OwnerSet,
  { deployment }: Owner,
): Promise<void> {
  if (set.metadata.deletionTimestamp !== undefined || api.owner.isClosed(set, deployment)) return;
  const isRolling = plan.sets.some((each) => each.name !== set.metadata.name && each.replicas > 0);
  const isKept = isRolling && deps.keepsAutoscalerAway !== false;
  try {
    await deps.control.create(api.kinds.machine, toNewMachine(api, set, name, { replaces, isKept }));
    recordOn(deps.events, sets, set, 'SuccessfulCreate', `Created Machine: ${name}`);
  } catch (error) {
    // An earlier attempt created it. Or it is somebody else's: then the next plan creates one more, under a new name.
    if (!isAlreadyExists(error)) throw error;
  }
}

/** Keeps a machine, or no more, unless it has recovered or somebody has decided otherwise meanwhile. */
async function changePreservation({ deps, api, ref }: Step, { name, uid, isKept }: PreservationChange): Promise<void> {
  const { autoPreservation, machines } = api.owner;
  const isDue = (live: KubeObject) =>
    isKept
      ? machines.stageOf(live) === 'failed' && autoPreservation?.isUndecided(live)
      : autoPreservation?.isKept(live);
  const change = (live: KubeObject) => (isDue(live) ? autoPreservation?.toPatch(isKept) : undefined);
  await update(deps.control, api.kinds.machine, { namespace: ref.namespace, name, uid }, change);
}

/** Gives a machine what the template of its set says by now. */
async function updateMachine(step: Step, { name, uid }: MachineBehind, set: OwnerSet): Promise<void> {
  const { deps, api, ref } = step;
  const key = { namespace: ref.namespace, name, uid };
  const isOwn = (machine: KubeObject) => controllerOf(machine) === set.metadata.uid;
  const change = (machine: KubeObject) => (isOwn(machine) ? settingsOfMachine(api, set, machine) : undefined);
  const updated = await update(deps.control, api.kinds.machine, key, change);
  if (updated !== undefined && isOwn(updated)) noteKept(step, `machine ${name}`, settingsOfMachine(api, set, updated));
}

/**
 * The annotation `replaced` is written after the deletion was accepted: written first, it would count for a later
 * deletion with another cause if this one failed. Where it is lost, the replacement waits until the machine is gone.
 * Answers whether this call has deleted the machine.
 */
async function deleteMachine(
  { deps, api, sets, ref }: Step,
  candidate: Candidate,
  set: OwnerSet,
  failures: Failures,
): Promise<boolean> {
  const { control } = deps;
  const { name, uid, resourceVersion, failed } = candidate;
  const key = { namespace: ref.namespace, name };
  let isDeleted = false;
  const request = async () => {
    await control.delete(api.kinds.machine, key, { preconditions: { uid, resourceVersion } });
    isDeleted = true;
    recordOn(deps.events, sets, set, 'SuccessfulDelete', `Deleted machine: ${name}`);
    if (!failed) return;
    const metadata = { uid, annotations: { [names.replaced]: 'true' } };
    await control.patch(api.kinds.machine, key, mergePatch({ metadata }));
  };
  await noteFailure(failures, candidate.set, 'FailedDelete', () => ignoreGoneOrChanged(request));
  return isDeleted;
}
