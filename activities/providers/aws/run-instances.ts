/**
 * From a providerSpec to the request that makes the VM. Prefixes of IPv6 are assigned later, when the interface exists.
 */
import type { RunInstancesCommandInput } from '@aws-sdk/client-ec2';
import type { VmOrder } from '../kit/cloud.ts';
import type { AwsProviderSpec } from './schema.ts';

type Order = Pick<VmOrder<AwsProviderSpec>, 'spec' | 'machine' | 'tags' | 'userData' | 'token'>;

/** @param rootDevice name of the root device of the image, as `/dev/xvda` */
export function toRunInstances(
  { spec, machine, tags, userData, token }: Order,
  rootDevice: string,
): RunInstancesCommandInput {
  const { iam, instanceMetadataOptions: metadata, cpuOptions: cpu, placement, capacityReservation: reservation } = spec;
  const ownTags = Object.entries({ ...tags, Name: machine.name }).map(([Key, Value]) => ({ Key, Value }));
  return {
    ImageId: spec.ami,
    InstanceType: spec.machineType as NonNullable<RunInstancesCommandInput['InstanceType']>,
    MinCount: 1,
    MaxCount: 1,
    ClientToken: token,
    UserData: Buffer.from(userData).toString('base64'),
    KeyName: spec.keyName,
    IamInstanceProfile: { Name: iam.name, Arn: iam.arn },
    EbsOptimized: spec.ebsOptimized,
    Monitoring: spec.monitoring === undefined ? undefined : { Enabled: spec.monitoring },
    BlockDeviceMappings: spec.blockDevices.map((device) => toBlockDevice(device, spec.blockDevices.length, rootDevice)),
    NetworkInterfaces: spec.networkInterfaces.map(toNetworkInterface),
    MetadataOptions: metadata && {
      HttpEndpoint: metadata.httpEndpoint,
      HttpTokens: metadata.httpTokens,
      HttpPutResponseHopLimit: metadata.httpPutResponseHopLimit,
      HttpProtocolIpv6: metadata.httpProtocolIpv6,
    },
    CpuOptions: cpu && { CoreCount: cpu.coreCount, ThreadsPerCore: cpu.threadsPerCore, AmdSevSnp: cpu.amdSevSnp },
    CapacityReservationSpecification: reservation && toReservation(reservation),
    Placement: placement && {
      GroupId: placement.groupId,
      Tenancy: placement.tenancy,
      HostId: placement.hostId,
      PartitionNumber: placement.partitionNumber,
      Affinity: placement.affinity,
    },
    InstanceMarketOptions: toMarket(spec),
    TagSpecifications: (['instance', 'volume', 'network-interface'] as const).map((ResourceType) => ({
      ResourceType,
      Tags: ownTags,
    })),
  };
}

function toBlockDevice(
  { deviceName, ebs }: AwsProviderSpec['blockDevices'][number],
  devices: number,
  rootDevice: string,
) {
  return {
    DeviceName: devices === 1 || deviceName === '/root' ? rootDevice : deviceName,
    Ebs: {
      VolumeSize: ebs.volumeSize,
      VolumeType: ebs.volumeType,
      Iops: ebs.iops,
      Throughput: ebs.throughput,
      Encrypted: ebs.encrypted,
      DeleteOnTermination: ebs.deleteOnTermination,
      SnapshotId: ebs.snapshotID,
      KmsKeyId: ebs.encrypted ? ebs.kmsKeyID : undefined,
    },
  };
}

function toNetworkInterface(nic: AwsProviderSpec['networkInterfaces'][number], index: number) {
  return {
    DeviceIndex: nic.deviceIndex ?? index,
    SubnetId: nic.subnetID,
    Groups: nic.securityGroupIDs,
    AssociatePublicIpAddress: nic.associatePublicIPAddress,
    DeleteOnTermination: nic.deleteOnTermination,
    Description: nic.description,
    Ipv6AddressCount: nic.ipv6AddressCount,
    PrimaryIpv6: nic.primaryIpv6 ?? (nic.ipv6AddressCount ? true : undefined),
    InterfaceType: nic.interfaceType,
    NetworkCardIndex: nic.networkCardIndex,
  };
}

function toReservation(reservation: NonNullable<AwsProviderSpec['capacityReservation']>) {
  const { capacityReservationId: id, capacityReservationResourceGroupArn: arn } = reservation;
  return {
    CapacityReservationPreference: reservation.capacityReservationPreference,
    CapacityReservationTarget:
      id === undefined && arn === undefined
        ? undefined
        : { CapacityReservationId: id, CapacityReservationResourceGroupArn: arn },
  };
}

function toMarket({ instanceMarketOptions: market, spotPrice }: AwsProviderSpec) {
  if (spotPrice !== undefined) {
    return {
      MarketType: 'spot' as const,
      SpotOptions: { SpotInstanceType: 'one-time' as const, MaxPrice: spotPrice === '' ? undefined : spotPrice },
    };
  }
  return market && { MarketType: market.marketType };
}
