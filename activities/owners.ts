/** What the workflow of a MachineDeployment, or of a MachineSet without one, reads and does in Kubernetes. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { MachineDeployment } from '../api/gardener/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { annotations, apiVersion, finalizers } from '../api/gardener/names.ts';
import { toNewMachine, toNewMachineSet, withProgress } from '../api/gardener/new-objects.ts';
import { controllerOf, toCandidates, toDeploymentView, toLoneSetView } from '../api/gardener/owner.ts';
import { templateHash, templatesEqual } from '../api/gardener/template.ts';
import type { Candidate, ObjectRef, OwnerPlan, OwnerReading } from '../api/model.ts';
import { names } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import { machineDeployments, machineSets, machines } from '../kube/gardener.ts';
import { mergePatch } from '../kube/patch.ts';
import type { KubeObject, Resource } from '../kube/types.ts';
import { update } from '../kube/update.ts';

export interface OwnerDeps {
  readonly control: KubeClient;
  readonly events: EventRecorder;
}

export type OwnerKind = 'MachineDeployment' | 'MachineSet';
export type OwnerActivities = ReturnType<typeof createOwnerActivities>;

/** Candidates that one reading brings at most: more than a step needs would only fill the history. */
const maxCandidates = 100;
/** Requests of one step that are under way at once. */
const parallelRequests = 20;

/** @param deps `control` holds deployments, sets and machines */
export function createOwnerActivities(deps: OwnerDeps) {
  const { control } = deps;

  return {
    /**
     * Reads an owner, then its sets, then its machines, each by quorum. In this order a machine that is made meanwhile
     * may be missed but never one that was there before. null: the owner is gone, or it is a set that has an owner.
     * @param notBeforeMs when to read, ms since the epoch, at most a second from now: what happens until then is in one
     *   reading. A timer of the workflow would take a second, whatever is asked for.
     */
    async observeOwner(ref: ObjectRef, kind: OwnerKind, notBeforeMs: number): Promise<OwnerReading | null> {
      await sleep(Math.max(0, Math.min(notBeforeMs - Date.now(), 1_000)));
      const owner = await readOwner(control, ref, kind);
      if (owner === undefined) return null;
      const { namespace } = ref;
      const sets = owner.deployment === undefined ? [] : (await control.list(machineSets, { namespace })).items;
      const labelSelector = selectorOf((owner.deployment ?? owner.set).spec?.selector?.matchLabels);
      const { items } = await control.list(machines, { namespace, labelSelector });
      const view =
        owner.deployment === undefined
          ? toLoneSetView(owner.set, items)
          : toDeploymentView(owner.deployment, sets, items);
      return { view, candidates: toCandidates(view, items, maxCandidates) };
    },

    /**
     * Does a step that was planned. Safe to repeat: machines have their names, deletions and changes the version that
     * they were planned for. What somebody else changed meanwhile is left as it is, for the next reading to judge.
     */
    async actOnOwner(ref: ObjectRef, kind: OwnerKind, plan: OwnerPlan): Promise<void> {
      const owner = await readOwner(control, ref, kind);
      if (owner === undefined) return;
      const { deployment } = owner;
      const { namespace } = ref;
      if (plan.addFinalizers) await addFinalizers(control, ref, kind);
      if ((deployment ?? owner.set).metadata.deletionTimestamp === undefined) {
        if (deployment !== undefined && plan.createSet !== undefined) await createSet(deps, deployment, plan.createSet);
        for (const change of plan.scale) await scaleSet(deps, ref, deployment, change);
        for (const batch of plan.create) await createMachines(deps, ref, batch);
      }
      await inParallel(plan.remove, (candidate) => deleteMachine(deps, ref, candidate));
      for (const set of plan.releaseSets) await removeFinalizer(control, machineSets, { ...set, namespace });
      if (plan.release) await release(control, ref, kind);
      if (plan.report !== undefined) await report(control, ref, kind, plan.report);
    },
  };
}

type Owner =
  | { readonly deployment: MachineDeployment; readonly set?: undefined }
  | { readonly deployment?: undefined; readonly set: MachineSet };

async function readOwner(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<Owner | undefined> {
  if (kind === 'MachineDeployment') {
    const deployment = await control.find(machineDeployments, ref);
    return deployment?.metadata.uid === ref.uid ? { deployment } : undefined;
  }
  const set = await control.find(machineSets, ref);
  return set?.metadata.uid === ref.uid && controllerOf(set) === undefined ? { set } : undefined;
}

function selectorOf(matchLabels: Readonly<Record<string, string>> = {}): string {
  return Object.entries(matchLabels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

async function ownSets(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<MachineSet[]> {
  const { items } = await control.list(machineSets, { namespace: ref.namespace });
  return items.filter((set) => (kind === 'MachineSet' ? set.metadata : { uid: controllerOf(set) }).uid === ref.uid);
}

async function addFinalizers(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<void> {
  if (kind === 'MachineDeployment') await addFinalizer(control, machineDeployments, ref);
  for (const { metadata } of await ownSets(control, ref, kind)) await addFinalizer(control, machineSets, metadata);
}

async function addFinalizer<T extends KubeObject>(
  control: KubeClient,
  resource: Resource<T>,
  key: { namespace?: string; name: string; uid: string },
): Promise<void> {
  await update(control, resource, key, ({ metadata }) => {
    const { finalizers: present = [], deletionTimestamp } = metadata;
    if (present.includes(finalizers.machine) || deletionTimestamp !== undefined) return undefined;
    return { metadata: { finalizers: [...present, finalizers.machine] } };
  });
}

async function removeFinalizer<T extends KubeObject>(
  control: KubeClient,
  resource: Resource<T>,
  key: { namespace?: string; name: string; uid: string },
): Promise<void> {
  await update(control, resource, key, ({ metadata }) => {
    const { finalizers: present = [] } = metadata;
    if (!present.includes(finalizers.machine)) return undefined;
    return { metadata: { finalizers: present.filter((finalizer) => finalizer !== finalizers.machine) } };
  });
}

/** A name that another template has taken counts one collision up: the next reading finds another name. */
async function createSet(
  { control, events }: OwnerDeps,
  deployment: MachineDeployment,
  planned: NonNullable<OwnerPlan['createSet']>,
): Promise<void> {
  const { namespace = '', name, uid } = deployment.metadata;
  if (templateHash(deployment.spec?.template, deployment.status?.collisionCount) !== planned.hash) return;
  const others = await ownSets(control, { dialect: 'gardener', namespace, name, uid }, 'MachineDeployment');
  try {
    await control.create(machineSets, toNewMachineSet(deployment, others, planned));
    const note = `Created machine set ${planned.name} with ${planned.replicas} replicas`;
    recordOn(events, 'MachineDeployment', deployment, 'ScalingMachineSet', note);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const taken = await control.find(machineSets, { namespace, name: planned.name });
    const isOurs = taken !== undefined && controllerOf(taken) === uid;
    if (isOurs && templatesEqual(taken.spec?.template, deployment.spec?.template)) return;
    const key = { namespace, name, uid };
    const countUp = ({ status }: MachineDeployment) => ({
      status: { collisionCount: (status?.collisionCount ?? 0) + 1 },
    });
    await update(control, machineDeployments, key, countUp, { subresource: 'status' });
  }
}

async function scaleSet(
  { control, events }: OwnerDeps,
  { namespace }: ObjectRef,
  deployment: MachineDeployment | undefined,
  { set, resourceVersion, replicas }: OwnerPlan['scale'][number],
): Promise<void> {
  const desired = { [annotations.desiredReplicas]: String(deployment?.spec?.replicas ?? replicas) };
  const metadata = { resourceVersion, annotations: desired };
  await unlessChanged(async () => {
    await control.patch(machineSets, { namespace, name: set }, mergePatch({ metadata, spec: { replicas } }));
    if (deployment !== undefined) {
      const note = `Scaled machine set ${set} to ${replicas}`;
      recordOn(events, 'MachineDeployment', deployment, 'ScalingMachineSet', note);
    }
  });
}

async function createMachines(
  { control, events }: OwnerDeps,
  { namespace }: ObjectRef,
  { set: name, uid, names: machineNames }: OwnerPlan['create'][number],
): Promise<void> {
  const set = await control.find(machineSets, { namespace, name });
  if (set === undefined || set.metadata.uid !== uid || set.metadata.deletionTimestamp !== undefined) return;
  await inParallel(machineNames, async (machineName) => {
    try {
      await control.create(machines, toNewMachine(set, machineName));
      recordOn(events, 'MachineSet', set, 'SuccessfulCreate', `Created machine ${machineName}`);
    } catch (error) {
      // Ours when an earlier attempt made it; another's then makes the next reading one short, which takes a new name.
      if (!isAlreadyExists(error)) throw error;
    }
  });
}

async function deleteMachine({ control }: OwnerDeps, { namespace }: ObjectRef, candidate: Candidate): Promise<void> {
  const { name, uid, resourceVersion, failed } = candidate;
  const key = { namespace, name };
  await unlessChanged(async () => {
    let version = resourceVersion;
    if (failed) {
      const metadata = { uid, resourceVersion, annotations: { [names.replaced]: 'true' } };
      version = (await control.patch(machines, key, mergePatch({ metadata }))).metadata.resourceVersion;
    }
    await control.delete(machines, key, { preconditions: { uid, resourceVersion: version } });
  });
}

/** Deletes the sets, and takes our finalizer off them and the owner: the end of a deletion. */
async function release(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<void> {
  for (const { metadata } of await ownSets(control, ref, kind)) {
    const { namespace = '', name, uid } = metadata;
    if (kind === 'MachineDeployment') {
      await unlessChanged(() => control.delete(machineSets, { namespace, name }, { preconditions: { uid } }));
    }
    await removeFinalizer(control, machineSets, metadata);
  }
  if (kind === 'MachineDeployment') await removeFinalizer(control, machineDeployments, ref);
}

async function report(
  control: KubeClient,
  ref: ObjectRef,
  kind: OwnerKind,
  { progress }: NonNullable<OwnerPlan['report']>,
): Promise<void> {
  for (const { metadata } of await ownSets(control, ref, kind)) {
    await update(control, machineSets, metadata, noteGeneration, { subresource: 'status' });
  }
  if (kind === 'MachineSet') return;
  await update(control, machineDeployments, ref, (deployment) => withProgress(deployment, progress, new Date()), {
    subresource: 'status',
  });
}

function noteGeneration({ metadata, status }: MachineSet): object | undefined {
  const { generation } = metadata;
  return status?.observedGeneration === generation ? undefined : { status: { observedGeneration: generation } };
}

/** An object that is gone, or was changed since it was read, is for the next reading. */
async function unlessChanged(request: () => Promise<unknown>): Promise<void> {
  try {
    await request();
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const workers = Array.from({ length: Math.min(parallelRequests, items.length) }, async () => {
    for (const item of queue) await work(item);
  });
  await Promise.all(workers);
}

function recordOn(
  events: EventRecorder,
  kind: OwnerKind,
  { metadata }: KubeObject,
  reason: string,
  note: string,
): void {
  const { namespace = '', name, uid } = metadata;
  const regarding = { apiVersion, kind, namespace, name, uid };
  events.record({ regarding, type: 'Normal', reason, note, action: reason });
}
