/** What a Node means for the Machine that it belongs to. */
import type { Marks } from './dialect.ts';
import type { ConditionStatuses } from './model/machine.ts';
import type { NodeSnapshot, NodeView } from './model/node.ts';
import { vmOf } from './provider-id.ts';

/** The parts of a Node that are read here. */
export interface NodeLike {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: { readonly providerID?: string; readonly taints?: readonly { readonly key: string }[] };
  readonly status?: { readonly conditions?: readonly { type: string; status: string }[] };
}

/** What decisions need of the Node of the Machine with this name. */
export function toNodeSnapshot(marks: Marks, node: NodeLike, machineName: string): NodeSnapshot {
  const { metadata, spec, status } = node;
  const { nodeFinalizer, nodeMachineLabel, startupTaints } = marks;
  return {
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    name: metadata.name,
    deleting: metadata.deletionTimestamp !== undefined,
    managed:
      metadata.finalizers?.includes(nodeFinalizer) === true && metadata.labels?.[nodeMachineLabel] === machineName,
    conditions: toStatuses(status?.conditions),
    startingUp: spec?.taints?.some(({ key }) => startupTaints.includes(key)) === true,
  };
}

/**
 * The Node of a Machine as it was read. A Node that another VM has registered under the name is not its Node: the
 * provider IDs differ.
 */
export function toNodeView(
  marks: Marks,
  node: NodeLike | undefined,
  machineName: string,
  providerID: string | undefined,
): NodeView {
  if (node === undefined || isOfAnother(node, providerID)) return { state: 'absent' };
  return { state: 'present', ...toNodeSnapshot(marks, node, machineName) };
}

/** Whether a Node says that it is the Node of another VM than the one with this provider ID. */
export function isOfAnother({ spec }: NodeLike, providerID: string | undefined): boolean {
  return spec?.providerID !== undefined && providerID !== undefined && vmOf(spec.providerID) !== vmOf(providerID);
}

/** Condition types with their statuses, without times and texts. */
export function toStatuses(conditions: readonly { type: string; status: string }[] | undefined): ConditionStatuses {
  return Object.fromEntries((conditions ?? []).map(({ type, status }) => [type, status]));
}
