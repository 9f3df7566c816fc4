/** Finds out which Machine has a VM that several name. */
import { dialectOf } from '../../api/dialects.ts';
import type { MachineLimits, MachineSnapshot } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { vmOf } from '../../api/provider-id.ts';
import type { KubeClient } from '../../kube/client.ts';
import { coalesce } from '../../kube/shared-finds.ts';

export interface VmOwnerDeps {
  readonly control: KubeClient;
  readonly defaults: MachineLimits;
}

/** A Machine that names a VM. */
export type NamingMachine = Pick<ObjectRef, 'name' | 'uid'> &
  Pick<MachineSnapshot, 'createdAt' | 'deletingSince' | 'providerID'>;

export function createVmOwnerActivities({ control, defaults }: VmOwnerDeps) {
  const share = coalesce<readonly NamingMachine[]>();

  return {
    /** The other Machine that has the VM which this one names; without a name where it is this one's. Lists all Machines. */
    async findVmOwner(ref: ObjectRef, { providerID }: MachineSnapshot): Promise<{ readonly name?: string }> {
      if (providerID === undefined) return {};
      const machines = await share(`${ref.dialect} ${ref.namespace}`, () => listNaming(ref));
      const owner = ownerOf(machines.filter((each) => each.providerID && vmOf(each.providerID) === vmOf(providerID)));
      return owner === undefined || owner.uid === ref.uid ? {} : { name: owner.name };
    },
  };

  async function listNaming({ dialect, namespace }: ObjectRef): Promise<readonly NamingMachine[]> {
    const { kinds, machine } = dialectOf(dialect);
    const found: NamingMachine[] = [];
    for await (const { items } of control.pages(kinds.machine, { namespace })) {
      for (const item of items) {
        const { uid, createdAt, deletingSince, providerID } = machine.toSnapshot(item, defaults);
        if (providerID === undefined) continue;
        const { name } = item.metadata;
        found.push({ name, uid, createdAt, providerID, ...(deletingSince !== undefined && { deletingSince }) });
      }
    }
    return found;
  }
}

/** Of Machines that name one VM the one that has it: the oldest of those that stay, else the oldest. */
export function ownerOf(machines: readonly NamingMachine[]): NamingMachine | undefined {
  const rank = ({ deletingSince, createdAt, uid }: NamingMachine) =>
    `${deletingSince === undefined ? 0 : 1} ${createdAt} ${uid}`;
  return machines.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))[0];
}
