/** What is done with the Node of a Machine. */
import { dialectOf } from '../../api/dialects.ts';
import { maintenanceDue, planMaintenance } from '../../api/maintenance.ts';
import type { MachineObservation, MachineSnapshot } from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import {
  type FoundNode,
  type NodeClaim,
  standingOf,
  toNodeSnapshot,
  toNodeView,
  toNodeViewOf,
  writableNode,
} from '../../api/node.ts';
import type { Change, NodePatch } from '../../api/node-template.ts';
import type { KubeObject } from '../../api/objects.ts';
import { vmOf } from '../../api/provider-id.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { isConflict, isInvalid, isTooManyRequests } from '../../kube/errors.ts';
import { strategicMergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged, orNull, update } from '../../kube/update.ts';
import { localRequest } from '../local-request.ts';
import type { FindOutage } from '../outage.ts';
import { createOwnNodes, type OwnNodeDeps } from '../own-node.ts';

export interface NodeDeps extends OwnNodeDeps {
  readonly findOutage: FindOutage;
}

/** A Machine as it is known, and its Node as the cloud has named it. */
export type ClaimingMachine = MachineSnapshot & Pick<NodeClaim, 'namedByCloud'>;

/** A Node that was marked as ours. */
export interface MarkedNode extends FoundNode<Node> {
  /** What the API server refuses of what its Machine wants it to have. */
  readonly refusals: readonly string[];
}

export function createNodeActivities(deps: NodeDeps) {
  const { target, findOutage } = deps;
  const ownNodes = createOwnNodes(deps);

  return {
    findNode,

    /** A Node, and what its Machine's preservation or in-place update needs. A Node that cannot be read is unknown. */
    async viewNode(
      ref: ObjectRef,
      machine: KubeObject,
      snapshot: MachineSnapshot,
    ): Promise<Pick<MachineObservation, 'node' | 'maintenance'>> {
      const dialect = dialectOf(ref.dialect);
      const withDue = (view: NodeView, node: Node | undefined) => {
        const due = maintenanceDue(planMaintenance(dialect, machine, node, { nowMs: Date.now() }));
        return { node: view, ...(due !== undefined && { maintenance: due }) };
      };
      if (snapshot.limits.hasNoNode) return withDue({ state: 'unknown' }, undefined);
      try {
        const found = await findNode(ref, snapshot);
        return withDue(toNodeViewOf(dialect, found, machine), found.node);
      } catch (error) {
        if (isTooManyRequests(error)) throw error; // it can be read in a moment
        return { node: { state: 'unknown' } };
      }
    },

    /**
     * The Node of a machine, with our finalizer and the back reference unless it is being deleted or left alone.
     * @param seen is not read again where it is still so
     */
    async markNode(ref: ObjectRef, machine: ClaimingMachine, seen: NodeView): Promise<FoundNode<Node>> {
      const node = await markSeenNode(ref, machine, seen);
      return node === undefined ? readAndMarkNode(ref, machine) : { node };
    },

    /**
     * The same, with what its Machine and the source object of that want it to have. What others have put on it stays.
     * All of the metadata is one write: watchers see no state in between. Where the API server refuses it, the taints
     * are written without the rest, and where it refuses these, the marks alone.
     */
    async markAndUpdateNode(
      ref: ObjectRef,
      snapshot: ClaimingMachine,
      machine: KubeObject,
      source: KubeObject | undefined,
    ): Promise<MarkedNode> {
      const { marks, machine: of } = dialectOf(ref.dialect);
      const found = await findNode(ref, snapshot);
      const node = writableNode(found);
      if (node === undefined || node.metadata.deletionTimestamp !== undefined) return { ...found, refusals: [] };
      const key = { name: node.metadata.name, uid: node.metadata.uid };
      const labelOf = ({ metadata }: Node) => metadata.labels?.[marks.nodeMachineLabel];
      const refusals: string[] = [];
      // First the status: an annotation says what was written there.
      const capacity = of.toNodePatch(machine, node, source)?.status;
      const inStatus = { ...localRequest(), subresource: 'status' } as const;
      const writeCapacity = () => update(target, nodes, key, () => ({ status: capacity }), inStatus);
      const isWritten = capacity === undefined || (await unlessRefused(writeCapacity, refusals));
      const write = (toPatch: (live: Node) => NodePatch | undefined) => {
        // Another machine may have marked it meanwhile.
        const change = (live: Node) =>
          labelOf(live) === labelOf(node) ? toMarkedPatch(ref, snapshot, live, toPatch(live)) : undefined;
        return update(target, nodes, key, change, localRequest());
      };
      const whole = (live: Node) => of.toNodePatch(machine, live, isWritten ? source : undefined);
      const taints = (live: Node) => of.toTaintsPatch?.(machine, live);
      const written = (await unlessRefused(() => write(whole), refusals)) ??
        (await unlessRefused(() => write(taints), refusals)) ?? { answer: await write(() => undefined) };
      return { node: written.answer, refusals };
    },

    /**
     * What is out around a machine, for people; null: nothing.
     * @param nowMs on Temporal's clock, ms since the epoch
     */
    async viewOutage(
      ref: ObjectRef,
      machine: MachineSnapshot,
      nowMs: number,
    ): Promise<{ readonly outage: string | null }> {
      const { node } = await findNode(ref, machine);
      return { outage: (await findOutage(ref, machine, node, nowMs, true)) ?? null };
    },

    /**
     * Puts a taint on the Node of a machine that says that its VM is about to be taken away. Answers the Node with it.
     */
    async markInterrupted(ref: ObjectRef, machine: ClaimingMachine, reason: string): Promise<NodeView> {
      const { marks } = dialectOf(ref.dialect);
      const found = await findNode(ref, machine);
      const node = writableNode(found);
      if (node === undefined) return toNodeView(marks, found, ref);
      const { name, uid } = node.metadata;
      const taint = { key: names.vmInterrupted, value: toLabelValue(reason), effect: 'NoSchedule' };
      const addTaint = ({ spec: { taints = [] } = {} }: Node) =>
        taints.some(({ key }) => key === taint.key) ? undefined : { spec: { taints: [...taints, taint] } };
      const marked = await update(target, nodes, { name, uid }, addTaint, localRequest());
      return toNodeView(marks, { node: marked }, ref);
    },

    /**
     * Whether there is a Node of this name that is not that of the Machine with this VM. A Node that cannot be read
     * keeps no VM from joining.
     */
    async isNodeTaken(ref: ObjectRef, nodeName: string, claim: NodeClaim): Promise<boolean> {
      const found = await ownNodes.find({ ...claim, ...ref }, nodeName, localRequest()).catch(() => undefined);
      return found?.notOwn !== undefined;
    },

    /**
     * Deletes a Node of the Machine; one that is not its own, or is to be left alone, stays.
     * @param seen the Node of the Machine as it was seen: one that was marked as ours is known by its UID, and not read
     */
    async removeNode(ref: ObjectRef, name: string, claim: NodeClaim, seen?: NodeView): Promise<true> {
      const isKnown = seen?.state === 'present' && seen.managed && seen.name === name;
      if (isKnown && standingOf(seen, claim).objection === undefined) {
        try {
          await deleteNode(ref, name, seen.uid);
          return true;
        } catch (error) {
          if (!isConflict(error) && !isInvalid(error)) throw error; // else it may have another UID by now
        }
      }
      const node = writableNode(await ownNodes.find({ ...claim, ...ref }, name, localRequest()));
      if (node !== undefined) await deleteNode(ref, name, node.metadata.uid);
      return true;
    },

    /** Undoes what a drain has done to the Node of a VM that stays after all. A cordon that was there before stays. */
    async uncordonNode(ref: ObjectRef, nodeName: string, claim: NodeClaim): Promise<true> {
      const node = writableNode(await ownNodes.find({ ...claim, ...ref }, nodeName, localRequest()));
      const { type } = dialectOf(ref.dialect).marks.terminating;
      const condition = node?.status?.conditions?.find((each) => each.type === type);
      if (node === undefined || condition?.status !== 'True') return true;
      const { uid } = node.metadata;
      const key = { name: nodeName };
      const uncordoned = strategicMergePatch({ metadata: { uid }, spec: { unschedulable: null } });
      const wasCordoned = node.metadata.annotations?.[names.cordonedBy] !== undefined;
      const uncordon = () => orNull(() => target.patch(nodes, key, uncordoned, localRequest()));
      if (!wasCordoned && (await uncordon()) === null) return true;
      const conditions = [{ type, $patch: 'delete' }];
      const patch = strategicMergePatch({ metadata: { uid }, status: { conditions } });
      await orNull(() => target.patch(nodes, key, patch, { ...localRequest(), subresource: 'status' }));
      return true;
    },
  };

  /** Takes our finalizer off the Node with this UID and deletes it. */
  async function deleteNode(ref: ObjectRef, name: string, uid: string): Promise<void> {
    const { nodeFinalizer } = dialectOf(ref.dialect).marks;
    const withoutOurs = strategicMergePatch({
      metadata: { uid, '$deleteFromPrimitiveList/finalizers': [nodeFinalizer] },
    });
    const left = await orNull(() => target.patch(nodes, { name }, withoutOurs, localRequest()));
    if (left === null) return;
    await ignoreGoneOrChanged(() => target.delete(nodes, { name }, { ...localRequest(), preconditions: { uid } }));
  }

  /** The Node of a machine, by the name that it stores; or by its VM's provider ID, where the dialect matches so. */
  async function findNode(ref: ObjectRef, machine: ClaimingMachine): Promise<FoundNode<Node>> {
    const { nodeName, providerID } = machine;
    const seeker = { ...machine, ...ref };
    if (nodeName !== undefined) return ownNodes.find(seeker, nodeName, localRequest());
    if (providerID === undefined || dialectOf(ref.dialect).policy.nodeMatch !== 'providerID')
      return { node: undefined };
    const { items } = await target.list(nodes, localRequest());
    const isOfVm = ({ spec }: Node) => spec?.providerID !== undefined && vmOf(spec.providerID) === vmOf(providerID);
    return ownNodes.judge(seeker, items.find(isOfVm), localRequest());
  }

  /** Marks a Node that is still as it was seen, without reading it. undefined: it has to be read. */
  async function markSeenNode(ref: ObjectRef, machine: ClaimingMachine, seen: NodeView): Promise<Node | undefined> {
    if (seen.state !== 'present' || seen.managed || seen.deleting) return undefined;
    if (seen.isUnnamed !== true || standingOf(seen, machine).objection !== undefined) return undefined;
    const { name, uid, resourceVersion } = seen;
    try {
      return (await patchMarks(ref, machine, name, { uid, resourceVersion })) ?? undefined;
    } catch (error) {
      if (isConflict(error)) return undefined;
      throw error;
    }
  }

  async function readAndMarkNode(ref: ObjectRef, machine: ClaimingMachine, attempts = 5): Promise<FoundNode<Node>> {
    const found = await findNode(ref, machine);
    const node = writableNode(found);
    if (node === undefined) return found;
    const { name, uid, resourceVersion, deletionTimestamp } = node.metadata;
    const { marks } = dialectOf(ref.dialect);
    if (deletionTimestamp !== undefined || toNodeSnapshot(marks, node, ref).managed) return found;
    try {
      return { node: (await patchMarks(ref, machine, name, { uid, resourceVersion })) ?? undefined };
    } catch (error) {
      if (!isConflict(error) || attempts === 1) throw error;
      return readAndMarkNode(ref, machine, attempts - 1);
    }
  }

  /**
   * Adds the finalizer and the back reference to a Node that is `of` this UID and version: no other machine has marked
   * it.
   */
  async function patchMarks(ref: ObjectRef, machine: MachineSnapshot, name: string, of: object): Promise<Node | null> {
    const { nodeFinalizer, nodeMachineLabel } = dialectOf(ref.dialect).marks;
    const labels = { [nodeMachineLabel]: ref.name };
    const annotations = { ...machineOf(ref), ...joiningAnnotations(ref, machine, {}) };
    const metadata = { ...of, finalizers: [nodeFinalizer], labels, annotations };
    return orNull(() => target.patch(nodes, { name }, strategicMergePatch({ metadata }), localRequest()));
  }
}

/** A merge patch of a Node with our marks, where it lacks them; undefined: nothing is to be written. */
function toMarkedPatch(
  ref: ObjectRef,
  snapshot: MachineSnapshot,
  live: Node,
  patch: NodePatch | undefined,
): object | undefined {
  const { marks } = dialectOf(ref.dialect);
  const isMarked = toNodeSnapshot(marks, live, ref).managed;
  if (isMarked && patch === undefined) return undefined;
  const { metadata = {}, spec } = patch ?? {};
  const others = (live.metadata.finalizers ?? []).filter((each) => each !== marks.nodeFinalizer);
  const labels = { ...metadata.labels, [marks.nodeMachineLabel]: ref.name };
  const wanted = { ...live.metadata.annotations, ...metadata.annotations };
  const annotations = { ...metadata.annotations, ...machineOf(ref), ...joiningAnnotations(ref, snapshot, wanted) };
  const finalizers = [...others, marks.nodeFinalizer];
  const marked = isMarked ? metadata : { ...metadata, labels, annotations, finalizers };
  return { metadata: marked, ...(spec && { spec }) };
}

/** What a request answers; undefined where the API server refuses the object, whose reason is added. */
async function unlessRefused<T>(request: () => Promise<T>, refusals: string[]): Promise<{ answer: T } | undefined> {
  try {
    return { answer: await request() };
  } catch (error) {
    if (!isInvalid(error)) throw error;
    refusals.push(error.message);
    return undefined;
  }
}

/** Says which Machine a Node has, for people, and for other installations that see the Node. */
function machineOf({ namespace, name }: ObjectRef): Record<string, string> {
  return { [names.machine]: `${namespace}/${name}` };
}

/**
 * What the Node of a machine that was made in a rollout gets as it joins: the controllers would write it a moment
 * later.
 * @param annotations of the Node, null for those that it loses
 */
function joiningAnnotations({ dialect }: ObjectRef, machine: MachineSnapshot, annotations: Change): Change | undefined {
  if (machine.createdInRollout === undefined) return undefined;
  const marks = { isRolling: true, isComplete: false, isOld: false, isPreserved: false, isKeptFromAutoscaler: true };
  const left = Object.entries(annotations).flatMap(([key, value]) => (value === null ? [] : [[key, value] as const]));
  const node = { metadata: { annotations: Object.fromEntries(left) } };
  return dialectOf(dialect).owner.toRolloutPatch?.(node, marks)?.metadata?.annotations;
}

/** A text as a value of labels and taints. */
function toLabelValue(text: string): string {
  const allowed = text.replaceAll(/[^A-Za-z0-9_.-]+/g, '-').slice(0, 63);
  return allowed.replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '');
}
