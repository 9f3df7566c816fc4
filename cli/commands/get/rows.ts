/** Machines, sets and deployments with what they wait for. Pure. */

import type { KubeObject } from '../../../api/objects.ts';
import { failureOfSet } from '../../../api/owner/failure.ts';
import type { OwnerDeployment, OwnerSet } from '../../../api/owner/objects.ts';
import { controllerOf, deploymentOf } from '../../../api/owner/ownership.ts';
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import { columns } from '../../columns.ts';
import { dialect, noLimits } from '../../dialect.ts';
import { durationText } from '../../duration-text.ts';
import { countsOf, type OwnedObjects, type OwnerState, toDeploymentState, toLoneSetState } from '../../owner-state.ts';

/** An object of a list. What does not apply to its kind, or is not so, is left out. */
export interface Listed {
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

/** All objects of a kind, by name. */
export function toListed(kind: WorkflowKind, owned: OwnedObjects): Listed[] {
  const sets = new Map(owned.sets.map((set) => [set.metadata.uid, set]));
  const listed = {
    Machine: () =>
      owned.machines.map((each) =>
        listedMachine(
          each,
          deploymentOf(dialect, each, (uid) => sets.get(uid)),
        ),
      ),
    MachineSet: () => owned.sets.map((set) => toSet(set, owned)),
    MachineDeployment: () =>
      (owned.deployments ?? []).map((each) => toOwner(each, toDeploymentState(each, owned), owned)),
  }[kind]();
  return listed.toSorted((a, b) => (a.name < b.name ? -1 : 1));
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
    name: machine.metadata.name,
    phase,
    ...(deployment !== undefined && { deployment }),
    ...(nodeName !== undefined && { node: nodeName }),
    ...(waitsFor !== undefined && { waitsFor }),
    since: stageSince ?? machine.metadata.creationTimestamp,
    ...(providerID !== undefined && { providerID }),
    created: machine.metadata.creationTimestamp,
  };
}

function toSet(set: OwnerSet, owned: OwnedObjects): Listed {
  const deployment = owned.deployments?.find(({ metadata }) => metadata.uid === controllerOf(set));
  if (deployment === undefined)
    return toOwner(set, toLoneSetState(set, owned), owned, failureOfSet(dialect, set)?.message);
  const { sets } = toDeploymentState(deployment, owned).view;
  const own = sets.find(({ name }) => name === set.metadata.name);
  return {
    name: set.metadata.name,
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
    name: metadata.name,
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

interface Column {
  readonly head: string;
  readonly cell: (listed: Listed, nowMs: number) => string | undefined;
  /** Only a wide table has it. */
  readonly isWide?: true;
}

const ageText = (since: string | undefined, nowMs: number) =>
  since === undefined ? undefined : durationText(nowMs - Date.parse(since));

const tableColumns: readonly Column[] = [
  { head: 'NAME', cell: ({ name }) => name },
  { head: 'PHASE', cell: ({ phase }) => phase },
  { head: 'DEPLOYMENT', cell: ({ deployment }) => deployment },
  { head: 'NODE', cell: ({ node }) => node },
  { head: 'DESIRED', cell: ({ desired }) => desired?.toString() },
  { head: 'MACHINES', cell: ({ machines }) => machines?.toString() },
  { head: 'OLD', cell: ({ old }) => old?.toString() },
  { head: 'AVAILABLE', cell: ({ available }) => available?.toString() },
  { head: 'AGE', cell: ({ created }, nowMs) => ageText(created, nowMs), isWide: true },
  { head: 'PROVIDER ID', cell: ({ providerID }) => providerID, isWide: true },
  { head: 'FOR', cell: ({ since }, nowMs) => ageText(since, nowMs) },
  { head: 'WAITS FOR', cell: ({ waitsFor }) => waitsFor },
];

/** A table of the columns that one of them has a value for. @param nowMs ms since the epoch */
export function listText(listed: readonly Listed[], nowMs: number, isWide = false): string {
  const shown = tableColumns.filter(
    (column) => (isWide || !column.isWide) && listed.some((each) => column.cell(each, nowMs) !== undefined),
  );
  const rows = listed.map((each) => shown.map(({ cell }) => cell(each, nowMs) ?? ''));
  return columns([shown.map(({ head }) => head), ...rows]).join('\n');
}

/** Those that are new or differ, and the names of those that are gone. */
export function changesOf(before: readonly Listed[], now: readonly Listed[]): { changed: Listed[]; gone: string[] } {
  const known = new Map(before.map((each) => [each.name, JSON.stringify(each)]));
  const names = new Set(now.map(({ name }) => name));
  return {
    changed: now.filter((each) => known.get(each.name) !== JSON.stringify(each)),
    gone: before.map(({ name }) => name).filter((name) => !names.has(name)),
  };
}
