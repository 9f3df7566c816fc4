/** Every field of a providerSpec as it reaches EC2. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  awsCreation,
  image,
  instance,
  launched,
  networkInterface,
  ownershipTags,
  uid,
} from '../../../test/support/aws.ts';
import { type RecordingEc2, startRecordingEc2 } from '../../../test/support/recording-ec2.ts';
import type { Provider } from '../provider.ts';
import { createAwsProvider } from './index.ts';

let ec2: RecordingEc2;
let provider: Provider;
const secrets: Record<string, Record<string, string>> = {
  cloud: { accessKeyID: ' AKIDONE\n', secretAccessKey: 'secret-1' },
  node: { userData: '#!/bin/sh' },
};

beforeAll(async () => {
  ec2 = await startRecordingEc2();
});
afterAll(() => ec2?.stop());
beforeEach(() => {
  provider = createAwsProvider({ readSecret: async ({ name }) => secrets[name] });
  ec2.answer({ DescribeImages: image, RunInstances: launched(instance('i-1')) });
});

const create = (spec: object = {}) =>
  provider.ensureVm(awsCreation(ec2.url, spec), {
    attempt: 1,
    signal: new AbortController().signal,
    heartbeat: () => {},
  });

/** Parameters of the last RunInstances that begin so. */
function sent(prefix: string): Record<string, string> {
  const all = ec2.requests('RunInstances').at(-1)?.params ?? {};
  return Object.fromEntries(Object.entries(all).filter(([name]) => name.startsWith(prefix)));
}

describe('RunInstances', () => {
  it('asks for one instance with image, type, token, user data and tags of instance, volumes and interfaces', async () => {
    await create();

    expect(ec2.requests('RunInstances')).toHaveLength(1);
    const [request] = ec2.requests('RunInstances');
    expect(request).toMatchObject({
      signedBy: 'AKIDONE',
      params: {
        ImageId: 'ami-1',
        InstanceType: 'm5.large',
        MinCount: '1',
        MaxCount: '1',
        ClientToken: `${uid}-0`,
        UserData: Buffer.from('#!/bin/sh').toString('base64'),
      },
    });
    const own = { ...ownershipTags, 'millwright.dev/machine-uid': uid, Name: 'workers-1' };
    for (const [index, type] of ['instance', 'volume', 'network-interface'].entries()) {
      const prefix = `TagSpecification.${index + 1}.`;
      const params = sent(prefix);
      expect(params[`${prefix}ResourceType`]).toBe(type);
      const pairs = Object.keys(own).map((_, at) => [
        params[`${prefix}Tag.${at + 1}.Key`],
        params[`${prefix}Tag.${at + 1}.Value`],
      ]);
      expect(Object.fromEntries(pairs)).toEqual(own);
    }
  });

  it('ignores a tag Name of the class', async () => {
    await create({ tags: { ...ownershipTags, Name: 'other' } });

    expect(Object.values(sent('TagSpecification'))).not.toContain('other');
  });

  const disk = { ebs: { volumeSize: 20 } };
  const b = 'BlockDeviceMapping.1.';
  const n = 'NetworkInterface.1.';
  const [big, second] = [
    { deviceName: '/root', ...disk },
    { deviceName: '/dev/sdf', ...disk },
  ];
  /** Field, the providerSpec, and the parameters that come of it: all that begin as the first. */
  const fields: [field: string, spec: object, prefix: string, expected: Record<string, string>][] = [
    ['ami', { ami: 'ami-2' }, 'ImageId', { ImageId: 'ami-2' }],
    ['machineType', { machineType: 't3.small' }, 'InstanceType', { InstanceType: 't3.small' }],
    ['keyName', { keyName: 'ops' }, 'KeyName', { KeyName: 'ops' }],
    ['iam.name', { iam: { name: 'a' } }, 'IamInstanceProfile', { 'IamInstanceProfile.Name': 'a' }],
    ['iam.arn', { iam: { arn: 'arn:a' } }, 'IamInstanceProfile', { 'IamInstanceProfile.Arn': 'arn:a' }],
    ['ebsOptimized', { ebsOptimized: true }, 'EbsOptimized', { EbsOptimized: 'true' }],
    ['monitoring', { monitoring: true }, 'Monitoring', { 'Monitoring.Enabled': 'true' }],
    [
      'the only block device',
      { blockDevices: [{ deviceName: '/dev/sdz', ebs: { volumeSize: 7 } }] },
      'BlockDeviceMapping',
      { [`${b}DeviceName`]: '/dev/xvda', [`${b}Ebs.VolumeSize`]: '7', [`${b}Ebs.DeleteOnTermination`]: 'true' },
    ],
    [
      'blockDevices[].deviceName',
      { blockDevices: [second, big] },
      'BlockDeviceMapping',
      {
        [`${b}DeviceName`]: '/dev/sdf',
        [`${b}Ebs.VolumeSize`]: '20',
        [`${b}Ebs.DeleteOnTermination`]: 'true',
        'BlockDeviceMapping.2.DeviceName': '/dev/xvda',
        'BlockDeviceMapping.2.Ebs.VolumeSize': '20',
        'BlockDeviceMapping.2.Ebs.DeleteOnTermination': 'true',
      },
    ],
    ...ebs('volumeType', 'gp3', 'VolumeType'),
    ...ebs('iops', 3000, 'Iops'),
    ...ebs('throughput', 200, 'Throughput'),
    ...ebs('encrypted', true, 'Encrypted'),
    ...ebs('snapshotID', 'snap-1', 'SnapshotId'),
    ...ebs('deleteOnTermination', false, 'DeleteOnTermination'),
    [
      'blockDevices[].ebs.kmsKeyID',
      { blockDevices: [{ ebs: { volumeSize: 20, encrypted: true, kmsKeyID: 'key-1' } }] },
      `${b}Ebs.KmsKeyId`,
      { [`${b}Ebs.KmsKeyId`]: 'key-1' },
    ],
    [
      'blockDevices[] with what is ignored',
      {
        blockDevices: [
          { ...disk, noDevice: '', virtualName: 'ephemeral0', ebs: { volumeSize: 20, kmsKeyID: 'key-1' } },
        ],
      },
      'BlockDeviceMapping',
      { [`${b}DeviceName`]: '/dev/xvda', [`${b}Ebs.VolumeSize`]: '20', [`${b}Ebs.DeleteOnTermination`]: 'true' },
    ],
    [
      'fields that are null',
      { cpuOptions: { coreCount: null, threadsPerCore: null, amdSevSnp: 'enabled' }, keyName: null },
      'CpuOptions',
      { 'CpuOptions.AmdSevSnp': 'enabled' },
    ],
    [
      'networkInterfaces[].subnetID and securityGroupIDs',
      { networkInterfaces: [{ subnetID: 'subnet-9', securityGroupIDs: ['sg-1', 'sg-2'] }] },
      'NetworkInterface',
      {
        [`${n}DeviceIndex`]: '0',
        [`${n}SubnetId`]: 'subnet-9',
        [`${n}SecurityGroupId.1`]: 'sg-1',
        [`${n}SecurityGroupId.2`]: 'sg-2',
        [`${n}DeleteOnTermination`]: 'true',
      },
    ],
    ...network({ associatePublicIPAddress: true }, { AssociatePublicIpAddress: 'true' }),
    ...network({ deleteOnTermination: false }, { DeleteOnTermination: 'false' }),
    ...network({ description: 'main' }, { Description: 'main' }),
    ...network({ ipv6AddressCount: 2 }, { Ipv6AddressCount: '2', PrimaryIpv6: 'true' }),
    ...network({ ipv6AddressCount: 2, primaryIpv6: false }, { PrimaryIpv6: 'false' }),
    ...network({ interfaceType: 'efa-only' }, { InterfaceType: 'efa-only' }),
    ...network({ networkCardIndex: 1 }, { NetworkCardIndex: '1' }),
    ...network({ deviceIndex: 3 }, { DeviceIndex: '3' }),
    [
      'the second of networkInterfaces',
      { networkInterfaces: [networkInterface, networkInterface] },
      'NetworkInterface.2.DeviceIndex',
      { 'NetworkInterface.2.DeviceIndex': '1' },
    ],
    [
      'instanceMetadataOptions',
      {
        instanceMetadataOptions: {
          httpEndpoint: 'enabled',
          httpTokens: 'required',
          httpPutResponseHopLimit: 2,
          httpProtocolIpv6: 'disabled',
        },
      },
      'MetadataOptions',
      {
        'MetadataOptions.HttpEndpoint': 'enabled',
        'MetadataOptions.HttpTokens': 'required',
        'MetadataOptions.HttpPutResponseHopLimit': '2',
        'MetadataOptions.HttpProtocolIpv6': 'disabled',
      },
    ],
    [
      'cpuOptions',
      { cpuOptions: { coreCount: 2, threadsPerCore: 1, amdSevSnp: 'enabled' } },
      'CpuOptions',
      { 'CpuOptions.CoreCount': '2', 'CpuOptions.ThreadsPerCore': '1', 'CpuOptions.AmdSevSnp': 'enabled' },
    ],
    ...reservation({ capacityReservationPreference: 'none' }, { CapacityReservationPreference: 'none' }),
    ...reservation({ capacityReservationId: 'cr-1' }, { 'CapacityReservationTarget.CapacityReservationId': 'cr-1' }),
    ...reservation(
      { capacityReservationResourceGroupArn: 'arn:g' },
      { 'CapacityReservationTarget.CapacityReservationResourceGroupArn': 'arn:g' },
    ),
    [
      'placement',
      { placement: { groupId: 'pg-1', tenancy: 'host', hostId: 'h-1', partitionNumber: 2, affinity: 'host' } },
      'Placement',
      {
        'Placement.GroupId': 'pg-1',
        'Placement.Tenancy': 'host',
        'Placement.HostId': 'h-1',
        'Placement.PartitionNumber': '2',
        'Placement.Affinity': 'host',
      },
    ],
    ...['spot', 'capacity-block', 'interruptible-capacity-reservation'].map((marketType): (typeof fields)[number] => [
      `instanceMarketOptions.marketType ${marketType}`,
      { instanceMarketOptions: { marketType } },
      'InstanceMarketOptions',
      { 'InstanceMarketOptions.MarketType': marketType },
    ]),
    [
      'spotPrice',
      { spotPrice: '0.03' },
      'InstanceMarketOptions',
      {
        'InstanceMarketOptions.MarketType': 'spot',
        'InstanceMarketOptions.SpotOptions.SpotInstanceType': 'one-time',
        'InstanceMarketOptions.SpotOptions.MaxPrice': '0.03',
      },
    ],
    [
      'an empty spotPrice',
      { spotPrice: '' },
      'InstanceMarketOptions',
      {
        'InstanceMarketOptions.MarketType': 'spot',
        'InstanceMarketOptions.SpotOptions.SpotInstanceType': 'one-time',
      },
    ],
  ];

  function ebs(field: string, value: unknown, param: string): typeof fields {
    const spec = { blockDevices: [{ ebs: { volumeSize: 20, [field]: value } }] };
    return [[`blockDevices[].ebs.${field}`, spec, `${b}Ebs.${param}`, { [`${b}Ebs.${param}`]: String(value) }]];
  }
  function network(own: object, expected: Record<string, string>): typeof fields {
    return Object.entries(expected).map(([param, value]) => [
      `networkInterfaces[] with ${JSON.stringify(own)}`,
      { networkInterfaces: [{ ...networkInterface, ...own }] },
      n + param,
      { [n + param]: value },
    ]);
  }
  function reservation(own: object, expected: Record<string, string>): typeof fields {
    const all = Object.entries(expected).map(([param, value]) => [`CapacityReservationSpecification.${param}`, value]);
    const field = `capacityReservation.${Object.keys(own).join()}`;
    return [[field, { capacityReservation: own }, 'CapacityReservationSpecification', Object.fromEntries(all)]];
  }

  it.each(fields)('[mcm 104 partly] has the parameters of %s', async (_, spec, prefix, expected) => {
    await create(spec);

    expect(sent(prefix)).toEqual(expected);
  });

  it.each([
    [{}, 'dedicated'],
    [{ placement: { tenancy: 'default' } }, 'default'],
  ])(
    '[mcm 104 partly] takes the placement that the Machine says where the class %j has none',
    async (spec, tenancy) => {
      const request = { ...awsCreation(ec2.url, spec), providerSpecDefaults: { placement: { tenancy: 'dedicated' } } };
      await provider.ensureVm(request, { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} });

      expect(sent('Placement')).toEqual({ 'Placement.Tenancy': tenancy });
    },
  );

  it('leaves out what the class does not give', async () => {
    await create();

    const names = new Set(Object.keys(sent('')).map((name) => name.split('.')[0]));
    expect([...names].toSorted()).toEqual([
      'BlockDeviceMapping',
      'ClientToken',
      'IamInstanceProfile',
      'ImageId',
      'InstanceType',
      'MaxCount',
      'MinCount',
      'NetworkInterface',
      'TagSpecification',
      'UserData',
      'Version',
    ]);
  });

  it('asks once for the root device of an image', async () => {
    await create();
    await create();

    expect(ec2.requests('DescribeImages')).toHaveLength(1);
  });
});
