/**
 * A MachineDeployment with its sets and machines in memory, where every step of its owner happens as the activities do
 * it. For properties that need thousands of interleavings; that the activities do the same is proved beside them.
 */

import { finalizers } from '../../api/gardener/names.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerPlan, OwnerSnapshot, UpdateStrategy } from '../../api/model/owner.ts';
import { names, orphanFinalizer } from '../../api/names.ts';
import { replicasAnnotations } from '../../api/owner/bounds.ts';
import { toCandidates } from '../../api/owner/candidates.ts';
import { toNewMachine, toNewMachineSet } from '../../api/owner/new-objects.ts';
import { withNewestRevision, withRevision } from '../../api/owner/revision.ts';
import { withFailure, withReport } from '../../api/owner/status.ts';
import { templateHash, templatesEqual } from '../../api/owner/template.ts';
import { controllerOf, currentSetOf, isClosed, isOrphaning, toDeploymentView } from '../../api/owner/view.ts';

export type World = ReturnType<typeof createWorld>;
type Meta = Machine['metadata'];

const time = '2026-08-19T10:00:00Z';

const lost = new Error('whoever took the step is gone');

export interface WorldOptions {
  readonly replicas: number;
  /** Default: RollingUpdate. */
  readonly strategy?: UpdateStrategy;
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  /** Candidates that one reading brings at most. */
  readonly limit: number;
}

/** A deployment that nobody has seen yet. */
export function createWorld(options: WorldOptions) {
  const { replicas, strategy = 'RollingUpdate', maxSurge, maxUnavailable, limit } = options;
  let counter = 0;
  let writesLeft = Number.POSITIVE_INFINITY;
  const world = {
    deployment: undefined as MachineDeployment | undefined,
    sets: [] as MachineSet[],
    machines: [] as Machine[],
    /** UIDs of the machines that a step has deleted because they had Failed. */
    replaced: new Set<string>(),
    observe,
    act,
    touch,
    remove,
    orphan,
    collectGarbage,
    newName: (set: string) => `${set}-${next()}`,
    addSet,
    addMachine,
    editSpec,
  };
  world.deployment = {
    metadata: newMeta('pool'),
    spec: {
      replicas,
      selector: { matchLabels: { name: 'pool' } },
      template: template('a'),
      strategy: { type: strategy, rollingUpdate: { maxSurge, maxUnavailable } },
    },
  };
  return world;

  function next(): string {
    counter += 1;
    return String(counter);
  }

  function newMeta(name: string): Meta {
    return {
      name,
      namespace: 'n',
      uid: `uid-${next()}`,
      resourceVersion: next(),
      generation: 1,
      creationTimestamp: time,
    };
  }

  /** Something was written: the object has another version. */
  function touch({ metadata }: { metadata: Meta }): void {
    metadata.resourceVersion = next();
  }

  function editSpec(change: Partial<NonNullable<MachineDeployment['spec']>>): void {
    const { deployment } = world;
    if (deployment?.spec === undefined) return;
    Object.assign(deployment.spec, change);
    deployment.metadata.generation = (deployment.metadata.generation ?? 0) + 1;
    touch(deployment);
  }

  /** A set that was there before, as machine-controller-manager leaves it: another hash, another name. */
  function addSet(className: string, replicas: number, managed: boolean): void {
    const { deployment } = world;
    if (deployment === undefined) return;
    const madeBefore = { ...deployment, spec: { ...deployment.spec, template: template(className) } };
    const made = toNewMachineSet(madeBefore, world.sets, { name: `pool-${next()}`, hash: next(), replicas });
    const metadata = {
      ...newMeta(made.metadata.name),
      ...made.metadata,
      finalizers: managed ? [finalizers.machine] : [],
    };
    world.sets.push({ ...made, metadata });
    for (let i = 0; i < replicas; i++) addMachine(world.sets.at(-1), world.newName(metadata.name));
  }

  function addMachine(set: MachineSet | undefined, name: string): void {
    if (set === undefined || world.machines.some(({ metadata }) => metadata.name === name)) return;
    const made = toNewMachine(set, name);
    world.machines.push({ ...made, metadata: { ...newMeta(name), ...made.metadata } });
  }

  /** A DELETE: what has finalizers stays until they are gone. */
  function remove(object: { metadata: Meta }): void {
    if (object.metadata.deletionTimestamp === undefined) {
      object.metadata.deletionTimestamp = time;
      object.metadata.generation = (object.metadata.generation ?? 0) + 1;
      touch(object);
    }
    collect();
  }

  /** A DELETE with `--cascade=orphan`. */
  function orphan(object: MachineSet | MachineDeployment): void {
    object.metadata.finalizers = [...(object.metadata.finalizers ?? []), orphanFinalizer];
    remove(object);
  }

  /** As Kubernetes' garbage collector: what is owned by what was deleted that way is released. */
  function collectGarbage(): void {
    for (const owner of [world.deployment, ...world.sets]) {
      if (owner === undefined || !isOrphaning(owner)) continue;
      for (const object of [...world.sets, ...world.machines]) {
        if (controllerOf(object) !== owner.metadata.uid) continue;
        object.metadata.ownerReferences = [];
        touch(object);
      }
      owner.metadata.finalizers = owner.metadata.finalizers?.filter((name) => name !== orphanFinalizer) ?? [];
      touch(owner);
    }
    collect();
  }

  function collect(): void {
    const isGone = ({ metadata }: { metadata: Meta }) =>
      metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).length === 0;
    world.sets = world.sets.filter((set) => !isGone(set));
    world.machines = world.machines.filter((machine) => !isGone(machine));
    if (world.deployment !== undefined && isGone(world.deployment)) world.deployment = undefined;
  }

  function observe(): OwnerSnapshot | undefined {
    const { deployment, sets, machines } = world;
    if (deployment === undefined) return undefined;
    const view = toDeploymentView(deployment, sets, machines);
    return structuredClone({ view, candidates: toCandidates(view, machines, limit), pendingCreations: [] });
  }

  /** @param maxWrites the step is lost in front of the next one */
  function act(plan: OwnerPlan, maxWrites = Number.POSITIVE_INFINITY): void {
    writesLeft = maxWrites;
    try {
      runStep(plan);
    } catch (error) {
      if (error !== lost) throw error;
    } finally {
      writesLeft = Number.POSITIVE_INFINITY;
    }
  }

  function countWrite(): void {
    if (writesLeft === 0) throw lost;
    writesLeft -= 1;
  }

  function runStep(plan: OwnerPlan): void {
    const { deployment } = world;
    if (deployment?.metadata.generation !== plan.generation || isOrphaning(deployment)) return;
    if (plan.addFinalizers) for (const object of [deployment, ...world.sets]) addFinalizer(object);
    if (plan.createSet !== undefined) createSet(deployment, plan.createSet);
    const scaled = new Map(plan.scale.map((change) => [change.set, scale(deployment, change, plan)]));
    for (const batch of plan.create) createMachines(batch, plan);
    for (const candidate of plan.remove) removeCandidate(candidate, plan);
    for (const { uid } of plan.releaseSets) releaseSet(uid);
    if (plan.release) release(deployment);
    if (plan.report !== undefined) report(deployment, plan, scaled);
  }

  function addFinalizer(object: { metadata: Meta }): void {
    const { finalizers: present = [], deletionTimestamp } = object.metadata;
    if (present.includes(finalizers.machine) || deletionTimestamp !== undefined) return;
    object.metadata.finalizers = [...present, finalizers.machine];
    touch(object);
  }

  function removeFinalizer(object: { metadata: Meta }): void {
    object.metadata.finalizers = object.metadata.finalizers?.filter((name) => name !== finalizers.machine) ?? [];
    touch(object);
    collect();
  }

  function createSet(deployment: MachineDeployment, planned: NonNullable<OwnerPlan['createSet']>): void {
    if (templateHash(deployment.spec?.template, deployment.status?.collisionCount) !== planned.hash) return;
    countWrite();
    const taken = world.sets.find(({ metadata }) => metadata.name === planned.name);
    if (taken === undefined) {
      const made = toNewMachineSet(deployment, world.sets, planned);
      world.sets.push({ ...made, metadata: { ...newMeta(planned.name), ...made.metadata } });
      return;
    }
    if (templatesEqual(taken.spec?.template, deployment.spec?.template)) return;
    deployment.status = { ...deployment.status, collisionCount: (deployment.status?.collisionCount ?? 0) + 1 };
    touch(deployment);
  }

  /** Answers the set's new generation, if it has one now. */
  function scale(
    deployment: MachineDeployment,
    planned: OwnerPlan['scale'][number],
    { sets }: OwnerPlan,
  ): number | undefined {
    const set = world.sets.find(({ metadata }) => metadata.name === planned.set);
    const before = sets.find(({ uid }) => uid === set?.metadata.uid);
    if (set?.spec === undefined || set.metadata.generation !== before?.generation) return undefined;
    countWrite();
    set.metadata.annotations = { ...set.metadata.annotations, ...replicasAnnotations(deployment, planned.told) };
    touch(set);
    if (set.spec.replicas === planned.replicas) return undefined;
    set.spec.replicas = planned.replicas;
    set.metadata.generation = (set.metadata.generation ?? 0) + 1;
    return set.metadata.generation;
  }

  function setAsPlanned(name: string, { sets }: OwnerPlan): MachineSet | undefined {
    const planned = sets.find((set) => set.name === name);
    const set = world.sets.find(({ metadata }) => metadata.uid === planned?.uid);
    if (set === undefined || isOrphaning(set)) return undefined;
    return set.spec?.replicas === planned?.replicas ? set : undefined;
  }

  function createMachines({ set: setName, names: machineNames }: OwnerPlan['create'][number], plan: OwnerPlan): void {
    const set = setAsPlanned(setName, plan);
    if (set === undefined || set.metadata.deletionTimestamp !== undefined || isClosed(set, world.deployment)) return;
    for (const name of machineNames) {
      countWrite();
      addMachine(set, name);
    }
  }

  function removeCandidate({ set, uid, resourceVersion, failed }: OwnerPlan['remove'][number], plan: OwnerPlan): void {
    const machine = world.machines.find(({ metadata }) => metadata.uid === uid);
    if (machine === undefined || machine.metadata.resourceVersion !== resourceVersion) return;
    if (setAsPlanned(set, plan) === undefined) return;
    countWrite();
    remove(machine);
    if (!failed) return;
    world.replaced.add(uid);
    countWrite();
    machine.metadata.annotations = { ...machine.metadata.annotations, [names.replaced]: 'true' };
    touch(machine);
  }

  function releaseSet(uid: string): void {
    const set = world.sets.find(({ metadata }) => metadata.uid === uid);
    if (set !== undefined) removeFinalizer(set);
  }

  function release(deployment: MachineDeployment): void {
    for (const set of world.sets.filter((one) => controllerOf(one) === deployment.metadata.uid)) {
      remove(set);
      removeFinalizer(set);
    }
    removeFinalizer(deployment);
  }

  function report(
    deployment: MachineDeployment,
    plan: OwnerPlan,
    scaled: ReadonlyMap<string, number | undefined>,
  ): void {
    for (const set of world.sets) {
      const planned = plan.sets.find(({ uid }) => uid === set.metadata.uid);
      if (planned === undefined) continue;
      const generation = scaled.get(planned.name) ?? planned.generation;
      write(set, withFailure(set, undefined, generation, new Date(time)));
    }
    const current = currentSetOf(deployment, world.sets);
    if (current !== undefined) write(current, withNewestRevision(current, world.sets));
    write(deployment, withRevision(deployment, current));
    const said = { ...plan.report, setName: current?.metadata.name };
    write(deployment, withReport(deployment, said, plan.generation, new Date(time)));
  }

  /** A merge patch of annotations and the status. */
  function write(object: MachineSet | MachineDeployment, patch: object | undefined): void {
    if (patch === undefined) return;
    countWrite();
    const { metadata, status } = patch as Partial<MachineDeployment>;
    object.metadata.annotations = { ...object.metadata.annotations, ...metadata?.annotations };
    object.status = { ...object.status, ...status };
    touch(object);
  }
}

/** Template of machines of a class. */
export function template(className: string) {
  return { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: className } } };
}

/** Phases, as in a Machine's status. */
export function phaseOf(machine: Machine): string {
  return machine.status?.currentStatus?.phase ?? '';
}
