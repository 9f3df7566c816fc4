/** What controllers leave on Machines, their owners and Nodes, and how it changes. */
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { KubeObject } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string | undefined;
}

/** Values by what they are, such as `label node`, `taint …` or `condition Ready`, of an object. */
type Marks = Readonly<Record<string, string>>;

/** Marks by kind and name. */
export type Snapshot = ReadonlyMap<string, { readonly kind: string; readonly name: string; readonly marks: Marks }>;

/** A mark that was added, removed or changed. */
export interface MarkChange {
  readonly kind: string;
  readonly name: string;
  readonly mark: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** All objects of a namespace, and all Nodes of the cluster. */
export async function takeSnapshot(client: KubeClient, namespace: string): Promise<Snapshot> {
  const [ofMachines, ofSets, ofDeployments, ofClasses, ofNodes] = await Promise.all([
    client.list(machines, { namespace }),
    client.list(machineSets, { namespace }),
    client.list(machineDeployments, { namespace }),
    client.list(machineClasses, { namespace }),
    client.list(nodes),
  ]);
  const all = [
    ...ofMachines.items.map((each) => ['Machine', each, machineMarks(each)] as const),
    ...ofSets.items.map((each) => ['MachineSet', each, setMarks(each)] as const),
    ...ofDeployments.items.map((each) => ['MachineDeployment', each, deploymentMarks(each)] as const),
    ...ofClasses.items.map((each) => ['MachineClass', each, {}] as const),
    ...ofNodes.items.map((each) => ['Node', each, nodeMarks(each)] as const),
  ];
  return new Map(
    all.map(([kind, object, more]) => {
      const { name } = object.metadata;
      return [`${kind} ${name}`, { kind, name, marks: { ...metadataMarks(object), ...more } }];
    }),
  );
}

/** What has changed, also what is new or gone: its mark `uid` has changed. */
export function changesBetween(before: Snapshot, after: Snapshot): MarkChange[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((key) => {
    const { kind, name, marks: old } = before.get(key) ?? { ...after.get(key)!, marks: {} };
    const { marks = {} } = after.get(key) ?? {};
    return Object.keys({ ...old, ...marks })
      .filter((mark) => old[mark] !== marks[mark])
      .map((mark) => ({ kind, name, mark, before: old[mark], after: marks[mark] }));
  });
}

/** The kinds of marks in a snapshot, such as `Node: label node`, without those that every object has. */
export function kindsOfMarks(snapshot: Snapshot): Set<string> {
  const isKind = (mark: string) => /^(label|annotation|finalizer|taint|condition|cordon)\b/.test(mark);
  return new Set(
    [...snapshot.values()].flatMap(({ kind, marks }) =>
      Object.keys(marks).flatMap((mark) => (isKind(mark) ? `${kind}: ${mark}` : [])),
    ),
  );
}

function metadataMarks({ metadata }: KubeObject): Marks {
  return {
    uid: metadata.uid,
    ...(metadata.deletionTimestamp !== undefined && { deletion: 'asked for' }),
    ...prefixed('label', metadata.labels),
    ...prefixed('annotation', metadata.annotations),
    ...Object.fromEntries((metadata.finalizers ?? []).map((each) => [`finalizer ${each}`, ''])),
  };
}

function machineMarks({ spec, status }: Machine): Marks {
  const { phase = '', preserveExpiryTime } = status?.currentStatus ?? {};
  return {
    spec: JSON.stringify(spec),
    phase,
    ...(preserveExpiryTime !== undefined && { preserveExpiryTime }),
    ...conditionMarks(status?.conditions),
  };
}

/** As text without a 0 of the replicas, which Go leaves out. */
function textOf(spec: { readonly replicas?: number | undefined } = {}): string {
  const { replicas = 0, ...others } = spec;
  return JSON.stringify({ ...others, replicas });
}

function setMarks({ spec, status }: MachineSet): Marks {
  return { spec: textOf(spec), ...conditionMarks(status?.machineSetCondition) };
}

function deploymentMarks({ spec, status }: MachineDeployment): Marks {
  return { spec: textOf(spec), ...conditionMarks(status?.conditions) };
}

function nodeMarks({ spec, status }: Node): Marks {
  const { taints = [], unschedulable } = spec ?? {};
  return {
    providerID: spec?.providerID ?? '',
    ...(unschedulable && { cordon: '' }),
    ...Object.fromEntries(taints.map(({ key, effect, value = '' }) => [`taint ${key}:${effect}`, value])),
    ...conditionMarks(status?.conditions),
  };
}

function conditionMarks(conditions: readonly Condition[] = []): Marks {
  return Object.fromEntries(
    conditions.map(({ type, status, reason = '' }) => [`condition ${type}`, `${status} ${reason}`]),
  );
}

function prefixed(what: string, values: Readonly<Record<string, string>> = {}): Marks {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`${what} ${key}`, value]));
}
