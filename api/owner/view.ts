/** MachineDeployments and MachineSets in the engine's model: pure functions of objects, cached or read live. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import type { Outdated, OwnerView, SetView, UpdateCounts } from '../model/owner.ts';
import { orphanFinalizer } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { adoptableSets, ownerChangesOf, type SelectingSet } from './adoption.ts';
import { isAvailable, isSetAside, minReadySecondsOf } from './availability.ts';
import { boundsOf, replacementPolicyOf, replicasAnnotations, selectsManually, strategyOf } from './bounds.ts';
import { isCompleted } from './creations.ts';
import { attemptsIn } from './failed-attempts.ts';
import { failureOfDeployment, failureOfSet } from './failure.ts';
import { healthOf } from './health.ts';
import { limitsOf } from './limits.ts';
import {
  isActive,
  isBeingReplaced,
  isKeptFailed,
  isMarked,
  isSpared,
  isStarting,
  isToBeReplaced,
  isUnneeded,
} from './machines.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { controllerOf, groupByController, type Owned } from './ownership.ts';
import { changedPreservations } from './preservation.ts';
import { invalidSpec, problemOfDeployment, problemOfSet, reportedProblem } from './problem.ts';
import { isNewest, newestRevision, withRevision } from './revision.ts';
import { rollbacksOf } from './rollback.ts';
import { replicasToAnnounce } from './rolling.ts';
import { hasOldMachines } from './set-counts.ts';
import { isBehind, settingsOfSet } from './settings.ts';
import { newSetName, templateHash, templatesEqual } from './template.ts';
import { countUpdates, isUpdating } from './updated-machines.ts';

/**
 * A MachineDeployment with its sets and machines. `sets` and `machines` may contain those of other owners, and should
 * where machines have none: who else selects such a machine decides who adopts it.
 * @param deployments those of the namespace: who else selects a set that nobody controls; without them no set is
 * adopted
 */
export function toDeploymentView(
  api: OwnerApiAt,
  deployment: OwnerDeployment,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
  deployments?: readonly OwnerDeployment[],
): OwnerView {
  const { metadata, spec, status } = deployment;
  const adoptable = deployments === undefined ? [] : adoptableSets(deployment, sets, deployments);
  const own = sets.filter((set) => controllerOf(set) === metadata.uid).toSorted(byAge);
  const newSet = newSetAmong(api, deployment, own);
  const hash = templateHash(api, spec?.template, status?.collisionCount);
  const problem = problemOfDeployment(api, deployment, [...own, ...adoptable]);
  const { progressDeadlineSeconds = 0, revisionHistoryLimit } = spec ?? {};
  const bySet = groupByController(machines);
  const machinesOf = ({ metadata: { uid } }: OwnerSet) => bySet.get(uid) ?? [];
  const strategy = strategyOf(api, deployment);
  const isInPlace = strategy === 'InPlace';
  const updatesOf = (set: OwnerSet) =>
    countUpdates(api, machinesOf(set), { isNew: set === newSet, isInPlace, minReadySeconds: minReadySecondsOf(set) });
  const ownerless = bySet.get('') ?? [];
  const view: OwnerView = {
    kind: 'MachineDeployment',
    ...traitsOf(api, deployment, isReported(api, deployment, newSet, own, problem)),
    paused: spec?.paused === true,
    ...(problem !== undefined && { problem }),
    replicas: spec?.replicas ?? 0,
    strategy,
    ...(selectsManually(api, deployment) && { selectsManually: true as const }),
    ...boundsOf(api, deployment),
    countsLeaving: replacementPolicyOf(deployment) === 'TerminationComplete' ? 'inRollouts' : 'never',
    ...progressOf(api, deployment),
    ...(progressDeadlineSeconds > 0 && { progressDeadlineSeconds }),
    ...(revisionHistoryLimit !== undefined && spec?.rollbackTo === undefined && { historyLimit: revisionHistoryLimit }),
    ...(isMarking(api, deployment, own.flatMap(machinesOf)) && { isMarking: true as const }),
    ...(adoptable.length > 0 && { adoptable: adoptable.map(({ metadata: { name, uid } }) => ({ name, uid })) }),
    ...limitsIn(deployment),
    ...rollbacksOf(api, deployment, newSet),
    ...healthIn(api, own.flatMap(machinesOf)),
    template: {
      ...{ setName: newSet?.metadata.name ?? newSetName(metadata.name, hash), hash },
      revision: newestRevision(api, newSet, own),
    },
    sets: own.map((set) => ({
      ...toSetView(api, deployment, { set, own: machinesOf(set), ownerless, sets }),
      ...(set === newSet &&
        spec?.paused !== true &&
        settingsOfSet(api, deployment, set) && { isBehind: true as const }),
      ...withUpdates(updatesOf(set)),
      ...attemptsIn(api, deployment, set, { own: machinesOf(set), isNew: set === newSet }),
      isNew: set === newSet,
      closed: api.owner.isClosed(set, deployment),
    })),
  };
  const isRolling = hasOldMachines(view);
  const isAnnotated = (set: OwnerSet) => {
    const wanted = replicasAnnotations(api, deployment, set === newSet ? replicasToAnnounce(view) : undefined);
    const isOldAndEmpty = set !== newSet && (set.spec?.replicas ?? 0) === 0;
    return (isOldAndEmpty || hasAll(set, wanted)) && (isRolling || !isCompleted(set, machinesOf(set)));
  };
  return {
    ...view,
    sets: view.sets.map((set, i) => ({
      ...set,
      outdated: withAnnotations(set.outdated, isAnnotated(own[i]!) && !set.hasOldAttempts),
    })),
  };
}

/** Of a deployment's own sets the oldest with its template; one that stays before one that is being deleted. */
export function newSetAmong<S extends OwnerSet>(
  api: OwnerApi,
  { spec }: OwnerDeployment,
  own: readonly S[],
): S | undefined {
  const equal = own.filter((set) => templatesEqual(api, set.spec?.template, spec?.template)).toSorted(byAge);
  return equal.find((set) => set.metadata.deletionTimestamp === undefined) ?? equal[0];
}

/** Whether machines that a deployment lists to be deleted are not marked yet, or it lists others. */
function isMarking({ owner, nowMs }: OwnerApiAt, deployment: OwnerDeployment, own: readonly KubeObject[]): boolean {
  return owner.scaleDown?.planMarks(deployment, own, new Date(nowMs)) !== undefined;
}

/** Whether problem, failures and revisions of a deployment and its sets are written where they belong. */
function isReported(
  api: OwnerApi,
  deployment: OwnerDeployment,
  newSet: OwnerSet | undefined,
  own: readonly OwnerSet[],
  problem: string | undefined,
): boolean {
  const failures = [failureOfDeployment(deployment), ...own.map((set) => failureOfSet(api, set))];
  const isRevised = newSet === undefined || isNewest(api, newSet, own);
  return (
    reportedProblem(deployment.status?.conditions) === problem &&
    failures.every((failure) => failure === undefined) &&
    isRevised &&
    withRevision(api, deployment, newSet) === undefined
  );
}

function withUpdates(updates: UpdateCounts | undefined): Pick<SetView, 'updates'> {
  return updates === undefined ? {} : { updates };
}

function healthIn(api: OwnerApiAt, machines: readonly KubeObject[]): Pick<OwnerView, 'health'> {
  const health = healthOf(api, machines);
  return health === undefined ? {} : { health };
}

function limitsIn(owner: KubeObject): Pick<OwnerView, 'limits'> {
  const limits = limitsOf(owner);
  return limits === undefined ? {} : { limits };
}

function progressOf({ owner }: OwnerApi, { status }: OwnerDeployment): Pick<OwnerView, 'progress'> {
  const reason = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
  return reason === undefined || reason === invalidSpec ? {} : { progress: owner.toProgress(reason) };
}

function hasAll({ metadata }: OwnerSet, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata.annotations?.[key] === value);
}

/**
 * Whether a set is its own owner: nothing controls it, or what controls it is gone.
 * @param controller the deployment that its controller reference names; one of another UID is another
 */
export function isLone(set: OwnerSet, controller: Owned | undefined): boolean {
  const uid = controllerOf(set);
  return uid === undefined || controller?.metadata.uid !== uid;
}

/** Whether an owner is deleted without what it owns, which the garbage collector has not released yet. */
export function isOrphaning({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(orphanFinalizer) === true;
}

/** A MachineSet without a deployment, as the owner of itself. `machines` and `sets` as for a deployment. */
export function toLoneSetView(
  api: OwnerApiAt,
  set: OwnerSet,
  machines: readonly KubeObject[],
  sets: readonly OwnerSet[] = [],
): OwnerView {
  const own = machines.filter((machine) => controllerOf(machine) === set.metadata.uid);
  const ownerless = machines.filter((machine) => controllerOf(machine) === undefined);
  const problem = problemOfSet(api, set);
  const traits = traitsOf(api, set, failureOfSet(api, set)?.message === problem);
  const attempts = attemptsIn(api, set, set, { own, isNew: true });
  return {
    kind: 'MachineSet',
    ...traits,
    paused: false,
    ...(problem !== undefined && { problem }),
    replicas: set.spec?.replicas ?? 0,
    strategy: 'RollingUpdate',
    maxSurge: 0,
    maxUnavailable: 0,
    countsLeaving: 'never',
    ...limitsIn(set),
    ...healthIn(api, own),
    template: { setName: set.metadata.name, hash: '' },
    sets: [
      {
        ...toSetView(api, set, { set, own, ownerless, sets }),
        ...attempts,
        // In the middle of an update its deployment may have been deleted without it.
        ...withUpdates(
          countUpdates(api, own, { isNew: true, isInPlace: false, minReadySeconds: minReadySecondsOf(set) }),
        ),
        isNew: true,
        closed: api.owner.isClosed(set),
        outdated: withAnnotations(traits.outdated, !isCompleted(set, own) && !attempts.hasOldAttempts),
      },
    ],
  };
}

function withAnnotations(outdated: readonly Outdated[], areCurrent: boolean): readonly Outdated[] {
  return areCurrent ? outdated : [...outdated, 'annotations'];
}

/** @param isReported whether the status has all that it should have besides the generation */
function traitsOf({ marks }: OwnerApi, { metadata, status }: OwnerDeployment | OwnerSet, isReported: boolean) {
  const { uid, resourceVersion, generation = 0, finalizers, deletionTimestamp } = metadata;
  const isCurrent = isReported && (status?.observedGeneration ?? 0) === generation;
  const outdated: readonly Outdated[] = isCurrent ? [] : ['status'];
  return {
    uid,
    resourceVersion,
    generation,
    hasOurFinalizer: finalizers?.includes(marks.finalizer) === true,
    deleting: deletionTimestamp !== undefined,
    ...(isOrphaning({ metadata }) && { orphans: true as const }),
    outdated,
  };
}

/** @param owner its deployment, or else the set itself */
function toSetView(api: OwnerApiAt, owner: KubeObject, selecting: SelectingSet): Omit<SetView, 'isNew' | 'closed'> {
  const { set, own } = selecting;
  const active = own.filter((machine) => isActive(api, machine));
  const failed = active.filter((machine) => isToBeReplaced(api, machine));
  const unneeded = active.filter((machine) => !failed.includes(machine) && isUnneeded(api, owner, machine));
  const kept = active.filter((machine) => !failed.includes(machine) && !unneeded.includes(machine));
  const marked = kept.filter((machine) => isMarked(api, machine));
  const minReadySeconds = minReadySecondsOf(set);
  const available = kept.filter((machine) => isAvailable(api, machine, minReadySeconds));
  const ownerChanges = ownerChangesOf(api, selecting).length;
  const behind = own.filter((machine) => isBehind(api, set, machine)).length;
  const preserved = active.filter((machine) => isKeptFailed(api, machine)).length;
  const setAside = kept.filter((machine) => isSetAside(api, machine, minReadySeconds)).length;
  const spared = available.filter((machine) => isSpared(api, machine) && !isUpdating(api, machine)).length;
  const preservations = changedPreservations(api, set, own).length;
  const announcedReplicas = Number.parseInt(set.metadata.annotations?.[api.owner.keys.desiredReplicas] ?? '', 10);
  return {
    name: set.metadata.name,
    ...traitsOf(api, set, failureOfSet(api, set) === undefined),
    replicas: set.spec?.replicas ?? 0,
    total: own.length,
    active: active.length,
    available: available.length,
    starting: kept.filter((machine) => isStarting(api, machine) && !isSpared(api, machine)).length,
    failed: failed.length,
    ...(minReadySeconds > 0 && { minReadySeconds }),
    ...(unneeded.length > 0 && { unneeded: unneeded.length }),
    ...(ownerChanges > 0 && { ownerChanges }),
    replacing: own.filter(isBeingReplaced).length,
    ...(marked.length > 0 && {
      marked: marked.length,
      unmarked: available.filter((machine) => !marked.includes(machine)).length,
    }),
    ...(announcedReplicas >= 0 && { announcedReplicas }),
    ...(preserved > 0 && { preserved }),
    ...(setAside > 0 && { setAside }),
    ...(spared > 0 && { preservedAvailable: spared }),
    ...(preservations > 0 && { preservations }),
    ...(behind > 0 && { machinesBehind: behind }),
  };
}

function byAge(a: KubeObject, b: KubeObject): number {
  const [first, second] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp} ${metadata.name}`);
  return (first ?? '') < (second ?? '') ? -1 : 1;
}
