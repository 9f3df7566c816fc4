/** Machines, sets and deployments with what they wait for. Pure. */

import type { KubeObject } from '../../../api/objects.ts';
import { failureOfSet } from '../../../api/owner/failure.ts';
import type { OwnerDeployment, OwnerSet } from '../../../api/owner/objects.ts';
import { controllerOf, deploymentOf } from '../../../api/owner/ownership.ts';
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import { columns } from '../../columns.ts';
import { dialect, noLimits } from '../../dialect.ts';
import { durationText } from '../../duration-text.ts';
import type { Options } from '../../options.ts';
import {
  byNamespace,
  countsOf,
  type OwnedObjects,
  type OwnerState,
  toDeploymentState,
  toLoneSetState,
} from '../../owner-state.ts';

/** An object of a list. What does not apply to its kind, or is not so, is left out. */
export interface Listed {
  readonly namespace: string;
  readonly name: string;
  readonly phase?: string;
  readonly deployment?: string;
  readonly node?: string;
  /** Of machines: wanted, existing, with older templates, available. */
  readonly desired?: number;
  readonly machines?: number;
  readonly old?: number;
  readonly available?: number;
  /** What has to happen next that it cannot do itself; left out at rest. */
  readonly waitsFor?: string;
  /** Since when a machine is in its phase, and an owner waits without progress, RFC 3339. */
  readonly since?: string;
  readonly providerID?: string;
  /** RFC 3339. */
  readonly created: string;
}

/** The objects of a kind, by namespace and name. */
export function objectsOf(kind: WorkflowKind, { deployments = [], sets, machines }: OwnedObjects): KubeObject[] {
  const objects: readonly KubeObject[] = { Machine: machines, MachineSet: sets, MachineDeployment: deployments }[kind];
  const keyOf = ({ metadata: { namespace, name } }: KubeObject) => `${namespace}/${name}`;
  return objects.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

/** What is listed of objects of a kind. @param owned all objects of their namespaces */
export function toListed(kind: WorkflowKind, owned: OwnedObjects, objects = objectsOf(kind, owned)): Listed[] {
  const inNamespace = byNamespace(owned);
  const sets = new Map(owned.sets.map((set) => [set.metadata.uid, set]));
  return objects.map((object) => {
    const others = inNamespace(object.metadata.namespace);
    if (kind === 'MachineSet') return toSet(object, others);
    if (kind === 'MachineDeployment') return toOwner(object, toDeploymentState(object, others), others);
    return listedMachine(
      object,
      deploymentOf(dialect, object, (uid) => sets.get(uid)),
    );
  });
}

/** A Machine with its phase, its deployment and what it waits for. */
export function listedMachine(machine: KubeObject, deployment?: string): Listed & { readonly phase: string } {
  const { machines } = dialect.owner;
  const snapshot = dialect.machine.toSnapshot(machine, noLimits);
  const { stage, stageSince, nodeName, deletingSince, providerID, nodeProblem } = snapshot;
  const isAtRest = (stage === 'running' || stage === 'available') && deletingSince === undefined;
  const operation = machines.operationOf(machine);
  const phase = machines.phaseOf(machine) || 'new';
  const waitsFor = isAtRest ? nodeProblem : (operation.waitsFor ?? (operation.text || 'its first step'));
  return {
    ...namesOf(machine),
    phase,
    ...(deployment !== undefined && { deployment }),
    ...(nodeName !== undefined && { node: nodeName }),
    ...(waitsFor !== undefined && { waitsFor }),
    since: stageSince ?? machine.metadata.creationTimestamp,
    ...(providerID !== undefined && { providerID }),
    created: machine.metadata.creationTimestamp,
  };
}

function namesOf({ metadata: { namespace = '', name } }: KubeObject) {
  return { namespace, name };
}

function toSet(set: OwnerSet, owned: OwnedObjects): Listed {
  const deployment = owned.deployments?.find(({ metadata }) => metadata.uid === controllerOf(set));
  if (deployment === undefined)
    return toOwner(set, toLoneSetState(set, owned), owned, failureOfSet(dialect, set)?.message);
  const { sets } = toDeploymentState(deployment, owned).view;
  const own = sets.find(({ name }) => name === set.metadata.name);
  return {
    ...namesOf(set),
    deployment: deployment.metadata.name,
    desired: set.spec?.replicas ?? 0,
    machines: own?.total ?? 0,
    available: own?.available ?? 0,
    created: set.metadata.creationTimestamp,
  };
}

/** @param refusal what the API server refuses */
function toOwner(
  owner: OwnerDeployment | OwnerSet,
  state: OwnerState,
  owned: OwnedObjects,
  refusal: string | undefined = state.blockedBy?.problem,
): Listed {
  const { total, older, available } = countsOf(state);
  const { metadata } = owner;
  const { waitsFor: wait, view } = state;
  const waitsFor = view.problem ?? ([refusal, wait].filter(Boolean).join('; ') || undefined);
  return {
    ...namesOf(owner),
    ...{ desired: state.view.replicas, machines: total, old: older, available },
    ...(waitsFor !== undefined && { waitsFor, since: waitingSince(owner, state, owned) }),
    created: metadata.creationTimestamp,
  };
}

/**
 * The last progress of an owner; or what it waits for, if that began later: its freeze, or the oldest state of a
 * machine.
 */
function waitingSince(
  owner: OwnerDeployment | OwnerSet,
  { blockedBy }: OwnerState,
  { machines }: OwnedObjects,
): string {
  const { creationTimestamp } = owner.metadata;
  const { conditions = [] } = (owner as Pick<OwnerDeployment, 'status'>).status ?? {};
  const find = (wanted: string) => conditions.find(({ type }) => type === wanted);
  const blocking = new Set(blockedBy?.machines.map(({ name }) => name));
  const states = machines
    .filter(({ metadata }) => blocking.has(metadata.name))
    .map((machine) => dialect.machine.toSnapshot(machine, noLimits).stageSince ?? machine.metadata.creationTimestamp);
  const starts = [
    find('Progressing')?.lastUpdateTime ?? creationTimestamp,
    find('Frozen')?.lastTransitionTime ?? creationTimestamp,
    ...states.toSorted((a, b) => Date.parse(a) - Date.parse(b)).slice(0, 1),
  ];
  return starts.toSorted((a, b) => Date.parse(a) - Date.parse(b)).at(-1) ?? creationTimestamp;
}

/**
 * Objects in the order of a field as kubectl has it, except for quantities, which are text here; those without it
 * first. undefined: none of them has it.
 * @param path such as `.metadata.creationTimestamp`, also in braces or without the first dot; a dot in a name is `\\.`
 */
export function sortedBy<T extends KubeObject>(objects: readonly T[], path: string): T[] | undefined {
  const names = path.replace(/^\{?\.?|\}$/g, '').split(/(?<!\\)\./);
  const valueOf = (object: T) =>
    names.reduce<unknown>((value, name) => Object(value)[name.replaceAll('\\.', '.')], object);
  const keyed = objects.map((object) => ({ object, value: valueOf(object) }));
  if (keyed.length > 0 && keyed.every(({ value }) => value === undefined)) return undefined;
  const textOf = (value: unknown) => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  const compare = (a: unknown, b: unknown) =>
    typeof a === 'number' && typeof b === 'number' ? a - b : compareNaturally(textOf(a), textOf(b));
  return keyed.toSorted((a, b) => compare(a.value, b.value)).map(({ object }) => object);
}

/** By characters, and runs of digits by their number: `a-9` comes before `a-10`. */
function compareNaturally(a: string, b: string): number {
  const partsOf = (text: string): readonly string[] => text.match(/\d+|\D/g) ?? [];
  const [left, right] = [partsOf(a), partsOf(b)];
  const at = left.findIndex((part, i) => part !== right[i]);
  const [x, y] = [left[at], right[at]];
  if (x === undefined || y === undefined) return left.length - right.length;
  const areNumbers = /\d/.test(x) && /\d/.test(y);
  if (areNumbers) return Number(BigInt(x) - BigInt(y)) || x.length - y.length;
  return x < y ? -1 : 1;
}

interface Column {
  readonly head: string;
  /** Left out: of all kinds. */
  readonly of?: readonly WorkflowKind[];
  readonly cell: (listed: Listed, nowMs: number) => string | undefined;
  /** Only a wide table has it. */
  readonly isWide?: true;
}

const ageText = (since: string | undefined, nowMs: number) =>
  since === undefined ? undefined : durationText(nowMs - Date.parse(since));

const owners: readonly WorkflowKind[] = ['MachineSet', 'MachineDeployment'];

const tableColumns: readonly Column[] = [
  { head: 'NAMESPACE', cell: ({ namespace }) => namespace },
  { head: 'NAME', cell: ({ name }) => name },
  { head: 'PHASE', of: ['Machine'], cell: ({ phase }) => phase },
  { head: 'DEPLOYMENT', of: ['Machine', 'MachineSet'], cell: ({ deployment }) => deployment },
  { head: 'NODE', of: ['Machine'], cell: ({ node }) => node },
  { head: 'DESIRED', of: owners, cell: ({ desired }) => desired?.toString() },
  { head: 'MACHINES', of: owners, cell: ({ machines }) => machines?.toString() },
  { head: 'OLD', of: owners, cell: ({ old }) => old?.toString() },
  { head: 'AVAILABLE', of: owners, cell: ({ available }) => available?.toString() },
  { head: 'AGE', cell: ({ created }, nowMs) => ageText(created, nowMs), isWide: true },
  { head: 'PROVIDER ID', of: ['Machine'], cell: ({ providerID }) => providerID, isWide: true },
  { head: 'FOR', cell: ({ since }, nowMs) => ageText(since, nowMs) },
  { head: 'WAITS FOR', cell: ({ waitsFor }) => waitsFor },
];

/** How a table is printed. */
export interface TableStyle {
  readonly isWide: boolean;
  readonly hasNamespaces: boolean;
}

function isShown({ head, isWide }: Column, style: TableStyle): boolean {
  return (style.isWide || !isWide) && (style.hasNamespaces || head !== 'NAMESPACE');
}

/** What is printed in place of a table without rows. */
export function noneText(
  kind: WorkflowKind,
  { allNamespaces, namespace, selector }: Options<'allNamespaces' | 'namespace' | 'selector'>,
): string {
  const where = allNamespaces ? 'any namespace' : `namespace ${namespace}`;
  return `no ${kind} in ${where}${selector === undefined ? '' : ` matches --selector '${selector}'`}`;
}

/** A table of the columns that one of them has a value for. @param nowMs ms since the epoch */
export function listText(listed: readonly Listed[], nowMs: number, style: TableStyle): string {
  const shown = tableColumns.filter(
    (column) => isShown(column, style) && listed.some((each) => column.cell(each, nowMs) !== undefined),
  );
  const rows = listed.map((each) => shown.map(({ cell }) => cell(each, nowMs) ?? ''));
  return columns([shown.map(({ head }) => head), ...rows]).join('\n');
}

/** Prints further rows of a table at each call: with all columns of a kind, and the header once. */
export function growingTable(kind: WorkflowKind, style: TableStyle) {
  const shown = tableColumns.filter((column) => isShown(column, style) && (column.of ?? [kind]).includes(kind));
  const widths: number[] = [];
  let header = [shown.map(({ head }) => head)];
  return (listed: readonly Listed[], nowMs: number): string => {
    const rows = listed.map((each) => shown.map(({ cell }) => cell(each, nowMs) ?? ''));
    const lines = columns([...header, ...rows], widths);
    header = [];
    return lines.join('\n');
  };
}

/** Those that are new or differ, and those that are gone. */
export function changesOf(before: readonly Listed[], now: readonly Listed[]): { changed: Listed[]; gone: Listed[] } {
  const keyOf = ({ namespace, name }: Listed) => `${namespace}/${name}`;
  const known = new Map(before.map((each) => [keyOf(each), JSON.stringify(each)]));
  const keys = new Set(now.map(keyOf));
  return {
    changed: now.filter((each) => known.get(keyOf(each)) !== JSON.stringify(each)),
    gone: before.filter((each) => !keys.has(keyOf(each))),
  };
}
