/** From a providerSpec to the resources that are made: interface, disks of images, VM. */
import { generateKeyPairSync } from 'node:crypto';
import type { ImageReference as ArmImageReference, Disk, VirtualMachine } from '@azure/arm-compute';
import type { NetworkInterface } from '@azure/arm-network';
import type { VmOrder } from '../kit/cloud.ts';
import type { Plan } from './client.ts';
import type { AzureProviderSpec, DataDisk, ImageReference } from './schema.ts';

type Properties = AzureProviderSpec['properties'];

/** Names of what is made for a VM, as machine-controller-manager-provider-azure gives them. */
export const partNames = {
  nic: (vm: string) => `${vm}-nic`,
  osDisk: (vm: string) => `${vm}-os-disk`,
  dataDisk: (vm: string, { name, lun }: Pick<DataDisk, 'name' | 'lun'>) =>
    `${vm}-${name === '' ? '' : `${name}-`}${lun}-data-disk`,
};

/** Whether a NIC or disk has a name that is given for a VM. */
export function isPartName(name: string, vm: string): boolean {
  const [lower, prefix] = [name.toLowerCase(), `${vm.toLowerCase()}-`];
  return lower.startsWith(prefix) && /^((.+-)?\d+-data-disk|nic|os-disk)$/.test(lower.slice(prefix.length));
}

interface Made {
  readonly spec: AzureProviderSpec;
  /** As Azure takes them. */
  readonly tags: Record<string, string>;
}

export function toNic({ spec, tags }: Made, subnetId: string): NetworkInterface {
  const { acceleratedNetworking } = spec.properties.networkProfile;
  return {
    location: spec.location,
    tags,
    enableIPForwarding: true,
    ...(acceleratedNetworking !== undefined && { enableAcceleratedNetworking: acceleratedNetworking }),
    ipConfigurations: [
      { name: 'ipconfig', subnet: { id: subnetId }, primary: true, privateIPAllocationMethod: 'Dynamic' },
    ],
  };
}

/** A data disk that is made of an image. */
export function toDisk(
  { spec, tags }: Made,
  { imageRef, storageAccountType, diskSizeGB }: DataDisk & { imageRef: ImageReference },
  subscriptionId: string,
): Disk {
  const { location, properties } = spec;
  const { id, urn, communityGalleryImageID, sharedGalleryImageID } = imageRef;
  const gallery = {
    ...(id !== undefined && { id }),
    ...(communityGalleryImageID !== undefined && { communityGalleryImageId: communityGalleryImageID }),
    ...(sharedGalleryImageID !== undefined && { sharedGalleryImageId: sharedGalleryImageID }),
  };
  return {
    location,
    tags,
    ...zonesOf(properties),
    sku: { name: storageAccountType },
    diskSizeGB,
    creationData: {
      createOption: 'FromImage',
      ...(urn === undefined
        ? { galleryImageReference: gallery }
        : { imageReference: { id: platformImageId(subscriptionId, location, urn) } }),
    },
  };
}

function platformImageId(subscriptionId: string, location: string, urn: string): string {
  const { publisher, offer, sku, version } = readUrn(urn);
  return (
    `/Subscriptions/${subscriptionId}/Providers/Microsoft.Compute/Locations/${location}/Publishers/${publisher}` +
    `/ArtifactTypes/VMImage/Offers/${offer}/Skus/${sku}/Versions/${version}`
  );
}

export function readUrn(urn: string) {
  const [publisher = '', offer = '', sku = '', version = ''] = urn.split(':');
  return { publisher, offer, sku, version };
}

interface MadeVm extends Made, Pick<VmOrder<AzureProviderSpec>, 'machine' | 'userData'> {
  readonly plan: Plan | undefined;
  /** Resource ID of a NIC or disk with this name. */
  idOf(kind: 'nic' | 'disk', name: string): string;
}

export function toVirtualMachine({ spec, machine, tags, userData, plan, idOf }: MadeVm): VirtualMachine {
  const { location, properties } = spec;
  const { name } = machine;
  const { hardwareProfile, storageProfile, osProfile, securityProfile: security } = properties;
  const { identityID, diagnosticsProfile, capacityReservation, priority, evictionPolicy, billingProfile } = properties;
  const { osDisk, dataDisks, diskControllerType } = storageProfile;
  const { linuxConfiguration: linux, adminUsername } = osProfile;
  const key = linux?.ssh?.publicKeys;
  const reservationId = capacityReservation?.capacityReservationGroupID;
  return defined({
    location,
    tags,
    plan,
    ...zonesOf(properties),
    identity: identityID && { type: 'UserAssigned', userAssignedIdentities: { [identityID]: {} } },
    hardwareProfile: { vmSize: hardwareProfile.vmSize },
    storageProfile: {
      imageReference: toImage(storageProfile.imageReference),
      diskControllerType,
      osDisk: {
        name: partNames.osDisk(name),
        caching: osDisk.caching,
        createOption: osDisk.createOption,
        diskSizeGB: osDisk.diskSizeGB,
        managedDisk: osDisk.managedDisk && {
          storageAccountType: osDisk.managedDisk.storageAccountType,
          securityProfile: osDisk.managedDisk.securityProfile,
        },
        deleteOption: 'Delete',
      },
      dataDisks: dataDisks.map((disk) => toDataDisk(disk, partNames.dataDisk(name, disk), idOf)),
    },
    osProfile: {
      computerName: name,
      adminUsername,
      customData: Buffer.from(userData).toString('base64'),
      linuxConfiguration: {
        disablePasswordAuthentication: linux?.disablePasswordAuthentication,
        ssh: {
          publicKeys: [
            {
              path: key?.path || `/home/${adminUsername}/.ssh/authorized_keys`,
              keyData: key?.keyData || throwAwayKey(),
            },
          ],
        },
      },
    },
    networkProfile: {
      networkInterfaces: [{ id: idOf('nic', partNames.nic(name)), primary: true, deleteOption: 'Delete' }],
    },
    securityProfile: security && {
      securityType: security.securityType,
      uefiSettings: security.uefiSettings && {
        vTpmEnabled: security.uefiSettings.vtpmEnabled,
        secureBootEnabled: security.uefiSettings.secureBootEnabled,
      },
    },
    diagnosticsProfile: diagnosticsProfile && {
      bootDiagnostics: { enabled: diagnosticsProfile.enabled, storageUri: diagnosticsProfile.storageURI },
    },
    availabilitySet: properties.availabilitySet,
    virtualMachineScaleSet: properties.virtualMachineScaleSet,
    capacityReservation: reservationId && { capacityReservationGroup: { id: reservationId } },
    priority,
    evictionPolicy: priority === 'Spot' ? (evictionPolicy ?? 'Delete') : undefined,
    billingProfile,
  }) as VirtualMachine;
}

function toDataDisk(disk: DataDisk, name: string, idOf: MadeVm['idOf']) {
  const { lun, caching, diskSizeGB, storageAccountType, imageRef } = disk;
  const common = { lun, name, caching, deleteOption: 'Delete' };
  return imageRef === undefined
    ? { ...common, createOption: 'Empty', diskSizeGB, managedDisk: { storageAccountType } }
    : { ...common, createOption: 'Attach', managedDisk: { id: idOf('disk', name) } };
}

function toImage(reference: ImageReference): ArmImageReference {
  const {
    id,
    urn,
    communityGalleryImageID: communityGalleryImageId,
    sharedGalleryImageID: sharedGalleryImageId,
  } = reference;
  if (urn !== undefined) return readUrn(urn);
  return {
    ...(id !== undefined && { id }),
    ...(communityGalleryImageId !== undefined && { communityGalleryImageId }),
    ...(sharedGalleryImageId !== undefined && { sharedGalleryImageId }),
  };
}

function zonesOf({ zone }: Properties): { zones?: string[] } {
  return zone === undefined ? {} : { zones: [String(zone)] };
}

/** Public half of an SSH key whose private half is forgotten at once: Azure wants a key, and nobody shall log in. */
function throwAwayKey(): string {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 0x10001 });
  const { n = '', e = '' } = publicKey.export({ format: 'jwk' });
  const fields = [Buffer.from('ssh-rsa'), positive(e), positive(n)].flatMap((field) => [lengthOf(field), field]);
  return `ssh-rsa ${Buffer.concat(fields).toString('base64')} millwright`;
}

/** As SSH writes a number (RFC 4251): its highest bit is not set. */
function positive(base64url: string): Buffer {
  const bytes = Buffer.from(base64url, 'base64url');
  return (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes;
}

function lengthOf(field: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(field.length);
  return length;
}

/** Without fields that are undefined: what a class does not say is not sent. */
function defined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(defined);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries.map(([name, each]) => [name, defined(each)]));
}
