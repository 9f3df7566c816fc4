/** Requests of the contract for the provider OpenStack, and answers of its services. */
import type { EnsureVmRequest } from '../../api/provider.ts';

export const ownershipTags = { 'kubernetes.io-cluster-prod': '1', 'kubernetes.io-role-node': '1' };
export const uid = '0a1b2c3d-0000-4000-8000-000000000001';

/** What all requests have: a class whose Secret is garden/cloud. */
export function openstackScope(spec: object = {}) {
  return {
    origin: { kind: 'MachineClass', namespace: 'garden', name: 'pool', generation: 1 },
    providerSpec: {
      apiVersion: 'openstack.machine.gardener.cloud/v1alpha1',
      kind: 'MachineProviderConfig',
      spec: {
        region: 'one',
        availabilityZone: 'a',
        imageID: 'image-1',
        flavorName: 'small',
        keyName: 'key',
        networkID: 'net-1',
        podNetworkCIDRs: ['10.96.0.0/11'],
        tags: ownershipTags,
        ...spec,
      },
    },
    credentials: [{ namespace: 'garden', name: 'cloud' }],
  };
}

/** A creation of the VM of garden/workers-1. */
export function openstackCreation(spec: object = {}): EnsureVmRequest {
  return {
    ...openstackScope(spec),
    machine: { uid, namespace: 'garden', name: 'workers-1' },
    userData: { namespace: 'garden', name: 'node', key: 'userData' },
    token: `${uid}-0`,
    outcomeUnknown: false,
  };
}

/** Metadata of what belongs to the Machine. */
export const ownMetadata = { ...ownershipTags, 'millwright.dev-machine-uid': uid };

/** A server in an answer of nova. */
export function server(id: string, more: object = {}) {
  return {
    id,
    name: 'workers-1',
    status: 'ACTIVE',
    created: '2026-01-01T00:00:00Z',
    metadata: ownMetadata,
    addresses: { net: [{ addr: '10.0.0.1', 'OS-EXT-IPS:type': 'fixed' }] },
    'OS-EXT-STS:task_state': null,
    ...more,
  };
}

/** A port in an answer of neutron. */
export function port(id: string, more: object = {}) {
  return {
    id,
    name: 'workers-1',
    description: `millwright.dev/machine-uid=${uid}`,
    network_id: 'net-1',
    device_id: '',
    tags: Object.keys(ownershipTags),
    created_at: '2026-01-01T00:00:00Z',
    ...more,
  };
}

/** A volume in an answer of cinder. */
export function volume(id: string, more: object = {}) {
  return {
    id,
    name: 'workers-1',
    status: 'available',
    created_at: '2026-01-01T00:00:00.000000',
    metadata: ownMetadata,
    attachments: [],
    ...more,
  };
}
