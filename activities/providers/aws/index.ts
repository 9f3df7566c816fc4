/** Provider `AWS`: instances of EC2. Takes what machine-controller-manager-provider-aws takes, and adopts what it has made. */
import {
  AssignIpv6AddressesCommand,
  DeleteNetworkInterfaceCommand,
  DeleteVolumeCommand,
  DescribeImagesCommand,
  DescribeInstancesCommand,
  DescribeNetworkInterfacesCommand,
  DescribeVolumesCommand,
  EC2Client,
  EC2ServiceException,
  type Instance,
  ModifyNetworkInterfaceAttributeCommand,
  type NetworkInterface,
  RunInstancesCommand,
  type Tag,
  TerminateInstancesCommand,
  type Volume,
} from '@aws-sdk/client-ec2';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { z } from 'zod';
import { names } from '../../../api/names.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, Session, Tags } from '../kit/cloud.ts';
import { createProvider } from '../kit/provider.ts';
import { type Provider, type ProviderDeps, ProviderError } from '../provider.ts';
import { AwsCredentials, credentialKeys } from './credentials.ts';
import { errors } from './errors.ts';
import { toRunInstances } from './run-instances.ts';
import { AwsProviderSpec, AwsTags, ownershipPrefixes } from './schema.ts';

const { region } = AwsProviderSpec.shape;
const Reach = z.object({ region });
type Reach = z.infer<typeof Reach>;

/** A client, and what it has learned that never changes. */
interface Ec2 {
  readonly client: EC2Client;
  readonly region: string;
  readonly rootDevices: Map<string, string>;
}

/** What in-tree and CSI volumes of EBS look like. */
const EbsVolume = z.union([
  z.object({ csi: z.object({ driver: z.literal('ebs.csi.aws.com'), volumeHandle: z.string() }) }),
  z.object({ awsElasticBlockStore: z.object({ volumeID: z.string() }) }),
]);

const requestTimeoutMs = 15_000;

const aws: Cloud<AwsProviderSpec, Reach, AwsCredentialIdentityProvider, Ec2> = {
  scheme: 'aws',
  settleSeconds: 10,
  deletionPollMs: 2_000,
  rateLimit: { perSecond: 20, burst: 100 },
  providerSpec: AwsProviderSpec,
  reach: Reach,
  tags: z.object({ tags: AwsTags }).transform((spec) => ownership(spec.tags)),
  credentialKeys,
  credentials: AwsCredentials,
  errors,
  refusalOf(error) {
    if (!(error instanceof EC2ServiceException)) return undefined;
    const { name, message, $metadata } = error;
    return { code: name, message, status: $metadata.httpStatusCode ?? 400, requestId: $metadata.requestId };
  },
  endpointOf: (reach) => `ec2.${reach.region}`,
  connect: (reach, credentials) => ({
    client: new EC2Client({
      ...reach,
      credentials,
      maxAttempts: 1,
      requestHandler: { requestTimeout: requestTimeoutMs, connectionTimeout: requestTimeoutMs },
    }),
    region: reach.region,
    rootDevices: new Map(),
  }),

  async list({ client: ec2, signal, send }, tags, page = 'vm:') {
    const kind = kinds.find((each) => page.startsWith(`${each}:`)) ?? 'vm';
    const { items, next } = await pages[kind](ec2, { send, signal }, toFilters(tags), page.slice(kind.length + 1));
    const following = kinds[kinds.indexOf(kind) + 1];
    return { items, nextPage: next === undefined ? following && `${following}:` : `${kind}:${next}` };
  },
  async findOwn(session, uid) {
    const filters = toFilters({ [names.machineUid]: uid });
    const vms = await all('vm', session, filters);
    if (vms.some((item) => item.kind === 'vm' && item.state !== 'gone')) return vms;
    return [...vms, ...(await all('disk', session, filters)), ...(await all('nic', session, filters))];
  },
  async findVm(session, id) {
    const vms = await all('vm', session, [{ Name: 'instance-id', Values: [id] }]);
    const parts = await Promise.all([
      all('disk', session, [{ Name: 'attachment.instance-id', Values: [id] }]),
      all('nic', session, [{ Name: 'attachment.instance-id', Values: [id] }]),
    ]);
    return [...vms, ...parts.flat()];
  },
  async findPart(session, kind, id) {
    if (kind !== 'disk' && kind !== 'nic') return undefined;
    const name = kind === 'disk' ? 'volume-id' : 'network-interface-id';
    const [part] = await all(kind, session, [{ Name: name, Values: [id] }]);
    return part?.kind === 'vm' ? undefined : part;
  },
  async create(session, order) {
    const { client: ec2, signal, send } = session;
    const rootDevice = await findRootDevice(session, order.spec.ami);
    const command = new RunInstancesCommand(toRunInstances(order, rootDevice));
    const { Instances: [instance] = [] } = await send(() => ec2.client.send(command, { abortSignal: signal }));
    if (instance === undefined) throw new ProviderError('Unknown', 'EC2 answered RunInstances without an instance');
    return toVm(instance, ec2.region);
  },
  async setUp(session, spec, vm) {
    const needsCheckOff = spec.srcAndDstChecksEnabled === false;
    const needsPrefixes = spec.networkInterfaces.some(({ ipv6PrefixCount }) => ipv6PrefixCount);
    if (!needsCheckOff && !needsPrefixes) return undefined;
    const { client: ec2, signal, send } = session;
    const filters = [{ Name: 'attachment.instance-id', Values: [vm.id] }];
    const { NetworkInterfaces: nics = [] } = await send(() =>
      ec2.client.send(new DescribeNetworkInterfacesCommand({ Filters: filters }), { abortSignal: signal }),
    );
    for (const nic of nics) {
      if (needsCheckOff && nic.SourceDestCheck && !nic.InterfaceType?.startsWith('efa')) {
        const command = new ModifyNetworkInterfaceAttributeCommand({
          NetworkInterfaceId: nic.NetworkInterfaceId,
          SourceDestCheck: { Value: false },
        });
        await send(() => ec2.client.send(command, { abortSignal: signal }));
      }
      const missing = missingPrefixes(spec, nic);
      if (missing > 0) {
        const command = new AssignIpv6AddressesCommand({
          NetworkInterfaceId: nic.NetworkInterfaceId,
          Ipv6PrefixCount: missing,
        });
        await send(() => ec2.client.send(command, { abortSignal: signal }));
      }
    }
    return nics.length < spec.networkInterfaces.length ? `EC2 shows ${nics.length} network interfaces so far` : undefined;
  },
  async delete({ client: ec2, signal, send }, { kind, id }) {
    const options = { abortSignal: signal };
    try {
      if (kind === 'vm') await send(() => ec2.client.send(new TerminateInstancesCommand({ InstanceIds: [id] }), options));
      else if (kind === 'disk') await send(() => ec2.client.send(new DeleteVolumeCommand({ VolumeId: id }), options));
      else await send(() => ec2.client.send(new DeleteNetworkInterfaceCommand({ NetworkInterfaceId: id }), options));
    } catch (error) {
      if (!(error instanceof ProviderError) || error.code !== 'NotFound') throw error;
    }
  },
  volumeId(spec) {
    const volume = EbsVolume.safeParse(spec).data;
    if (volume === undefined) return undefined;
    const id = 'csi' in volume ? volume.csi.volumeHandle : volume.awsElasticBlockStore.volumeID;
    return id.slice(id.lastIndexOf('/') + 1);
  },
};

/** Makes the provider. */
export function createAwsProvider(deps: ProviderDeps): Provider {
  return createProvider(aws, deps);
}

type Filters = { Name: string; Values: string[] }[];
type Kind = (typeof kinds)[number];
type Send = Pick<Session<Ec2>, 'send' | 'signal'>;

const kinds = ['vm', 'disk', 'nic'] as const;

/** One page of each kind, the next one by its token. */
const pages: Record<
  Kind,
  (ec2: Ec2, session: Send, filters: Filters, token: string) => Promise<{ items: CloudItem[]; next: string | undefined }>
> = {
  async vm({ client, region: place }, { send, signal }, filters, token) {
    const command = new DescribeInstancesCommand({ Filters: filters, MaxResults: 200, ...(token && { NextToken: token }) });
    const { Reservations = [], NextToken } = await send(() => client.send(command, { abortSignal: signal }));
    const items = Reservations.flatMap(({ Instances = [] }) => Instances.map((instance) => toVm(instance, place)));
    return { items, next: NextToken };
  },
  async disk({ client }, { send, signal }, filters, token) {
    const command = new DescribeVolumesCommand({ Filters: filters, MaxResults: 200, ...(token && { NextToken: token }) });
    const { Volumes = [], NextToken } = await send(() => client.send(command, { abortSignal: signal }));
    return { items: Volumes.map(toDisk), next: NextToken };
  },
  async nic({ client }, { send, signal }, filters, token) {
    const command = new DescribeNetworkInterfacesCommand({
      Filters: filters,
      MaxResults: 200,
      ...(token && { NextToken: token }),
    });
    const { NetworkInterfaces = [], NextToken } = await send(() => client.send(command, { abortSignal: signal }));
    return { items: NetworkInterfaces.map(toNic), next: NextToken };
  },
};

async function all(kind: Kind, session: Session<Ec2>, filters: Filters): Promise<CloudItem[]> {
  const found: CloudItem[] = [];
  let token: string | undefined = '';
  do {
    const page: Awaited<ReturnType<(typeof pages)[Kind]>> = await pages[kind](session.client, session, filters, token);
    found.push(...page.items);
    token = page.next;
  } while (token);
  return found;
}

async function findRootDevice({ client: ec2, signal, send }: Session<Ec2>, ami: string): Promise<string> {
  const known = ec2.rootDevices.get(ami);
  if (known !== undefined) return known;
  const command = new DescribeImagesCommand({ ImageIds: [ami] });
  const { Images: [image] = [] } = await send(() => ec2.client.send(command, { abortSignal: signal }));
  const name = image?.RootDeviceName;
  if (name === undefined) {
    throw new ProviderError('InvalidArgument', `providerSpec.ami is "${ami}": there is no such image, or it has no root device`);
  }
  ec2.rootDevices.set(ami, name);
  return name;
}

function missingPrefixes({ networkInterfaces }: AwsProviderSpec, { Attachment, Ipv6Prefixes = [] }: NetworkInterface): number {
  const wanted = networkInterfaces.find(({ deviceIndex, networkCardIndex = 0 }, index) => {
    return (deviceIndex ?? index) === Attachment?.DeviceIndex && networkCardIndex === (Attachment?.NetworkCardIndex ?? 0);
  });
  return (wanted?.ipv6PrefixCount ?? 0) - Ipv6Prefixes.length;
}

const states: Readonly<Record<string, CloudVm['state']>> = {
  pending: 'creating',
  running: 'running',
  stopping: 'stopped',
  stopped: 'stopped',
  'shutting-down': 'deleting',
  terminated: 'gone',
};

function toVm(instance: Instance, place: string): CloudVm {
  const { InstanceId: id = '', PrivateDnsName: nodeName, LaunchTime, Tags: tags } = instance;
  const own = toTags(tags);
  return {
    kind: 'vm',
    id,
    name: own['Name'] ?? '',
    createdAt: (LaunchTime ?? new Date()).toISOString(),
    tags: own,
    state: states[instance.State?.Name ?? ''] ?? 'creating',
    providerID: `aws:///${place}/${id}`,
    ...(nodeName && { nodeName }),
    addresses: [
      ...(instance.PrivateIpAddress ? [{ type: 'InternalIP', address: instance.PrivateIpAddress }] : []),
      ...(instance.PublicIpAddress ? [{ type: 'ExternalIP', address: instance.PublicIpAddress }] : []),
    ],
  };
}

function toDisk({ VolumeId: id = '', CreateTime, Tags: tags }: Volume): CloudPart {
  const own = toTags(tags);
  return { kind: 'disk', id, name: own['Name'] ?? '', createdAt: (CreateTime ?? new Date()).toISOString(), tags: own };
}

/** EC2 does not say when an interface was made. It is taken for new while it is attached. */
function toNic({ NetworkInterfaceId: id = '', Attachment, TagSet }: NetworkInterface): CloudPart {
  const own = toTags(TagSet);
  const createdAt = (Attachment?.AttachTime ?? new Date(0)).toISOString();
  return { kind: 'nic', id, name: own['Name'] ?? '', createdAt, tags: own };
}

function toTags(tags: readonly Tag[] = []): Tags {
  return Object.fromEntries(tags.map(({ Key = '', Value = '' }) => [Key, Value]));
}

function toFilters(tags: Tags): Filters {
  return Object.entries(tags).map(([key, value]) => ({ Name: `tag:${key}`, Values: [value] }));
}

function ownership(tags: Tags): Tags {
  return Object.fromEntries(
    Object.entries(tags).filter(([key]) => ownershipPrefixes.some((prefix) => key.startsWith(prefix))),
  );
}
