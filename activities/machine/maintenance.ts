/** Preservation and in-place update of a Machine: what their plans say is written to the Machine and its Node. */
import { isDeepStrictEqual } from 'node:util';
import { dialectOf } from '../../api/dialects.ts';
import type { MachineEvent } from '../../api/events.ts';
import { type DuePlan, maintenanceDue, planMaintenance } from '../../api/maintenance.ts';
import type { MachineLimits, MachineSnapshot, MaintenanceDue, MaintenancePurpose } from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { type FoundNode, toNodeViewOf } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { strategicMergePatch } from '../../kube/patch.ts';
import { orNull, update } from '../../kube/update.ts';
import { localRequest } from '../local-request.ts';

export interface MaintenanceDeps {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly defaults: MachineLimits;
  findMachine(ref: ObjectRef): Promise<KubeObject | null>;
  /** Its own Node. */
  findNode(ref: ObjectRef, machine: MachineSnapshot): Promise<FoundNode<Node>>;
  recordEvent(ref: ObjectRef, reason: MachineEvent, note: string): void;
}

/** How the drain of a Machine that stays has ended. */
export interface MaintenanceDrain {
  readonly purpose: MaintenancePurpose;
  readonly isDrained: boolean;
  /** Why not, for people. */
  readonly message?: string;
}

/** A Machine and its Node after what was due is written. */
export interface MaintainedMachine {
  readonly machine: MachineSnapshot;
  readonly node: NodeView;
  /** What is left; left out where nothing is. */
  readonly maintenance?: MaintenanceDue;
  /** From when on the timeout of the drain counts, RFC 3339; left out: since the Machine is in its stage. */
  readonly drainSince?: string;
}

interface Moment {
  readonly ref: ObjectRef;
  /** On Temporal's clock, ms since the epoch. */
  readonly nowMs: number;
}

interface Seen extends FoundNode<Node> {
  readonly machine: KubeObject;
}

/** The steps of an in-place update that may follow each other at once are fewer. */
const mostPasses = 8;

export function createMaintenanceActivities(deps: MaintenanceDeps) {
  const { control, target, defaults, findMachine, findNode, recordEvent } = deps;

  return {
    /**
     * Writes what the preservation of the Machine needs, or its in-place update, until nothing is due. A step that was
     * interrupted is completed by the next one: the expiry in the status of the Machine is written first and removed
     * last.
     * @param at the time on Temporal's clock, RFC 3339
     * @param drain left out unless a drain has just ended
     */
    async maintain(ref: ObjectRef, at: string, drain?: MaintenanceDrain): Promise<MaintainedMachine | null> {
      const machine = await findMachine(ref);
      if (machine === null) return null;
      const moment = { ref, nowMs: Date.parse(at) };
      let seen: Seen = { machine, ...(await findOwnNode(ref, machine)) };
      let plan = planOf(moment, seen, drain);
      for (let pass = 0; pass < mostPasses && plan !== undefined && maintenanceDue(plan) === 'write'; pass += 1) {
        const written = await write(moment, seen, plan, pass === 0 ? drain : undefined);
        if (written === null) return null;
        seen = written;
        const before = plan;
        plan = planOf(moment, seen);
        if (isDeepStrictEqual(plan, before)) break; // the API server does not keep it
      }
      if (drain?.message !== undefined) recordEvent(ref, 'FailedDrain', drain.message);
      const maintenance = maintenanceDue(plan);
      return {
        machine: toSnapshot(ref, seen.machine),
        node: toNodeViewOf(dialectOf(ref.dialect), seen, seen.machine),
        ...(maintenance !== undefined && { maintenance }),
        ...(plan?.drainSince !== undefined && { drainSince: plan.drainSince }),
      };
    },

    /**
     * Notes on a Machine that is about to fail what its Node says of its preservation: its owner, which replaces what
     * has failed, reads no Nodes. Where the Node cannot be read nothing is written.
     * @param at the time on Temporal's clock, RFC 3339
     */
    async notePreservation(ref: ObjectRef, at = new Date().toISOString()): Promise<void> {
      const machine = await findMachine(ref);
      if (machine === null || toSnapshot(ref, machine).nodeName === undefined) return;
      const found = await findOwnNode(ref, machine).catch(() => 'unknown' as const);
      if (found === 'unknown') return;
      const toNote = (live: KubeObject) => planOf({ ref, nowMs: Date.parse(at) }, { ...found, machine: live })?.machine;
      if (toNote(machine) === undefined) return;
      await update(control, dialectOf(ref.dialect).kinds.machine, ref, toNote, localRequest());
    },
  };

  function toSnapshot(ref: ObjectRef, machine: KubeObject): MachineSnapshot {
    return dialectOf(ref.dialect).machine.toSnapshot(machine, defaults);
  }

  async function findOwnNode(ref: ObjectRef, machine: KubeObject): Promise<FoundNode<Node>> {
    const snapshot = toSnapshot(ref, machine);
    return snapshot.limits.hasNoNode ? { node: undefined } : findNode(ref, snapshot);
  }

  /** @param drain one that has just ended */
  function planOf({ ref, nowMs }: Moment, { machine, node }: Seen, drain?: MaintenanceDrain) {
    const { preserveSeconds, updateSeconds } = defaults;
    const moment = {
      nowMs,
      ...(preserveSeconds !== undefined && { defaultSeconds: preserveSeconds }),
      ...(updateSeconds !== undefined && { updateSeconds }),
      ...(drain && { isDrained: drain.isDrained }),
    };
    return planMaintenance(dialectOf(ref.dialect), machine, node, moment, drain?.purpose);
  }

  /**
   * Writes what a plan for the objects as they were `seen` says. Each write is planned anew for the object as it is.
   */
  async function write(
    moment: Moment,
    seen: Seen,
    plan: DuePlan,
    drain: MaintenanceDrain | undefined,
  ): Promise<Seen | null> {
    const { ref } = moment;
    const { kinds } = dialectOf(ref.dialect);
    const planFor = (machine: KubeObject, node: Node | undefined) => planOf(moment, { machine, node }, drain);
    let machine: KubeObject | undefined = seen.machine;
    let { node } = seen;
    const isLeft = seen.objection !== undefined;
    if (plan.isEnd && !isLeft) node = await writeNode(node, (live) => planFor(seen.machine, live));
    const toMachine = (live: KubeObject) => planFor(live, node)?.machine;
    const toStatus = (live: KubeObject) => planFor(live, node)?.status;
    const onStatus = { ...localRequest(), subresource: 'status' } as const;
    if (plan.machine) machine = await update(control, kinds.machine, ref, toMachine, localRequest());
    if (plan.status) machine = machine && (await update(control, kinds.machine, ref, toStatus, onStatus));
    if (machine === undefined) return null;
    const written = machine;
    if (!plan.isEnd && !isLeft) node = await writeNode(node, (live) => planFor(written, live));
    if (plan.event) recordEvent(ref, plan.event.reason, plan.event.note);
    return { ...seen, machine: written, node };
  }

  /** Writes the part of the Node. Answers it as it is then; undefined: it does not exist any more. */
  async function writeNode(
    seen: Node | undefined,
    plan: (live: Node) => ReturnType<typeof planMaintenance>,
  ): Promise<Node | undefined> {
    if (seen === undefined) return undefined;
    const { name, uid } = seen.metadata;
    const { node: change, condition } = plan(seen) ?? {};
    // The condition first: while the annotations are there, the next step finds the end unfinished.
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
