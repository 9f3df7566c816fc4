/** The objects of a kubelet as it would write them. */
import type { NewObject } from '../../../api/objects.ts';
import type { Lease, Node } from '../../../kube/core.ts';

/** A VM since its last start, as its kubelet knows it. */
export interface Host {
  /** Of the VM. */
  readonly id: string;
  /** Of the Node. */
  readonly name: string;
  readonly providerID: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly { readonly key: string; readonly effect: string; readonly value?: string | undefined }[];
  readonly addresses: readonly { readonly type: string; readonly address: string }[];
  readonly capacity: Readonly<Record<string, string>>;
  /** When its kubelet registers the Node, ms since 1970. */
  readonly joinsAt: number;
  /** UID of the Node that was registered since the start, when that is known. */
  readonly nodeUid?: string | null;
  /** Called with the UID of the Node. */
  readonly onRegistered?: (nodeUid: string) => void;
  /** Whether the kubelet still works. Once false it stays so: another start is another host. */
  isOn(): boolean;
}

/** The Node that a kubelet registers, ready at once. */
export function nodeOf(host: Host): NewObject<Node> {
  return {
    metadata: {
      name: host.name,
      labels: {
        'kubernetes.io/hostname': host.name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        ...host.labels,
      },
    },
    spec: {
      providerID: host.providerID,
      taints: host.taints.map(({ key, effect, value }) => ({ key, effect, ...(value !== undefined && { value }) })),
    },
    status: {
      ...heartbeatOf(host),
      addresses: [...host.addresses],
      capacity: { ...host.capacity },
      allocatable: { ...host.capacity },
      nodeInfo: {
        architecture: 'amd64',
        operatingSystem: 'linux',
        bootID: `${host.id}-${host.joinsAt}`,
        machineID: host.id,
        systemUUID: host.id,
        kernelVersion: '6.0.0-simulated',
        osImage: 'Simulated Linux',
        containerRuntimeVersion: 'simulated://1.0.0',
        kubeletVersion: 'v1.34.10-simulated',
        kubeProxyVersion: '',
      },
    },
  };
}

/**
 * The part of the status that a kubelet renews.
 * @param before the conditions of its Node: one that somebody else has changed has another time from now on
 */
export function heartbeatOf(host: Host, before: NonNullable<Node['status']>['conditions'] = []) {
  const lastHeartbeatTime = seconds(Date.now());
  const healthy = (type: string, reason: string, status = 'False') => {
    const last = before.find((each) => each.type === type) ?? { status, lastTransitionTime: seconds(host.joinsAt) };
    const { lastTransitionTime = lastHeartbeatTime } = last.status === status ? last : {};
    return { type, status, reason, message: 'simulated', lastHeartbeatTime, lastTransitionTime };
  };
  return {
    conditions: [
      healthy('MemoryPressure', 'KubeletHasSufficientMemory'),
      healthy('DiskPressure', 'KubeletHasNoDiskPressure'),
      healthy('PIDPressure', 'KubeletHasSufficientPID'),
      healthy('Ready', 'KubeletReady', 'True'),
    ],
  };
}

/** The Lease that a kubelet renews, which goes with its Node. */
export function leaseOf(host: Host, nodeUid: string): NewObject<Lease> {
  return {
    metadata: {
      namespace: 'kube-node-lease',
      name: host.name,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: host.name, uid: nodeUid }],
    },
    spec: { holderIdentity: host.name, leaseDurationSeconds: 40, renewTime: microTime(Date.now()) },
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
