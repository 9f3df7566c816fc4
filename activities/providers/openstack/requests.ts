/** From a providerSpec to the requests that make a server. */
import type { VmOrder } from '../kit/cloud.ts';
import { ProviderError } from '../provider.ts';
import type { NewPort, NewServer, NewVolume } from './client/index.ts';
import { toDescription, toMetadata } from './items.ts';
import type { Ids } from './lookups.ts';
import type { OpenstackProviderSpec } from './schema.ts';

type Order = Pick<VmOrder<OpenstackProviderSpec>, 'spec' | 'machine' | 'tags' | 'userData'>;

/** The most that nova takes, bytes in base64. */
const longestUserData = 65_535;

/** User data in base64. Throws ProviderError `InvalidArgument` for more than nova takes. */
export function toUserData({ userData }: Pick<Order, 'userData'>): string {
  const encoded = Buffer.from(userData).toString('base64');
  if (encoded.length <= longestUserData) return encoded;
  const message = `userData has ${encoded.length} bytes in base64: shorten it to ${longestUserData}, the most that nova takes`;
  throw new ProviderError('InvalidArgument', message);
}

/** One port for each network. The first has the name of the Machine, as that of machine-controller-manager. */
export function toPorts({ spec, machine }: Pick<Order, 'spec' | 'machine'>, ids: Ids): NewPort[] {
  const subnets = [...new Set([...(spec.subnetID ? [spec.subnetID] : []), ...(spec.subnetIDs ?? [])])];
  const ranges = [...new Set([...(spec.podNetworkCidr ? [spec.podNetworkCidr] : []), ...(spec.podNetworkCIDRs ?? [])])];
  return ids.networks.map(({ id, isOfPods }, index) => ({
    name: index === 0 ? machine.name : `${machine.name}-${index}`,
    description: toDescription(machine.uid),
    network_id: id,
    ...(subnets.length > 0 && { fixed_ips: subnets.map((subnet_id) => ({ subnet_id })) }),
    ...(ids.securityGroups.length > 0 && { security_groups: ids.securityGroups }),
    ...(isOfPods && { allowed_address_pairs: ranges.map((ip_address) => ({ ip_address })) }),
  }));
}

/** The root volume; undefined for a server that boots from the disk of its flavor. */
export function toVolume({ spec, machine, tags }: Omit<Order, 'userData'>, ids: Ids): NewVolume | undefined {
  const { rootDiskSize: size, rootDiskType: volume_type, availabilityZone: availability_zone } = spec;
  if (!size) return undefined;
  return { name: machine.name, size, imageRef: ids.image, volume_type, availability_zone, metadata: toMetadata(tags) };
}

/** @param volume ID of the root volume, if it has one */
export function toServer(
  order: Order,
  ids: Ids,
  { ports, volume }: { readonly ports: readonly string[]; readonly volume?: string | undefined },
): NewServer {
  const { spec, machine, tags } = order;
  return {
    name: machine.name,
    flavorRef: ids.flavor,
    ...(volume === undefined ? { imageRef: ids.image } : { block_device_mapping_v2: [toBlockDevice(volume)] }),
    key_name: spec.keyName,
    availability_zone: spec.availabilityZone,
    config_drive: spec.useConfigDrive,
    user_data: toUserData(order),
    metadata: toMetadata(tags),
    networks: ports.map((port) => ({ port })),
  };
}

function toBlockDevice(uuid: string) {
  const volume = 'volume' as const;
  return { boot_index: 0, uuid, source_type: volume, destination_type: volume, delete_on_termination: true };
}
