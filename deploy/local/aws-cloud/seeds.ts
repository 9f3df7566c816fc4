import { z } from 'zod';
import { type Moto, region } from './moto.ts';

/** What is in the cloud from the start: all that a class of machines refers to. */
export interface Seeds {
  readonly region: string;
  readonly zone: string;
  readonly vpcId: string;
  readonly subnetId: string;
  readonly securityGroupId: string;
  readonly ami: string;
  /** Name of an instance profile. */
  readonly instanceProfile: string;
  readonly keyName: string;
}

/**
 * Makes them. Instances are named after their addresses, so clouds that share a cluster need networks of their own: the
 * port makes the difference, which leaves each one 500 addresses.
 */
export async function plantSeeds(moto: Moto, port: number): Promise<Seeds> {
  const network = port % 2 ** 15;
  const cidr = { CidrBlock: `10.${network >> 7}.${(network & 127) << 1}.0/23` };
  const zone = `${region}a`;
  const name = 'nodes';
  const { vpc } = Vpc.parse(await moto.call('CreateVpc', cidr));
  const of = { VpcId: vpc.vpcId };
  const { subnet } = Subnet.parse(await moto.call('CreateSubnet', { ...cidr, ...of, AvailabilityZone: zone }));
  const group = { ...of, GroupName: name, GroupDescription: name };
  const { groupId } = Group.parse(await moto.call('CreateSecurityGroup', group));
  const { imageId } = Image.parse(await moto.call('RegisterImage', { Name: name, Architecture: 'x86_64' }));
  await moto.call('CreateKeyPair', { KeyName: name });
  await moto.call('CreateInstanceProfile', { InstanceProfileName: name }, { service: 'iam' });
  return {
    region,
    zone,
    vpcId: vpc.vpcId,
    subnetId: subnet.subnetId,
    securityGroupId: groupId,
    ami: imageId,
    instanceProfile: name,
    keyName: name,
  };
}

const Vpc = z.object({ vpc: z.object({ vpcId: z.string() }) });
const Subnet = z.object({ subnet: z.object({ subnetId: z.string() }) });
const Group = z.object({ groupId: z.string() });
const Image = z.object({ imageId: z.string() });
