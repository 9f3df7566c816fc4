import { machineTypes } from '../../../activities/providers/simulated/schema.ts';
import type { Host } from '../kubelets/node.ts';
import { addressesOf } from './api.ts';
import { type CloudState, isAlive, type StoredVm } from './state.ts';

/** What the kubelet of a VM knows. `vm` is the VM as it started. */
export function hostOf(state: CloudState, vm: StoredVm, nodePrefix: string): Host {
  const { id, region, machineType, node, nodeUid, restarts } = vm;
  const name = `${nodePrefix}${vm.name}`;
  return {
    id,
    name,
    providerID: `simulated:///${region}/${id}`,
    labels: {
      'node.kubernetes.io/instance-type': machineType,
      'topology.kubernetes.io/region': region,
      ...node?.labels,
    },
    taints: node?.taints ?? [],
    addresses: addressesOf({ ...vm, name }),
    capacity: machineTypes[machineType],
    joinsAt: vm.bootedAt + vm.joinMs,
    nodeUid,
    onRegistered: (uid) => state.update(id, { nodeUid: uid }),
    isOn() {
      const now = state.vm(id);
      return now !== undefined && now.restarts === restarts && isAlive(now, Date.now());
    },
  };
}
