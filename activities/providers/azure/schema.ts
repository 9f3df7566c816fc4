/**
 * `providerSpec` of a MachineClass of the provider `Azure`, as machine-controller-manager-provider-azure v0.22 defines
 * and checks it, and fields for spot VMs. Fields that it does not know are ignored here as there.
 */
import { z } from 'zod';

const nonEmpty = z.string().min(1);
const ignored = 'Ignored, as by MCM';

const Caching = z.enum(['None', 'ReadOnly', 'ReadWrite']);

const imageFields = ['id', 'urn', 'communityGalleryImageID', 'sharedGalleryImageID'] as const;

const ImageReference = z
  .object({
    id: nonEmpty.optional().describe('Resource ID of an image, or of an image or a version in a gallery of your own.'),
    urn: z
      .string()
      .regex(/^[^:]+:[^:]+:[^:]+:[^:]+$/, 'give publisher:offer:sku:version')
      .optional()
      .describe('Image of the marketplace, as `publisher:offer:sku:version`.'),
    communityGalleryImageID: nonEmpty
      .optional()
      .describe('As `/CommunityGalleries/<gallery>/Images/<image>/Versions/<version>`.'),
    sharedGalleryImageID: nonEmpty
      .optional()
      .describe('As `/SharedGalleries/<gallery>/Images/<image>/Versions/<version>`.'),
    skipMarketplaceAgreement: z
      .boolean()
      .default(false)
      .describe('true: the provider does not accept the terms of the `urn`, because somebody else has accepted them.'),
  })
  .refine(
    (reference) => imageFields.filter((field) => reference[field] !== undefined).length === 1,
    `give exactly one of ${imageFields.join(', ')}`,
  );
export type ImageReference = z.infer<typeof ImageReference>;

const OsDisk = z.object({
  name: z.string().optional().describe(`${ignored}: the name is \`<machine>-os-disk\`.`),
  caching: Caching.optional(),
  diskSizeGB: z.int().min(1),
  createOption: z.enum(['FromImage', 'Attach', 'Empty']),
  managedDisk: z
    .object({
      id: z.string().optional().describe(`${ignored}.`),
      storageAccountType: nonEmpty.optional().describe('As `Premium_LRS`. Default: that of Azure.'),
      securityProfile: z
        .object({
          securityEncryptionType: z
            .enum(['DiskWithVMGuestState', 'NonPersistedTPM', 'VMGuestStateOnly'])
            .optional()
            .describe('Of a confidential VM.'),
        })
        .optional(),
    })
    .optional(),
});

const DataDisk = z.object({
  name: z.string().default('').describe('Part of the name `<machine>-<name>-<lun>-data-disk`.'),
  lun: z.int().min(0).default(0).describe('Different for each disk.'),
  caching: Caching.optional(),
  storageAccountType: nonEmpty.describe('As `Premium_LRS`.'),
  diskSizeGB: z.int().min(1),
  imageRef: ImageReference.optional().describe(
    'Image that the disk is made from, before the VM. Default: the disk is empty.',
  ),
});
export type DataDisk = z.infer<typeof DataDisk>;

const OsProfile = z.object({
  computerName: z.string().optional().describe(`${ignored}: it is the name of the Machine.`),
  adminUsername: nonEmpty,
  adminPassword: z.string().optional().describe(`${ignored}.`),
  customData: z.string().optional().describe(`${ignored}: it is the user data of the Secret.`),
  linuxConfiguration: z
    .object({
      disablePasswordAuthentication: z.boolean().optional(),
      ssh: z
        .object({
          publicKeys: z
            .object({
              path: z.string().optional().describe('Default: `/home/<adminUsername>/.ssh/authorized_keys`.'),
              keyData: z
                .string()
                .optional()
                .describe(
                  'Public key. Default: a new one whose private half is never stored, so that nobody can log in.',
                ),
            })
            .optional()
            .describe('A single key, although the name is a plural.'),
        })
        .optional(),
    })
    .optional(),
});

const id = z.object({ id: nonEmpty.describe('Resource ID.') });

const Properties = z
  .object({
    hardwareProfile: z.object({ vmSize: nonEmpty.describe('As `Standard_D4s_v5`.') }),
    storageProfile: z.object({
      imageReference: ImageReference.describe(
        'Give exactly one of `id`, `urn`, `communityGalleryImageID` and `sharedGalleryImageID`.',
      ),
      diskControllerType: z.enum(['SCSI', 'NVMe']).optional(),
      osDisk: OsDisk,
      dataDisks: z.array(DataDisk).default([]),
    }),
    osProfile: OsProfile,
    networkProfile: z
      .object({
        acceleratedNetworking: z.boolean().optional(),
        networkInterfaces: z.unknown().optional().describe(`${ignored}: the interface is \`<machine>-nic\`.`),
      })
      .default({}),
    zone: z
      .int()
      .min(1)
      .optional()
      .describe('Give exactly one of `zone`, `availabilitySet` and `virtualMachineScaleSet`.'),
    availabilitySet: id.optional(),
    virtualMachineScaleSet: id.optional().describe('Scale set with flexible orchestration.'),
    machineSet: z
      .object({ id: nonEmpty, kind: z.enum(['availabilityset', 'vmo']).describe('`vmo`: a scale set.') })
      .optional()
      .describe('Deprecated: use `availabilitySet` or `virtualMachineScaleSet`.'),
    identityID: nonEmpty.optional().describe('Resource ID of a user-assigned managed identity for the VM.'),
    diagnosticsProfile: z
      .object({ enabled: z.boolean().default(false), storageURI: nonEmpty.optional() })
      .optional()
      .describe('Boot diagnostics.'),
    securityProfile: z
      .object({
        securityType: z.enum(['ConfidentialVM', 'TrustedLaunch', 'Standard']).optional(),
        uefiSettings: z
          .object({ vtpmEnabled: z.boolean().optional(), secureBootEnabled: z.boolean().optional() })
          .optional(),
      })
      .optional(),
    capacityReservation: z
      .object({ capacityReservationGroupID: nonEmpty.optional().describe('Resource ID.') })
      .optional(),
    priority: z
      .enum(['Regular', 'Spot'])
      .optional()
      .describe('`Spot`: Azure may take the VM away. MCM has no such field.'),
    evictionPolicy: z
      .enum(['Delete', 'Deallocate'])
      .optional()
      .describe('What Azure does with a spot VM that it takes away. Default: `Delete`. MCM has no such field.'),
    billingProfile: z
      .object({ maxPrice: z.number().optional().describe('US dollars an hour; -1: up to the price on demand.') })
      .optional()
      .describe('Of a spot VM. MCM has no such field.'),
  })
  .transform(({ machineSet, ...properties }) => ({
    ...properties,
    ...(machineSet?.kind === 'availabilityset' && { availabilitySet: { id: machineSet.id } }),
    ...(machineSet?.kind === 'vmo' && { virtualMachineScaleSet: { id: machineSet.id } }),
  }))
  .refine(
    ({ zone, availabilitySet, virtualMachineScaleSet }) =>
      [zone, availabilitySet, virtualMachineScaleSet].filter((each) => each !== undefined).length === 1,
    'give exactly one of zone, availabilitySet, virtualMachineScaleSet',
  )
  .refine(
    ({ priority, evictionPolicy, billingProfile }) =>
      priority === 'Spot' || (evictionPolicy === undefined && billingProfile === undefined),
    'give the priority Spot with evictionPolicy or billingProfile',
  )
  .refine(
    ({ storageProfile: { dataDisks } }) => new Set(dataDisks.map(({ lun }) => lun)).size === dataDisks.length,
    'give each of storageProfile.dataDisks a lun of its own',
  );

/** Keys of tags by which the VMs of a cluster and a role are found again begin so. */
export const ownershipPrefixes = ['kubernetes.io-cluster-', 'kubernetes.io-role-'] as const;

/** Tags with one key of a cluster and one of a role. */
export const AzureTags = z
  .record(z.string(), z.string().max(256))
  .refine((tags) => Object.keys(tags).every((key) => /^[^<>%&\\?/]{1,512}$/.test(key)), {
    error: 'give keys of 1 to 512 characters without <, >, %, &, \\, ? and /',
  })
  .refine(
    (tags) => ownershipPrefixes.every((prefix) => Object.keys(tags).some((key) => key.startsWith(prefix))),
    `give a key that begins with ${ownershipPrefixes[0]} and one that begins with ${ownershipPrefixes[1]}`,
  )
  .refine(
    (tags) => Object.keys(tags).length < 50,
    'give at most 49: Azure takes 50, and one is the UID of the Machine',
  );

export const AzureProviderSpec = z.object({
  location: z
    .string()
    .regex(/^[a-zA-Z0-9 ()]+$/, 'give the name of a location, such as westeurope')
    .describe('As `westeurope`.'),
  resourceGroup: z
    .string()
    .regex(/^[^/]+$/, 'give the name of a resource group')
    .describe('Resource group of the VMs and of everything that is made with them.'),
  subnetInfo: z.object({
    vnetName: nonEmpty.describe('Name of the virtual network.'),
    vnetResourceGroup: nonEmpty.optional().describe('Resource group of the virtual network. Default: `resourceGroup`.'),
    subnetName: nonEmpty,
  }),
  tags: AzureTags.describe(
    'Tags of the VM, its interface and its disks. One key begins with `kubernetes.io-cluster-` and one with ' +
      '`kubernetes.io-role-`: by these two the sweep finds what has no Machine.',
  ),
  cloudConfiguration: z
    .object({ name: z.enum(['AzurePublic', 'AzureChina', 'AzureGovernment']) })
    .default({ name: 'AzurePublic' })
    .describe('The cloud that the subscription is in. Default: `AzurePublic`.'),
  properties: Properties,
});
export type AzureProviderSpec = z.infer<typeof AzureProviderSpec>;
