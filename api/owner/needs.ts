/**
 * Why an owner of machines needs its workflow. Watchers start and signal the workflow while there is a need, the
 * workflow completes when there is none. Plain code: workflow code imports this file.
 */
import type { OwnerView, SetView } from '../model/owner.ts';
import { surplusSets } from './history.ts';
import { desiredReplicas } from './replicas.ts';
import { hasOldMachines, hasOwnerChanges, newSetOf } from './set-counts.ts';

/** What has to be done for an owner, in words for people. */
const needTexts = {
  /** Our finalizer is missing on the owner or on one of its sets. */
  finalizer: 'add the finalizer',
  /** The owner, or one of its sets, is being deleted. */
  deletion: 'finish a deletion',
  /** spec.rollbackTo asks for an earlier template. */
  rollback: 'go back to an earlier template',
  /** No set has the current template. */
  template: 'create the MachineSet of the current template',
  /** A set, or the number of its machines, differs from the desired replicas. */
  replicas: 'scale to spec.replicas',
  /** The deployment has to adopt sets, or a set has to adopt or to release machines. */
  ownership: 'adopt or release sets and machines',
  /** Machines that the deployment lists to be deleted have to be marked, or the autoscaler has scaled them down. */
  marked: 'delete the machines that the autoscaler has marked',
  /** A Failed machine has to be replaced. */
  failed: 'replace Failed machines',
  /** A machine is unhealthy for longer than its health timeout. */
  unhealthy: 'replace unhealthy machines',
  /** A set keeps fewer Failed machines than it may, or more. */
  preservation: 'preserve Failed machines, or release them',
  /** Machines of the current template are in the middle of an in-place update. */
  inPlace: 'end in-place updates that nobody asks for any more',
  /** A set or machines lack settings that the template has by now. */
  settings: 'hand down the settings of the template',
  /** There are more old MachineSets without machines than the history limit says. */
  history: 'delete old MachineSets beyond the history limit',
  /** A generation, a problem or annotations are not recorded yet. */
  status: 'update the status',
  /** The rollout of the current template is not complete, or the status does not say that it is paused. */
  progress: 'complete the rollout',
} as const;
export type OwnerNeed = keyof typeof needTexts;

/** The needs as one line: 'add the finalizer, scale to spec.replicas'; 'nothing' without needs. */
export function toTasks(needs: readonly OwnerNeed[]): string {
  return needs.length === 0 ? 'nothing' : needs.map((need) => needTexts[need]).join(', ');
}

/** What has to be done for the owner, or waited for. An invalid owner needs only that its status says so. */
export function ownerNeeds(owner: OwnerView): OwnerNeed[] {
  const { sets, outdated } = owner;
  const isOurs = owner.hasOurFinalizer || sets.some((set) => set.hasOurFinalizer);
  if (owner.deleting) return isOurs ? ['deletion'] : [];
  if (owner.problem !== undefined) return outdated.length > 0 ? ['status'] : [];

  const staying = sets.filter((set) => !set.deleting);
  const desired = desiredReplicas(owner);
  const isOff = (set: SetView) => set.replicas !== desired.get(set.name) || set.active !== set.replicas;
  const isDeleting = (set: SetView) => set.deleting && (set.hasOurFinalizer || set.total > 0);
  const found: Record<OwnerNeed, boolean> = {
    finalizer: [owner, ...staying].some((object) => !object.hasOurFinalizer),
    deletion: sets.some(isDeleting),
    rollback: !owner.paused && owner.rollsBack === true,
    template: !owner.paused && !staying.some((set) => set.isNew),
    replicas: staying.some(isOff),
    ownership: hasOwnerChanges(owner),
    marked: owner.isMarking === true || staying.some((set) => set.unneeded !== undefined),
    failed: staying.some((set) => set.failed > 0),
    unhealthy: (owner.health?.asking ?? 0) > 0,
    preservation: staying.some((set) => set.preservations !== undefined),
    inPlace: !owner.paused && staying.some((set) => set.isNew && hasUpdatesToEnd(set)),
    settings: staying.some((set) => set.isBehind || set.machinesBehind !== undefined),
    history: surplusSets(owner).length > 0,
    status: [owner, ...staying].some((object) => object.outdated.length > 0) || isToBeRecorded(owner),
    progress: owner.kind === 'MachineDeployment' && isRolling(owner),
  };
  return (Object.keys(found) as OwnerNeed[]).filter((need) => found[need]);
}

/**
 * Whether the rollout of the current template is complete and nothing says so on its set. The status may still be about
 * another template, and without machines nobody knows whether the template works.
 */
export function isToBeRecorded(view: OwnerView): boolean {
  const { lacksCompletion, progress, paused, replicas } = view;
  const { available = 0 } = newSetOf(view) ?? {};
  const isReached = replicas > 0 && available >= replicas && !hasOldMachines(view);
  return lacksCompletion === true && progress === 'complete' && !paused && isReached;
}

function hasUpdatesToEnd({ updates }: SetView): boolean {
  return updates !== undefined && updates.unreleased + updates.updated > 0;
}

function isRolling({ paused, progress, sets }: OwnerView): boolean {
  if (paused) return progress !== 'paused' && progress !== 'late';
  return progress !== 'complete' || sets.some((set) => !set.isNew && set.total > 0);
}
