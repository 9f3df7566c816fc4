/**
 * Provider `OpenStack`: servers of nova. Takes what machine-controller-manager-provider-openstack takes, and adopts
 * what it has made.
 */
import { z } from 'zod';
import { names } from '../../../api/names.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, Session, Tags } from '../kit/cloud.ts';
import { createProvider } from '../kit/provider.ts';
import { type Provider, type ProviderDeps, ProviderError } from '../provider.ts';
import type { Openstack, Page, Query } from './client/index.ts';
import { all, type Connection, call, connect, find, type Reach, read } from './connection.ts';
import { createServer } from './create.ts';
import { credentialKeys, OpenstackCredentials, secretKeys } from './credentials.ts';
import { errors, refusalOf } from './errors.ts';
import {
  changedPortTags,
  serverKey,
  toDescription,
  toDisk,
  toMetadata,
  toMetadataKey,
  toPort,
  toPortTags,
  toVm,
} from './items.ts';
import { OpenstackProviderSpec, OpenstackTags, ownershipOf, withoutBlanks } from './schema.ts';

/** What in-tree and CSI volumes of cinder look like. */
const CinderVolume = z.union([
  z.object({ csi: z.object({ driver: z.literal('cinder.csi.openstack.org'), volumeHandle: z.string() }) }),
  z.object({ cinder: z.object({ volumeID: z.string() }) }),
]);

const Region = z.object({ spec: z.object({ region: z.string().min(1) }) });
const Tagged = z.object({ spec: z.object({ tags: OpenstackTags }) });

/** A server that was found by its ID, with the parts that stay when nova deletes it. */
interface VmById extends CloudVm {
  readonly loose: readonly CloudPart[];
}

/** The cloud as the kit sees it. */
export const openstackCloud: Cloud<OpenstackProviderSpec, Reach, OpenstackCredentials, Connection> = {
  scheme: 'openstack',
  settleSeconds: 10,
  deletionPollMs: 2_000,
  rateLimit: { perSecond: 20, burst: 50 },
  providerSpec: OpenstackProviderSpec,
  reach: z.preprocess(withoutBlanks, Region),
  tags: Tagged.transform(({ spec }) => ownershipOf(spec.tags)),
  credentialKeys,
  secretKeys,
  credentials: OpenstackCredentials,
  errors,
  refusalOf,

  endpointOf: ({ spec }) => spec.region,
  connect,
  asked: ({ flavorName, availabilityZone }) => `${flavorName} in ${availabilityZone}`,

  async list(session, tags, page = 'vm:') {
    const kind = kinds.find((each) => page.startsWith(`${each}:`)) ?? 'vm';
    const { items, next } = await pages[kind](session, tags, page.slice(kind.length + 1));
    const following = kinds[kinds.indexOf(kind) + 1];
    return { items, nextPage: next === undefined ? following && `${following}:` : `${kind}:${next}` };
  },
  async findOwn(session, { uid, name }, withParts) {
    const isOwn = ({ tags }: CloudItem) => tags[names.machineUid] === uid;
    const vms = (await serversOf(session, name)).filter(isOwn);
    if (!withParts && vms.some(({ state }) => state !== 'gone')) return vms;
    const ports = (await portsOf(session, { description: toDescription(uid) })).filter(isOwn);
    const parts = [...ports, ...(await disksOf(session, uid))];
    return [...vms, ...(await unlistedOf(session, parts, vms)).filter(isOwn), ...parts];
  },
  async findByName(session, name, tags) {
    return (await serversOf(session, name)).filter((vm) => hasTags(vm, tags));
  },
  async findVm(session, id) {
    const server = await find(session, ({ compute }, signal) => compute.server(id, signal));
    // Before nova forgets a server it shows it as DELETED, and has let go of its ports and volumes.
    if (server === undefined || server.status === 'DELETED') {
      const disks = await volumes(session, { metadata: JSON.stringify({ [serverKey]: id }) });
      const ports = await portsOf(session, { tags: `${serverKey}=${id}` });
      return [...ports, ...disks].filter(({ tags }) => tags[serverKey] === id);
    }
    const vm = toVm(server, session.client.region);
    const uid = vm.tags[names.machineUid];
    // nova attaches ports some time after it has accepted a server, and not at all where it fails before.
    const hasFreePorts = uid !== undefined && (vm.state === 'creating' || vm.state === 'failed');
    // Ports that nova has made go with the server, and have no names. Volumes of pods are attached as well.
    const isItsOwn = ({ name, attachedTo, tags }: CloudPart) =>
      (attachedTo === id || (attachedTo === undefined && hasFreePorts && tags[names.machineUid] === uid)) &&
      (name === vm.name || /^-\d+$/.test(name.replace(vm.name, '')));
    const ports = await portsOf(session, hasFreePorts ? { description: toDescription(uid) } : { device_id: id });
    const disks = vm.name === '' ? [] : await volumes(session, { name: vm.name });
    const loose = [...ports, ...disks].filter(isItsOwn);
    const found: VmById = { ...vm, loose };
    return [found, ...loose];
  },
  async findPart(session, kind, id) {
    if (kind === 'port') {
      const port = await find(session, ({ network }, signal) => network.port(id, signal));
      return port && toPort(port);
    }
    const volume = kind === 'disk' ? await findVolume(session, id) : undefined;
    return volume && toDisk(volume);
  },
  create: createServer,
  async setTags(session, items, { tags, removed }) {
    for (const item of items) {
      const missing = Object.fromEntries(Object.entries(tags).filter(([key, value]) => item.tags[key] !== value));
      const excessive = removed.filter((key) => item.tags[key] !== undefined);
      await change[item.kind === 'vm' || item.kind === 'port' ? item.kind : 'disk'](session, item.id, {
        missing,
        excessive: Object.fromEntries(excessive.map((key) => [key, item.tags[key] ?? ''])),
      });
    }
  },
  async delete(session, item) {
    try {
      if (item.kind === 'port') await call(session, ({ network }, signal) => network.deletePort(item.id, signal));
      else if (item.kind === 'disk') await deleteVolume(session, item.id);
      else {
        for (const part of 'loose' in item ? (item as VmById).loose : []) await linkToServer(session, part, item.id);
        await call(session, ({ compute }, signal) => compute.deleteServer(item.id, signal));
      }
    } catch (error) {
      if (!(error instanceof ProviderError) || error.code !== 'NotFound') throw error;
    }
  },
  volumeId(spec) {
    const volume = CinderVolume.safeParse(spec).data;
    if (volume === undefined) return undefined;
    return 'csi' in volume ? volume.csi.volumeHandle : volume.cinder.volumeID;
  },
};

/** Makes the provider. */
export function createOpenstackProvider(deps: ProviderDeps): Provider {
  return createProvider(openstackCloud, deps);
}

const kinds = ['vm', 'port', 'disk'] as const;
type Kind = (typeof kinds)[number];

interface KindPage {
  readonly items: readonly CloudItem[];
  /** Query of the next one. */
  readonly next?: string | undefined;
}

/** Resources in a page of a list. A project may have thousands, and nova does not take more than 1,000. */
const limit = 200;

/** A page of each kind with all of `tags`; the first one has an empty query. */
const pages: Record<Kind, (session: Session<Connection>, tags: Tags, query: string) => Promise<KindPage>> = {
  // nova ignores a filter by metadata.
  vm: (session, tags, query) =>
    page(session, tags, query || { limit }, {
      ask: ({ compute }, next, signal) => compute.servers(next, signal),
      toItem: (server) => toVm(server, session.client.region),
    }),
  port: (session, tags, query) =>
    page(session, tags, query || { limit, tags: toPortTags(tags).join(',') }, {
      ask: ({ network }, next, signal) => network.ports(next, signal),
      toItem: toPort,
    }),
  async disk(session, tags, query) {
    if (!(await hasCinder(session))) return { items: [] };
    return page(session, tags, query || { limit, metadata: JSON.stringify(toMetadata(tags)) }, {
      ask: ({ volume }, next, signal) => volume.volumes(next, signal),
      toItem: toDisk,
    });
  },
};

interface Listing<T> {
  ask(client: Openstack, query: Query, signal: AbortSignal): Promise<Page<T>>;
  toItem(listed: T): CloudItem;
}

async function page<T>(
  session: Session<Connection>,
  tags: Tags,
  query: Query,
  { ask, toItem }: Listing<T>,
): Promise<KindPage> {
  const { items, next } = await read(session, (client, signal) => ask(client, query, signal));
  return { items: items.map(toItem).filter((item) => hasTags(item, tags)), next };
}

function hasTags(item: CloudItem, tags: Tags): boolean {
  return Object.entries(tags).every(([key, value]) => item.tags[key] === value);
}

/** Servers with exactly this name, which is one of a Machine, whoever has made them. */
async function serversOf(session: Session<Connection>, name: string): Promise<CloudVm[]> {
  const query = { name: `^${name.replaceAll('.', '\\.')}$` };
  const found = await all(session, query, ({ compute }, next, signal) => compute.servers(next, signal));
  return found.filter((server) => server.name === name).map((server) => toVm(server, session.client.region));
}

async function portsOf(session: Session<Connection>, query: Query): Promise<CloudPart[]> {
  return (await all(session, query, ({ network }, next, signal) => network.ports(next, signal))).map(toPort);
}

/**
 * Servers that have one of these parts, and that nova has not listed: those of a cell that is down, and renamed ones.
 */
async function unlistedOf(
  session: Session<Connection>,
  parts: readonly CloudPart[],
  listed: readonly CloudVm[],
): Promise<CloudVm[]> {
  const holders = new Set(parts.flatMap(({ attachedTo }) => attachedTo ?? []));
  for (const { id } of listed) holders.delete(id);
  const found = await Promise.all(
    [...holders].map((id) => find(session, ({ compute }, signal) => compute.server(id, signal))),
  );
  return found.flatMap((server) => (server === undefined ? [] : [toVm(server, session.client.region)]));
}

async function disksOf(session: Session<Connection>, uid: string): Promise<CloudPart[]> {
  const found = await volumes(session, { metadata: JSON.stringify(toMetadata({ [names.machineUid]: uid })) });
  return found.filter((disk) => disk.tags[names.machineUid] === uid);
}

async function volumes(session: Session<Connection>, query: Query): Promise<CloudPart[]> {
  if (!(await hasCinder(session))) return [];
  return (await all(session, query, ({ volume }, next, signal) => volume.volumes(next, signal))).map(toDisk);
}

/** Clouds without cinder have no volumes. */
function hasCinder(session: Session<Connection>): Promise<boolean> {
  return session.client.openstack.volume.exists(session.signal);
}

function findVolume(session: Session<Connection>, id: string) {
  return find(session, ({ volume }, signal) => volume.volume(id, signal));
}

/** cinder refuses the deletion of a volume that goes already, or that nova has not let go of yet. */
async function deleteVolume(session: Session<Connection>, id: string): Promise<void> {
  try {
    await call(session, ({ volume }, signal) => volume.deleteVolume(id, signal));
  } catch (error) {
    if (!(error instanceof ProviderError) || error.cloudCode !== 'VolumeNotReady') throw error;
    const status = (await findVolume(session, id))?.status ?? 'deleting';
    const isReleased = status === 'reserved' && (await releaseVolume(session, id));
    if (!isReleased && status !== 'deleting' && status !== 'detaching') throw error;
  }
}

/**
 * A server that is deleted before it has a host can leave its volume reserved forever: nova does not let go of it.
 * Answers whether it could be released. Its deletion is asked for again at the next look.
 */
async function releaseVolume(session: Session<Connection>, volumeId: string): Promise<boolean> {
  let isReleased = false;
  const attachments = await read(session, ({ volume }, signal) => volume.attachmentsOf(volumeId, signal));
  for (const { id, instance, status } of attachments) {
    if (instance === null || status !== 'reserved') continue;
    const server = await find(session, ({ compute }, signal) => compute.server(instance, signal));
    if (server !== undefined && server.status !== 'DELETED') continue;
    await call(session, ({ volume }, signal) => volume.deleteAttachment(id, signal));
    isReleased = true;
  }
  return isReleased;
}

/** So that a part is found again when its server is gone, though it has no tag of ours. */
async function linkToServer(
  session: Session<Connection>,
  { kind, id, tags }: CloudPart,
  server: string,
): Promise<void> {
  if (tags[serverKey] === server) return;
  if (kind === 'port') {
    await call(session, ({ network }, signal) => network.addTag(id, `${serverKey}=${server}`, signal));
  } else {
    await call(session, ({ volume }, signal) => volume.setMetadata(id, { [serverKey]: server }, signal));
  }
}

interface Change {
  readonly missing: Tags;
  /** As they are. */
  readonly excessive: Tags;
}

/** Changes the tags of a resource of each kind. */
const change: Record<Kind, (session: Session<Connection>, id: string, change: Change) => Promise<void>> = {
  vm: (session, id, wanted) =>
    changeMetadata(session, wanted, {
      set: ({ compute }, metadata, signal) => compute.setMetadata(id, metadata, signal),
      remove: ({ compute }, key, signal) => compute.deleteMetadata(id, key, signal),
    }),
  disk: (session, id, wanted) =>
    changeMetadata(session, wanted, {
      set: ({ volume }, metadata, signal) => volume.setMetadata(id, metadata, signal),
      remove: ({ volume }, key, signal) => volume.deleteMetadata(id, key, signal),
    }),
  async port(session, id, { missing, excessive }) {
    if (toPortTags(missing).length === 0 && Object.keys(excessive).length === 0) return;
    const { tags = [] } = await read(session, ({ network }, signal) => network.port(id, signal));
    const wanted = changedPortTags(tags, missing, excessive);
    await call(session, ({ network }, signal) => network.setTags(id, wanted, signal));
  },
};

interface MetadataRequests {
  set(client: Openstack, metadata: Tags, signal: AbortSignal): Promise<unknown>;
  remove(client: Openstack, key: string, signal: AbortSignal): Promise<unknown>;
}

async function changeMetadata(
  session: Session<Connection>,
  { missing, excessive }: Change,
  { set, remove }: MetadataRequests,
): Promise<void> {
  if (Object.keys(missing).length > 0)
    await call(session, (client, signal) => set(client, toMetadata(missing), signal));
  for (const key of Object.keys(excessive)) {
    await call(session, (client, signal) => remove(client, toMetadataKey(key), signal));
  }
}
