/**
 * `providerSpec` of a MachineClass of the provider `OpenStack`, as machine-controller-manager-provider-openstack
 * defines and checks it. Fields that it does not know are ignored here as there, and an empty text counts as left out.
 */
import { isIP } from 'node:net';
import { z } from 'zod';

const nonEmpty = z.string().min(1);

/** `10.96.0.0/11` or `fd00::/48`. */
const Cidr = z.string().refine((text) => {
  const [address = '', length = '', ...more] = text.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return more.length === 0 && /^\d{1,3}$/.test(length) && Number(length) <= bits;
}, 'give a range such as 10.96.0.0/11');

const Network = z
  .object({
    id: nonEmpty.optional().describe('ID of the network.'),
    name: nonEmpty.optional().describe('Name of the network, instead of the ID.'),
    podNetwork: z
      .boolean()
      .default(false)
      .describe('true: ports in this network also let the traffic of pods through.'),
  })
  .refine(({ id, name }) => (id === undefined) !== (name === undefined), 'give either id or name');

/** Keys of tags by which the VMs of a cluster and a role are found again contain these. */
export const ownershipParts = ['kubernetes.io-cluster-', 'kubernetes.io-role-'] as const;

/** What nova and cinder take as a key of metadata. */
const metadataKey = /^[a-zA-Z0-9-_:. ]{1,255}$/;

/** Tags with one key of a cluster and one of a role. */
export const OpenstackTags = z
  .record(nonEmpty, z.string().max(255))
  .refine(
    (tags) => Object.keys(tags).every((key) => metadataKey.test(key)),
    'use letters, digits and -_:. in keys, and no "/": spell kubernetes.io/cluster/ as kubernetes.io-cluster-',
  )
  .refine(
    (tags) => ownershipParts.every((part) => Object.keys(tags).some((key) => key.includes(part))),
    'give a key that contains kubernetes.io-cluster- and one that contains kubernetes.io-role-',
  );

const Spec = z
  .object({
    imageID: nonEmpty.optional().describe('ID of the image.'),
    imageName: nonEmpty
      .optional()
      .describe('Name of the image, if there is no `imageID`. Only one image may have this name.'),
    region: nonEmpty.describe('Region, as in the service catalogue.'),
    availabilityZone: nonEmpty.describe(
      'Zone of the server, and of its root volume if cinder has a zone with this name.',
    ),
    flavorName: nonEmpty.describe('Name of the flavor.'),
    keyName: nonEmpty.describe('Name of the SSH key pair, which belongs to the user of the credentials.'),
    securityGroups: z.array(nonEmpty).optional().describe('Names or IDs. Default: the group `default`.'),
    tags: OpenstackTags.describe(
      'Metadata of the server and its root volume, and tags of its ports. One key contains `kubernetes.io-cluster-` and one ' +
        '`kubernetes.io-role-`: by these two the sweep finds what has no Machine.',
    ),
    networkID: nonEmpty
      .optional()
      .describe('ID of the network, if there is only one. It is also the network of the pods.'),
    networks: z
      .array(Network)
      .optional()
      .describe('Several networks instead of `networkID`, in the order of the interfaces.'),
    subnetID: nonEmpty.optional().describe('Deprecated: use `subnetIDs`.'),
    subnetIDs: z
      .array(nonEmpty)
      .optional()
      .describe('Subnets of `networkID`. The port gets an address in each. Default: neutron chooses.'),
    podNetworkCidr: Cidr.optional().describe('Deprecated: use `podNetworkCIDRs`.'),
    podNetworkCIDRs: z
      .array(Cidr)
      .optional()
      .describe('CIDRs of the pods, at least one. Ports in the network of the pods let their traffic through.'),
    rootDiskSize: z
      .int()
      .min(0)
      .optional()
      .describe(
        'GiB of the volume that the server boots from. Default, and with 0: it boots from the disk of its flavor.',
      ),
    rootDiskType: nonEmpty.optional().describe('Type of this volume. Default: the default type of cinder.'),
    useConfigDrive: z
      .boolean()
      .optional()
      .describe('true: the user data is also on a config drive. Default: the setting of nova.'),
    serverGroupID: nonEmpty.optional().describe('ID of a server group.'),
  })
  .check(({ value, issues }) => {
    const complain = (field: keyof typeof value, message: string) =>
      issues.push({ code: 'custom', input: value[field], path: [field], message });
    const { networks = [], podNetworkCIDRs = [], subnetIDs = [] } = value;
    if (value.imageID === undefined && value.imageName === undefined) complain('imageName', 'give it, or imageID');
    if (value.networkID === undefined && networks.length === 0) complain('networkID', 'give it, or networks');
    if (value.networkID !== undefined && networks.length > 0) complain('networks', 'leave it out, or networkID');
    if (value.networkID === undefined && (value.subnetID !== undefined || subnetIDs.length > 0)) {
      complain(value.subnetID === undefined ? 'subnetIDs' : 'subnetID', 'needs networkID');
    }
    if (value.podNetworkCidr === undefined && podNetworkCIDRs.length === 0)
      complain('podNetworkCIDRs', 'give at least 1 entry');
    if (value.rootDiskType !== undefined && !value.rootDiskSize)
      complain('rootDiskSize', 'rootDiskType needs it: give 1 or more');
  });

/** The versioned document, with a field for each that the reference lists. */
export const OpenstackDocument = z.object({
  apiVersion: z.literal('openstack.machine.gardener.cloud/v1alpha1'),
  kind: z.literal('MachineProviderConfig'),
  spec: Spec,
});

/** What a class of the provider `OpenStack` says: `spec` of the document. */
export const OpenstackProviderSpec = z.preprocess(
  withoutBlanks,
  OpenstackDocument.transform(({ spec }) => spec),
);
export type OpenstackProviderSpec = z.infer<typeof OpenstackProviderSpec>;

/** Programs in Go write fields without a value as an empty text. */
export function withoutBlanks(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutBlanks);
  if (typeof value !== 'object' || value === null) return value;
  const given = Object.entries(value).filter(([, each]) => each !== '');
  return Object.fromEntries(given.map(([key, each]) => [key, key === 'tags' ? each : withoutBlanks(each)]));
}

/** The tags of a cluster and a role. */
export function ownershipOf(tags: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(tags).filter(([key]) => ownershipParts.some((part) => key.includes(part))));
}
