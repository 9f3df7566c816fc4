import { describe, expect, it } from '@jest/globals';
import { awsScope, networkInterface } from '../../../test/support/aws.ts';
import { createAwsProvider } from './index.ts';

describe('validateClass', () => {
  const keys = { accessKeyID: 'AKID', secretAccessKey: 'x' };
  const provider = createAwsProvider({ readSecret: async () => keys });
  const context = { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} };
  const verdict = (spec: object) => provider.validateClass(awsScope('http://localhost:1', spec), context);

  it('accepts a class, and answers one listScope for classes of one region, account and cluster', async () => {
    const { problems, listScope } = await verdict({});

    expect(problems).toEqual([]);
    expect((await verdict({ machineType: 't3.small', iam: {} })).listScope).toBe(listScope);
    expect((await verdict({ region: 'us-east-1' })).listScope).not.toBe(listScope);
    expect(
      (await verdict({ tags: { 'kubernetes.io/cluster/b': '1', 'kubernetes.io/role/node': '1' } })).listScope,
    ).not.toBe(listScope);
  });

  it('ignores fields that it does not know', async () => {
    expect(await verdict({ apiVersion: 'v1alpha1', foo: 1 })).toMatchObject({ problems: [] });
  });

  it.each<[object, string]>([
    [{ region: '' }, 'region is "": give the code of a region, such as eu-west-1'],
    [{ region: 'Frankfurt' }, 'region is "Frankfurt": give the code of a region, such as eu-west-1'],
    [
      { ami: 'ubuntu-22.04' },
      'ami is "ubuntu-22.04": give the ID of an image, such as ami-0123456789abcdef0, or resolve:ssm:<parameter>',
    ],
    [{ ami: undefined }, 'ami is missing: give a string'],
    [{ machineType: 3 }, 'machineType is 3: give a string'],
    [{ endpoint: 'ec2' }, 'endpoint is "ec2": give a URL that begins with https:// or http://'],
    [{ iam: {} }, 'iam is {}: give either name or arn'],
    [{ iam: { name: 'a', arn: 'b' } }, 'iam is {"name":"a","arn":"b"}: give either name or arn'],
    [{ blockDevices: [] }, 'blockDevices is []: give at least 1 entry'],
    [{ blockDevices: [{ ebs: { volumeSize: 0 } }] }, 'blockDevices.0.ebs.volumeSize is 0: give 1 or more'],
    [
      { blockDevices: [{ ebs: { volumeSize: 1, volumeType: 'fast' } }] },
      'blockDevices.0.ebs.volumeType is "fast": use gp2, gp3, io1, io2, st1, sc1 or standard',
    ],
    [
      { blockDevices: [{ ebs: { volumeSize: 1, volumeType: 'io1' } }] },
      'blockDevices.0.ebs.iops is missing: io1 needs it: give 1 or more',
    ],
    [
      { blockDevices: [{ deviceName: 'disk', ebs: { volumeSize: 1 } }] },
      'blockDevices.0.deviceName is "disk": use /root, /dev/sd followed by a letter, or /dev/xvd and one or two',
    ],
    [{ networkInterfaces: [] }, 'networkInterfaces is []: give at least 1 entry'],
    [
      { networkInterfaces: [{ ...networkInterface, securityGroupIDs: [] }] },
      'networkInterfaces.0.securityGroupIDs is []: give at least 1 entry',
    ],
    [
      { tags: { a: 'b' } },
      'tags is {"a":"b"}: give a key that begins with kubernetes.io/cluster/ and one that begins with kubernetes.io/role/',
    ],
    [
      { cpuOptions: { coreCount: 2 } },
      'cpuOptions is {"coreCount":2}: give both coreCount and threadsPerCore, or neither',
    ],
    [{ placement: { hostId: 'h' } }, 'placement is {"hostId":"h"}: hostId needs the tenancy host'],
    [
      { instanceMarketOptions: { marketType: 'cheap' } },
      'instanceMarketOptions.marketType is "cheap": use spot, capacity-block or interruptible-capacity-reservation',
    ],
    [
      { capacityReservation: { capacityReservationPreference: 'open', capacityReservationId: 'cr' } },
      'capacityReservation is {"capacityReservationPreference":"open","capacityReservationId":"cr"}: give only one of ' +
        'capacityReservationPreference, capacityReservationId, capacityReservationResourceGroupArn',
    ],
    [
      { instanceMetadataOptions: { httpPutResponseHopLimit: 65 } },
      'instanceMetadataOptions.httpPutResponseHopLimit is 65: give 64 or less',
    ],
  ])('refuses %j with the field, its value and the fix', async (spec, problem) => {
    expect((await verdict(spec)).problems).toEqual([`providerSpec.${problem}`]);
  });

  describe('with several block devices', () => {
    const ebs = { volumeSize: 1 };
    const devices = async (...names: string[]) =>
      (await verdict({ blockDevices: names.map((deviceName) => ({ deviceName, ebs })) })).problems;

    it('wants a name for each, and one of them /root', async () => {
      expect(await devices('/root', '/dev/sdf')).toEqual([]);
      expect(await devices('/root', '')).toEqual([
        'providerSpec.blockDevices.1.deviceName is "": several devices need names',
      ]);
      expect(await devices('/dev/sdf', '/dev/sdg')).toEqual([expect.stringContaining('name exactly one device /root')]);
      expect(await devices('/root', '/dev/sdf', '/dev/sdf')).toEqual([
        expect.stringContaining('give each device a name of its own'),
      ]);
    });
  });
});
