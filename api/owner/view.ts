/** MachineDeployments and MachineSets in the engine's model: pure functions of objects, cached or read live. */

import { annotations, finalizers, labels, strategies } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import type { OwnerView, SetView, UpdateStrategy } from '../model/owner.ts';
import { names, orphanFinalizer } from '../names.ts';
import { boundsOf, replicasAnnotations } from './bounds.ts';
import { isCreationOver } from './creations.ts';
import { isMarked, isPreserved } from './deletion-order.ts';
import { failureOfDeployment, failureOfSet } from './failure.ts';
import { invalidSpec, problemOfDeployment, problemOfSet, toldProblem } from './problem.ts';
import { hasOldMachines, replicasToAnnounce } from './replicas.ts';
import { withNewestRevision, withRevision } from './revision.ts';
import { newSetName, templateHash, templatesEqual } from './template.ts';

interface Owned {
  readonly metadata: {
    readonly uid: string;
    readonly ownerReferences?: readonly { readonly uid: string; readonly controller?: boolean }[];
  };
}

/** UID of the controller of an object, if it has one. */
export function controllerOf({ metadata }: Owned): string | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller)?.uid;
}

/** A MachineDeployment with its sets and machines; those of others among them are passed over. */
export function toDeploymentView(
  deployment: MachineDeployment,
  sets: readonly MachineSet[],
  machines: readonly Machine[],
): OwnerView {
  const { metadata, spec, status } = deployment;
  const own = sets.filter((set) => controllerOf(set) === metadata.uid).toSorted(byAge);
  const current = currentSetOf(deployment, own);
  const hash = templateHash(spec?.template, status?.collisionCount);
  const problem = problemOfDeployment(deployment);
  const isWell = failureOfDeployment(deployment) === undefined && own.every((set) => failureOfSet(set) === undefined);
  const isTold = toldProblem(deployment) === problem && isWell && isRevised(deployment, current, own);
  const progress = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
  const { progressDeadlineSeconds = 0 } = spec ?? {};
  const bySet = groupByController(machines);
  const machinesOf = ({ metadata: { uid } }: MachineSet) => bySet.get(uid) ?? [];
  const view: OwnerView = {
    kind: 'MachineDeployment',
    ...traitsOf(deployment, isTold),
    paused: spec?.paused === true,
    ...(problem !== undefined && { problem }),
    replicas: spec?.replicas ?? 0,
    strategy: strategyOf(spec),
    ...boundsOf(spec),
    ...(progress !== undefined && progress !== invalidSpec && { progress }),
    ...(progressDeadlineSeconds > 0 && { progressDeadlineSeconds }),
    template: { setName: current?.metadata.name ?? newSetName(metadata.name, hash), hash },
    sets: own.map((set) => ({
      ...toSetView(set, machinesOf(set)),
      current: set === current,
      closed: isClosed(set, deployment),
      annotated: true, // decided below, by what the rest says
    })),
  };
  const isRolling = hasOldMachines(view);
  const isAnnotated = (set: MachineSet) => {
    const wanted = replicasAnnotations(deployment, set === current ? replicasToAnnounce(view) : undefined);
    const isOldAndEmpty = set !== current && (set.spec?.replicas ?? 0) === 0;
    return (isOldAndEmpty || hasAll(set, wanted)) && (isRolling || !isCreationOver(set, machinesOf(set)));
  };
  return { ...view, sets: own.map((set, i) => ({ ...view.sets[i]!, annotated: isAnnotated(set) })) };
}

/** Of a deployment's own sets the oldest one with its template; one that stays before one that is being deleted. */
export function currentSetOf({ spec }: MachineDeployment, own: readonly MachineSet[]): MachineSet | undefined {
  const equal = own.filter((set) => templatesEqual(set.spec?.template, spec?.template)).toSorted(byAge);
  return equal.find((set) => set.metadata.deletionTimestamp === undefined) ?? equal[0];
}

/** A strategy that does not exist is a problem that nothing is done for. */
function strategyOf(spec: MachineDeployment['spec']): UpdateStrategy {
  const type = spec?.strategy?.type ?? '';
  return Object.hasOwn(strategies, type) ? (type as UpdateStrategy) : 'RollingUpdate';
}

/** Whether the present set is the newest, and the deployment has its revision. */
function isRevised(
  deployment: MachineDeployment,
  current: MachineSet | undefined,
  own: readonly MachineSet[],
): boolean {
  const isNewest = current === undefined || withNewestRevision(current, own) === undefined;
  return isNewest && withRevision(deployment, current) === undefined;
}

function hasAll({ metadata }: MachineSet, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata.annotations?.[key] === value);
}

/** Whether no machine may be created in a set. @param deployment the one that owns it, if any */
export function isClosed(set: MachineSet, deployment?: MachineDeployment): boolean {
  const isFrozen = [set, deployment].some((owner) => owner?.metadata.labels?.[labels.freeze] === 'True');
  return isFrozen || set.metadata.labels?.[labels.scaleUpDisabled] !== undefined;
}

/**
 * Whether a set has to look after itself: nothing controls it, or what controls it is gone.
 * @param controller the deployment that its controller reference names; one of another UID is another
 */
export function isLone(set: MachineSet, controller: Owned | undefined): boolean {
  const uid = controllerOf(set);
  return uid === undefined || controller?.metadata.uid !== uid;
}

/** Whether an owner is deleted without what it owns, which the garbage collector has not released yet. */
export function isOrphaning({ metadata }: MachineDeployment | MachineSet): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(orphanFinalizer) === true;
}

/** A MachineSet without a deployment, as the owner of itself. */
export function toLoneSetView(set: MachineSet, machines: readonly Machine[]): OwnerView {
  const own = machines.filter((machine) => controllerOf(machine) === set.metadata.uid);
  const problem = problemOfSet(set);
  const isTold = failureOfSet(set)?.message === problem;
  return {
    kind: 'MachineSet',
    ...traitsOf(set, isTold),
    paused: false,
    ...(problem !== undefined && { problem }),
    replicas: set.spec?.replicas ?? 0,
    strategy: 'RollingUpdate',
    maxSurge: 0,
    maxUnavailable: 0,
    template: { setName: set.metadata.name, hash: '' },
    sets: [
      {
        ...toSetView(set, own),
        ...traitsOf(set, isTold),
        current: true,
        closed: isClosed(set),
        annotated: !isCreationOver(set, own),
      },
    ],
  };
}

/** @param isTold whether the status says the rest of what it has to say */
function traitsOf(owner: MachineDeployment | MachineSet, isTold: boolean) {
  const { uid, resourceVersion, generation = 0, finalizers: own, deletionTimestamp } = owner.metadata;
  return {
    uid,
    resourceVersion,
    generation,
    managed: own?.includes(finalizers.machine) === true,
    deleting: deletionTimestamp !== undefined,
    ...(isOrphaning(owner) && { orphans: true as const }),
    observed: isTold && (owner.status?.observedGeneration ?? 0) === generation,
  };
}

function toSetView(set: MachineSet, own: readonly Machine[]): Omit<SetView, 'current' | 'closed' | 'annotated'> {
  const active = own.filter(isActive);
  const marked = active.filter((machine) => isMarked(machine, Date.now()) && !isToBeReplaced(machine));
  const available = active.filter(isAvailable);
  const told = Number.parseInt(set.metadata.annotations?.[annotations.desiredReplicas] ?? '', 10);
  return {
    name: set.metadata.name,
    ...traitsOf(set, failureOfSet(set) === undefined),
    replicas: set.spec?.replicas ?? 0,
    total: own.length,
    active: active.length,
    available: available.length,
    starting: active.filter(isStarting).length,
    failed: active.filter(isToBeReplaced).length,
    replacing: own.filter(isBeingReplaced).length,
    ...(marked.length > 0 && {
      marked: marked.length,
      unmarked: available.filter((machine) => !marked.includes(machine)).length,
    }),
    ...(told >= 0 && { told }),
  };
}

/** Whether a machine is not on its way out. */
export function isActive({ metadata, status }: Machine): boolean {
  return metadata.deletionTimestamp === undefined && status?.currentStatus?.phase !== 'Terminating';
}

/** Whether a machine does its work: Running, or Available where there is no target cluster. */
export function isAvailable({ status }: Machine): boolean {
  const phase = status?.currentStatus?.phase;
  return phase === 'Running' || phase === 'Available';
}

/** Whether a machine has not been available yet. */
export function isStarting({ status }: Machine): boolean {
  return ['', 'Pending', 'CrashLoopBackOff'].includes(status?.currentStatus?.phase ?? '');
}

/** Whether a machine has Failed and nobody wants it kept. */
export function isToBeReplaced(machine: Machine): boolean {
  return machine.status?.currentStatus?.phase === 'Failed' && !isPreserved(machine, Date.now());
}

function isBeingReplaced({ metadata }: Machine): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.annotations?.[names.replaced] !== undefined;
}

function byAge(a: MachineSet, b: MachineSet): number {
  const [first, second] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp} ${metadata.name}`);
  return (first ?? '') < (second ?? '') ? -1 : 1;
}

/** Machines by the UID of their set; under '' those of no set. */
export function groupByController(machines: readonly Machine[]): Map<string, Machine[]> {
  const groups = new Map<string, Machine[]>();
  for (const machine of machines) {
    const uid = controllerOf(machine) ?? '';
    const group = groups.get(uid);
    if (group === undefined) groups.set(uid, [machine]);
    else group.push(machine);
  }
  return groups;
}
