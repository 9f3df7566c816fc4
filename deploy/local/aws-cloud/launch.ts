import { faultOf } from '../faults.ts';
import { Reservation, Subnets } from './described.ts';
import type { ShownFault } from './faults.ts';
import type { Instance, Instances } from './instances.ts';
import type { Moto } from './moto.ts';
import type { Ec2Request } from './request.ts';
import { type Params, Refusal, tagsFor, toParams } from './wire.ts';

interface LaunchDeps {
  readonly moto: Moto;
  readonly instances: Instances;
  /** Called for each instance that was created. */
  readonly onCreated: (instance: Instance) => void;
}

/** Makes the function that creates instances, whatever the token, and answers with their ids. */
export function createLaunch(deps: LaunchDeps) {
  const { moto, instances, onCreated } = deps;
  return async function launch({ params, region, faults }: Ec2Request): Promise<string[]> {
    await refuseLaunch(deps, params, region, faults);
    const made = Reservation.parse(
      await moto.call('RunInstances', params, { in: region }).catch((error: unknown) => {
        if (!(error instanceof Refusal) || error.code !== 'NoSuchEntity') throw error;
        const message = `Invalid IAM Instance Profile name or ARN: ${error.message}`;
        throw new Refusal(400, 'InvalidParameterValue', message);
      }),
    );
    const fate = {
      isSpot: params['InstanceMarketOptions.MarketType'] === 'spot',
      invisibleMs: faultOf(faults, 'invisible')?.ms ?? 0,
      interruption: faultOf(faults, 'spotInterruption'),
    };
    const tags = tagsFor(params, 'instance');
    // Before anything else is asked: a list that is read meanwhile needs to know of them.
    for (const each of made.instancesSet) {
      const instance = {
        id: each.instanceId,
        region,
        zone: each.placement.availabilityZone,
        machineType: each.instanceType,
        tags,
        privateDnsName: each.privateDnsName,
        privateIp: each.privateIpAddress ?? '',
      };
      onCreated(instances.add(instance, fate));
    }
    // moto keeps the tags of instances and volumes alone.
    const nicTags = Object.entries(tagsFor(params, 'network-interface'));
    const nics = made.instancesSet.flatMap(({ networkInterfaceSet }) => networkInterfaceSet);
    if (nicTags.length > 0 && nics.length > 0) {
      const pairs = nicTags.map(([key, value], i) => ({ [`Tag.${i + 1}.Key`]: key, [`Tag.${i + 1}.Value`]: value }));
      const resources = nics.map((nic) => nic.networkInterfaceId);
      const tagging: Params = Object.assign(toParams('ResourceId', resources), ...pairs);
      await moto.call('CreateTags', tagging, { in: region });
    }
    return made.instancesSet.map(({ instanceId }) => instanceId);
  };
}

async function refuseLaunch(
  { moto, instances }: LaunchDeps,
  params: Params,
  region: string,
  faults: readonly ShownFault[],
): Promise<void> {
  const machineType = params['InstanceType'] ?? '';
  if (faultOf(faults, 'capacity')) {
    const zone = await zoneOf(moto, params, region);
    const message =
      `We currently do not have sufficient ${machineType} capacity in the Availability Zone you requested (${zone}). ` +
      `Our system will be working on provisioning additional capacity. You can currently get ${machineType} capacity ` +
      'by not specifying an Availability Zone in your request.';
    throw new Refusal(500, 'InsufficientInstanceCapacity', message);
  }
  const quota = faultOf(faults, 'quota');
  const existing = instances.all().filter(({ endedAt }) => endedAt === undefined).length;
  const wanted = existing + Number(params['MaxCount'] ?? 1);
  if (quota && wanted > quota.limit) throw exceeded(quota, wanted);
}

function exceeded({ of, limit }: Extract<ShownFault, { kind: 'quota' }>, wanted: number): Refusal {
  const [code, words] =
    of === 'vcpus'
      ? [
          'VcpuLimitExceeded',
          `more vCPU capacity than your current vCPU limit of ${2 * limit} allows for the instance bucket that the specified instance type belongs to`,
        ]
      : [
          'InstanceLimitExceeded',
          `more instances (${wanted}) than your current instance limit of ${limit} allows for the specified instance type`,
        ];
  const remedy = 'Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.';
  return new Refusal(400, code, `You have requested ${words}. ${remedy}`);
}

async function zoneOf(moto: Moto, params: Params, region: string): Promise<string> {
  const { 'Placement.AvailabilityZone': zone, SubnetId, 'NetworkInterface.1.SubnetId': nicSubnet } = params;
  const subnet = SubnetId ?? nicSubnet;
  if (zone !== undefined || subnet === undefined) return zone ?? `${region}a`;
  const { subnetSet } = Subnets.parse(await moto.call('DescribeSubnets', { 'SubnetId.1': subnet }, { in: region }));
  return subnetSet[0]?.availabilityZone ?? '';
}
