/**
 * `providerSpec` of a MachineClass of the provider `AWS`, as machine-controller-manager-provider-aws v0.29 defines and
 * checks it. Fields that it does not know are ignored here as there.
 */
import { z } from 'zod';

const nonEmpty = z.string().min(1);
const count = z.int().min(0);

const Ebs = z.object({
  volumeSize: z.int().min(1).describe('GiB.'),
  volumeType: z
    .enum(['gp2', 'gp3', 'io1', 'io2', 'st1', 'sc1', 'standard'])
    .optional()
    .describe('Default: that of EC2, gp2.'),
  iops: z.int().min(1).optional().describe('Needed for io1, and by EC2 for io2.'),
  throughput: z.int().min(1).optional().describe('MiB/s, gp3 only.'),
  encrypted: z.boolean().optional().describe('Default: that of the account and the snapshot.'),
  deleteOnTermination: z
    .boolean()
    .default(true)
    .describe('false: the volume outlives a termination in the cloud. It goes with the Machine in either case.'),
  snapshotID: nonEmpty.optional().describe('Snapshot that the volume is made from.'),
  kmsKeyID: nonEmpty.optional().describe('Key of a volume with `encrypted: true`; ignored otherwise.'),
});

const BlockDevice = z.object({
  deviceName: z
    .string()
    .regex(
      /^(|\/root|\/dev\/(sd[a-z]|xvd[a-z]{1,2}))$/,
      'use /root, /dev/sd followed by a letter, or /dev/xvd and one or two',
    )
    .default('')
    .describe('`/root`: the root device of the image; any other as EC2 names it. The only device is always the root.'),
  ebs: Ebs,
  noDevice: z.string().optional().describe('Ignored, as by MCM: each device has a volume.'),
  virtualName: nonEmpty.optional().describe('Ignored, as by MCM: each device has a volume.'),
});

const NetworkInterface = z.object({
  subnetID: nonEmpty.describe('Also says in which zone the instance is made.'),
  securityGroupIDs: z.array(nonEmpty).min(1),
  associatePublicIPAddress: z.boolean().optional().describe('Default: that of the subnet.'),
  deleteOnTermination: z
    .boolean()
    .default(true)
    .describe('false: the interface outlives a termination in the cloud. It goes with the Machine in either case.'),
  description: nonEmpty.optional().describe('Of the interface in EC2.'),
  ipv6AddressCount: count.optional().describe('IPv6 addresses from the subnet.'),
  ipv6PrefixCount: count
    .optional()
    .describe('IPv6 prefixes, assigned once the instance exists. The Machine is not Running before.'),
  primaryIpv6: z.boolean().optional().describe('Default: true where addresses are requested.'),
  interfaceType: z.enum(['interface', 'efa', 'efa-only']).optional(),
  networkCardIndex: count.optional().describe('For instances with several network cards.'),
  deviceIndex: count.optional().describe('Default: its place in the list, from 0.'),
});

const Iam = z
  .object({
    name: nonEmpty.optional().describe('Name of the instance profile.'),
    arn: nonEmpty.optional().describe('Its ARN, instead of the name.'),
  })
  .refine(({ name, arn }) => (name === undefined) !== (arn === undefined), 'give either name or arn');

const MetadataOptions = z.object({
  httpEndpoint: z.enum(['enabled', 'disabled']).optional(),
  httpTokens: z.enum(['required', 'optional']).optional(),
  httpPutResponseHopLimit: z.int().min(0).max(64).optional(),
  httpProtocolIpv6: z.enum(['enabled', 'disabled']).optional(),
});

const CpuOptions = z
  .object({
    coreCount: z.int().min(1).optional(),
    threadsPerCore: z.int().min(1).max(2).optional(),
    amdSevSnp: z.enum(['enabled', 'disabled']).optional(),
  })
  .refine(
    ({ coreCount, threadsPerCore }) => (coreCount === undefined) === (threadsPerCore === undefined),
    'give both coreCount and threadsPerCore, or neither',
  );

const reservationFields = {
  capacityReservationPreference: z.enum(['open', 'none', 'capacity-reservations-only']).optional(),
  capacityReservationId: nonEmpty.optional(),
  capacityReservationResourceGroupArn: nonEmpty.optional(),
};
const CapacityReservation = z
  .object(reservationFields)
  .refine(
    (given) => Object.values(given).filter((value) => value !== undefined).length <= 1,
    `give only one of ${Object.keys(reservationFields).join(', ')}`,
  );

/** Also the annotation `machine.sapcloud.io/awsPlacement` of a node template, as JSON. */
export const Placement = z
  .object({
    groupId: nonEmpty.optional(),
    tenancy: z.enum(['default', 'dedicated', 'host']).optional(),
    hostId: nonEmpty.optional().describe('With the tenancy `host`.'),
    partitionNumber: z.int().min(1).optional(),
    affinity: nonEmpty.optional(),
  })
  .refine(({ hostId, tenancy }) => hostId === undefined || tenancy === 'host', 'hostId needs the tenancy host');

/** Keys of tags by which the VMs of a cluster and a role are found again begin so. */
export const ownershipPrefixes = ['kubernetes.io/cluster/', 'kubernetes.io/role/'] as const;

/** Tags with one key of a cluster and one of a role. */
export const AwsTags = z
  .record(z.string().min(1), z.string())
  .refine(
    (tags) => ownershipPrefixes.every((prefix) => Object.keys(tags).some((key) => key.startsWith(prefix))),
    'give a key that begins with kubernetes.io/cluster/ and one that begins with kubernetes.io/role/',
  );

export const AwsProviderSpec = z
  .object({
    region: z
      .string()
      .regex(/^[a-z0-9-]+$/, 'give the code of a region, such as eu-west-1')
      .describe('As `eu-west-1`.'),
    endpoint: z
      .url({ protocol: /^https?$/, error: 'give a URL that begins with https:// or http://' })
      .optional()
      .describe('Of EC2. Default: that of the region.'),
    ami: z
      .string()
      .regex(
        /^(ami-[0-9a-f]+|resolve:ssm:.+)$/,
        'give the ID of an image, such as ami-0123456789abcdef0, or resolve:ssm:<parameter>',
      )
      .describe('ID of the image, or `resolve:ssm:` with a parameter that has it.'),
    machineType: nonEmpty.describe('Instance type, as `m5.large`.'),
    keyName: nonEmpty.optional().describe('SSH key pair.'),
    iam: Iam.describe('Instance profile: exactly one of the two.'),
    blockDevices: z.array(BlockDevice).min(1).describe('Several have a name each, and exactly one is `/root`.'),
    networkInterfaces: z.array(NetworkInterface).min(1),
    tags: AwsTags.describe(
      'Tags of the instance, its volumes and interfaces. One key begins with `kubernetes.io/cluster/` and one with ' +
        '`kubernetes.io/role/`: by these two the sweep finds what has no Machine. `Name` is ignored.',
    ),
    srcAndDstChecksEnabled: z
      .boolean()
      .optional()
      .describe('false: the check is switched off on every interface but EFA.'),
    instanceMetadataOptions: MetadataOptions.optional(),
    cpuOptions: CpuOptions.optional().describe('`coreCount` and `threadsPerCore` go together.'),
    capacityReservation: CapacityReservation.optional().describe('At most one of the three.'),
    placement: Placement.optional().describe(
      'Left out: as the Machine says, in Gardener’s API with the annotation awsPlacement of the node template, in JSON.',
    ),
    instanceMarketOptions: z
      .object({ marketType: z.enum(['spot', 'capacity-block', 'interruptible-capacity-reservation']) })
      .optional()
      .describe('Left out: on demand.'),
    spotPrice: z.string().optional().describe('Deprecated. A one-time spot instance for this price; empty: for any.'),
    ebsOptimized: z.boolean().optional(),
    monitoring: z.boolean().optional(),
  })
  .check(({ value: { blockDevices }, issues }) => {
    blockDevices.forEach(({ deviceName, ebs: { volumeType, iops } }, index) => {
      const path = ['blockDevices', index];
      if (volumeType === 'io1' && iops === undefined) {
        issues.push({
          code: 'custom',
          input: iops,
          path: [...path, 'ebs', 'iops'],
          message: 'io1 needs it: give 1 or more',
        });
      }
      if (blockDevices.length > 1 && deviceName === '') {
        issues.push({
          code: 'custom',
          input: deviceName,
          path: [...path, 'deviceName'],
          message: 'several devices need names',
        });
      }
    });
    const names = blockDevices.map(({ deviceName }) => deviceName);
    if (names.length > 1 && names.filter((name) => name === '/root').length !== 1) {
      issues.push({ code: 'custom', input: names, path: ['blockDevices'], message: 'name exactly one device /root' });
    }
    if (new Set(names).size < names.length) {
      issues.push({
        code: 'custom',
        input: names,
        path: ['blockDevices'],
        message: 'give each device a name of its own',
      });
    }
  });
export type AwsProviderSpec = z.infer<typeof AwsProviderSpec>;
