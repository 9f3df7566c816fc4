import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  DeleteNetworkInterfaceCommand,
  DeleteVolumeCommand,
  DescribeInstancesCommand,
  type Instance,
  RunInstancesCommand,
  type Tag,
  TerminateInstancesCommand,
} from '@aws-sdk/client-ec2';
import { names } from '../../../api/names.ts';
import { type AwsCloud, startAwsCloud } from '../../../deploy/local/aws-cloud/admin.ts';
import { until } from '../../support/until.ts';
import type { CloudFault, CloudThing, Counterpart, FaultKind, Owner } from '../counterpart.ts';

type AwsFault = Parameters<AwsCloud['setFaults']>[0];

const parts = ['instance', 'volume', 'network-interface'] as const;
const ofCreation = { actions: ['RunInstances'] };

const lacks = {
  halfWay: 'RunInstances makes all that it is asked for, or nothing',
  askedToWait: 'EC2 does not say how long to wait',
} satisfies Counterpart['lacks'];

/** How the AWS cloud shows each other fault of the suite. EC2 promises that a token counts, so it always does. */
const faults: {
  readonly [K in Exclude<FaultKind, keyof typeof lacks>]: (fault: Extract<CloudFault, { kind: K }>) => AwsFault[];
} = {
  lostAnswer: ({ ms }) => [
    { kind: 'lostAnswer', effect: 'done', ...ofCreation, times: 1 },
    { kind: 'invisible', ms },
  ],
  slowAnswer: ({ ms }) => [{ kind: 'hang', effect: 'done', ...ofCreation, ms }],
  listedLate: ({ ms }) => [{ kind: 'invisible', ms }],
  noCapacity: () => [{ kind: 'capacity' }],
  missingPermission: () => [{ kind: 'unauthorized' }],
  throttled: ({ times }) => [{ kind: 'throttle', times }],
};

/** Starts an AWS cloud for the suite. */
export async function startAwsCounterpart(): Promise<Counterpart> {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-conformance-cloud-'));
  const keyId = `canary-key-${randomUUID()}`;
  const cloud = await startAwsCloud({ dir, accessKeys: [keyId], bootMs: 200, deleteMs: 500, pageSize: 10 });
  const providerSpec = cloud.providerSpec();
  const tagsOf: Record<Owner, Record<string, string>> = {
    class: providerSpec.tags,
    another: { 'kubernetes.io/cluster/another': '1', 'kubernetes.io/role/node': '1' },
    nobody: {},
  };

  /** Those that exist: a list with the terminated ones takes long after many. */
  async function instancesNow(): Promise<Instance[]> {
    const Filters = [{ Name: 'instance-state-name', Values: ['pending', 'running', 'shutting-down'] }];
    const { Reservations = [] } = await cloud.direct.send(new DescribeInstancesCommand({ Filters }));
    return Reservations.flatMap(({ Instances = [] }) => Instances);
  }

  async function things(): Promise<CloudThing[]> {
    const [instances, volumes, nics] = await Promise.all([instancesNow(), cloud.volumes(), cloud.interfaces()]);
    return [
      ...instances.map(({ InstanceId, Tags }) => toThing('vm', InstanceId, Tags)),
      ...volumes.map(({ VolumeId, Tags }) => toThing('disk', VolumeId, Tags)),
      ...nics.map(({ NetworkInterfaceId, TagSet }) => toThing('nic', NetworkInterfaceId, TagSet)),
    ];
  }

  return {
    providerSpec,
    credentials: { providerAccessKeyId: keyId, providerSecretAccessKey: `canary-secret-${randomUUID()}` },
    // The provider asks STS what a refusal means.
    env: { AWS_ENDPOINT_URL_STS: cloud.url },
    lacks,
    async setFault(fault) {
      const show = fault && (faults as Partial<Record<FaultKind, (fault: CloudFault) => AwsFault[]>>)[fault.kind];
      await cloud.setFaults(...(fault && show ? show(fault) : []));
    },
    things,
    manyVms: 25,
    calls: async () => (await cloud.calls()).length,
    async makeVms(owner, count, { uid, name } = {}) {
      // EC2 tells the age of an instance in whole seconds: those of a Machine are younger than its first one.
      if (uid !== undefined) await sleep(1_000 - (Date.now() % 1_000));
      const own = { ...(uid !== undefined && { [names.machineUid]: uid }), ...(name !== undefined && { Name: name }) };
      const tags = { ...tagsOf[owner], ...own };
      const Tags = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
      const { ami, subnetId, region } = cloud.seeds;
      const { Instances = [] } = await cloud.direct.send(
        new RunInstancesCommand({
          ...{ ImageId: ami, MinCount: count, MaxCount: count },
          NetworkInterfaces: [{ DeviceIndex: 0, SubnetId: subnetId, DeleteOnTermination: true }],
          ...(Tags.length > 0 && { TagSpecifications: parts.map((ResourceType) => ({ ResourceType, Tags })) }),
        }),
      );
      return Instances.map(({ InstanceId }) => `aws:///${region}/${InstanceId}`);
    },
    async reset() {
      await cloud.setFaults();
      const { direct } = cloud;
      await until('the cloud is empty', async () => {
        const instances = await instancesNow(); // what was made with an instance goes with it
        const InstanceIds = instances.flatMap(({ InstanceId }) => InstanceId ?? []);
        if (InstanceIds.length > 0) {
          await direct.send(new TerminateInstancesCommand({ InstanceIds }));
          return false;
        }
        const left = await things();
        for (const { kind, id } of left) {
          if (kind === 'disk') await direct.send(new DeleteVolumeCommand({ VolumeId: id }));
          if (kind === 'nic') await direct.send(new DeleteNetworkInterfaceCommand({ NetworkInterfaceId: id }));
        }
        return left.length === 0;
      });
    },
    async stop() {
      await cloud.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function toThing(kind: CloudThing['kind'], id = '', tags: readonly Tag[] = []): CloudThing {
  return { kind, id, uid: tags.find(({ Key }) => Key === names.machineUid)?.Value };
}
