/** What `millwright uninstall` removes from objects, and what it leaves to people. Pure. */
import type { Dialect } from '../../../api/dialect.ts';
import { cordoners, names } from '../../../api/names.ts';
import { judgeNode } from '../../../api/node.ts';
import type { KubeObject } from '../../../api/objects.ts';
import type { Node } from '../../../kube/core.ts';
import { noLimits } from '../../dialect.ts';

/** Names of our own that users write: they are part of their manifests, and stay. */
const ofUsers: readonly string[] = [
  names.enforceMinReadySeconds,
  names.rollbackWhenLate,
  names.replacementPolicy,
  names.restartedAt,
  names.maxSurge,
  names.maxProvisioning,
  names.skipDrain,
  names.retry,
];

const ownNames = Object.values(names).filter((name) => !ofUsers.includes(name));

/** A merge patch. */
interface Change {
  readonly metadata?: {
    readonly annotations?: Readonly<Record<string, string | null>>;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: { readonly taints?: readonly object[]; readonly unschedulable?: null };
}

/** Removes our annotations from an object, and this finalizer. undefined: it has none of them. */
export function withoutMarks({ metadata }: KubeObject, finalizer?: string): Change | undefined {
  const { annotations = {}, finalizers = [] } = metadata;
  const own = ownNames.filter((name) => annotations[name] !== undefined);
  const others = finalizers.filter((each) => each !== finalizer);
  const isHeld = others.length < finalizers.length;
  if (own.length === 0 && !isHeld) return undefined;
  const removed = Object.fromEntries(own.map((name) => [name, null]));
  return { metadata: { ...(own.length > 0 && { annotations: removed }), ...(isHeld && { finalizers: others }) } };
}

/** The same of a Node that nobody manages any more: also its taints, and its cordon for a preservation. */
export function unmanagedNode({ marks, owner }: Dialect, node: Node): Change | undefined {
  const over = { isRolling: false, isComplete: true, isOld: false, isPreserved: false, isKeptFromAutoscaler: false };
  const rollout = owner.toRolloutPatch?.(node, over);
  const taints = rollout?.spec?.taints ?? node.spec?.taints ?? [];
  const kept = taints.filter(({ key }) => key !== names.vmInterrupted);
  const isTainted = kept.length < (node.spec?.taints?.length ?? 0);
  const isCordoned = node.metadata.annotations?.[names.cordonedBy] === cordoners.preservation;
  const own = withoutMarks(node, marks.nodeFinalizer)?.metadata;
  const annotations = { ...rollout?.metadata?.annotations, ...own?.annotations };
  const metadata = { ...own, ...(Object.keys(annotations).length > 0 && { annotations }) };
  if (Object.keys(metadata).length === 0 && !isTainted && !isCordoned) return undefined;
  const spec = { ...(isTainted && { taints: kept }), ...(isCordoned && { unschedulable: null }) };
  return { metadata, ...((isTainted || isCordoned) && { spec }) };
}

/** What is read of an installation. */
export interface Found {
  readonly namespace: string;
  readonly machines: readonly KubeObject[];
  readonly sources: readonly KubeObject[];
  /** All of the cluster. */
  readonly nodes: readonly Node[];
}

/** What `Found` means for people, and for the Nodes. */
export interface Survey {
  /** Those of the Machines of the namespace, also of Machines that are gone. */
  readonly ownNodes: readonly Node[];
  /** VMs and Nodes that a person has to look at, as nothing will say of them afterwards what they are: a line each. */
  readonly attention: readonly string[];
}

export function surveyOf(dialect: Dialect, found: Found): Survey {
  const sorted = sortNodes(dialect, found);
  const ofMachines = found.machines.flatMap((machine) => {
    const { name, uid } = machine.metadata;
    const { deletingSince, providerID, nodeName, managed } = dialect.machine.toSnapshot(machine, noLimits);
    const vm = providerID === undefined ? `a VM with the tag ${names.machineUid}=${uid}` : `its VM ${providerID}`;
    const node = nodeName === undefined ? '' : `, and its Node ${nodeName} may be cordoned and drained`;
    if (deletingSince !== undefined) return [`Machine ${name} is being deleted: ${vm} may exist${node}`];
    return managed && providerID === undefined ? [`Machine ${name} names no VM: ${vm} may exist`] : [];
  });
  const ofSources = found.sources
    .filter(({ metadata }) => metadata.annotations?.[names.lostMachine] !== undefined)
    .map(
      ({ metadata }) => `class ${metadata.name} has lost a Machine whose VM may exist: look for its tags in the cloud`,
    );
  const ofNodes = sorted.left.map(({ node, machine }) => {
    const { providerID = 'of its name' } = node.spec ?? {};
    return `Node ${node.metadata.name} is that of Machine ${machine}, which does not exist: the VM ${providerID} may exist`;
  });
  const ofOthers = sorted.unclear.map(
    ({ metadata: { name } }) =>
      `Node ${name} keeps the finalizer ${dialect.marks.nodeFinalizer}: no Machine here has it`,
  );
  return {
    ownNodes: [...sorted.own, ...sorted.left.map(({ node }) => node)],
    attention: [...ofMachines, ...ofSources, ...ofNodes, ...ofOthers],
  };
}

/** The Nodes with our marks. Those that name a Machine of another namespace are left out. */
function sortNodes({ marks, machine: of }: Dialect, { namespace, machines, nodes }: Found) {
  const known = new Set(machines.map(({ metadata }) => `${namespace}/${metadata.name}`));
  const seekers = machines.map((each) => ({ ...of.toSnapshot(each, noLimits), namespace, name: each.metadata.name }));
  const byNode = Map.groupBy(seekers, ({ nodeName }) => nodeName);
  const sorted = { own: [] as Node[], left: [] as { node: Node; machine: string }[], unclear: [] as Node[] };
  for (const node of nodes) {
    const { name, annotations, finalizers } = node.metadata;
    const named = annotations?.[names.machine];
    const isHeld = finalizers?.includes(marks.nodeFinalizer) === true;
    if (named !== undefined) {
      if (known.has(named)) sorted.own.push(node);
      else if (named.startsWith(`${namespace}/`))
        sorted.left.push({ node, machine: named.slice(namespace.length + 1) });
    } else if (byNode.get(name)?.some((seeker) => judgeNode(marks, node, seeker).node !== undefined)) {
      sorted.own.push(node);
    } else if (isHeld) sorted.unclear.push(node);
  }
  return sorted;
}
