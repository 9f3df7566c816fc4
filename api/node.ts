/** What a Node means for the Machine that it belongs to. */
import type { Dialect, Marks } from './dialect.ts';
import type { MachineLimits, MachineSnapshot } from './model/machine.ts';
import type { ConditionStatuses, NodeFacts, NodeSnapshot, NodeView } from './model/node.ts';
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
  readonly lastTransitionTime?: string;
}

/** What decisions need of the Node of this Machine. */
export function toNodeSnapshot(marks: Marks, node: NodeLike, machine: MachineName): NodeSnapshot {
  const { metadata, spec, status } = node;
  const { nodeFinalizer, nodeMachineLabel, startupTaints, terminating } = marks;
  const isMarked = metadata.finalizers?.includes(nodeFinalizer) && metadata.labels?.[nodeMachineLabel] === machine.name;
  const interruption = interruptionOf(node);
  const conditions = toStatuses(status?.conditions);
  return {
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    name: metadata.name,
    deleting: metadata.deletionTimestamp !== undefined,
    ...(wasDeletedUnready(node) && { deletedUnready: true }),
    managed: isMarked === true && machineNamedBy(nodeMachineLabel, node, machine) === nameOf(machine),
    conditions,
    ...(conditions[terminating.type] === 'True' && { isTerminating: true }),
    ...(spec?.providerID && { providerID: spec.providerID }),
    startingUp: spec?.taints?.some(({ key }) => startupTaints.includes(key)) === true,
    ...(interruption !== undefined && { interruption }),
  };
}

/** A Node that became ready this long after its creation at most counts as new: it was not ready before, ms. */
const newMs = 20 * 60_000;
/**
 * How old the list may be by which a cloud controller manager deletes Nodes that are not ready, ms: it asks its cloud
 * about one after the other. https://github.com/kubernetes/cloud-provider/blob/master/controllers/nodelifecycle
 */
const oldestListMs = 5 * 60_000;
/** Whether a Node that is being deleted was not ready then, by its own times, or was ready again for a moment only. */
function wasDeletedUnready({ metadata, status }: NodeLike): boolean {
  if (metadata.deletionTimestamp === undefined) return false;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready?.status !== 'True') return true;
  const readyMs = Date.parse(ready.lastTransitionTime ?? '');
  const isNew = readyMs <= Date.parse(metadata.creationTimestamp ?? '') + newMs;
  return readyMs > Date.parse(metadata.deletionTimestamp) - (isNew ? 0 : oldestListMs);
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

/** What was found where a Machine says that its Node is. */
export interface FoundNode<T extends NodeLike> {
  /** The Node, if it is that of the Machine. */
  readonly node: T | undefined;
  /** Why the Node of its name is not that of the Machine, for people. */
  readonly notOwn?: string;
  /** Of the Node. Left out: it was just marked as that of the Machine. */
  readonly facts?: NodeFacts;
  /** Why nothing may be written to the Node, for people. Left out: it may be written to. */
  readonly objection?: string;
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
): Pick<FoundNode<T>, 'node' | 'notOwn'> {
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

/** The same, and whether the Node may be written to. */
export function examineNode<T extends NodeLike>(
  marks: Pick<Marks, 'nodeMachineLabel'>,
  seen: T | undefined,
  machine: NodeOwner,
  limits: Pick<MachineLimits, 'controlPlaneNodes' | 'clockSkewSeconds'>,
  rival: Pick<MachineSnapshot, 'providerID'> | undefined,
): FoundNode<T> {
  const found = judgeNode(marks, seen, machine, rival);
  const { node } = found;
  if (node === undefined) return found;
  const facts = factsOf(marks, node, machine, limits);
  const { objection } = standingOf({ name: node.metadata.name, ...node.spec, ...facts }, machine);
  return { node, facts, ...(objection !== undefined && { objection }) };
}

/** Labels of Nodes of the control plane. https://kubernetes.io/docs/reference/labels-annotations-taints */
const controlPlaneLabels = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];

/** What a Node that counts as that of a Machine says of itself. */
function factsOf(
  { nodeMachineLabel }: Pick<Marks, 'nodeMachineLabel'>,
  node: NodeLike,
  machine: NodeOwner,
  { controlPlaneNodes, clockSkewSeconds = 0 }: Pick<MachineLimits, 'controlPlaneNodes' | 'clockSkewSeconds'>,
): NodeFacts {
  const { labels, creationTimestamp = '' } = node.metadata;
  const isNamed = machineNamedBy(nodeMachineLabel, node, machine) === nameOf(machine);
  const isOlder = Date.parse(creationTimestamp) < Date.parse(machine.createdAt ?? '') - clockSkewSeconds * 1_000;
  const label = controlPlaneLabels.find((each) => labels?.[each] !== undefined);
  return {
    ...(!isNamed && { isUnnamed: true }),
    ...(isOlder && { isOlder: true }),
    ...(label !== undefined && !controlPlaneNodes && { controlPlaneLabel: label }),
  };
}

/** Whether a Machine may write to a Node that counts as its own. */
export interface NodeStanding {
  /** It is the Machine's for certain: it names the Machine, or the cloud has named it. */
  readonly isOwn: boolean;
  /** Why nothing may be written to it, for people. Left out: it may be written to. */
  readonly objection?: string;
}

/**
 * The standing of a Node, from facts alone. One that is older than the Machine and does not name it may be anybody's:
 * whoever makes a Machine chooses its name, and provider IDs are compared without their scopes.
 */
export function standingOf(
  node: Pick<NodeSnapshot, 'name' | 'providerID'> & NodeFacts,
  machine: Pick<NodeClaim, 'namedByCloud'>,
): NodeStanding {
  const { name, isUnnamed, isOlder, controlPlaneLabel } = node;
  const isOwn = isUnnamed !== true || isNamedByCloud(node, machine);
  const against = (why: string) => ({ isOwn, objection: `node ${name} ${why}` });
  if (controlPlaneLabel !== undefined)
    return against(
      `has the label ${controlPlaneLabel}: if Millwright shall manage Nodes of the control plane, start it with --control-plane-nodes=true`,
    );
  if (isUnnamed && isOlder) return against('is older than the Machine and does not name it');
  if (!isOwn) return against('does not name the Machine, and the cloud has not said that it runs on its VM');
  return { isOwn };
}

/** Whether the cloud has named a Node: by its provider ID, or where one of the two has none by its name. */
function isNamedByCloud(
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

/** The Node of a Machine, if there is one that may be written to. */
export function writableNode<T extends NodeLike>({ node, objection }: FoundNode<T>): T | undefined {
  return objection === undefined ? node : undefined;
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
  const { node, notOwn, facts } = found;
  if (node !== undefined) return { state: 'present', ...toNodeSnapshot(marks, node, machine), ...facts };
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
  if (found.node === undefined || view.state !== 'present' || view.deleting) return view;
  return toNodePatch(machine, found.node, source) === undefined ? view : { ...view, outdated: true };
}

/** Condition types with their statuses, without times and texts. */
export function toStatuses(conditions: readonly { type: string; status: string }[] | undefined): ConditionStatuses {
  return Object.fromEntries((conditions ?? []).map(({ type, status }) => [type, status]));
}
