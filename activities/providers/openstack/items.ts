/** Servers, ports and volumes as the kit sees them, and how they are tagged. */
import { names } from '../../../api/names.ts';
import type { CloudPart, CloudVm, Tags } from '../kit/cloud.ts';
import type { Port, Server, Volume } from './client/index.ts';
import { failureOf } from './errors.ts';
import { ownershipParts } from './schema.ts';

/** Key of metadata with the UID of the Machine: it may hold no `/`. */
const uidKey = names.machineUid.replace('/', '-');

/** Metadata of a server or a volume. */
export function toMetadata(tags: Tags): Record<string, string> {
  return Object.fromEntries(Object.entries(tags).map(([key, value]) => [toMetadataKey(key), value]));
}

export function toMetadataKey(key: string): string {
  return key === names.machineUid ? uidKey : key;
}

function ofMetadata(metadata: Readonly<Record<string, string>>): Tags {
  return Object.fromEntries(
    Object.entries(metadata).map(([key, value]) => [key === uidKey ? names.machineUid : key, value]),
  );
}

/** The most characters that every release of neutron takes as a tag; newer ones take 255. */
const longestPortTag = 60;

/**
 * Tags of a port: those of a class, without the value where that is the usual `1`, as machine-controller-manager spells
 * them. Those that neutron may not take are left out, but not those of a cluster and a role. The UID is in the
 * description, which neutron takes within the request that makes the port.
 */
export function toPortTags(tags: Tags): string[] {
  const isTaken = (tag: string) => tag.length <= longestPortTag && !tag.includes(',');
  const isOwnership = (tag: string) => ownershipParts.some((part) => tag.includes(part));
  return Object.entries(tags)
    .filter(([key]) => key !== names.machineUid)
    .map(([key, value]) => (value === '1' ? key : `${key}=${value}`))
    .filter((tag) => isOwnership(tag) || isTaken(tag));
}

/** Key and value of a tag of a port. */
function ofPortTag(tag: string): [string, string] {
  const at = tag.indexOf('=');
  return at < 0 ? [tag, '1'] : [tag.slice(0, at), tag.slice(at + 1)];
}

/** Tags of a port that has `before`, with these changes. */
export function changedPortTags(before: readonly string[], missing: Tags, excessive: Tags): string[] {
  const kept = before.filter((tag) => {
    const [key] = ofPortTag(tag);
    return !(key in missing) && !(key in excessive);
  });
  return [...kept, ...toPortTags(missing)];
}

/** Description of a port of a Machine. */
export function toDescription(uid: string): string {
  return `${names.machineUid}=${uid}`;
}

/**
 * Tag of a port and key of metadata of a volume whose server was deleted by its ID: by it they are found afterwards.
 */
export const serverKey = 'millwright.dev-server';

const states: Readonly<Record<string, CloudVm['state']>> = {
  BUILD: 'creating',
  UNKNOWN: 'creating',
  ERROR: 'failed',
  SHUTOFF: 'stopped',
  PAUSED: 'stopped',
  SUSPENDED: 'stopped',
  SHELVED: 'stopped',
  SHELVED_OFFLOADED: 'stopped',
  SOFT_DELETED: 'deleting', // nova removes it after a while that its operator has set
  DELETED: 'gone',
};

export function toVm(server: Server, region: string): CloudVm {
  const { id, name, status, created, metadata, addresses = {}, fault } = server;
  const state = server['OS-EXT-STS:task_state'] === 'deleting' && status !== 'DELETED' ? 'deleting' : states[status];
  return {
    kind: 'vm',
    id,
    name,
    createdAt: created,
    tags: ofMetadata(metadata),
    state: state ?? 'running',
    ...(state === 'failed' && { failure: failureOf(fault?.message) }),
    providerID: `openstack:///${region}/${id}`,
    nodeName: name,
    addresses: Object.values(addresses)
      .flat()
      .map((each) => ({
        type: each['OS-EXT-IPS:type'] === 'floating' ? 'ExternalIP' : 'InternalIP',
        address: each.addr,
      })),
  };
}

export function toPort({ id, name, description = '', device_id, tags = [], created_at }: Port): CloudPart {
  const [key = '', uid] = description.split('=');
  return {
    kind: 'port',
    id,
    name,
    createdAt: created_at ?? new Date(0).toISOString(),
    tags: {
      ...Object.fromEntries(tags.map(ofPortTag)),
      ...(key === names.machineUid && uid !== undefined && { [key]: uid }),
    },
    ...(device_id !== '' && { attachedTo: device_id }),
  };
}

export function toDisk({ id, name, created_at, metadata, attachments }: Volume): CloudPart {
  const attachedTo = attachments[0]?.server_id;
  return {
    kind: 'disk',
    id,
    name: name ?? '',
    createdAt: created_at.endsWith('Z') ? created_at : `${created_at}Z`,
    tags: ofMetadata(metadata),
    ...(attachedTo !== undefined && { attachedTo }),
  };
}
