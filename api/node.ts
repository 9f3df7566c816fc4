/** What a Node means for the Machine that it belongs to. */
import type { Dialect, Marks } from './dialect.ts';
import type { MachineLimits, MachineSnapshot } from './model/machine.ts';
import type { ConditionStatuses, NodeObjections, NodeSnapshot, NodeView } from './model/node.ts';
import type { ObjectRef } from './model/ref.ts';
import { names } from './names.ts';
import type { TemplatedNode } from './node-template.ts';
import type { KubeObject } from './objects.ts';
import type { Vm } from './provider.ts';
import { vmOf } from './provider-id.ts';

/** The parts of a Node that are read here. */
export interface NodeLike {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
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

/** What decisions need of the Node of this Machine. */
export function toNodeSnapshot(marks: Marks, node: NodeLike, machine: MachineName): NodeSnapshot {
  const { metadata, spec, status } = node;
  const { nodeFinalizer, nodeMachineLabel, startupTaints } = marks;
  const isMarked = metadata.finalizers?.includes(nodeFinalizer) && metadata.labels?.[nodeMachineLabel] === machine.name;
  const interruption = interruptionOf(node);
  return {
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    name: metadata.name,
    deleting: metadata.deletionTimestamp !== undefined,
    managed: isMarked === true && machineNamedBy(nodeMachineLabel, node, machine) === nameOf(machine),
    conditions: toStatuses(status?.conditions),
    ...(spec?.providerID && { providerID: spec.providerID }),
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
 * Conditions with which the node problem detector of AKS says the same, in messages such as `Preempt Scheduled:
 * <time>`. They also announce what a VM survives. https://learn.microsoft.com/azure/aks/node-problem-detector and
 * node-auto-drain, https://github.com/Azure/karpenter-provider-azure/tree/main/pkg/controllers/interruption
 */
const interruptionConditions: readonly string[] = ['VMEventScheduled', 'PreemptionScheduled'];
const interruptionMessage = /^(Preempt|Terminate) (?:Scheduled|Started)\b/;

/**
 * What on a Node says that its VM is about to be taken away; undefined: nothing. Times in a message do not change it.
 */
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

/** What a Machine says of its Node. */
export interface NodeClaim
  extends Pick<MachineSnapshot, 'providerID' | 'nodeNotBefore'>,
    Partial<Pick<MachineSnapshot, 'createdAt'>> {
  /**
   * A VM that was made for the Machine, and its Node, as the cloud has named them. The Machine need not name that VM.
   * Without a provider ID the cloud has named only the Node. Left out: it has named nothing.
   */
  readonly namedByCloud?: Partial<Pick<Vm, 'providerID' | 'nodeName'>>;
}

type MachineName = Pick<ObjectRef, 'namespace' | 'name'>;

/** What distinguishes the Node of a Machine from those of others. */
export type NodeOwner = MachineName & NodeClaim;

/**
 * The Node of a Machine. Where there is another one under its name, `notOwn` says for people why that is not its Node.
 */
export interface FoundNode<T extends NodeLike> extends NodeObjections {
  readonly node: T | undefined;
  readonly notOwn?: string;
}

/**
 * A Node of the name that a Machine stores, if it is that of the Machine. Provider IDs decide where both have one. Else
 * it is that of the Machine which it names, if it is not older than that.
 * @param rival the Machine of `rivalFor`, if it exists
 */
export function judgeNode<T extends NodeLike>(
  { nodeMachineLabel }: Pick<Marks, 'nodeMachineLabel'>,
  node: T | undefined,
  machine: NodeOwner,
  rival?: Pick<MachineSnapshot, 'providerID'>,
): FoundNode<T> {
  if (node === undefined) return { node };
  const { providerID, nodeNotBefore = '' } = machine;
  const { name, creationTimestamp = '' } = node.metadata;
  const isFromCloud = isNamedByCloud({ name, ...node.spec }, machine);
  const notOwn = (why: string) => ({ node: undefined, notOwn: `node ${name} ${why}` });
  const found = node.spec?.providerID;
  const named = machineNamedBy(nodeMachineLabel, node, machine);
  const isOfOther = named !== undefined && named !== nameOf(machine);
  if (found !== undefined && providerID !== undefined) {
    if (vmOf(found) !== vmOf(providerID))
      return notOwn(`is that of another VM, ${found}: the Machine names ${providerID}`);
    const hasRival = isOfOther && rival?.providerID !== undefined && vmOf(rival.providerID) === vmOf(providerID);
    return hasRival ? notOwn(`is that of Machine ${named}, which names the same VM`) : { node };
  }
  if (isOfOther) return notOwn(`is that of Machine ${named}`);
  if (Date.parse(creationTimestamp) < Date.parse(nodeNotBefore)) return notOwn('is older than the Machine');
  const isUnknown = found !== undefined && named === undefined && !isFromCloud;
  return isUnknown ? notOwn(`is that of a VM that the Machine does not name, ${found}`) : { node };
}

/** Labels of Nodes of the control plane. https://kubernetes.io/docs/reference/labels-annotations-taints */
const controlPlaneLabels = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];

/**
 * The objections to writing to a Node that counts as the Machine's. One that is older than the Machine and does not name
 * it may be anybody's: whoever makes a Machine chooses its name, and provider IDs are compared without their scopes.
 */
export function objectionsTo(
  { nodeMachineLabel }: Pick<Marks, 'nodeMachineLabel'>,
  node: NodeLike,
  machine: NodeOwner,
  { controlPlaneNodes, clockSkewSeconds = 0 }: MachineLimits,
): NodeObjections {
  const { name, labels, creationTimestamp = '' } = node.metadata;
  const isNamed = machineNamedBy(nodeMachineLabel, node, machine) === nameOf(machine);
  const isOlder = Date.parse(creationTimestamp) < Date.parse(machine.createdAt ?? '') - clockSkewSeconds * 1_000;
  const label = controlPlaneNodes ? undefined : controlPlaneLabels.find((each) => labels?.[each] !== undefined);
  const forbidden =
    label !== undefined
      ? `node ${name} has the label ${label}: if Millwright shall manage Nodes of the control plane, start it with --control-plane-nodes=true`
      : !isNamed && isOlder
        ? `node ${name} is older than the Machine and does not name it`
        : undefined;
  const unconfirmed = `node ${name} does not name the Machine, and the cloud has not said that it runs on its VM`;
  return {
    ...(forbidden !== undefined && { forbidden }),
    ...(!isNamed && !isNamedByCloud({ name, ...node.spec }, machine) && { unconfirmed }),
  };
}

/** Whether the cloud has named a Node: by its provider ID, or where one of the two has none by its name. */
export function isNamedByCloud(
  { name, providerID }: Pick<NodeSnapshot, 'name' | 'providerID'>,
  { namedByCloud: named }: Pick<NodeClaim, 'namedByCloud'>,
): boolean {
  if (providerID === undefined || named?.providerID === undefined) return name === named?.nodeName;
  return vmOf(providerID) === vmOf(named.providerID);
}

/**
 * The claim to a Node that the cloud has named as it deleted a VM. Where the cloud has named that VM, too, its provider
 * ID counts: the Machine may have been edited.
 */
export function claimToLeft(claim: NodeClaim, nodeName: string): NodeClaim {
  const { namedByCloud } = claim;
  if (namedByCloud?.nodeName !== nodeName) return { ...claim, namedByCloud: { nodeName } };
  return { ...claim, ...(namedByCloud.providerID !== undefined && { providerID: namedByCloud.providerID }) };
}

/** Why nothing is written to a Node; undefined: it may be written to. */
export function objectionOf({ forbidden, unconfirmed }: NodeObjections): string | undefined {
  return forbidden ?? unconfirmed;
}

/** The Node of a Machine, if there is one that may be written to. */
export function writableNode<T extends NodeLike>(found: FoundNode<T>): T | undefined {
  return objectionOf(found) === undefined ? found.node : undefined;
}

/**
 * Name of the Machine in its namespace that the Node of a Machine's VM names instead of it: the VM may be named by
 * both.
 */
export function rivalFor(
  { nodeMachineLabel }: Pick<Marks, 'nodeMachineLabel'>,
  node: NodeLike | undefined,
  machine: NodeOwner,
): string | undefined {
  const [namespace, name] = (node && machineNamedBy(nodeMachineLabel, node, machine)?.split('/')) ?? [];
  return namespace === machine.namespace && name !== machine.name ? name : undefined;
}

function nameOf({ namespace, name }: MachineName): string {
  return `${namespace}/${name}`;
}

/**
 * `<namespace>/<name>` of the Machine that a Node names. Where only its label does, that is one of the same namespace.
 */
function machineNamedBy(label: string, { metadata }: NodeLike, { namespace }: MachineName): string | undefined {
  const name = metadata.labels?.[label];
  return metadata.annotations?.[names.machine] ?? (name && nameOf({ namespace, name }));
}

/** The Node of this Machine as it was found. */
export function toNodeView(marks: Marks, found: FoundNode<NodeLike>, machine: MachineName): NodeView {
  const { node, notOwn, ...objections } = found;
  if (node !== undefined) return { state: 'present', ...toNodeSnapshot(marks, node, machine), ...objections };
  return { state: 'absent', ...(notOwn !== undefined && { notOwn }) };
}

/** The same, and whether the Node has what its Machine, and the source object if it is given, want it to have. */
export function toNodeViewOf(
  { marks, machine: { toNodePatch } }: Pick<Dialect, 'marks' | 'machine'>,
  found: FoundNode<NodeLike & TemplatedNode>,
  machine: KubeObject,
  source?: KubeObject,
): NodeView {
  const { namespace = '', name } = machine.metadata;
  const view = toNodeView(marks, found, { namespace, name });
  const isLeft = view.state === 'present' && (view.deleting || view.forbidden !== undefined);
  if (found.node === undefined || view.state !== 'present' || isLeft) return view;
  return toNodePatch(machine, found.node, source) === undefined ? view : { ...view, outdated: true };
}

/** Condition types with their statuses, without times and texts. */
export function toStatuses(conditions: readonly { type: string; status: string }[] | undefined): ConditionStatuses {
  return Object.fromEntries((conditions ?? []).map(({ type, status }) => [type, status]));
}
