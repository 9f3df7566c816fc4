/** MachineDeployments and MachineSets in the engine's model: pure functions of objects, cached or read live. */
import type { Candidate, OwnerView, SetView } from '../model.ts';
import { names } from '../names.ts';
import { byDeletionOrder, isPreserved } from './deletion-order.ts';
import type { Machine } from './machine.ts';
import type { MachineDeployment } from './machine-deployment.ts';
import type { MachineSet } from './machine-set.ts';
import { finalizers } from './names.ts';
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
  const equal = own.filter((set) => templatesEqual(set.spec?.template, spec?.template));
  const current = equal.find((set) => set.metadata.deletionTimestamp === undefined) ?? equal[0];
  const hash = templateHash(spec?.template, status?.collisionCount);
  const progress = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
  const bySet = groupByController(machines);
  return {
    kind: 'MachineDeployment',
    ...ownerOf(deployment),
    replicas: spec?.replicas ?? 0,
    maxSurge: maxSurgeOf(deployment),
    ...(progress !== undefined && { progress }),
    template: { setName: current?.metadata.name ?? newSetName(metadata.name, hash), hash },
    sets: own.map((set) => toSetView(set, set === current, bySet.get(set.metadata.uid) ?? [])),
  };
}

/**
 * Whether a set has to look after itself: nothing controls it, or what controls it is gone.
 * @param controller the deployment that its controller reference names; one of another UID is another
 */
export function isLone(set: MachineSet, controller: Owned | undefined): boolean {
  const uid = controllerOf(set);
  return uid === undefined || controller?.metadata.uid !== uid;
}

/** A MachineSet without a deployment, as the owner of itself. */
export function toLoneSetView(set: MachineSet, machines: readonly Machine[]): OwnerView {
  const own = machines.filter((machine) => controllerOf(machine) === set.metadata.uid);
  return {
    kind: 'MachineSet',
    ...ownerOf(set),
    replicas: set.spec?.replicas ?? 0,
    maxSurge: 0,
    template: { setName: set.metadata.name, hash: '' },
    sets: [toSetView(set, true, own)],
  };
}

function ownerOf(owner: MachineDeployment | MachineSet) {
  const { uid, resourceVersion, finalizers: own, deletionTimestamp, generation } = owner.metadata;
  return {
    uid,
    resourceVersion,
    managed: own?.includes(finalizers.machine) === true,
    deleting: deletionTimestamp !== undefined,
    observed: owner.status?.observedGeneration === generation,
  };
}

function toSetView(set: MachineSet, current: boolean, own: readonly Machine[]): SetView {
  const active = own.filter(isActive);
  return {
    name: set.metadata.name,
    ...ownerOf(set),
    current,
    replicas: set.spec?.replicas ?? 0,
    total: own.length,
    active: active.length,
    available: active.filter(isAvailable).length,
    failed: active.filter(isToBeReplaced).length,
    replacing: own.filter(isBeingReplaced).length,
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

function isToBeReplaced(machine: Machine): boolean {
  return machine.status?.currentStatus?.phase === 'Failed' && !isPreserved(machine, Date.now());
}

function isBeingReplaced({ metadata }: Machine): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.annotations?.[names.replaced] !== undefined;
}

/** Resolved maxSurge of the strategy; percentages round up, as in Kubernetes. */
function maxSurgeOf({ spec }: MachineDeployment): number {
  const { type, rollingUpdate, inPlaceUpdate } = spec?.strategy ?? {};
  const bounds = { RollingUpdate: rollingUpdate, InPlaceUpdate: inPlaceUpdate }[type ?? ''];
  const value = bounds?.maxSurge ?? 0;
  if (typeof value === 'number') return value;
  return value.endsWith('%') ? Math.ceil(((spec?.replicas ?? 0) * Number.parseInt(value, 10)) / 100) : Number(value);
}

/**
 * At most `limit` active machines of the owner's sets: the Failed ones first, then in turn of each set the one that would
 * go next. So no set has to wait until another one has nothing left to go.
 */
export function toCandidates(view: OwnerView, machines: readonly Machine[], limit: number): Candidate[] {
  const bySet = groupByController(machines.filter(isActive));
  const order = byDeletionOrder(Date.now());
  const ranked = view.sets.flatMap((set) => {
    const own = (bySet.get(set.uid) ?? []).toSorted(order).map((machine) => toCandidate(machine, set.name));
    const failed = own.filter((candidate) => candidate.failed).map((candidate) => ({ rank: -1, candidate }));
    const others = own.filter((candidate) => !candidate.failed).map((candidate, rank) => ({ rank, candidate }));
    return [...failed, ...others];
  });
  return ranked
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, limit)
    .map(({ candidate }) => candidate);
}

function toCandidate(machine: Machine, set: string): Candidate {
  const { name, uid, resourceVersion } = machine.metadata;
  return { name, uid, resourceVersion, set, failed: isToBeReplaced(machine) };
}

function byAge(a: MachineSet, b: MachineSet): number {
  const [first, second] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp} ${metadata.name}`);
  return (first ?? '') < (second ?? '') ? -1 : 1;
}

function groupByController(machines: readonly Machine[]): Map<string, Machine[]> {
  const groups = new Map<string, Machine[]>();
  for (const machine of machines) {
    const uid = controllerOf(machine) ?? '';
    const group = groups.get(uid);
    if (group === undefined) groups.set(uid, [machine]);
    else group.push(machine);
  }
  return groups;
}
