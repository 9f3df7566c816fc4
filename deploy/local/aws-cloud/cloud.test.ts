import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DeleteNetworkInterfaceCommand,
  DescribeImagesCommand,
  DescribeInstancesCommand,
  DescribeNetworkInterfacesCommand,
  DescribeSpotInstanceRequestsCommand,
  DescribeVolumesCommand,
  EC2Client,
  type EC2ClientConfig,
  RunInstancesCommand,
  type RunInstancesCommandInput,
  TerminateInstancesCommand,
} from '@aws-sdk/client-ec2';
import { fromWebToken } from '@aws-sdk/credential-provider-web-identity';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { toRunInstances } from '../../../activities/providers/aws/run-instances.ts';
import { AwsProviderSpec } from '../../../activities/providers/aws/schema.ts';
import { until } from '../../../test/support/until.ts';
import { type AwsCloud, startAwsCloud } from './admin.ts';

let dir: string;
let cloud: AwsCloud;
let ec2: EC2Client;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'aws-cloud-'));
  cloud = await startAwsCloud({ dir, bootMs: 2_000, deleteMs: 2_000 });
  ec2 = clientWith({ accessKeyId: 'letmein', secretAccessKey: 'any' });
}, 400_000); // where moto has to be installed

afterAll(async () => {
  ec2?.destroy();
  await cloud?.stop();
  await rm(dir, { recursive: true, force: true });
});

afterEach(() => cloud.setFaults());

function clientWith(credentials: NonNullable<EC2ClientConfig['credentials']>) {
  const { region } = cloud.seeds;
  return new EC2Client({ region, endpoint: cloud.url, maxAttempts: 1, credentials });
}

/** What a provider sends for a machine, with a token of its own. */
function order(overrides: Partial<RunInstancesCommandInput> = {}): RunInstancesCommandInput {
  const spec = AwsProviderSpec.parse(cloud.providerSpec());
  const machine = { name: 'machine', namespace: 'default', uid: randomUUID() };
  const vm = { spec, machine, tags: { test: machine.uid }, userData: '#!/bin/sh', token: machine.uid };
  return { ...toRunInstances(vm as Parameters<typeof toRunInstances>[0], '/dev/sda1'), ...overrides };
}

async function run(overrides: Partial<RunInstancesCommandInput> = {}) {
  const { Instances: [instance] = [] } = await ec2.send(new RunInstancesCommand(order(overrides)));
  return { id: instance?.InstanceId ?? '', state: instance?.State?.Name, instance };
}

async function find(id: string) {
  const { Reservations = [] } = await ec2.send(new DescribeInstancesCommand({ InstanceIds: [id] }));
  return Reservations[0]?.Instances?.[0];
}

function terminate(id: string) {
  return ec2.send(new TerminateInstancesCommand({ InstanceIds: [id] }));
}

function untilState(id: string, state: string) {
  return until(`${id} is ${state}`, async (see) => see(await find(id))?.State?.Name === state);
}

const attachedTo = (id: string) => [{ Name: 'attachment.instance-id', Values: [id] }];

async function partsOf(id: string) {
  const Filters = attachedTo(id);
  const { Volumes = [] } = await ec2.send(new DescribeVolumesCommand({ Filters }));
  const { NetworkInterfaces = [] } = await ec2.send(new DescribeNetworkInterfacesCommand({ Filters }));
  return { volumes: Volumes, interfaces: NetworkInterfaces };
}

/** Name, HTTP status and message of what is thrown. */
async function refusalOf(call: Promise<unknown>) {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  const { name, message, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } };
  return { name, message, status: $metadata?.httpStatusCode };
}

async function callsOf(action: string) {
  return (await cloud.calls()).filter((call) => call.action === action);
}

describe('RunInstances', () => {
  it('takes what the provider makes of a providerSpec, and tags the instance, its volumes and interfaces', async () => {
    const request = order();
    const { id } = await run(request);

    const { volumes, interfaces } = await partsOf(id);
    const tags = [{ Key: 'test', Value: request.ClientToken }];
    expect((await find(id))?.Tags).toEqual(expect.arrayContaining(tags));
    expect(volumes.map(({ Tags }) => Tags)).toEqual([expect.arrayContaining(tags)]);
    expect(interfaces.map(({ TagSet }) => TagSet)).toEqual([expect.arrayContaining(tags)]);
    const byTag = { Filters: [{ Name: 'tag:test', Values: [request.ClientToken ?? ''] }] };
    const { NetworkInterfaces } = await ec2.send(new DescribeNetworkInterfacesCommand(byTag));
    expect(NetworkInterfaces).toHaveLength(1);
  });

  it('answers a token that it knows with the same instance, and refuses it when that is terminated', async () => {
    const request = order();
    const [first, second] = await Promise.all([run(request), run(request)]);
    await terminate(first.id);
    await untilState(first.id, 'terminated');

    expect(second.id).toBe(first.id);
    expect((await refusalOf(run(request))).name).toBe('IdempotentInstanceTerminated');
  });

  it('refuses a known token with other parameters', async () => {
    const request = order();
    await run(request);

    const refusal = await refusalOf(run({ ...request, InstanceType: 't3.small' }));

    expect(refusal).toMatchObject({ name: 'IdempotentParameterMismatch', status: 400 });
  });

  it('forgets a token whose request was refused', async () => {
    const request = order();
    await cloud.setFaults({ kind: 'capacity', times: 1 });
    await refusalOf(run(request));

    expect((await run(request)).state).toBe('pending');
  });

  it.each([
    ['InvalidAMIID.NotFound', { ImageId: 'ami-12345678' }],
    ['InvalidKeyPair.NotFound', { KeyName: 'none' }],
    ['InvalidParameterValue', { IamInstanceProfile: { Name: 'none' } }],
    ['InvalidSubnetID.NotFound', { NetworkInterfaces: [{ DeviceIndex: 0, SubnetId: 'subnet-12345678' }] }],
  ])('refuses with %s', async (name, overrides) => {
    expect(await refusalOf(run(overrides))).toMatchObject({ name, status: 400 });
  });
});

describe('an instance', () => {
  /**
   * Looks at an instance while it shuts down, which takes 2 s. Where a busy machine is late for that, at another one.
   */
  function whileItShutsDown<T>(look: (id: string, token: string) => Promise<T>) {
    return until('an instance is seen while it shuts down', async () => {
      const request = order();
      const { id, state, instance } = await run(request);
      await untilState(id, 'running');
      const since = performance.now();
      const { TerminatingInstances: [change] = [] } = await terminate(id);
      const seen = await look(id, request.ClientToken ?? '');
      return performance.now() - since < 2_000 && { id, state, instance, change, seen };
    });
  }

  it('has another address than one that has just ended', async () => {
    const ended = await run();
    await terminate(ended.id);
    await untilState(ended.id, 'terminated');

    expect((await run()).instance?.PrivateIpAddress).not.toBe(ended.instance?.PrivateIpAddress);
  });

  it('is pending, running, shutting down and terminated, and has its volume and interface until then', async () => {
    const { id, state, instance, change, seen } = await whileItShutsDown(async (id) => ({
      parts: await partsOf(id),
      shown: await find(id),
    }));
    const { parts, shown } = seen;
    expect(state).toBe('pending');
    expect(shown?.State?.Name).toBe('shutting-down');
    await untilState(id, 'terminated');
    const left = await partsOf(id);

    expect(change).toMatchObject({ PreviousState: { Name: 'running' }, CurrentState: { Name: 'shutting-down' } });
    expect([parts.volumes.length, parts.interfaces.length]).toEqual([1, 1]);
    expect([left.volumes.length, left.interfaces.length]).toEqual([0, 0]);
    expect(instance?.PrivateDnsName).toMatch(/^ip-10-[\d-]+\.eu-west-1\.compute\.internal$/);
    expect((await find(id))?.PrivateDnsName).toBeFalsy();
  });

  it('leaves a volume and an interface that are not to be deleted with it, which are available then', async () => {
    const { subnetId } = cloud.seeds;
    const { id } = await run({
      BlockDeviceMappings: [{ DeviceName: '/dev/sda1', Ebs: { VolumeSize: 8, DeleteOnTermination: false } }],
      NetworkInterfaces: [{ DeviceIndex: 0, SubnetId: subnetId, DeleteOnTermination: false }],
    });
    const { volumes, interfaces } = await partsOf(id);
    const nic = interfaces[0]?.NetworkInterfaceId ?? '';
    const deleteNic = () => ec2.send(new DeleteNetworkInterfaceCommand({ NetworkInterfaceId: nic }));
    expect((await refusalOf(deleteNic())).name).toBe('InvalidParameterValue');
    await terminate(id);
    await untilState(id, 'terminated');

    const volumeId = volumes[0]?.VolumeId ?? '';
    const { Volumes } = await ec2.send(new DescribeVolumesCommand({ VolumeIds: [volumeId] }));
    expect(Volumes).toMatchObject([{ State: 'available' }]);
    expect((await cloud.interfaces()).find((each) => each.NetworkInterfaceId === nic)?.Status).toBe('available');
    expect((await partsOf(id)).interfaces).toEqual([]);
    await deleteNic();
  });

  it('is listed by its state by now', async () => {
    const listed = async (token: string, state: string) => {
      const Filters = [
        { Name: 'instance-state-name', Values: [state] },
        { Name: 'client-token', Values: [token] },
      ];
      return (await ec2.send(new DescribeInstancesCommand({ Filters }))).Reservations?.length;
    };

    const { seen } = await whileItShutsDown(async (_, token) => {
      return [await listed(token, 'running'), await listed(token, 'shutting-down')];
    });
    expect(seen).toEqual([0, 1]);
  });
});

describe('lists', () => {
  it('of instances, their volumes and interfaces come in pages', async () => {
    const { Instances = [] } = await ec2.send(new RunInstancesCommand(order({ MinCount: 12, MaxCount: 12 })));
    const ids = Instances.map(({ InstanceId }) => InstanceId).toSorted();
    const tag = Instances[0]?.Tags?.find(({ Key }) => Key === 'test')?.Value ?? '';
    const Filters = [{ Name: 'tag:test', Values: [tag] }];
    const pages = async (
      send: (input: object) => Promise<{ ids: (string | undefined)[]; next: string | undefined }>,
    ) => {
      const found: (string | undefined)[][] = [];
      let NextToken: string | undefined;
      do {
        const page = await send({ Filters, MaxResults: 5, ...(NextToken && { NextToken }) });
        found.push(page.ids);
        NextToken = page.next;
      } while (NextToken);
      return found;
    };

    const instances = await pages(async (input) => {
      const { Reservations = [], NextToken } = await ec2.send(new DescribeInstancesCommand(input));
      const shown = Reservations.flatMap((each) => each.Instances ?? []);
      return { ids: shown.map(({ InstanceId }) => InstanceId), next: NextToken };
    });
    const volumes = await pages(async (input) => {
      const { Volumes = [], NextToken } = await ec2.send(new DescribeVolumesCommand(input));
      return { ids: Volumes.map(({ VolumeId }) => VolumeId), next: NextToken };
    });
    const interfaces = await pages(async (input) => {
      const { NetworkInterfaces = [], NextToken } = await ec2.send(new DescribeNetworkInterfacesCommand(input));
      return { ids: NetworkInterfaces.map((each) => each.NetworkInterfaceId), next: NextToken };
    });

    for (const kind of [instances, volumes, interfaces]) {
      expect(kind.map((page) => page.length)).toEqual([5, 5, 2]);
      expect(new Set(kind.flat()).size).toBe(12);
    }
    expect(instances.flat().toSorted()).toEqual(ids);
    await ec2.send(new TerminateInstancesCommand({ InstanceIds: ids as string[] }));
  });

  it('refuse pages that EC2 refuses', async () => {
    const describeWith = (input: object) => refusalOf(ec2.send(new DescribeInstancesCommand(input)));

    expect((await describeWith({ MaxResults: 4 })).name).toBe('InvalidParameterValue');
    expect((await describeWith({ MaxResults: 5, InstanceIds: ['i-12345678'] })).name).toBe(
      'InvalidParameterCombination',
    );
    expect((await describeWith({ MaxResults: 5, NextToken: 'none' })).name).toBe('InvalidNextToken');
  });
});

describe('credentials', () => {
  it('are refused when the access key id is unknown', async () => {
    const stranger = clientWith({ accessKeyId: 'stranger', secretAccessKey: 'any' });

    expect(await refusalOf(stranger.send(new DescribeInstancesCommand({})))).toEqual({
      name: 'AuthFailure',
      status: 401,
      message: 'AWS was not able to validate the provided access credentials',
    });
  });

  it('of a role come for a web identity token, and are accepted', async () => {
    const { region } = cloud.seeds;
    const roleArn = 'arn:aws:iam::123456789012:role/machines';
    const clientConfig = { region, endpoint: cloud.url };
    const client = clientWith(fromWebToken({ roleArn, webIdentityToken: 'a token of a workload', clientConfig }));

    const { Images } = await client.send(new DescribeImagesCommand({ ImageIds: [cloud.seeds.ami] }));

    expect(Images).toMatchObject([{ ImageId: cloud.seeds.ami, RootDeviceName: '/dev/sda1' }]);
  });
});

describe('a fault', () => {
  it('capacity refuses with the machine type and the zone', async () => {
    await cloud.setFaults({ kind: 'capacity', machineType: 't3.large' });

    const refusal = await refusalOf(run());
    const other = await run({ InstanceType: 't3.small' });

    expect(refusal).toMatchObject({ name: 'InsufficientInstanceCapacity', status: 500 });
    expect(refusal.message).toMatch(/^We currently do not have sufficient t3\.large capacity in .* \(eu-west-1a\)\./);
    expect(other.state).toBe('pending');
  });

  it('quota refuses as long as there are so many instances', async () => {
    await cloud.setFaults({ kind: 'quota' });
    const vcpus = await refusalOf(run());
    await cloud.setFaults({ kind: 'quota', of: 'instances' });
    const instances = await refusalOf(run());
    await cloud.setFaults({ kind: 'quota', limit: 10_000 });

    expect(vcpus).toMatchObject({ name: 'VcpuLimitExceeded', status: 400 });
    expect(instances).toMatchObject({ name: 'InstanceLimitExceeded', status: 400 });
    expect((await run()).state).toBe('pending');
  });

  it.each([
    ['throttle', 'RequestLimitExceeded', 503],
    ['expired', 'RequestExpired', 400],
    ['unauthorized', 'UnauthorizedOperation', 403],
  ] as const)('%s refuses the actions that it names with %s', async (kind, name, status) => {
    await cloud.setFaults({ kind, actions: ['DescribeVolumes'] });

    const refusal = await refusalOf(ec2.send(new DescribeVolumesCommand({})));

    expect(refusal).toMatchObject({ name, status });
    expect(refusal.message.includes('ec2:DescribeVolumes because')).toBe(kind === 'unauthorized');
    expect((await ec2.send(new DescribeImagesCommand({}))).Images).toHaveLength(1);
  });

  it('outage cuts the connection, or answers 503', async () => {
    await cloud.setFaults({ kind: 'outage', how: 'disconnect', times: 1 }, { kind: 'outage', how: 'unavailable' });

    const cut = await refusalOf(ec2.send(new DescribeImagesCommand({})));
    const down = await refusalOf(ec2.send(new DescribeImagesCommand({})));

    expect(cut.status).toBeUndefined();
    expect(down).toMatchObject({ name: 'Unavailable', status: 503 });
  });

  it.each(['done', 'none'] as const)('lostAnswer with effect %s cuts the connection', async (effect) => {
    const request = order();
    await cloud.setFaults({ kind: 'lostAnswer', effect, actions: ['RunInstances'] });

    const lost = await refusalOf(run(request));

    const made = (await cloud.instances()).filter(({ ClientToken }) => ClientToken === request.ClientToken);
    expect(lost.status).toBeUndefined();
    expect(made).toHaveLength(effect === 'done' ? 1 : 0);
    const record = (await callsOf('RunInstances')).at(-1);
    expect(record).toMatchObject({ outcome: 'lost', effect: effect === 'done' });
  });

  it('hang holds the answer back until it is taken away', async () => {
    await cloud.setFaults({ kind: 'hang', effect: 'done' });
    const answer = run();
    await until('the effect is there', async (see) => see(await callsOf('RunInstances')).at(-1)?.effect === true);
    expect((await callsOf('RunInstances')).at(-1)?.outcome).toBe('pending');

    await cloud.setFaults();

    expect((await answer).id).toMatch(/^i-/);
  });

  it('latency makes answers late', async () => {
    await cloud.setFaults({ kind: 'latency', ms: 300 });
    const since = performance.now();
    await ec2.send(new DescribeImagesCommand({}));

    expect(performance.now() - since).toBeGreaterThanOrEqual(299);
  });

  it('invisible keeps a new instance and its parts out of answers for a time', async () => {
    await cloud.setFaults({ kind: 'invisible', ms: 600_000 });
    const { id, state } = await run();

    const listed = await ec2.send(new DescribeInstancesCommand({ Filters: [{ Name: 'instance-id', Values: [id] }] }));
    const found = await refusalOf(find(id));
    const terminated = await refusalOf(terminate(id));
    const { volumes, interfaces } = await partsOf(id);

    expect(state).toBe('pending');
    expect([listed.Reservations, volumes, interfaces]).toEqual([[], [], []]);
    expect([found.name, terminated.name]).toEqual(Array(2).fill('InvalidInstanceID.NotFound'));
    expect((await cloud.instances()).map(({ InstanceId }) => InstanceId)).toContain(id);
    await cloud.setFaults({ kind: 'invisible', ms: 300 });
    const { id: next } = await run();
    await until('it is visible', async (see) => see(await find(next))?.State?.Name === 'running');
  });

  it('spotInterruption marks a spot instance and ends it after the notice', async () => {
    const never = 600_000;
    const runSpot = async (afterMs: number, noticeMs: number) => {
      await cloud.setFaults({ kind: 'spotInterruption', afterMs, noticeMs });
      return run({ InstanceMarketOptions: { MarketType: 'spot' } });
    };
    const statusOf = async ({ id, instance }: Awaited<ReturnType<typeof run>>) => {
      const Filters = [{ Name: 'instance-id', Values: [id] }];
      const { SpotInstanceRequests = [] } = await ec2.send(new DescribeSpotInstanceRequestsCommand({ Filters }));
      expect(SpotInstanceRequests).toMatchObject([{ SpotInstanceRequestId: instance?.SpotInstanceRequestId }]);
      return SpotInstanceRequests[0]?.Status?.Code;
    };
    expect(await statusOf(await runSpot(never, never))).toBe('fulfilled');

    const marked = await runSpot(0, never);
    await until('it is marked', async (see) => see(await statusOf(marked)) === 'marked-for-termination');
    await untilState(marked.id, 'running');
    expect((await find(marked.id))?.InstanceLifecycle).toBe('spot');

    const ended = await runSpot(0, 0);
    await untilState(ended.id, 'terminated');
    expect(await statusOf(ended)).toBe('instance-terminated-no-capacity');
    expect((await find(ended.id))?.StateReason?.Code).toBe('Server.SpotInstanceTermination');
  });

  it('meets only calls for instances with its tags, and lists filtered by them', async () => {
    const request = order();
    await cloud.setFaults({ kind: 'throttle', tags: { test: request.ClientToken ?? '' } });

    const own = await refusalOf(run(request));

    const Filters = [{ Name: 'tag:test', Values: [request.ClientToken ?? ''] }];
    const list = await refusalOf(ec2.send(new DescribeVolumesCommand({ Filters })));
    expect([own.name, list.name]).toEqual(Array(2).fill('RequestLimitExceeded'));
    expect((await run()).state).toBe('pending');
    expect(await cloud.faults()).toMatchObject([{ met: 2, shown: 2 }]);
  });

  it('is refused when there is none of its kind', async () => {
    await expect(cloud.setFaults({ kind: 'none' } as never)).rejects.toThrow('400');
  });
});

describe('the record of calls', () => {
  it('has the request as sent, who sent it, and what came of it', async () => {
    const request = order({ KeyName: 'none' });
    await refusalOf(run(request));

    expect((await callsOf('RunInstances')).at(-1)).toMatchObject({
      service: 'ec2',
      accessKeyId: 'letmein',
      outcome: 400,
      code: 'InvalidKeyPair.NotFound',
      effect: false,
      parameters: {
        ClientToken: request.ClientToken,
        'NetworkInterface.1.SubnetId': cloud.seeds.subnetId,
        'TagSpecification.3.ResourceType': 'network-interface',
      },
    });
  });
});
