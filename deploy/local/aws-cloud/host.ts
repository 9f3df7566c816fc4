import type { Host } from '../kubelets/node.ts';
import { type Instance, stateOf } from './instances.ts';

/** What the kubelet of an instance knows. */
export function hostOf(instance: Instance, joinMs: number): Host {
  const { id, region, zone, machineType, privateDnsName, privateIp } = instance;
  return {
    id,
    name: privateDnsName,
    providerID: `aws:///${region}/${id}`,
    labels: {
      'node.kubernetes.io/instance-type': machineType,
      'topology.kubernetes.io/region': region,
      'topology.kubernetes.io/zone': zone,
    },
    taints: [],
    addresses: [
      { type: 'InternalIP', address: privateIp },
      { type: 'InternalDNS', address: privateDnsName },
      { type: 'Hostname', address: privateDnsName },
    ],
    capacity: { cpu: '2', memory: '8Gi', pods: '110' },
    joinsAt: instance.runningAt + joinMs,
    isOn: () => stateOf(instance) === 'running',
  };
}
