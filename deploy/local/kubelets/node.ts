/** The objects of a kubelet as it would write them. */
import { machineTypes } from '../../../activities/providers/simulated/schema.ts';
import type { NewObject } from '../../../api/objects.ts';
import type { Lease, Node } from '../../../kube/core.ts';
import { addressesOf } from './api.ts';
import type { StoredVm } from './state.ts';

/** `Node.spec.providerID` of a VM. */
export function providerIdOf({ region, id }: StoredVm): string {
  return `simulated:///${region}/${id}`;
}

/** The Node that a kubelet registers, ready at once. */
export function nodeOf(vm: StoredVm): NewObject<Node> {
  return {
    metadata: {
      name: vm.name,
      labels: {
        'kubernetes.io/hostname': vm.name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        'node.kubernetes.io/instance-type': vm.machineType,
        'topology.kubernetes.io/region': vm.region,
        ...vm.node.labels,
      },
    },
    spec: {
      providerID: providerIdOf(vm),
      taints: vm.node.taints.map(({ key, effect, value }) => ({ key, effect, ...(value !== undefined && { value }) })),
    },
    status: {
      ...heartbeatOf(vm),
      addresses: addressesOf(vm),
      capacity: { ...machineTypes[vm.machineType] },
      allocatable: { ...machineTypes[vm.machineType] },
      nodeInfo: {
        architecture: 'amd64',
        operatingSystem: 'linux',
        bootID: `${vm.id}-${vm.restarts}`,
        machineID: vm.id,
        systemUUID: vm.id,
        kernelVersion: '6.0.0-simulated',
        osImage: 'Simulated Linux',
        containerRuntimeVersion: 'simulated://1.0.0',
        kubeletVersion: 'v1.34.10-simulated',
        kubeProxyVersion: '',
      },
    },
  };
}

/** The part of the status that a kubelet renews. */
export function heartbeatOf(vm: StoredVm) {
  const lastHeartbeatTime = seconds(Date.now());
  const lastTransitionTime = seconds(vm.bootedAt + vm.joinMs);
  const healthy = (type: string, reason: string) => ({
    type,
    status: 'False',
    reason,
    message: 'simulated',
    lastHeartbeatTime,
    lastTransitionTime,
  });
  return {
    conditions: [
      healthy('MemoryPressure', 'KubeletHasSufficientMemory'),
      healthy('DiskPressure', 'KubeletHasNoDiskPressure'),
      healthy('PIDPressure', 'KubeletHasSufficientPID'),
      { ...healthy('Ready', 'KubeletReady'), status: 'True' },
    ],
  };
}

/** The Lease that a kubelet renews, which goes with its Node. */
export function leaseOf(vm: StoredVm, nodeUid: string): NewObject<Lease> {
  return {
    metadata: {
      namespace: 'kube-node-lease',
      name: vm.name,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: vm.name, uid: nodeUid }],
    },
    spec: { holderIdentity: vm.name, leaseDurationSeconds: 40, renewTime: microTime(Date.now()) },
  };
}

/** A time as MicroTime wants it: six digits. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

/** A time as metav1.Time has it: no fraction. */
export function seconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '');
}
