/** Finds out which Machine has a VM that several name. */
import { dialectOf } from '../../api/dialects.ts';
import type { MachineLimits, MachineSnapshot } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { toNodeSnapshot } from '../../api/node.ts';
import { vmOf } from '../../api/provider-id.ts';
import type { KubeClient } from '../../kube/client.ts';
import { coalesce } from '../../kube/shared-finds.ts';
import type { createNodeActivities } from './nodes.ts';

export interface VmOwnerDeps extends Pick<ReturnType<typeof createNodeActivities>, 'findNode'> {
  readonly control: KubeClient;
  readonly defaults: MachineLimits;
}

/** A Machine that names a VM. */
interface NamingMachine extends MachineSnapshot {
  readonly name: string;
}

/** What the order of such Machines depends on. */
type Rival = Pick<NamingMachine, 'name' | 'uid' | 'createdAt' | 'deletingSince' | 'stage' | 'nodeName'>;

export function createVmOwnerActivities({ control, defaults, findNode }: VmOwnerDeps) {
  const share = coalesce<readonly NamingMachine[]>();

  return {
    /**
     * The other Machine that has the VM which this one names; without a name where it is this one's. Lists all
     * Machines, and reads the Nodes of those that name the VM.
     * @param isForced do not ask the cluster of the Nodes: it may be gone for good
     */
    async findVmOwner(
      ref: ObjectRef,
      { providerID }: MachineSnapshot,
      isForced = false,
    ): Promise<{ readonly name?: string }> {
      if (providerID === undefined) return {};
      const machines = await share(`${ref.dialect} ${ref.namespace}`, () => listNaming(ref));
      const naming = machines.filter((each) => each.providerID && vmOf(each.providerID) === vmOf(providerID));
      if (naming.length < 2 && naming[0]?.uid === ref.uid) return {};
      const marked = isForced ? undefined : await findMarked(ref, naming);
      const owner = marked ?? ownerOf(naming);
      return owner === undefined || owner.uid === ref.uid ? {} : { name: owner.name };
    },
  };

  async function listNaming({ dialect, namespace }: ObjectRef): Promise<readonly NamingMachine[]> {
    const { kinds, machine } = dialectOf(dialect);
    const found: NamingMachine[] = [];
    for await (const { items } of control.pages(kinds.machine, { namespace })) {
      for (const item of items) {
        const snapshot = machine.toSnapshot(item, defaults);
        if (snapshot.providerID !== undefined) found.push({ ...snapshot, name: item.metadata.name });
      }
    }
    return found;
  }

  /** The Machine whose Node is marked as its own. */
  async function findMarked(
    { dialect, namespace }: ObjectRef,
    machines: readonly NamingMachine[],
  ): Promise<NamingMachine | undefined> {
    for (const machine of machines) {
      if (machine.limits.hasNoNode) continue;
      const { name, uid } = machine;
      const { node } = await findNode({ dialect, namespace, name, uid }, machine);
      if (node !== undefined && toNodeSnapshot(dialectOf(dialect).marks, node, { namespace, name }).managed)
        return machine;
    }
    return undefined;
  }
}

/**
 * Of Machines that name one VM, none of which has a marked Node, the one that has it: the oldest of those that stay,
 * else the oldest. One that has failed without a Node, as a copy does, comes last.
 */
export function ownerOf<T extends Rival>(machines: readonly T[]): T | undefined {
  const rank = ({ stage, nodeName, deletingSince, createdAt, uid }: T) => {
    const isWithoutNode = stage === 'failed' && nodeName === undefined;
    return `${isWithoutNode ? 1 : 0} ${deletingSince === undefined ? 0 : 1} ${createdAt} ${uid}`;
  };
  return machines.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))[0];
}
