/**
 * What the workflow of a machine does in Kubernetes: a request or two each, safe to repeat. Run as local activities.
 * They answer null when the Machine is gone or its name belongs to another object.
 */

import { phaseByNode } from '../../api/attention.ts';
import { dialectOf } from '../../api/dialects.ts';
import { type MachineEvent, machineEvents } from '../../api/events.ts';
import { toMachineSnapshot, toStatusPatch } from '../../api/gardener/machine/snapshot.ts';
import {
  annotations,
  apiVersion,
  finalizers,
  labels,
  type nodeConditionTypes,
  priorities,
} from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineLimits, MachinePhase, MachineSnapshot, StatusChange } from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Place } from '../../api/model/source.ts';
import { isOfAnother, toNodeSnapshot, toNodeView } from '../../api/node.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { isConflict, isInvalid, isNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged, update } from '../../kube/update.ts';
import { localRequest } from '../local-request.ts';
import { onlyPlaces, type PlacesReading, placesOf, withNodes, withPlace } from './places.ts';
import { createClassActivities } from './source.ts';
import { createUserDataActivities, type UserDataDeps } from './user-data.ts';

export interface MachineDeps extends UserDataDeps {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly events: EventRecorder;
  readonly defaults: MachineLimits;
}

export type MachineActivities = ReturnType<typeof createMachineActivities>;

/** A machine and its node as just read. */
export interface MachineReading {
  readonly machine: MachineSnapshot;
  readonly node: NodeView;
}

const terminating: keyof typeof nodeConditionTypes = 'Terminating';

/** What a workflow knows of the Machine whose status it writes. */
export type Known = Pick<MachineSnapshot, 'resourceVersion' | 'phase' | 'deletingSince'>;

/** @param deps `control` holds the Machines, `target` the Nodes; they may be the same cluster. */
export function createMachineActivities(deps: MachineDeps) {
  const { control, target, events, defaults } = deps;

  async function patchMachine(ref: ObjectRef, metadata: object, rest: object = {}): Promise<Machine | null> {
    try {
      const patch = mergePatch({ metadata: { uid: ref.uid, ...metadata }, ...rest });
      return await orNull(() => control.patch(machines, ref, patch, localRequest()));
    } catch (error) {
      // Another UID is a change that is not valid.
      if (isInvalid(error) && (await findMachine(ref)) === null) return null;
      throw error;
    }
  }

  async function findMachine(ref: ObjectRef): Promise<Machine | null> {
    const machine = await control.find(machines, ref, localRequest());
    return machine?.metadata.uid === ref.uid ? machine : null;
  }

  const snapshot = (machine: Machine | null) => machine && toMachineSnapshot(machine, defaults);

  async function writeStatus(ref: ObjectRef, seen: Known, change: StatusChange, conditions?: readonly object[]) {
    const patch = toStatusPatch(change, new Date(), conditions);
    const machine = await patchStatus(ref, seen, change.phase, patch);
    const isWritten = machine !== null && toMachineSnapshot(machine, defaults).phase === change.phase;
    if (isWritten && change.event !== undefined) {
      const { reason, note = change.operation?.description ?? change.phase } = change.event;
      recordEvent(ref, reason, note);
    }
    return machine;
  }

  /** The action is the reason: an error that repeats is one Event, whatever was written with it. */
  function recordEvent({ namespace, name, uid }: ObjectRef, reason: MachineEvent, note: string): void {
    const regarding = { apiVersion, kind: 'Machine', namespace, name, uid };
    events.record({ type: machineEvents[reason].type, reason, action: reason, note, regarding });
  }

  /**
   * By version, as a patch of a status says nothing about another UID; where that which is known is the present one, it
   * need not be read. Others may have changed the Machine. But its phase and its deletion are as its workflow knows them,
   * unless the cluster or Temporal was set back: then the decision was made from what is not so, and nothing is written.
   */
  async function patchStatus(ref: ObjectRef, seen: Known, phase: MachinePhase, patch: object): Promise<Machine | null> {
    const { resourceVersion } = seen;
    const options = { ...localRequest(), subresource: 'status' } as const;
    const isKnown = (live: MachineSnapshot) =>
      [seen.phase, phase].includes(live.phase) && live.deletingSince === seen.deletingSince;
    try {
      const known = mergePatch({ ...patch, metadata: { resourceVersion } });
      return await orNull(() => control.patch(machines, ref, known, options));
    } catch (error) {
      if (!isConflict(error)) throw error;
      const change = (live: Machine) => (isKnown(toMachineSnapshot(live, defaults)) ? patch : undefined);
      return (await update(control, machines, ref, change, options)) ?? null;
    }
  }

  /** The Machine with our finalizer, or as it is now when somebody else changed it first. */
  async function tryToAddFinalizer(
    ref: ObjectRef,
    { resourceVersion, finalizers: others }: MachineSnapshot,
    places: readonly Place[] | undefined,
  ): Promise<MachineSnapshot | null> {
    const annotations = places && onlyPlaces(places);
    try {
      const metadata = {
        resourceVersion,
        finalizers: [...others, finalizers.machine],
        ...(annotations && { annotations }),
      };
      return snapshot(await patchMachine(ref, metadata));
    } catch (error) {
      if (!isConflict(error)) throw error;
      // Where somebody else has put it on, the place may be missing.
      const [place] = places ?? [];
      const change = (live: Machine) =>
        place !== undefined && live.metadata.finalizers?.includes(finalizers.machine)
          ? annotated(withPlace(live, place))
          : undefined;
      return snapshot((await update(control, machines, ref, change, localRequest())) ?? null);
    }
  }

  const classActivities = createClassActivities(deps);

  return {
    ...classActivities,
    ...createUserDataActivities(deps),

    /** Reads the Machine and, where it has one, its Node. */
    async observeMachine(ref: ObjectRef): Promise<MachineReading | null> {
      const machine = snapshot(await findMachine(ref));
      if (machine === null) return null;
      if (machine.nodeName === undefined) return { machine, node: { state: 'absent' } };
      return { machine, node: await viewNode(ref, machine.nodeName, machine.providerID) };
    },

    /**
     * Puts our finalizer on the Machine, beside those that others have put there until now; with it, in one write, the
     * places where VMs of it may be made, where nothing was made anywhere else.
     */
    async addFinalizer(
      ref: ObjectRef,
      seen: MachineSnapshot,
      places?: readonly Place[],
    ): Promise<MachineSnapshot | null> {
      let known: MachineSnapshot | null = seen;
      while (known !== null && !known.managed && known.deletingSince === undefined) {
        known = await tryToAddFinalizer(ref, known, places);
      }
      return known;
    },

    /** Keeps on the Machine that its next VM is made in this place; `others`: it may have one elsewhere already. */
    async rememberPlace(ref: ObjectRef, place: Place, others: boolean): Promise<MachineSnapshot | null> {
      const change = (machine: Machine) => annotated(others ? withPlace(machine, place) : onlyPlaces([place]));
      return snapshot((await update(control, machines, ref, change, localRequest())) ?? null);
    },

    /** Keeps on the Machine that these Nodes go with it: their VMs are about to. */
    async rememberNodes(ref: ObjectRef, nodeNames: readonly string[]): Promise<MachineSnapshot | null> {
      const change = (machine: Machine) => annotated(withNodes(machine, nodeNames));
      return snapshot((await update(control, machines, ref, change, localRequest())) ?? null);
    },

    /** Where there may be VMs of the Machine, which names this class. */
    async readPlaces(ref: ObjectRef, className: string): Promise<PlacesReading | null> {
      const [machine, reading] = await Promise.all([findMachine(ref), classActivities.readClass(ref, className)]);
      return machine && placesOf(machine, reading);
    },

    /** From here on the VM is known to the Machine. */
    async storeIdentity(
      ref: ObjectRef,
      identity: { providerID: string; nodeName?: string; prioritize: boolean },
    ): Promise<MachineSnapshot | null> {
      const { providerID, nodeName, prioritize } = identity;
      const metadata = {
        ...(nodeName !== undefined && { labels: { [labels.node]: nodeName } }),
        ...(prioritize && { annotations: { [annotations.priority]: priorities.default } }),
      };
      return snapshot(await patchMachine(ref, metadata, { spec: { providerID } }));
    },

    /**
     * Whether a Node of this name is that of another VM than the one with this provider ID: its own provider ID says so
     * or, while it has none, the machine that it refers to. A Node that cannot be read keeps no VM from joining.
     */
    async isNodeTaken({ name }: ObjectRef, nodeName: string, providerID: string): Promise<boolean> {
      const node = await target.find(nodes, { name: nodeName }, localRequest()).catch(() => undefined);
      if (node?.spec?.providerID !== undefined) return isOfAnother(node, providerID);
      return (node?.metadata.labels?.[labels.machineName] ?? name) !== name;
    },

    /** Writes the status, with its Event. A Machine in a phase that nobody has `seen` is left and answered as it is. */
    async writeStatus(ref: ObjectRef, seen: Known, change: StatusChange): Promise<MachineSnapshot | null> {
      return snapshot(await writeStatus(ref, seen, change));
    },

    /**
     * Marks the Node as ours and copies its conditions to the Machine's status, with `change` unless the Node, read
     * here, says that the Machine should be in another phase.
     */
    async syncNode(ref: ObjectRef, seen: MachineSnapshot, change: StatusChange): Promise<MachineReading | null> {
      const node = await markNode(ref, seen);
      const view = toNodeView(dialectOf(ref.dialect).marks, node, ref.name, seen.providerID);
      const agrees = phaseByNode({ ...seen, phase: change.phase }, view) === change.phase;
      const { phase, ...rest } = change;
      const machine = await writeStatus(
        ref,
        seen,
        agrees ? { phase, ...rest } : { phase: seen.phase },
        view.state === 'present' ? (node?.status?.conditions ?? []) : undefined,
      );
      return machine === null ? null : { machine: toMachineSnapshot(machine, defaults), node: view };
    },

    /** Deletes the Machine, because its Node was. */
    async deleteMachine(ref: ObjectRef): Promise<MachineSnapshot | null> {
      const options = { ...localRequest(), preconditions: { uid: ref.uid } };
      await ignoreGoneOrChanged(() => control.delete(machines, ref, options));
      return snapshot(await findMachine(ref));
    },

    /** Deletes a Node of the Machine; one of another VM, or with another machine's name, is left alone. */
    async removeNode(ref: ObjectRef, nodeName: string, providerID?: string): Promise<true> {
      const node = await target.find(nodes, { name: nodeName }, localRequest());
      const owner = node?.metadata.labels?.[labels.machineName];
      if (node === undefined || isOfAnother(node, providerID) || (owner ?? ref.name) !== ref.name) return true;
      const { uid } = node.metadata;
      const withoutOurs = { metadata: { uid, '$deleteFromPrimitiveList/finalizers': [finalizers.node] } };
      await orNull(() => target.patch(nodes, { name: nodeName }, strategicMergePatch(withoutOurs), localRequest()));
      await ignoreGoneOrChanged(() =>
        target.delete(nodes, { name: nodeName }, { ...localRequest(), preconditions: { uid } }),
      );
      return true;
    },

    /** Takes back what a drain has done to the Node of a VM that is to stay after all. */
    async uncordonNode(nodeName: string, providerID?: string): Promise<true> {
      const node = await target.find(nodes, { name: nodeName }, localRequest());
      const condition = node?.status?.conditions?.find(({ type }) => type === terminating);
      if (node === undefined || isOfAnother(node, providerID) || condition?.status !== 'True') return true;
      const { uid } = node.metadata;
      const key = { name: nodeName };
      const uncordoned = strategicMergePatch({ metadata: { uid }, spec: { unschedulable: null } });
      if ((await orNull(() => target.patch(nodes, key, uncordoned, localRequest()))) === null) return true;
      const conditions = [{ type: terminating, $patch: 'delete' }];
      const patch = strategicMergePatch({ metadata: { uid }, status: { conditions } });
      await orNull(() => target.patch(nodes, key, patch, { ...localRequest(), subresource: 'status' }));
      return true;
    },

    /** The last step of a life. */
    async removeFinalizer(ref: ObjectRef): Promise<true> {
      const left = await update(control, machines, ref, withoutFinalizer, localRequest());
      if (left?.metadata.uid === ref.uid && left.metadata.deletionTimestamp !== undefined)
        recordEvent(ref, 'Deleted', 'VM, Node and finalizer are gone');
      return true;
    },
  };

  /** A Node that cannot be read is unknown: nothing waits for that cluster but what happens in it. */
  async function viewNode(ref: ObjectRef, name: string, providerID: string | undefined): Promise<NodeView> {
    try {
      const node = await target.find(nodes, { name }, localRequest());
      return toNodeView(dialectOf(ref.dialect).marks, node, ref.name, providerID);
    } catch {
      return { state: 'unknown' };
    }
  }

  /** The Node of a machine, with the finalizer and the back reference unless it is another's or on its way out. */
  async function markNode(ref: ObjectRef, { nodeName, providerID }: MachineSnapshot): Promise<Node | undefined> {
    if (nodeName === undefined) return undefined;
    const node = await target.find(nodes, { name: nodeName }, localRequest());
    if (node === undefined || isOfAnother(node, providerID)) return undefined;
    const { uid, deletionTimestamp } = node.metadata;
    const { marks } = dialectOf(ref.dialect);
    if (deletionTimestamp !== undefined || toNodeSnapshot(marks, node, ref.name).managed) return node;
    const metadata = { uid, finalizers: [marks.nodeFinalizer], labels: { [marks.nodeMachineLabel]: ref.name } };
    const patch = strategicMergePatch({ metadata });
    return (await orNull(() => target.patch(nodes, { name: nodeName }, patch, localRequest()))) ?? undefined;
  }
}

/** A change of annotations; undefined for none. */
function annotated(annotations: Readonly<Record<string, string>> | undefined): object | undefined {
  return annotations && { metadata: { annotations } };
}

function withoutFinalizer({ metadata }: Machine): object | undefined {
  const { finalizers: present = [], deletionTimestamp } = metadata;
  if (!present.includes(finalizers.machine) || deletionTimestamp === undefined) return undefined;
  return { metadata: { finalizers: present.filter((finalizer) => finalizer !== finalizers.machine) } };
}

/** null for what is not there. */
async function orNull<T>(request: () => Promise<T>): Promise<T | null> {
  try {
    return await request();
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}
