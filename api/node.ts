/** What a Node means for the Machine that it belongs to. */
import type { Dialect, Marks } from './dialect.ts';
import type { ConditionStatuses, NodeSnapshot, NodeView } from './model/node.ts';
import { names } from './names.ts';
import type { TemplatedNode } from './node-template.ts';
import type { KubeObject } from './objects.ts';
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
  readonly spec?: {
    readonly providerID?: string;
    readonly taints?: readonly { readonly key: string; readonly value?: string }[];
  };
  readonly status?: { readonly conditions?: readonly NodeCondition[] };
}

interface NodeCondition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

/** What decisions need of the Node of the Machine with this name. */
export function toNodeSnapshot(marks: Marks, node: NodeLike, machineName: string): NodeSnapshot {
  const { metadata, spec, status } = node;
  const { nodeFinalizer, nodeMachineLabel, startupTaints } = marks;
  const interruption = interruptionOf(node);
  return {
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    name: metadata.name,
    deleting: metadata.deletionTimestamp !== undefined,
    managed:
      metadata.finalizers?.includes(nodeFinalizer) === true && metadata.labels?.[nodeMachineLabel] === machineName,
    conditions: toStatuses(status?.conditions),
    startingUp: spec?.taints?.some(({ key }) => startupTaints.includes(key)) === true,
    ...(interruption !== undefined && { interruption }),
  };
}

/**
 * Taints with which handlers of terminations say that the VM of a Node is about to be taken away. Without
 * `aws-node-termination-handler/rebalance-recommendation`: it says only that this has become more likely.
 */
const interruptionTaints: readonly string[] = [
  names.vmInterrupted, // our own
  // https://github.com/aws/aws-node-termination-handler/blob/main/pkg/node/node.go
  'aws-node-termination-handler/spot-itn',
  'aws-node-termination-handler/scheduled-maintenance',
  'aws-node-termination-handler/asg-lifecycle-termination',
  // https://github.com/GoogleCloudPlatform/k8s-node-termination-handler
  'cloud.google.com/impending-node-termination',
];

/**
 * Conditions with which the node problem detector of AKS says the same, in messages such as `Preempt Scheduled: <time>`.
 * They also announce what a VM survives. https://learn.microsoft.com/azure/aks/node-problem-detector and node-auto-drain,
 * https://github.com/Azure/karpenter-provider-azure/tree/main/pkg/controllers/interruption
 */
const interruptionConditions: readonly string[] = ['VMEventScheduled', 'PreemptionScheduled'];
const interruptionMessage = /^(Preempt|Terminate) (?:Scheduled|Started)\b/;

/** What on a Node says that its VM is about to be taken away; undefined: nothing. Times in a message do not change it. */
function interruptionOf({ spec, status }: NodeLike): string | undefined {
  const taint = spec?.taints?.find(({ key }) => interruptionTaints.includes(key));
  if (taint !== undefined) {
    const reason = taint.key === names.vmInterrupted && taint.value ? ` (${taint.value})` : '';
    return `the taint ${taint.key}${reason}`;
  }
  for (const { type, status: value, message = '' } of status?.conditions ?? []) {
    const event = interruptionMessage.exec(message)?.[1];
    const isMeant = interruptionConditions.includes(type) && value === 'True';
    if (isMeant && event !== undefined) return `the condition ${type} (${event})`;
  }
  return undefined;
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

/** The same, and whether the Node has what its Machine, and the source object if it is given, want it to have. */
export function toNodeViewOf(
  { marks, machine: { toNodePatch } }: Pick<Dialect, 'marks' | 'machine'>,
  node: (NodeLike & TemplatedNode) | undefined,
  machine: KubeObject,
  providerID: string | undefined,
  source?: KubeObject,
): NodeView {
  const view = toNodeView(marks, node, machine.metadata.name, providerID);
  if (node === undefined || view.state !== 'present' || view.deleting) return view;
  return toNodePatch(machine, node, source) === undefined ? view : { ...view, outdated: true };
}

/** Whether a Node says that it is the Node of another VM than the one with this provider ID. */
export function isOfAnother({ spec }: NodeLike, providerID: string | undefined): boolean {
  return spec?.providerID !== undefined && providerID !== undefined && vmOf(spec.providerID) !== vmOf(providerID);
}

/** Condition types with their statuses, without times and texts. */
export function toStatuses(conditions: readonly { type: string; status: string }[] | undefined): ConditionStatuses {
  return Object.fromEntries((conditions ?? []).map(({ type, status }) => [type, status]));
}
