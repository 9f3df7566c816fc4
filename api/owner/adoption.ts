/**
 * Which machines a set adopts and which it releases, and which sets a deployment adopts, as Kubernetes' controllers do:
 * labels say what a set or a deployment selects, the controller reference says what it owns. Pure.
 */
import type { OwnerApi } from '../dialect.ts';
import type { OwnerChange, OwnerView } from '../model/owner.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { isActive } from './machines.ts';
import { ownerReference } from './new-objects.ts';
import type { LabelSelector, OwnerDeployment, OwnerSet } from './objects.ts';
import { controllerOf, groupByController } from './ownership.ts';
import { hasOwnerChanges } from './set-counts.ts';

/** A set, and all that it adopts and releases by. */
export interface SelectingSet {
  readonly set: OwnerSet;
  /** Machines that it owns. */
  readonly own: readonly KubeObject[];
  /** Machines that nobody controls. */
  readonly ownerless: readonly KubeObject[];
  /** Sets of the namespace, which may select the same machines. May contain the set itself. */
  readonly sets: readonly OwnerSet[];
}

/**
 * Whether a set or a deployment selects an object with these labels. One that does not select what it makes itself
 * selects nothing.
 */
export function selects({ spec }: OwnerSet | OwnerDeployment, labels: Labels | undefined): boolean {
  const { selector, template } = spec ?? {};
  return matches(selector, template?.metadata?.labels) && matches(selector, labels);
}

/**
 * Machines that a set releases as it selects them no more, and those that it adopts as nobody controls them and no
 * other set selects them. What is being deleted changes its owner no more.
 */
export function ownerChangesOf(api: OwnerApi, { set, own, ownerless, sets }: SelectingSet): readonly KubeObject[] {
  const { template } = set.spec ?? {};
  if (isLeaving(set) || !selects(set, template?.metadata?.labels)) return [];
  const released = own.filter((machine) => !selects(set, machine.metadata.labels));
  const selected = ownerless.filter((machine) => selects(set, machine.metadata.labels));
  const others = selected.length === 0 ? [] : sets.filter((one) => one.metadata.uid !== set.metadata.uid);
  const isContested = ({ metadata }: KubeObject) =>
    others.some((one) => !isLeaving(one) && selects(one, metadata.labels));
  const adopted = selected.filter((machine) => !isContested(machine));
  return [...released, ...adopted].filter((machine) => isActive(api, machine));
}

/** The same for all sets of an owner, at most `limit`. @param sets those of the owner, and others of the namespace */
export function readOwnerChanges(
  api: OwnerApi,
  view: OwnerView,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
  limit: number,
): OwnerChange[] {
  if (!hasOwnerChanges(view)) return [];
  const bySet = groupByController(machines);
  const ownerless = bySet.get('') ?? [];
  return view.sets
    .flatMap(({ uid, name }) => {
      const set = sets.find(({ metadata }) => metadata.uid === uid);
      const changed = set ? ownerChangesOf(api, { set, own: bySet.get(uid) ?? [], ownerless, sets }) : [];
      return changed.map((machine) => ({
        ...{ set: name, name: machine.metadata.name, uid: machine.metadata.uid },
        isAdopted: controllerOf(machine) === undefined,
      }));
    })
    .slice(0, limit);
}

/** The labels for which a set does not select a machine, for people: `label name`, `labels name, zone`. */
export function unmetLabels({ spec }: OwnerSet, { metadata: { labels = {} } }: KubeObject): string {
  const { matchLabels, matchExpressions } = spec?.selector ?? {};
  const equal = Object.entries(matchLabels ?? {}).filter(([key, value]) => labels[key] !== value);
  const expressions = (matchExpressions ?? []).filter((one) => !isMet(one, labels));
  const keys = new Set([...equal.map(([key]) => key), ...expressions.map(({ key }) => key)]);
  return `${keys.size === 1 ? 'label' : 'labels'} ${[...keys].join(', ')}`;
}

/**
 * Merge patch of a machine that its set adopts or releases; undefined: somebody else has changed its owner or its
 * labels meanwhile. The patch has the whole list of owners, so it has to be sent with a resourceVersion.
 */
export function toOwnerPatch(
  api: OwnerApi,
  set: OwnerSet,
  machine: KubeObject,
  isAdopted: boolean,
): object | undefined {
  const { ownerReferences = [] } = machine.metadata;
  const controller = controllerOf(machine);
  const isDue = isAdopted ? controller === undefined : controller === set.metadata.uid;
  if (!isDue || !isActive(api, machine) || selects(set, machine.metadata.labels) !== isAdopted) return undefined;
  const others = ownerReferences.filter(({ uid }) => uid !== set.metadata.uid);
  const own = isAdopted ? [ownerReference(api.kinds.set, set.metadata)] : [];
  const annotations = { [names.releasedBy]: isAdopted ? null : set.metadata.name };
  return { metadata: { ownerReferences: [...others, ...own], annotations } };
}

/**
 * The sets that a deployment adopts, as nobody controls them and no other deployment selects them. It releases none:
 * those that it selects no more stay old sets of it, so that their machines are replaced and not forgotten.
 * @param deployments those of the namespace; may contain the deployment itself
 */
export function adoptableSets<S extends OwnerSet>(
  deployment: OwnerDeployment,
  sets: readonly S[],
  deployments: readonly OwnerDeployment[],
): S[] {
  if (isLeaving(deployment)) return [];
  const others = deployments.filter(({ metadata }) => metadata.uid !== deployment.metadata.uid);
  return sets.filter((set) => {
    const { labels } = set.metadata;
    const isFree = controllerOf(set) === undefined && !isLeaving(set);
    return isFree && selects(deployment, labels) && !others.some((one) => !isLeaving(one) && selects(one, labels));
  });
}

/** The same as `toOwnerPatch` for a set that a deployment adopts. */
export function toAdoptionPatch(api: OwnerApi, deployment: OwnerDeployment, set: OwnerSet): object | undefined {
  if (adoptableSets(deployment, [set], []).length === 0) return undefined;
  const { ownerReferences = [] } = set.metadata;
  return {
    metadata: { ownerReferences: [...ownerReferences, ownerReference(api.kinds.deployment, deployment.metadata)] },
  };
}

type Labels = Readonly<Record<string, string>>;

function isLeaving({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** As Kubernetes matches labels, but for an empty selector, which selects nothing. */
function matches({ matchLabels, matchExpressions }: LabelSelector = {}, labels: Labels = {}): boolean {
  const equal = Object.entries(matchLabels ?? {});
  const expressions = matchExpressions ?? [];
  if (equal.length + expressions.length === 0) return false;
  return equal.every(([key, value]) => labels[key] === value) && expressions.every((one) => isMet(one, labels));
}

type Expression = NonNullable<LabelSelector['matchExpressions']>[number];

function isMet({ key = '', operator, values }: Expression, labels: Labels): boolean {
  const value = labels[key];
  switch (operator) {
    case 'In':
      return value !== undefined && values?.includes(value) === true;
    case 'NotIn':
      return value === undefined || values?.includes(value) !== true;
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    default:
      return false; // an operator that nobody knows
  }
}
