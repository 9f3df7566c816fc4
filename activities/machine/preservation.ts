/** Preservation of a Machine: what its plan says is written to the Machine and its Node. */
import { dialectOf } from '../../api/dialects.ts';
import type { MachineEvent } from '../../api/events.ts';
import type { MachineLimits, MachineSnapshot, PreservationDue } from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { isOfAnother, toNodeViewOf } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import { preservationDue, preservationPlan } from '../../api/preservation.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { strategicMergePatch } from '../../kube/patch.ts';
import { orNull, update } from '../../kube/update.ts';
import { localRequest } from '../local-request.ts';

export interface PreservationDeps {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly defaults: MachineLimits;
  findMachine(ref: ObjectRef): Promise<KubeObject | null>;
  findNode(ref: ObjectRef, machine: MachineSnapshot): Promise<Node | undefined>;
  recordEvent(ref: ObjectRef, reason: MachineEvent, note: string): void;
}

/** How the drain of a preserved Machine has ended. */
export interface PreservationDrain {
  readonly isDrained: boolean;
  /** Why not, for people. */
  readonly message?: string;
}

/** A Machine and its Node after what was due is written. */
export interface PreservedMachine {
  readonly machine: MachineSnapshot;
  readonly node: NodeView;
  /** What is left; left out where nothing is. */
  readonly preservation?: PreservationDue;
}

export function createPreservationActivities(deps: PreservationDeps) {
  const { control, target, defaults, findMachine, findNode, recordEvent } = deps;

  return {
    /**
     * Writes what the preservation of the Machine needs. A step that was interrupted is completed by the next one: the
     * expiry in the status of the Machine is written first and removed last.
     * @param at the time on Temporal's clock, RFC 3339
     * @param drain left out unless a drain has just ended
     */
    async preserve(ref: ObjectRef, at: string, drain?: PreservationDrain): Promise<PreservedMachine | null> {
      const found = await findMachine(ref);
      if (found === null) return null;
      const read = await findOwnNode(ref, found);
      const nowMs = Date.parse(at);
      const planFor = (machine: KubeObject, node: Node | undefined) =>
        planOf(ref, machine, node, nowMs, drain?.isDrained);
      const plan = planFor(found, read);

      let machine: KubeObject | undefined = found;
      let node = read;
      if (plan?.isEnd) node = await writeNode(node, (live) => planFor(found, live));
      const { kinds } = dialectOf(ref.dialect);
      const toMachine = (live: KubeObject) => planFor(live, node)?.machine;
      const toStatus = (live: KubeObject) => planFor(live, node)?.status;
      const onStatus = { ...localRequest(), subresource: 'status' } as const;
      if (plan?.machine) machine = await update(control, kinds.machine, ref, toMachine, localRequest());
      if (plan?.status) machine = machine && (await update(control, kinds.machine, ref, toStatus, onStatus));
      if (machine === undefined) return null;
      const written = machine;
      if (!plan?.isEnd) node = await writeNode(node, (live) => planFor(written, live));

      if (plan?.event) recordEvent(ref, plan.event.reason, plan.event.note);
      if (drain?.message !== undefined) recordEvent(ref, 'FailedDrain', drain.message);
      const snapshot = toSnapshot(ref, written);
      const preservation = preservationDue(planOf(ref, written, node, nowMs));
      return {
        machine: snapshot,
        node: toNodeViewOf(dialectOf(ref.dialect), node, written, snapshot.providerID),
        ...(preservation !== undefined && { preservation }),
      };
    },

    /**
     * Notes on a Machine that is about to fail what its Node says of its preservation: its owner, which replaces what has
     * failed, reads no Nodes. Where the Node cannot be read nothing is written.
     */
    async notePreservation(ref: ObjectRef): Promise<void> {
      const machine = await findMachine(ref);
      if (machine === null || toSnapshot(ref, machine).nodeName === undefined) return;
      const node = await findOwnNode(ref, machine).catch(() => 'unknown' as const);
      if (node === 'unknown') return;
      const toNote = (live: KubeObject) => planOf(ref, live, node, Date.now())?.machine;
      if (toNote(machine) === undefined) return;
      await update(control, dialectOf(ref.dialect).kinds.machine, ref, toNote, localRequest());
    },
  };

  function toSnapshot(ref: ObjectRef, machine: KubeObject): MachineSnapshot {
    return dialectOf(ref.dialect).machine.toSnapshot(machine, defaults);
  }

  async function findOwnNode(ref: ObjectRef, machine: KubeObject): Promise<Node | undefined> {
    const snapshot = toSnapshot(ref, machine);
    if (snapshot.limits.hasNoNode) return undefined;
    const node = await findNode(ref, snapshot);
    return node === undefined || isOfAnother(node, snapshot.providerID) ? undefined : node;
  }

  function planOf(ref: ObjectRef, machine: KubeObject, node: Node | undefined, nowMs: number, isDrained?: boolean) {
    const { preserveSeconds } = defaults;
    const moment = {
      nowMs,
      ...(preserveSeconds !== undefined && { defaultSeconds: preserveSeconds }),
      ...(isDrained !== undefined && { isDrained }),
    };
    return preservationPlan(dialectOf(ref.dialect), machine, node, toSnapshot(ref, machine).providerID, moment);
  }

  /** Writes the part of the Node. Answers it as it is then; undefined: it does not exist any more. */
  async function writeNode(
    seen: Node | undefined,
    plan: (live: Node) => ReturnType<typeof preservationPlan>,
  ): Promise<Node | undefined> {
    if (seen === undefined) return undefined;
    const { name, uid } = seen.metadata;
    const { node: change, condition } = plan(seen) ?? {};
    // The condition first: while the taint or the annotations are there, the next step finds the end unfinished.
    let node: Node | null = seen;
    if (condition !== undefined) {
      const patch = strategicMergePatch({ metadata: { uid }, status: { conditions: [condition] } });
      const options = { ...localRequest(), subresource: 'status' } as const;
      node = await orNull(() => target.patch(nodes, { name }, patch, options));
    }
    if (node === null || change === undefined) return node ?? undefined;
    return update(target, nodes, { name, uid }, (live) => plan(live)?.node, localRequest());
  }
}
