import type { Host } from '../kubelets/node.ts';
import type { StartedVm } from './arm.ts';

/** What the kubelet of a VM knows. */
export function hostOf(vm: StartedVm, joinMs: number, isOn: () => boolean): Host {
  const { id, name, location, zone, size, ip } = vm;
  return {
    id,
    name,
    providerID: `azure:///${location}/${name}`,
    labels: {
      'node.kubernetes.io/instance-type': size,
      'topology.kubernetes.io/region': location,
      ...(zone !== '' && { 'topology.kubernetes.io/zone': zone }),
    },
    taints: [],
    addresses: [
      { type: 'InternalIP', address: ip },
      { type: 'Hostname', address: name },
    ],
    capacity: { cpu: '2', memory: '8Gi', pods: '110' },
    joinsAt: Date.now() + joinMs,
    isOn,
  };
}
