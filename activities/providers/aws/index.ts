/**
 * Provider `AWS`: instances of EC2. Takes what machine-controller-manager-provider-aws takes, and adopts what it has
 * made.
 */
import {
  AssignIpv6AddressesCommand,
  CreateTagsCommand,
  DeleteNetworkInterfaceCommand,
  DeleteTagsCommand,
  DeleteVolumeCommand,
  DescribeImagesCommand,
  DescribeInstancesCommand,
  DescribeNetworkInterfacesCommand,
  DescribeSpotInstanceRequestsCommand,
  DescribeVolumesCommand,
  type Instance,
  ModifyNetworkInterfaceAttributeCommand,
  type NetworkInterface,
  RunInstancesCommand,
  type Tag,
  TerminateInstancesCommand,
  type Volume,
} from '@aws-sdk/client-ec2';
import { z } from 'zod';
import { names } from '../../../api/names.ts';
import { temporalNowMs } from '../../boundary.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, Session, Tags } from '../kit/cloud.ts';
import { createProvider } from '../kit/provider.ts';
import { type Provider, type ProviderDeps, ProviderError } from '../provider.ts';
import { call, connect, type Ec2, type Reach, refusalOf } from './client.ts';
import { AwsCredentials, credentialKeys, secretKeys } from './credentials.ts';
import { errors } from './errors.ts';
import { toRunInstances } from './run-instances.ts';
import { AwsProviderSpec, AwsTags, ownershipPrefixes } from './schema.ts';

const { region, endpoint } = AwsProviderSpec.shape;

/** What in-tree and CSI volumes of EBS look like. */
const EbsVolume = z.union([
  z.object({ csi: z.object({ driver: z.literal('ebs.csi.aws.com'), volumeHandle: z.string() }) }),
  z.object({ awsElasticBlockStore: z.object({ volumeID: z.string() }) }),
]);

/** The cloud as the kit sees it. */
export const awsCloud: Cloud<AwsProviderSpec, Reach, AwsCredentials, Ec2> = {
  scheme: 'aws',
  settleSeconds: 10,
  deletionPollMs: 2_000,
  rateLimit: { perSecond: 20, burst: 100 },
  providerSpec: AwsProviderSpec,
  reach: z.object({ region, endpoint }),
  tags: z.object({ tags: AwsTags }).transform((spec) => ownership(spec.tags)),
  credentialKeys,
  secretKeys,
  tokenFileKey: 'workloadIdentityTokenFile',
  credentials: AwsCredentials,
  errors,
  refusalOf,

  endpointOf: (reach) => (reach.endpoint === undefined ? `ec2.${reach.region}` : new URL(reach.endpoint).origin),
  connect,
  connectByDefault: (reach, hooks) => connect(reach, undefined, hooks),
  asked: ({ machineType, networkInterfaces }) =>
    `${machineType} in ${networkInterfaces.map(({ subnetID }) => subnetID).join(', ')}`,

  async list(session, tags, page = 'vm:') {
    const kind = kinds.find((each) => page.startsWith(`${each}:`)) ?? 'vm';
    const { items, next } = await pages[kind](session, toFilters(tags), page.slice(kind.length + 1));
    const following = kinds[kinds.indexOf(kind) + 1];
    return { items, nextPage: next === undefined ? following && `${following}:` : `${kind}:${next}` };
  },
  async findOwn(session, { uid }, withParts) {
    const filters = toFilters({ [names.machineUid]: uid });
    const vms = await all('vm', session, filters);
    if (!withParts && vms.some((item) => item.kind === 'vm' && item.state !== 'gone')) return vms;
    return [...vms, ...(await all('disk', session, filters)), ...(await all('nic', session, filters))];
  },
  async findByName(session, name, tags) {
    const found = await all('vm', session, toFilters({ ...tags, Name: name }));
    return found.filter((item): item is CloudVm => item.kind === 'vm');
  },
  async findVm(session, id) {
    const [vm] = await all('vm', session, [{ Name: 'instance-id', Values: [id] }]);
    if (vm === undefined) return [];
    // Volumes of pods are attached as well. What was made with the instance has its name and its tags of cluster and
    // role.
    const own = ownership(vm.tags);
    if (Object.keys(own).length < ownershipPrefixes.length || vm.name === '') return [vm];
    const filters = toFilters({ ...own, Name: vm.name });
    const parts = [...(await all('disk', session, filters)), ...(await all('nic', session, filters))];
    // Another VM may have the same name and UID, and what is attached to it is its own.
    const isOfOther = (part: CloudItem) =>
      part.kind !== 'vm' && part.attachedTo !== undefined && part.attachedTo !== id;
    const uid = vm.tags[names.machineUid];
    return [vm, ...parts.filter((part) => part.tags[names.machineUid] === uid && !isOfOther(part))];
  },
  async findPart(session, kind, id) {
    if (kind !== 'disk' && kind !== 'nic') return undefined;
    const name = kind === 'disk' ? 'volume-id' : 'network-interface-id';
    const [part] = await all(kind, session, [{ Name: name, Values: [id] }]);
    return part?.kind === 'vm' ? undefined : part;
  },
  async create(session, order) {
    const rootDevice = await findRootDevice(session, order.spec.ami);
    try {
      const { Instances: [instance] = [] } = await call(
        session,
        new RunInstancesCommand(toRunInstances(order, rootDevice)),
      );
      if (instance === undefined) throw new ProviderError('Unknown', 'EC2 answered RunInstances without an instance');
      return toVm(instance, session.client.region);
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      const ended = error.cloudCode === 'IdempotentInstanceTerminated' && (await findEnded(session, order.machine.uid));
      if (ended) return ended;
      throw error;
    }
  },
  async setUp(session, spec, vm) {
    const needsCheckOff = spec.srcAndDstChecksEnabled === false;
    const needsPrefixes = spec.networkInterfaces.some(({ ipv6PrefixCount }) => ipv6PrefixCount);
    if (!needsCheckOff && !needsPrefixes) return undefined;
    const filters = [{ Name: 'attachment.instance-id', Values: [vm.id] }];
    const { NetworkInterfaces: nics = [] } = await call(
      session,
      new DescribeNetworkInterfacesCommand({ Filters: filters }),
    );
    for (const nic of nics) {
      const { NetworkInterfaceId, SourceDestCheck, InterfaceType } = nic;
      if (needsCheckOff && SourceDestCheck && !InterfaceType?.startsWith('efa')) {
        const change = { NetworkInterfaceId, SourceDestCheck: { Value: false } };
        await call(session, new ModifyNetworkInterfaceAttributeCommand(change));
      }
      const Ipv6PrefixCount = missingPrefixes(spec, nic);
      if (Ipv6PrefixCount > 0) {
        await call(session, new AssignIpv6AddressesCommand({ NetworkInterfaceId, Ipv6PrefixCount }));
      }
    }
    return nics.length < spec.networkInterfaces.length
      ? `EC2 shows ${nics.length} of ${spec.networkInterfaces.length} network interfaces`
      : undefined;
  },
  async setTags(session, items, change) {
    const tags = Object.fromEntries(Object.entries(change.tags).filter(([key]) => key !== 'Name'));
    const removed = change.removed.filter((key) => key !== 'Name');
    const isMissing = (item: CloudItem) => Object.entries(tags).some(([key, value]) => item.tags[key] !== value);
    const isLeft = (item: CloudItem) => removed.some((key) => item.tags[key] !== undefined);
    const idsOf = (wanted: (item: CloudItem) => boolean) => items.filter(wanted).map(({ id }) => id);
    const [incomplete, excessive] = [idsOf(isMissing), idsOf(isLeft)];
    if (incomplete.length > 0) {
      await call(session, new CreateTagsCommand({ Resources: incomplete, Tags: toTagList(tags) }));
    }
    if (excessive.length > 0) {
      const Tags = removed.map((Key) => ({ Key }));
      await call(session, new DeleteTagsCommand({ Resources: excessive, Tags }));
    }
  },
  interruptions: {
    mayHit: ({ instanceMarketOptions: market, spotPrice }) => market?.marketType === 'spot' || spotPrice !== undefined,
    // The spot requests have no tags of ours, and all are one-time: none is ever marked for stop.
    async list(session, _tags, page = '') {
      const Filters = [{ Name: 'status-code', Values: [markedForTermination] }];
      const command = new DescribeSpotInstanceRequestsCommand({ Filters, ...pageOf(page) });
      const { SpotInstanceRequests = [], NextToken: nextPage } = await call(session, command);
      const items = SpotInstanceRequests.flatMap(({ InstanceId: id }) =>
        id ? [{ providerID: providerIdOf(id, session.client.region), reason: markedForTermination }] : [],
      );
      return { items, ...(nextPage && { nextPage }) };
    },
  },
  async delete(session, { kind, id }) {
    try {
      if (kind === 'vm') await call(session, new TerminateInstancesCommand({ InstanceIds: [id] }));
      else if (kind === 'disk') await call(session, new DeleteVolumeCommand({ VolumeId: id }));
      else await call(session, new DeleteNetworkInterfaceCommand({ NetworkInterfaceId: id }));
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      if (error.code === 'NotFound') return;
      // EC2 calls an interface an invalid parameter while it is still attached.
      if (kind !== 'nic' || error.code !== 'InvalidArgument') throw error;
      throw new ProviderError('Aborted', error.message, { cloudCode: error.cloudCode, requestId: error.requestId });
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
  return createProvider(awsCloud, deps);
}

/** Status of a spot request whose instance is terminated in two minutes. */
const markedForTermination = 'marked-for-termination';

type Filters = { Name: string; Values: string[] }[];
type Kind = (typeof kinds)[number];

const kinds = ['vm', 'disk', 'nic'] as const;

interface Page {
  readonly items: CloudItem[];
  /** Token of the next one. */
  readonly next: string | undefined;
}

/** One page of each kind; the first one has an empty token. */
const pages: Record<Kind, (session: Session<Ec2>, filters: Filters, token: string) => Promise<Page>> = {
  async vm(session, Filters, token) {
    const command = new DescribeInstancesCommand({ Filters, ...pageOf(token) });
    const { Reservations = [], NextToken } = await call(session, command);
    const instances = Reservations.flatMap(({ Instances = [] }) => Instances);
    return { items: instances.map((instance) => toVm(instance, session.client.region)), next: NextToken || undefined };
  },
  async disk(session, Filters, token) {
    const command = new DescribeVolumesCommand({ Filters, ...pageOf(token) });
    const { Volumes = [], NextToken } = await call(session, command);
    return { items: Volumes.map(toDisk), next: NextToken || undefined };
  },
  async nic(session, Filters, token) {
    const command = new DescribeNetworkInterfacesCommand({ Filters, ...pageOf(token) });
    const { NetworkInterfaces = [], NextToken } = await call(session, command);
    return { items: NetworkInterfaces.map(toNic), next: NextToken || undefined };
  },
};

function pageOf(token: string) {
  return { MaxResults: 200, ...(token !== '' && { NextToken: token }) };
}

async function all(kind: Kind, session: Session<Ec2>, filters: Filters): Promise<CloudItem[]> {
  const found: CloudItem[] = [];
  let token: string | undefined = '';
  do {
    const page: Page = await pages[kind](session, filters, token);
    found.push(...page.items);
    token = page.next;
  } while (token);
  return found;
}

/** The instance of a Machine that has ended, as far as EC2 still shows it. */
async function findEnded(session: Session<Ec2>, uid: string): Promise<CloudVm | undefined> {
  const vms = await all('vm', session, toFilters({ [names.machineUid]: uid }));
  return vms.find((item): item is CloudVm => item.kind === 'vm' && item.state === 'gone');
}

async function findRootDevice(session: Session<Ec2>, ami: string): Promise<string> {
  const { rootDevices } = session.client;
  const known = rootDevices.get(ami);
  if (known !== undefined) return known;
  const { Images: [image] = [] } = await call(session, new DescribeImagesCommand({ ImageIds: [ami] }));
  const name = image?.RootDeviceName;
  if (name === undefined) {
    const message = `providerSpec.ami is "${ami}": give an image that exists in ${session.client.region} and has a root device`;
    throw new ProviderError('InvalidArgument', message);
  }
  rootDevices.set(ami, name);
  return name;
}

function missingPrefixes(
  { networkInterfaces }: AwsProviderSpec,
  { Attachment, Ipv6Prefixes = [] }: NetworkInterface,
): number {
  const wanted = networkInterfaces.find(({ deviceIndex, networkCardIndex = 0 }, index) => {
    return (
      (deviceIndex ?? index) === Attachment?.DeviceIndex && networkCardIndex === (Attachment?.NetworkCardIndex ?? 0)
    );
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
    createdAt: (LaunchTime ?? new Date(temporalNowMs())).toISOString(),
    tags: own,
    state: states[instance.State?.Name ?? ''] ?? 'creating',
    providerID: providerIdOf(id, place),
    ...(nodeName && { nodeName }),
    addresses: [
      ...(instance.PrivateIpAddress ? [{ type: 'InternalIP', address: instance.PrivateIpAddress }] : []),
      ...(instance.PublicIpAddress ? [{ type: 'ExternalIP', address: instance.PublicIpAddress }] : []),
    ],
  };
}

function providerIdOf(id: string, place: string): string {
  return `aws:///${place}/${id}`;
}

function toDisk({ VolumeId: id = '', CreateTime, Tags: tags, Attachments = [] }: Volume): CloudPart {
  const own = toTags(tags);
  const createdAt = (CreateTime ?? new Date(temporalNowMs())).toISOString();
  return { kind: 'disk', id, name: own['Name'] ?? '', createdAt, tags: own, ...attached(Attachments[0]) };
}

/** EC2 does not say when an interface was made. It is taken for new while it is attached. */
function toNic({ NetworkInterfaceId: id = '', Attachment, TagSet }: NetworkInterface): CloudPart {
  const own = toTags(TagSet);
  const createdAt = (Attachment?.AttachTime ?? new Date(0)).toISOString();
  return { kind: 'nic', id, name: own['Name'] ?? '', createdAt, tags: own, ...attached(Attachment) };
}

function attached(attachment?: { readonly InstanceId?: string | undefined }): Pick<CloudPart, 'attachedTo'> {
  return attachment?.InstanceId ? { attachedTo: attachment.InstanceId } : {};
}

function toTags(tags: readonly Tag[] = []): Tags {
  return Object.fromEntries(tags.map(({ Key = '', Value = '' }) => [Key, Value]));
}

function toTagList(tags: Tags): Tag[] {
  return Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
}

function toFilters(tags: Tags): Filters {
  return Object.entries(tags).map(([key, value]) => ({ Name: `tag:${key}`, Values: [value] }));
}

function ownership(tags: Tags): Tags {
  return Object.fromEntries(
    Object.entries(tags).filter(([key]) => ownershipPrefixes.some((prefix) => key.startsWith(prefix))),
  );
}
