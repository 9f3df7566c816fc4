import { describe, expect, it } from '@jest/globals';
import { actionOf, linkedActionsOf } from './actions.ts';

const group = '/subscriptions/5f0e/resourceGroups/machines';

describe('actions', () => {
  it('have the name of the right that a role gives', () => {
    const compute = `${group}/providers/Microsoft.Compute`;
    const operations = '/subscriptions/5f0e/providers/Microsoft.Compute/locations/westeurope/operations/1';
    const agreements =
      '/subscriptions/5f0e/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/p/offers/o/plans/x/agreements/current';
    expect([
      actionOf('PUT', `${compute}/virtualMachines/vm`),
      actionOf('PATCH', `${compute}/virtualMachines/vm`),
      actionOf('GET', `${compute}/virtualMachines`),
      actionOf('GET', `${compute}/virtualMachines/vm/instanceView`),
      actionOf('DELETE', `${compute}/disks/disk`),
      actionOf('GET', operations),
      actionOf('PUT', agreements),
      actionOf('GET', group),
    ]).toEqual([
      'Microsoft.Compute/virtualMachines/write',
      'Microsoft.Compute/virtualMachines/write',
      'Microsoft.Compute/virtualMachines/read',
      'Microsoft.Compute/virtualMachines/instanceView/read',
      'Microsoft.Compute/disks/delete',
      'Microsoft.Compute/locations/operations/read',
      'Microsoft.MarketplaceOrdering/offerTypes/publishers/offers/plans/agreements/write',
      'Microsoft.Resources/subscriptions/resourceGroups/read',
    ]);
  });

  it('need others on resources that they name, but not on images of public galleries', () => {
    const id = (kind: string) => ({ id: `${group}/providers/${kind}` });
    const vm = {
      identity: { userAssignedIdentities: { [id('Microsoft.ManagedIdentity/userAssignedIdentities/nodes').id]: {} } },
      properties: {
        networkProfile: { networkInterfaces: [id('Microsoft.Network/networkInterfaces/nic')] },
        virtualMachineScaleSet: id('Microsoft.Compute/virtualMachineScaleSets/nodes'),
        storageProfile: {
          imageReference: { communityGalleryImageId: '/CommunityGalleries/nodes/Images/linux/Versions/1.0.0' },
          dataDisks: [{ managedDisk: id('Microsoft.Compute/disks/data') }],
        },
      },
    };
    const nic = {
      properties: {
        ipConfigurations: [
          { properties: { subnet: id('Microsoft.Network/virtualNetworks/nodes/subnets/nodes') } },
          { properties: { publicIPAddress: id('Microsoft.Network/publicIPAddresses/ip') } },
        ],
      },
    };
    expect(linkedActionsOf('PUT', vm)).toEqual([
      'Microsoft.Network/networkInterfaces/join/action',
      'Microsoft.Compute/disks/write',
      'Microsoft.Compute/virtualMachineScaleSets/write',
      'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action',
    ]);
    expect(linkedActionsOf('PUT', nic)).toEqual([
      'Microsoft.Network/virtualNetworks/subnets/join/action',
      'Microsoft.Network/publicIPAddresses/join/action',
    ]);
    expect(linkedActionsOf('GET', undefined)).toEqual([]);
  });
});
