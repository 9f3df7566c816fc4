/** Requests of the contract for the provider Azure. */
import type { EnsureVmRequest } from '../../api/provider.ts';

export const ownershipTags = { 'kubernetes.io-cluster-prod': '1', 'kubernetes.io-role-node': '1' };
export const uid = '0a1b2c3d-0000-4000-8000-000000000001';
/** As Azure keeps the UID. */
export const uidTag = { 'millwright.dev-machine-uid': uid };

export const credentials = {
  clientID: 'app-1',
  clientSecret: 'secret-1',
  subscriptionID: 'sub-1',
  tenantID: 'tenant-1',
};

export const properties = {
  hardwareProfile: { vmSize: 'Standard_D4s_v5' },
  storageProfile: {
    imageReference: { id: '/subscriptions/sub-1/resourceGroups/images/providers/Microsoft.Compute/images/node' },
    osDisk: { diskSizeGB: 50, createOption: 'FromImage' },
  },
  osProfile: { adminUsername: 'core' },
  zone: 2,
};

export const providerSpec = {
  location: 'westeurope',
  resourceGroup: 'machines',
  subnetInfo: { vnetName: 'net', subnetName: 'nodes' },
  tags: ownershipTags,
  properties,
};

/** What all requests have: a class whose Secret is garden/cloud. */
export function azureScope(spec: object = {}) {
  return {
    origin: { kind: 'MachineClass', namespace: 'garden', name: 'pool', generation: 1 },
    providerSpec: { ...providerSpec, ...spec },
    credentials: [{ namespace: 'garden', name: 'cloud' }],
  };
}

/** Request for the VM of the Machine workers-1, with the user data in garden/node. */
export function azureCreation(own: object = {}): EnsureVmRequest {
  return {
    ...azureScope({ properties: { ...properties, ...own } }),
    machine: { uid, namespace: 'garden', name: 'workers-1' },
    userData: { namespace: 'garden', name: 'node', key: 'userData' },
    token: `${uid}-0`,
    outcomeUnknown: false,
  };
}
