import { describe, expect, it } from '@jest/globals';
import { azureScope, credentials, properties, providerSpec } from '../../../test/support/azure.ts';
import { createAzureProvider } from './index.ts';

describe('validateClass', () => {
  const provider = createAzureProvider({ readSecret: async () => credentials });
  const context = { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} };
  const verdict = (spec: object) => provider.validateClass(azureScope(spec), context);
  const problemsWith = async (own: object) => (await verdict({ properties: { ...properties, ...own } })).problems;
  const storage = (more: object) => ({ storageProfile: { ...properties.storageProfile, ...more } });

  it('accepts a class, and answers one listScope for classes of one resource group, account and cluster', async () => {
    const { problems, listScope, tags, interruptible } = await verdict({});

    expect([problems, tags, interruptible]).toEqual([[], providerSpec.tags, undefined]);
    expect((await verdict({ location: 'northeurope', properties: {} })).listScope).toBe(listScope);
    expect((await verdict({ resourceGroup: 'others' })).listScope).not.toBe(listScope);
    const other = { 'kubernetes.io-cluster-b': '1', 'kubernetes.io-role-node': '1' };
    expect((await verdict({ tags: other })).listScope).not.toBe(listScope);
  });

  it('ignores fields that it does not know, and null', async () => {
    expect(await verdict({ foo: 1, cloudConfiguration: null })).toMatchObject({ problems: [] });
    expect(await problemsWith({ bar: 1, identityID: null, networkProfile: { networkInterfaces: [{}] } })).toEqual([]);
  });

  it.each<[object, string]>([
    [{ location: '' }, 'location is "": give the name of a location, such as westeurope'],
    [{ resourceGroup: undefined }, 'resourceGroup is missing: give a string'],
    [{ resourceGroup: 'a/b' }, 'resourceGroup is "a/b": give the name of a resource group'],
    [{ subnetInfo: { vnetName: 'net' } }, 'subnetInfo.subnetName is missing: give a string'],
    [
      { tags: { a: 'b' } },
      'tags is {"a":"b"}: give a key that begins with kubernetes.io-cluster- and one that begins with kubernetes.io-role-',
    ],
    [
      { cloudConfiguration: { name: 'Mars' } },
      'cloudConfiguration.name is "Mars": use AzurePublic, AzureChina or AzureGovernment',
    ],
  ])('refuses %j with the field, its value and the fix', async (spec, problem) => {
    expect((await verdict(spec)).problems).toEqual([`providerSpec.${problem}`]);
  });

  it('refuses keys of tags that Azure does not take', async () => {
    const { problems } = await verdict({ tags: { ...providerSpec.tags, 'kubernetes.io/x': '1' } });
    expect(problems).toEqual([
      expect.stringContaining('give keys of 1 to 512 characters without <, >, %, &, \\, ? and /'),
    ]);
  });

  it.each<[object, string]>([
    [{ hardwareProfile: {} }, 'hardwareProfile.vmSize is missing: give a string'],
    [
      storage({ imageReference: {} }),
      'storageProfile.imageReference is {}: give exactly one of id, urn, communityGalleryImageID, sharedGalleryImageID',
    ],
    [
      storage({ imageReference: { urn: 'a:b' } }),
      'storageProfile.imageReference.urn is "a:b": give publisher:offer:sku:version',
    ],
    [
      storage({ osDisk: { createOption: 'FromImage', diskSizeGB: 0 } }),
      'storageProfile.osDisk.diskSizeGB is 0: give 1 or more',
    ],
    [
      storage({ osDisk: { diskSizeGB: 50 } }),
      'storageProfile.osDisk.createOption is missing: use FromImage, Attach or Empty',
    ],
    [
      storage({ dataDisks: [{ lun: 0, diskSizeGB: 1 }] }),
      'storageProfile.dataDisks.0.storageAccountType is missing: give a string',
    ],
    [
      storage({ dataDisks: [{ lun: -1, diskSizeGB: 1, storageAccountType: 'a' }] }),
      'storageProfile.dataDisks.0.lun is -1: give 0 or more',
    ],
    [{ osProfile: {} }, 'osProfile.adminUsername is missing: give a string'],
    [{ zone: 'a' }, 'zone is "a": give a number'],
    [{ machineSet: { id: 'x', kind: 'pool' } }, 'machineSet.kind is "pool": use availabilityset or vmo'],
    [
      { securityProfile: { securityType: 'safe' } },
      'securityProfile.securityType is "safe": use ConfidentialVM, TrustedLaunch or Standard',
    ],
    [{ priority: 'Low' }, 'priority is "Low": use Regular or Spot'],
  ])('refuses the property %j', async (own, problem) => {
    expect(await problemsWith(own)).toEqual([`providerSpec.properties.${problem}`]);
  });

  it.each<[object, string]>([
    [{ zone: undefined }, 'give exactly one of zone, availabilitySet, virtualMachineScaleSet'],
    [{ availabilitySet: { id: 'a' } }, 'give exactly one of zone, availabilitySet, virtualMachineScaleSet'],
    [{ machineSet: { id: 'a', kind: 'vmo' } }, 'give exactly one of zone, availabilitySet, virtualMachineScaleSet'],
    [{ evictionPolicy: 'Delete' }, 'give the priority Spot with evictionPolicy or billingProfile'],
    [
      storage({ dataDisks: [1, 2].map(() => ({ diskSizeGB: 1, storageAccountType: 'a' })) }),
      'give each of storageProfile.dataDisks a lun of its own',
    ],
  ])('refuses what does not go together in %j', async (own, problem) => {
    expect(await problemsWith(own)).toEqual([
      expect.stringMatching(new RegExp(`^providerSpec.properties is .*: ${problem}$`)),
    ]);
  });
});
