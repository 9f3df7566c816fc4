/**
 * Provider `Azure`: virtual machines. Takes what machine-controller-manager-provider-azure takes, and adopts what it
 * has made. A VM, its interface and its disks have names that are made from that of the Machine, so a repeated request
 * makes no second.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Disk, VirtualMachine } from '@azure/arm-compute';
import type { NetworkInterface, PublicIPAddress } from '@azure/arm-network';
import { z } from 'zod';
import { names } from '../../../api/names.ts';
import { temporalNowMs } from '../../boundary.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, Session, Tags, VmOrder } from '../kit/cloud.ts';
import { createProvider } from '../kit/provider.ts';
import { type Provider, type ProviderDeps, ProviderError } from '../provider.ts';
import {
  type Arm,
  call,
  connect,
  connectByDefault,
  endpointOf,
  failureOf,
  find,
  type Reach,
  refusalOf,
  start,
} from './client.ts';
import { AzureCredentials, credentialKeys, secretKeys } from './credentials.ts';
import { errors } from './errors.ts';
import { findPlan } from './marketplace.ts';
import { AzureProviderSpec, AzureTags, ownershipPrefixes } from './schema.ts';
import { isPartName, partNames, toDisk, toNic, toVirtualMachine } from './virtual-machine.ts';

const { resourceGroup, cloudConfiguration } = AzureProviderSpec.shape;

/** What in-tree and CSI volumes of Azure disks look like. */
const AzureVolume = z.union([
  z.object({ csi: z.object({ driver: z.literal('disk.csi.azure.com'), volumeHandle: z.string() }) }),
  z.object({ azureDisk: z.object({ diskURI: z.string() }) }),
]);

/** What Azure takes as custom data, bytes, and as the name of a VM with Linux, characters. */
const userDataLimit = 65_535;
const nameLimit = 64;

/** The cloud as the kit sees it. */
export const azureCloud: Cloud<AzureProviderSpec, Reach, AzureCredentials, Arm> = {
  scheme: 'azure',
  settleSeconds: 10,
  deletionPollMs: 2_000,
  rateLimit: { perSecond: 20, burst: 100 },
  providerSpec: AzureProviderSpec,
  reach: z.object({ resourceGroup, cloudConfiguration }),
  tags: z.object({ tags: AzureTags }).transform((spec) => ownership(spec.tags)),
  credentialKeys,
  secretKeys,
  tokenFileKey: 'workloadIdentityTokenFile',
  credentials: AzureCredentials,
  errors,
  refusalOf,

  endpointOf,
  connect,
  connectByDefault,
  asked({ location, properties: { zone, priority, hardwareProfile } }) {
    const where = `${location}${zone === undefined ? '' : `, zone ${zone}`}`;
    return `${hardwareProfile.vmSize}${priority === 'Spot' ? ' as spot' : ''} in ${where}`;
  },

  async list(session, tags, page = 'vm:') {
    const kind = kinds.find((each) => page.startsWith(`${each}:`)) ?? 'vm';
    const { items, next } = await listPage(kind, session, page.slice(kind.length + 1));
    const following = kinds[kinds.indexOf(kind) + 1];
    return {
      items: items.filter((item) => hasTags(item, tags) && isMade(item)),
      nextPage: next === undefined ? following && `${following}:` : `${kind}:${next}`,
    };
  },
  async findOwn(session, { uid, name }, withParts) {
    const isOwn = ({ tags }: CloudItem) => tags[names.machineUid] === uid;
    const vm = await findVm(session, name);
    if (vm !== undefined && isOwn(vm) && !withParts) return [await withAddress(session, vm)];
    const parts = (await listParts(session)).filter(isOwn);
    // Somebody may have copied the tags to a VM of another name. It has to go before what it uses.
    const users = new Set(parts.flatMap(({ attachedTo }) => attachedTo ?? []));
    users.delete(name.toLowerCase());
    const others = await Promise.all([...users].map((user) => findVm(session, user)));
    return [...[vm, ...others].filter((each) => each !== undefined).filter(isOwn), ...parts];
  },
  async findByName(session, name, tags) {
    const vm = await findVm(session, name);
    return vm !== undefined && hasTags(vm, tags) ? [vm] : [];
  },
  async findVm(session, id) {
    const vm = await findVm(session, id);
    const uid = vm?.tags[names.machineUid];
    const parts = (await listParts(session)).filter((part) => {
      if (!isPartName(part.name, id) || Object.keys(ownership(part.tags)).length < ownershipPrefixes.length)
        return false;
      // What has outlived a VM and has the UID of a Machine is that Machine's, which may have just made it.
      return part.tags[names.machineUid] === uid && [undefined, vm && id].includes(part.attachedTo);
    });
    return vm === undefined ? parts : [await withAddress(session, vm), ...parts];
  },
  async findPart(session, kind, id) {
    const [name, type] = [lastOf(id), id.toLowerCase().split('/').at(-2)];
    if (
      kind === 'port' ||
      type !== types[kind].toLowerCase() ||
      idOf(session.client, kind, name).toLowerCase() !== id.toLowerCase()
    )
      return undefined;
    return findPart(session, kind, name);
  },
  async create(session, order) {
    const { client } = session;
    const { spec, machine, userData } = order;
    const bytes = Buffer.byteLength(userData);
    if (bytes > userDataLimit) {
      const message = `the user data has ${bytes} bytes: Azure takes ${userDataLimit} at most`;
      throw new ProviderError('InvalidArgument', message);
    }
    if (machine.name.length > nameLimit) {
      const message = `the name of the Machine has ${machine.name.length} characters: Azure takes ${nameLimit} at most`;
      throw new ProviderError('InvalidArgument', message);
    }
    const tags = toAzure(order.tags);
    const plan = await findPlan(session, spec, spec.properties.storageProfile.imageReference);
    await makeNic(session, order, tags);
    for (const disk of spec.properties.storageProfile.dataDisks) {
      const { imageRef } = disk;
      if (imageRef === undefined) continue;
      const wanted = toDisk({ spec, tags }, { ...disk, imageRef }, client.subscriptionId);
      const name = partNames.dataDisk(machine.name, disk);
      await makePart(session, order, 'disk', name, (options) =>
        client.compute.disks.createOrUpdate(client.resourceGroup, name, wanted, options),
      );
    }
    const wanted = toVirtualMachine({
      spec,
      machine,
      userData,
      tags,
      plan,
      idOf: (kind, name) => idOf(client, kind, name),
    });
    try {
      const { operation } = await start(session, (options) =>
        client.compute.virtualMachines.createOrUpdate(client.resourceGroup, machine.name, wanted, {
          ...options,
          ifNoneMatch: '*',
        }),
      );
      return {
        ...vmOf(machine.name, spec.location.toLowerCase().replaceAll(' ', ''), order.tags, new Date(temporalNowMs())),
        state: 'creating',
        ...(operation !== undefined && { lastKnownState: operation }),
      };
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      if (error.cloudCode === 'PreconditionFailed') return takeExisting(session, order);
      throw describe(error, spec);
    }
  },
  failureOf,
  async setTags(session, items, change) {
    for (const item of items) {
      const isMissing = Object.entries(change.tags).some(([key, value]) => item.tags[key] !== value);
      const isLeft = change.removed.some((key) => item.tags[key] !== undefined);
      if (!isMissing && !isLeft) continue;
      const kept = Object.entries(item.tags).filter(([key]) => !change.removed.includes(key));
      await putTags(session, item, toAzure({ ...Object.fromEntries(kept), ...change.tags }));
    }
  },
  async delete(session, { kind, name }) {
    const { compute, network, resourceGroup: group } = session.client;
    const deletions = {
      vm: (options: object) => compute.virtualMachines.delete(group, name, options),
      disk: (options: object) => compute.disks.delete(group, name, options),
      nic: (options: object) => network.networkInterfaces.delete(group, name, options),
      ip: (options: object) => network.publicIPAddresses.delete(group, name, options),
    };
    if (kind === 'port') return;
    try {
      await start(session, deletions[kind]);
    } catch (error) {
      if (!(error instanceof ProviderError) || error.code !== 'NotFound') throw error;
    }
  },
  volumeId(spec) {
    const volume = AzureVolume.safeParse(spec).data;
    if (volume === undefined) return undefined;
    return 'csi' in volume ? volume.csi.volumeHandle : volume.azureDisk.diskURI;
  },
};

/** Makes the provider. */
export function createAzureProvider(deps: ProviderDeps): Provider {
  return createProvider(azureCloud, deps);
}

type Kind = (typeof kinds)[number];
type PartKind = Exclude<Kind, 'vm'>;

const kinds = ['vm', 'nic', 'disk', 'ip'] as const;
const partKinds = ['nic', 'disk', 'ip'] as const;

/** Types of resources, as in their IDs. */
const types: Record<Kind, string> = {
  vm: 'virtualMachines',
  nic: 'networkInterfaces',
  disk: 'disks',
  ip: 'publicIPAddresses',
};

function idOf({ subscriptionId, resourceGroup: group }: Arm, kind: Kind, name: string): string {
  const namespace = kind === 'vm' || kind === 'disk' ? 'Microsoft.Compute' : 'Microsoft.Network';
  return `/subscriptions/${subscriptionId}/resourceGroups/${group}/providers/${namespace}/${types[kind]}/${name}`;
}

/** A part, with how far Azure has made it. */
type Part = CloudPart & { readonly state: string | undefined };

interface Page {
  readonly items: CloudItem[];
  /** Link to the next one. */
  readonly next: string | undefined;
}

/** What the SDK answers with a page. */
type ArmPage<T> = T[] & { continuationToken?: string };

/** One page of all there is in the resource group; the first one has an empty link. Nothing where the group is gone. */
async function listPage(kind: Kind, session: Session<Arm>, link: string): Promise<Page> {
  const { compute, network, resourceGroup: group } = session.client;
  const settings = link === '' ? {} : { continuationToken: link };
  /** An iterator that has thrown is at its end, so each request has its own. */
  const page = async <T>(pages: () => AsyncIterator<ArmPage<T>>, toItem: (each: T) => CloudItem): Promise<Page> => {
    const { value } = (await find(session, () => pages().next())) ?? { value: undefined };
    const found: ArmPage<T> | undefined = value;
    return { items: (found ?? []).map(toItem), next: found?.continuationToken };
  };
  switch (kind) {
    case 'vm':
      return page(() => compute.virtualMachines.list(group).byPage(settings), toVm);
    case 'nic':
      return page(() => network.networkInterfaces.list(group).byPage(settings), toNicPart);
    case 'disk':
      return page(() => compute.disks.listByResourceGroup(group).byPage(settings), toDiskPart);
    case 'ip':
      return page(() => network.publicIPAddresses.list(group).byPage(settings), toIpPart);
  }
}

/** All NICs, disks and public addresses of the resource group. */
async function listParts(session: Session<Arm>): Promise<CloudPart[]> {
  const lists = await Promise.all(
    partKinds.map(async (kind) => {
      const found: CloudItem[] = [];
      let link: string | undefined = '';
      do {
        const page: Page = await listPage(kind, session, link);
        found.push(...page.items);
        link = page.next;
      } while (link);
      return found;
    }),
  );
  return lists.flat().filter((item) => item.kind !== 'vm');
}

async function findVm(session: Session<Arm>, name: string): Promise<CloudVm | undefined> {
  if (name.length > nameLimit || name.includes('/')) return undefined; // Azure would refuse to look
  const { compute, resourceGroup: group } = session.client;
  const vm = await find(session, () => compute.virtualMachines.get(group, name, { expand: 'instanceView' }));
  return vm && toVm(vm);
}

async function findPart(session: Session<Arm>, kind: PartKind, name: string): Promise<Part | undefined> {
  const { compute, network, resourceGroup: group } = session.client;
  switch (kind) {
    case 'nic': {
      const nic = await find(session, () => network.networkInterfaces.get(group, name));
      return nic && toNicPart(nic);
    }
    case 'disk': {
      const disk = await find(session, () => compute.disks.get(group, name));
      return disk && toDiskPart(disk);
    }
    case 'ip': {
      const ip = await find(session, () => network.publicIPAddresses.get(group, name));
      return ip && toIpPart(ip);
    }
  }
}

/** Azure gives the address of a VM only with its NIC. */
async function withAddress(session: Session<Arm>, vm: CloudVm): Promise<CloudVm> {
  if (vm.state !== 'running') return vm;
  const { network, resourceGroup: group } = session.client;
  const nic = await find(session, () => network.networkInterfaces.get(group, partNames.nic(vm.name)));
  const addresses = (nic?.ipConfigurations ?? []).flatMap(({ privateIPAddress: address }) =>
    address ? [{ type: 'InternalIP', address }] : [],
  );
  return { ...vm, addresses };
}

/** Sets all tags of a resource. */
async function putTags(session: Session<Arm>, { kind, name }: CloudItem, tags: Record<string, string>): Promise<void> {
  const { compute, network, resourceGroup: group } = session.client;
  if (kind === 'vm') await start(session, (options) => compute.virtualMachines.update(group, name, { tags }, options));
  if (kind === 'disk') await start(session, (options) => compute.disks.update(group, name, { tags }, options));
  if (kind === 'nic') await call(session, () => network.networkInterfaces.updateTags(group, name, { tags }));
}

async function makeNic(session: Session<Arm>, order: VmOrder<AzureProviderSpec>, tags: Record<string, string>) {
  const { client } = session;
  const subnetId = await findSubnet(session, order.spec);
  const name = partNames.nic(order.machine.name);
  const wanted = toNic({ spec: order.spec, tags }, subnetId);
  await makePart(session, order, 'nic', name, (options) =>
    client.network.networkInterfaces.createOrUpdate(client.resourceGroup, name, wanted, options),
  );
}

async function findSubnet(
  session: Session<Arm>,
  { subnetInfo, resourceGroup: ownGroup }: AzureProviderSpec,
): Promise<string> {
  const { network, subnets, subscriptionId } = session.client;
  const { vnetName, vnetResourceGroup: group = ownGroup, subnetName } = subnetInfo;
  const id =
    `/subscriptions/${subscriptionId}/resourceGroups/${group}/providers/Microsoft.Network/virtualNetworks/${vnetName}` +
    `/subnets/${subnetName}`;
  if (subnets.has(id)) return id;
  if ((await find(session, () => network.subnets.get(group, vnetName, subnetName))) === undefined) {
    const ofGroup = subnetInfo.vnetResourceGroup === undefined ? ', which is providerSpec.resourceGroup' : '';
    const message = `providerSpec.subnetInfo is ${JSON.stringify(subnetInfo)}: give a subnet that exists in the resource group ${group}${ofGroup}`;
    throw new ProviderError('InvalidArgument', message);
  }
  subnets.add(id);
  return id;
}

/** How long a part may take to be made within one call, and between two looks at it, ms. */
const partPatienceMs = 60_000;
const partPollMs = 500;

/**
 * Makes a part that has to be there before the VM. One that an earlier call has made is taken, one of somebody else is
 * not.
 */
async function makePart(
  session: Session<Arm>,
  { machine, tags, spec }: VmOrder<AzureProviderSpec>,
  kind: 'nic' | 'disk',
  name: string,
  make: Parameters<typeof start>[1],
): Promise<void> {
  const untilMs = performance.now() + partPatienceMs;
  const found = await findPart(session, kind, name);
  if (found !== undefined && !isFreeFor(found, tags, spec)) throw taken(kind, name, machine.name, session.client);
  const isOurs = found?.tags[names.machineUid] === machine.uid;
  let state = isOurs && found.state !== 'Failed' ? found.state : (await start(session, make)).state;
  while (state !== 'Succeeded') {
    const isLate = performance.now() > untilMs;
    if (state === undefined || state === 'Failed' || isLate) {
      throw new ProviderError('Aborted', `the ${kind} ${name}, which the VM needs, is ${state ?? 'gone'}`);
    }
    await sleep(partPollMs, undefined, { signal: session.signal });
    state = (await findPart(session, kind, name))?.state;
  }
}

/** Of this Machine, or of nobody and left by MCM. */
function isFreeFor(part: CloudPart, tags: Tags, spec: AzureProviderSpec): boolean {
  const uid = part.tags[names.machineUid];
  if (uid !== undefined) return uid === tags[names.machineUid];
  return part.attachedTo === undefined && hasTags(part, ownership(spec.tags));
}

function taken(kind: string, name: string, machine: string, { resourceGroup: group }: Arm): ProviderError {
  const message = `the ${kind} ${name} exists in the resource group ${group} and is not that of the Machine ${machine}: delete one of them`;
  return new ProviderError('AlreadyExists', message);
}

/** The VM of the name that was to be made: of an earlier call whose answer was lost, or of somebody else. */
async function takeExisting(session: Session<Arm>, { machine }: VmOrder<AzureProviderSpec>): Promise<CloudVm> {
  const vm = await findVm(session, machine.name);
  if (vm?.tags[names.machineUid] === machine.uid) return vm;
  throw taken('vm', machine.name, machine.name, session.client);
}

/** What does not exist is what the class names: says which of its fields Azure complains of. */
function describe(error: ProviderError, spec: AzureProviderSpec): ProviderError {
  const { code, cloudCode, requestId, retryAfterMs, message } = error;
  if (code !== 'NotFound' && code !== 'InvalidArgument') return error;
  const { location, properties } = spec;
  const { zone, hardwareProfile } = properties;
  const fields = [
    ['location', location, /another region|location/i],
    ['properties.hardwareProfile.vmSize', hardwareProfile.vmSize, /VM size|vmSize/i],
    ['properties.zone', zone, /\bzone/i],
  ] as const;
  const [name, value] = fields.find(([, given, words]) => given !== undefined && words.test(message)) ?? [];
  const culprit = name === undefined ? '' : ` (providerSpec.${name} is ${JSON.stringify(value)})`;
  const details = { cloudCode, requestId, retryAfterMs, cause: error };
  return new ProviderError('InvalidArgument', `${message}${culprit}`, details);
}

function vmOf(name: string, location: string, tags: Tags, createdAt: Date) {
  return {
    kind: 'vm' as const,
    id: name,
    name,
    createdAt: createdAt.toISOString(),
    tags,
    providerID: `azure:///${location}/${name}`,
    nodeName: name,
    addresses: [],
  };
}

function toVm({
  name = '',
  location,
  tags,
  timeCreated,
  provisioningState = '',
  instanceView,
}: VirtualMachine): CloudVm {
  const statuses = instanceView?.statuses ?? [];
  const power = statuses.map(({ code = '' }) => /^PowerState\/(.+)$/.exec(code)?.[1]).find(Boolean);
  const common = vmOf(name, location, fromAzure(tags), timeCreated ?? new Date(temporalNowMs()));
  if (provisioningState !== 'Failed') return { ...common, state: stateOf(provisioningState, power) };
  // Also a change of a VM that runs may fail. Where the creation has, there is nothing that could run.
  if (power !== undefined) return { ...common, state: stateOf('Succeeded', power) };
  const failed = statuses.find(({ code }) => code?.toLowerCase().startsWith('provisioningstate/failed'));
  const code = failed?.code?.split('/')[2];
  const message = failed?.message ?? 'Azure says that its provisioning has failed';
  return { ...common, state: 'failed', failure: { ...(code && { code }), message } };
}

const powerStates: Readonly<Record<string, CloudVm['state']>> = {
  stopping: 'stopped',
  stopped: 'stopped',
  deallocating: 'stopped',
  deallocated: 'stopped',
};

/** A list shows no power states. */
function stateOf(provisioningState: string, power: string | undefined): CloudVm['state'] {
  if (provisioningState === 'Creating') return 'creating';
  if (provisioningState === 'Deleting') return 'deleting';
  return powerStates[power ?? ''] ?? 'running';
}

/** Azure does not say when an interface or an address was made. One in use is as old as its VM, whose UID it has. */
const noCreationTime = new Date(0).toISOString();

function toNicPart({ id = '', name = '', tags, virtualMachine, provisioningState }: NetworkInterface): Part {
  const state = provisioningState;
  return {
    kind: 'nic',
    id,
    name,
    createdAt: noCreationTime,
    tags: fromAzure(tags),
    state,
    ...attached(id, virtualMachine?.id),
  };
}

function toDiskPart({ id = '', name = '', tags, managedBy, timeCreated, provisioningState: state }: Disk): Part {
  const createdAt = (timeCreated ?? new Date(temporalNowMs())).toISOString();
  return { kind: 'disk', id, name, createdAt, tags: fromAzure(tags), state, ...attached(id, managedBy) };
}

function toIpPart({ id = '', name = '', tags, provisioningState: state }: PublicIPAddress): Part {
  return { kind: 'ip', id, name, createdAt: noCreationTime, tags: fromAzure(tags), state };
}

/** Name of the VM, in lower case, in its ID. Of a VM of another resource group the whole ID, which is no name. */
function attached(partId: string, vmId: string | undefined): Pick<CloudPart, 'attachedTo'> {
  if (!vmId) return {};
  const attachedTo = groupOf(vmId) === groupOf(partId) ? lastOf(vmId) : vmId.replace(/^\//, '');
  return { attachedTo: attachedTo.toLowerCase() };
}

/** Subscription and resource group in an ID. */
function groupOf(id: string): string {
  return id.toLowerCase().split('/').slice(0, 5).join('/');
}

function lastOf(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

/** Azure takes no `/` in the key of a tag. */
const uidKey = names.machineUid.replace('/', '-');

function toAzure(tags: Tags): Record<string, string> {
  const { [names.machineUid]: uid, ...others } = tags;
  return { ...others, ...(uid !== undefined && { [uidKey]: uid }) };
}

/** Azure compares keys regardless of case. */
function fromAzure(tags: Readonly<Record<string, string>> = {}): Tags {
  const toOwn = (key: string) => (key.toLowerCase() === uidKey ? names.machineUid : key);
  return Object.fromEntries(Object.entries(tags).map(([key, value]) => [toOwn(key), value]));
}

/** Whether a resource was made for a Machine: disks of pods may have the same tags, by a policy. */
function isMade({ kind, tags }: CloudItem): boolean {
  return kind === 'vm' || tags[names.machineUid] !== undefined;
}

function hasTags({ tags }: CloudItem, wanted: Tags): boolean {
  return Object.entries(wanted).every(([key, value]) => tags[key] === value);
}

function ownership(tags: Tags): Tags {
  return Object.fromEntries(
    Object.entries(tags).filter(([key]) => ownershipPrefixes.some((prefix) => key.startsWith(prefix))),
  );
}
