/**
 * What the workflow of a machine does in Kubernetes: a request or two each, safe to repeat. Run as local activities.
 * They answer null when the Machine is gone or its name belongs to another object.
 */

import { phaseByNode } from '../api/attention.ts';
import type { Machine } from '../api/gardener/machine.ts';
import { annotations, apiVersion, finalizers, labels, priorities } from '../api/gardener/names.ts';
import { type NodeLike, toMachineSnapshot, toNodeSnapshot, toStatusPatch } from '../api/gardener/to-model.ts';
import type { MachineLimits, MachineSnapshot, NodeView, ObjectRef, StatusChange } from '../api/model.ts';
import type { KubeClient } from '../kube/client.ts';
import { nodes } from '../kube/core.ts';
import { isConflict, isNotFound } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import { machines } from '../kube/gardener.ts';
import { jsonPatch, mergePatch, type Patch, strategicMergePatch } from '../kube/patch.ts';
import { createClassActivities } from './classes.ts';
import { quick } from './quick.ts';
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

/** @param deps `control` holds the Machines, `target` the Nodes; they may be the same cluster. */
export function createMachineActivities(deps: MachineDeps) {
  const { control, target, events, defaults } = deps;

  async function patchMachine(ref: ObjectRef, patch: Patch, subresource?: 'status'): Promise<Machine | null> {
    const machine = await orNull(() =>
      control.patch(machines, ref, patch, { ...quick, ...(subresource && { subresource }) }),
    );
    return machine?.metadata.uid === ref.uid ? machine : null;
  }

  async function findMachine(ref: ObjectRef): Promise<Machine | null> {
    const machine = await control.find(machines, ref, quick);
    return machine?.metadata.uid === ref.uid ? machine : null;
  }

  const snapshot = (machine: Machine | null) => machine && toMachineSnapshot(machine, defaults);

  async function writeStatus(ref: ObjectRef, change: StatusChange, conditions?: readonly object[]) {
    const machine = await patchMachine(ref, mergePatch(toStatusPatch(change, new Date(), conditions)), 'status');
    if (machine !== null && change.event !== undefined) {
      const { namespace, name, uid } = ref;
      events.record({
        ...change.event,
        regarding: { apiVersion, kind: 'Machine', namespace, name, uid },
        action: change.operation?.type ?? 'Update',
        note: change.operation?.description ?? change.phase,
      });
    }
    return machine;
  }

  /** The Machine with our finalizer, or as it is now when somebody else changed it first. */
  async function tryToAddFinalizer(ref: ObjectRef, seen: MachineSnapshot): Promise<MachineSnapshot | null> {
    const { resourceVersion, finalizers: others } = seen;
    try {
      const metadata = { uid: ref.uid, resourceVersion, finalizers: [...others, finalizers.machine] };
      return snapshot(await patchMachine(ref, mergePatch({ metadata })));
    } catch (error) {
      if (!isConflict(error)) throw error;
      return snapshot(await findMachine(ref));
    }
  }

  return {
    ...createClassActivities(deps),
    ...createUserDataActivities(deps),

    /** Reads the Machine and, where it has one, its Node. */
    async observeMachine(ref: ObjectRef): Promise<MachineReading | null> {
      const machine = snapshot(await findMachine(ref));
      if (machine === null) return null;
      if (machine.nodeName === undefined) return { machine, node: { state: 'absent' } };
      const node = await target.find(nodes, { name: machine.nodeName }, quick);
      return { machine, node: toNodeView(node, ref.name) };
    },

    /** Puts our finalizer on the Machine, beside those that others have put there until now. */
    async addFinalizer(ref: ObjectRef, seen: MachineSnapshot): Promise<MachineSnapshot | null> {
      let known: MachineSnapshot | null = seen;
      while (known !== null && !known.managed && known.deletingSince === undefined) {
        known = await tryToAddFinalizer(ref, known);
      }
      return known;
    },

    /** From here on the VM is known to the Machine. */
    async storeIdentity(
      ref: ObjectRef,
      identity: { providerID: string; nodeName?: string; prioritize: boolean },
    ): Promise<MachineSnapshot | null> {
      const { providerID, nodeName, prioritize } = identity;
      const metadata = {
        uid: ref.uid,
        ...(nodeName !== undefined && { labels: { [labels.node]: nodeName } }),
        ...(prioritize && { annotations: { [annotations.priority]: priorities.default } }),
      };
      return snapshot(await patchMachine(ref, mergePatch({ metadata, spec: { providerID } })));
    },

    /** Writes the status, with its Event. */
    async writeStatus(ref: ObjectRef, change: StatusChange): Promise<MachineSnapshot | null> {
      return snapshot(await writeStatus(ref, change));
    },

    /**
     * Marks the Node as ours and copies its conditions to the Machine's status, with `change` unless the Node, read
     * here, says that the Machine should be in another phase.
     */
    async syncNode(ref: ObjectRef, seen: MachineSnapshot, change: StatusChange): Promise<MachineReading | null> {
      const node = await markNode(seen.nodeName ?? '', ref.name);
      const view = toNodeView(node, ref.name);
      const agrees = phaseByNode({ ...seen, phase: change.phase }, view) === change.phase;
      const { phase, ...rest } = change;
      const machine = await writeStatus(
        ref,
        agrees ? { phase, ...rest } : { phase: seen.phase },
        node?.status?.conditions ?? undefined,
      );
      return machine === null ? null : { machine: toMachineSnapshot(machine, defaults), node: view };
    },

    /** Deletes the Machine, because its Node was. */
    async deleteMachine(ref: ObjectRef): Promise<MachineSnapshot | null> {
      const options = { ...quick, preconditions: { uid: ref.uid } };
      await orNull(() => control.delete(machines, ref, options));
      return snapshot(await findMachine(ref));
    },

    /** Deletes the Node of the Machine; one that carries another machine's name is left alone. */
    async removeNode(ref: ObjectRef, nodeName: string): Promise<true> {
      const node = await target.find(nodes, { name: nodeName }, quick);
      const owner = node?.metadata.labels?.[labels.machineName];
      if (node === undefined || (owner !== undefined && owner !== ref.name)) return true;
      const { uid } = node.metadata;
      const withoutOurs = { metadata: { uid, '$deleteFromPrimitiveList/finalizers': [finalizers.node] } };
      await orNull(() => target.patch(nodes, { name: nodeName }, strategicMergePatch(withoutOurs), quick));
      await orNull(() => target.delete(nodes, { name: nodeName }, { ...quick, preconditions: { uid } }));
      return true;
    },

    /** The last step of a life. */
    async removeFinalizer(ref: ObjectRef): Promise<true> {
      const machine = await findMachine(ref);
      const index = machine?.metadata.finalizers?.indexOf(finalizers.machine) ?? -1;
      if (index < 0) return true;
      const path = `/metadata/finalizers/${index}`;
      const operations = [
        { op: 'test', path: '/metadata/uid', value: ref.uid },
        { op: 'test', path, value: finalizers.machine },
        { op: 'remove', path },
      ] as const;
      await patchMachine(ref, jsonPatch(operations));
      return true;
    },
  };

  /** One request: the finalizer and the back reference are merged in, whether or not they are there already. */
  async function markNode(name: string, machineName: string) {
    const metadata = { finalizers: [finalizers.node], labels: { [labels.machineName]: machineName } };
    return (await orNull(() => target.patch(nodes, { name }, strategicMergePatch({ metadata }), quick))) ?? undefined;
  }
}

function toNodeView(node: NodeLike | undefined, machineName: string): NodeView {
  return node === undefined ? { state: 'absent' } : { state: 'present', ...toNodeSnapshot(node, machineName) };
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
