/** [mcm 106]: which fields of a class reach Azure, and as what. */
import { createPublicKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { ownershipTags, properties, providerSpec, uid, uidTag } from '../../../test/support/azure.ts';
import { AzureProviderSpec } from './schema.ts';
import { isPartName, partNames, toDisk, toNic, toVirtualMachine } from './virtual-machine.ts';

const machine = { uid, namespace: 'garden', name: 'workers-1' };
const tags = { ...ownershipTags, ...uidTag };
const idOf = (kind: string, name: string) => `/${kind}/${name}`;

const specOf = (own: object = {}, spec: object = {}) =>
  AzureProviderSpec.parse({ ...providerSpec, ...spec, properties: { ...properties, ...own } });

/** The request for a VM with these properties. */
const requestOf = (own: object = {}) =>
  toVirtualMachine({ spec: specOf(own), machine, tags, userData: '#!/bin/sh', plan: undefined, idOf });

const sshKey = 'ssh-ed25519 AAAA me';
const withKey = {
  osProfile: { adminUsername: 'core', linuxConfiguration: { ssh: { publicKeys: { keyData: sshKey } } } },
};

describe('the request for a VM', () => {
  it('[mcm 106 partly] names what is made with it, and has it go with the VM', () => {
    expect(requestOf(withKey)).toEqual({
      location: 'westeurope',
      tags,
      zones: ['2'],
      hardwareProfile: { vmSize: 'Standard_D4s_v5' },
      storageProfile: {
        imageReference: properties.storageProfile.imageReference,
        osDisk: { name: 'workers-1-os-disk', createOption: 'FromImage', diskSizeGB: 50, deleteOption: 'Delete' },
        dataDisks: [],
      },
      osProfile: {
        computerName: 'workers-1',
        adminUsername: 'core',
        customData: Buffer.from('#!/bin/sh').toString('base64'),
        linuxConfiguration: { ssh: { publicKeys: [{ path: '/home/core/.ssh/authorized_keys', keyData: sshKey }] } },
      },
      networkProfile: { networkInterfaces: [{ id: '/nic/workers-1-nic', primary: true, deleteOption: 'Delete' }] },
    });
  });

  it.each<[string, object, object]>([
    ['an availability set', { zone: undefined, availabilitySet: { id: '/set' } }, { availabilitySet: { id: '/set' } }],
    [
      'a scale set',
      { zone: undefined, virtualMachineScaleSet: { id: '/s' } },
      { virtualMachineScaleSet: { id: '/s' } },
    ],
    [
      'a deprecated availability set',
      { zone: undefined, machineSet: { id: '/set', kind: 'availabilityset' } },
      { availabilitySet: { id: '/set' } },
    ],
    [
      'a deprecated scale set',
      { zone: undefined, machineSet: { id: '/s', kind: 'vmo' } },
      { virtualMachineScaleSet: { id: '/s' } },
    ],
    [
      'an identity',
      { identityID: '/identity' },
      { identity: { type: 'UserAssigned', userAssignedIdentities: { '/identity': {} } } },
    ],
    [
      'boot diagnostics',
      { diagnosticsProfile: { enabled: true, storageURI: 'https://logs' } },
      { diagnosticsProfile: { bootDiagnostics: { enabled: true, storageUri: 'https://logs' } } },
    ],
    [
      'a security profile',
      {
        securityProfile: {
          securityType: 'TrustedLaunch',
          uefiSettings: { vtpmEnabled: true, secureBootEnabled: false },
        },
      },
      {
        securityProfile: {
          securityType: 'TrustedLaunch',
          uefiSettings: { vTpmEnabled: true, secureBootEnabled: false },
        },
      },
    ],
    [
      'a capacity reservation',
      { capacityReservation: { capacityReservationGroupID: '/reserved' } },
      { capacityReservation: { capacityReservationGroup: { id: '/reserved' } } },
    ],
    [
      'spot',
      { priority: 'Spot', billingProfile: { maxPrice: -1 } },
      { priority: 'Spot', evictionPolicy: 'Delete', billingProfile: { maxPrice: -1 } },
    ],
    [
      'spot that is kept',
      { priority: 'Spot', evictionPolicy: 'Deallocate' },
      { priority: 'Spot', evictionPolicy: 'Deallocate' },
    ],
    [
      'the disk controller, and an encrypted OS disk',
      {
        storageProfile: {
          ...properties.storageProfile,
          diskControllerType: 'NVMe',
          osDisk: {
            ...{ diskSizeGB: 50, createOption: 'FromImage', caching: 'ReadOnly', name: 'ignored' },
            managedDisk: {
              id: 'ignored',
              storageAccountType: 'Premium_LRS',
              securityProfile: { securityEncryptionType: 'VMGuestStateOnly' },
            },
          },
        },
      },
      {
        storageProfile: {
          diskControllerType: 'NVMe',
          osDisk: {
            ...{ name: 'workers-1-os-disk', caching: 'ReadOnly' },
            managedDisk: {
              storageAccountType: 'Premium_LRS',
              securityProfile: { securityEncryptionType: 'VMGuestStateOnly' },
            },
          },
        },
      },
    ],
    [
      'data disks',
      {
        storageProfile: {
          ...properties.storageProfile,
          dataDisks: [
            { lun: 0, storageAccountType: 'Premium_LRS', diskSizeGB: 10, caching: 'None' },
            { name: 'kubelet', lun: 1, storageAccountType: 'Premium_LRS', diskSizeGB: 20, imageRef: { id: '/image' } },
          ],
        },
      },
      {
        storageProfile: {
          dataDisks: [
            {
              ...{ lun: 0, name: 'workers-1-0-data-disk', createOption: 'Empty', diskSizeGB: 10, caching: 'None' },
              ...{ managedDisk: { storageAccountType: 'Premium_LRS' }, deleteOption: 'Delete' },
            },
            {
              ...{ lun: 1, name: 'workers-1-kubelet-1-data-disk', createOption: 'Attach' },
              ...{ managedDisk: { id: '/disk/workers-1-kubelet-1-data-disk' }, deleteOption: 'Delete' },
            },
          ],
        },
      },
    ],
    [
      'password authentication',
      {
        osProfile: {
          adminUsername: 'core',
          computerName: 'ignored',
          customData: 'ignored',
          linuxConfiguration: { disablePasswordAuthentication: true },
        },
      },
      { osProfile: { computerName: 'workers-1', linuxConfiguration: { disablePasswordAuthentication: true } } },
    ],
  ])('[mcm 106 partly] has %s', (_, own, expected) => {
    expect(requestOf(own)).toMatchObject(expected);
  });

  it.each<[object, object]>([
    [{ urn: 'acme:node:stable:1.0.0' }, { publisher: 'acme', offer: 'node', sku: 'stable', version: '1.0.0' }],
    [{ communityGalleryImageID: '/CommunityGalleries/a' }, { communityGalleryImageId: '/CommunityGalleries/a' }],
    [{ sharedGalleryImageID: '/SharedGalleries/a' }, { sharedGalleryImageId: '/SharedGalleries/a' }],
  ])('[mcm 106 partly] has the image %j', (imageReference, expected) => {
    const { storageProfile } = requestOf({ storageProfile: { ...properties.storageProfile, imageReference } });
    expect(storageProfile?.imageReference).toEqual(expected);
  });

  it('has a key of its own where the class has none, which is another one each time', () => {
    const keyOf = () => requestOf().osProfile?.linuxConfiguration?.ssh?.publicKeys?.[0]?.keyData ?? '';
    const key = keyOf();
    expect(key).not.toBe(keyOf());

    // RFC 4253: three fields, each with its length.
    const blob = Buffer.from(key.split(' ')[1] ?? '', 'base64');
    const fields: Buffer[] = [];
    for (let at = 0; at < blob.length; at += 4 + blob.readUInt32BE(at))
      fields.push(blob.subarray(at + 4, at + 4 + blob.readUInt32BE(at)));
    const [kind, e, n] = fields;
    expect([kind?.toString(), fields.length]).toEqual(['ssh-rsa', 3]);
    const jwk = { kty: 'RSA', e: e?.toString('base64url') ?? '', n: n?.subarray(1).toString('base64url') ?? '' };
    expect(createPublicKey({ key: jwk, format: 'jwk' }).asymmetricKeyDetails).toMatchObject({ modulusLength: 2048 });
  });
});

it('the request for a NIC has IP forwarding on, and accelerated networking where the class says so', () => {
  const spec = specOf({ networkProfile: { acceleratedNetworking: true, networkInterfaces: 'ignored' } });
  expect(toNic({ spec, tags }, '/subnet')).toMatchObject({
    tags,
    enableIPForwarding: true,
    enableAcceleratedNetworking: true,
    ipConfigurations: [{ subnet: { id: '/subnet' }, privateIPAllocationMethod: 'Dynamic' }],
  });
  expect(toNic({ spec: specOf(), tags }, '/subnet')).not.toHaveProperty('enableAcceleratedNetworking');
});

it.each<[object, object]>([
  [{ id: '/image' }, { galleryImageReference: { id: '/image' } }],
  [{ communityGalleryImageID: '/c' }, { galleryImageReference: { communityGalleryImageId: '/c' } }],
  [{ sharedGalleryImageID: '/s' }, { galleryImageReference: { sharedGalleryImageId: '/s' } }],
  [
    { urn: 'acme:node:stable:1.0.0' },
    {
      imageReference: {
        id: '/Subscriptions/sub-1/Providers/Microsoft.Compute/Locations/westeurope/Publishers/acme/ArtifactTypes/VMImage/Offers/node/Skus/stable/Versions/1.0.0',
      },
    },
  ],
])('the request for a data disk has the image %j', (imageRef, expected) => {
  const dataDisks = [{ storageAccountType: 'Premium_LRS', diskSizeGB: 10, imageRef }];
  const spec = specOf({ storageProfile: { ...properties.storageProfile, dataDisks } });
  const [disk] = spec.properties.storageProfile.dataDisks;
  if (disk?.imageRef === undefined) throw new Error('no disk');
  expect(toDisk({ spec, tags }, { ...disk, imageRef: disk.imageRef }, 'sub-1')).toEqual({
    ...{ location: 'westeurope', tags, zones: ['2'], sku: { name: 'Premium_LRS' }, diskSizeGB: 10 },
    creationData: { createOption: 'FromImage', ...expected },
  });
});

it('names of parts are not those of disks of pods', () => {
  const own = [
    partNames.nic('a-1'),
    partNames.osDisk('a-1'),
    partNames.dataDisk('a-1', { name: '', lun: 0 }),
    partNames.dataDisk('a-1', { name: 'c', lun: 12 }),
  ];
  expect(own).toEqual(['a-1-nic', 'a-1-os-disk', 'a-1-0-data-disk', 'a-1-c-12-data-disk']);
  expect(own.map((name) => [isPartName(name, 'A-1'), isPartName(name, 'a-1-b')])).toEqual(own.map(() => [true, false]));
  expect(['a-1', 'a-1-pvc', 'a-1-disk', 'a-12-nic', 'a-1-b-nic'].filter((name) => isPartName(name, 'a-1'))).toEqual([]);
});
