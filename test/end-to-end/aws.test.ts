/** Machines in EC2: the provider AWS against moto, with what moto lacks added by deploy/local/aws-cloud. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  CreateNetworkInterfaceCommand,
  CreateVolumeCommand,
  type Instance,
  RunInstancesCommand,
  type Tag,
} from '@aws-sdk/client-ec2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { type AwsCloud, startAwsCloud } from '../../deploy/local/aws-cloud/admin.ts';
import type { Node } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { approve, heldSweep, quickSweeps } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const { machineUid } = names;

describe('machines in EC2', () => {
  let dir: string;
  let cloud: AwsCloud;
  let millwright: Installation;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'aws-'));
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    cloud = await startAwsCloud({ dir, kubeconfig, bootMs: 100, joinMs: 100, deleteMs: 200 });
    process.env.AWS_ENDPOINT_URL_STS = cloud.url; // of the process that is started
    millwright = await startInstallation({
      alone: 'its process has the address of the cloud in its environment',
      flags: ['--providers', 'aws,simulated', '--interruption-check-period', '1s', ...quickSweeps],
    });
    await millwright.putSecret('ec2', {
      providerAccessKeyId: 'letmein',
      providerSecretAccessKey: 'canary-51c0',
      userData: '#!/bin/sh\nexec kubelet --canary-77ab',
    });
    await createClass('ec2', {});
  }, 400_000); // where moto has to be installed
  afterEach(() => cloud.setFaults());
  afterAll(async () => {
    delete process.env.AWS_ENDPOINT_URL_STS;
    await millwright?.stop();
    await cloud?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function createClass(name: string, spec: Parameters<AwsCloud['providerSpec']>[0]): Promise<void> {
    const { namespace } = millwright;
    await millwright.createClass(name, {
      provider: 'AWS',
      secretRef: { namespace, name: 'ec2' },
      providerSpec: cloud.providerSpec(spec),
    });
  }

  const createMachine = (name: string, className = 'ec2') =>
    millwright.createMachine(name, { class: { kind: 'MachineClass', name: className } });

  const tagOf = ({ Tags = [] }: { Tags?: Tag[] | undefined }, key: string) =>
    Tags.find(({ Key }) => Key === key)?.Value;
  const isAlive = ({ State }: Instance) => State?.Name === 'pending' || State?.Name === 'running';

  const instancesOf = async ({ uid }: ObjectRef) =>
    (await cloud.instances()).filter((instance) => tagOf(instance, machineUid) === uid);

  /** Volumes and interfaces with a UID tag. */
  async function partsLeft(): Promise<string[]> {
    const volumes = (await cloud.volumes()).filter((volume) => tagOf(volume, machineUid) !== undefined);
    const nics = (await cloud.interfaces()).filter(({ TagSet }) => tagOf({ Tags: TagSet }, machineUid) !== undefined);
    return [
      ...volumes.map(({ VolumeId = '' }) => VolumeId),
      ...nics.map(({ NetworkInterfaceId = '' }) => NetworkInterfaceId),
    ];
  }

  it('[mcm 104 partly] are 5, are all replaced by a rollout, are 2 and are none, and leave nothing', async () => {
    const { control, namespace } = millwright;
    const template = {
      metadata: { labels: { name: 'pool' } },
      spec: { class: { kind: 'MachineClass', name: 'ec2' } },
    };
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 0 } };
    await millwright.createDeployment('pool', 5, { template, strategy });
    const first = await millwright.untilMachines(5, 'Running', 180_000);

    const made = await cloud.instances();
    expect(made).toHaveLength(5);
    for (const machine of first) {
      const { uid, name, labels } = machine.metadata;
      const instance = made.find((each) => tagOf(each, machineUid) === uid);
      expect(tagOf(instance ?? {}, 'Name')).toBe(name);
      expect(machine.spec?.providerID).toBe(`aws:///${cloud.seeds.region}/${instance?.InstanceId}`);
      expect(labels?.['node']).toBe(instance?.PrivateDnsName);
    }

    const key = { namespace, name: 'pool' };
    const rolled = mergePatch({ spec: { template: { metadata: { annotations: { 'example.com/image': '2' } } } } });
    await control.patch(machineDeployments, key, rolled);
    const second = await millwright.untilReplaced(first, 240_000);
    const afterwards = await cloud.instances();
    expect(afterwards.filter(isAlive)).toHaveLength(5);
    // A new instance may get the name of a Node that is still there: then its Machine is replaced, too.
    const owners = afterwards.map((each) => tagOf(each, machineUid));
    expect(new Set(owners).size).toBe(owners.length);

    await millwright.scale('pool', 2);
    await millwright.untilMachines(2, 'Running');
    expect((await cloud.instances()).filter(isAlive)).toHaveLength(2);

    await control.delete(machineDeployments, key);
    await millwright.untilMachines(0, '');
    expect((await cloud.instances()).filter(isAlive)).toEqual([]);
    expect(await partsLeft()).toEqual([]);
    expect(await millwright.nodesOf([...first, ...second])).toEqual([]);
  }, 600_000);

  it('without a Machine are swept once a person approves, with a volume and an interface that are left over', async () => {
    const { seeds, direct } = cloud;
    const { tags } = cloud.providerSpec();
    const tagged = (ResourceType: 'instance' | 'volume' | 'network-interface', own: Record<string, string>) => [
      { ResourceType, Tags: Object.entries(own).map(([Key, Value]) => ({ Key, Value })) },
    ];
    const orphaned = { ...tags, [machineUid]: 'of-nobody', Name: 'orphan' };
    const ofOthers = { 'kubernetes.io/cluster/other': '1', 'kubernetes.io/role/node': '1', [machineUid]: 'of-others' };
    const [orphan, foreign] = await Promise.all(
      [orphaned, ofOthers].map(async (own) => {
        const request = { ImageId: seeds.ami, MinCount: 1, MaxCount: 1, TagSpecifications: tagged('instance', own) };
        const { Instances: [instance] = [] } = await direct.send(new RunInstancesCommand(request));
        return instance;
      }),
    );
    const AvailabilityZone = orphan?.Placement?.AvailabilityZone;
    await direct.send(
      new CreateVolumeCommand({ AvailabilityZone, Size: 1, TagSpecifications: tagged('volume', orphaned) }),
    );
    await direct.send(
      new CreateNetworkInterfaceCommand({
        SubnetId: seeds.subnetId,
        TagSpecifications: tagged('network-interface', orphaned),
      }),
    );
    expect(await partsLeft()).toHaveLength(2);

    const isReady = ({ status }: Node) =>
      status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True');
    await millwright.untilNode({ name: orphan?.PrivateDnsName ?? '' }, 'is Ready', isReady);
    await until('a sweep waits', async (see) => see((await heldSweep(millwright)).output).includes('may be healthy'));
    expect((await approve(millwright, 'orphan')).code).toBe(0);
    expect(await partsLeft()).toEqual([]);

    const alive = (await cloud.instances()).filter(isAlive).map(({ InstanceId }) => InstanceId);
    expect(alive).not.toContain(orphan?.InstanceId);
    expect(alive).toContain(foreign?.InstanceId);
  });

  it('[mcm 109 partly] wait for capacity, name type and zone, and are made when there is some', async () => {
    await cloud.setFaults({ kind: 'capacity' });
    const ref = await createMachine('no-capacity');

    expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain(
      `t3.large capacity in the Availability Zone you requested (${cloud.seeds.region}a)`,
    );
    expect(await instancesOf(ref)).toEqual([]);

    await cloud.setFaults();
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilPhase(ref, 'Running');
    await millwright.remove(ref);
  });

  it('get the tags that their class has now, and lose those that it has no more, and are not replaced', async () => {
    const { control, namespace } = millwright;
    const { tags } = cloud.providerSpec();
    await createClass('tagged', { tags: { ...tags, team: 'a', old: '1' } });
    const refs = [await createMachine('tagged-1', 'tagged'), await createMachine('tagged-2', 'tagged')];
    for (const ref of refs) await millwright.untilPhase(ref, 'Running');
    const teamOf = (each: Parameters<typeof tagOf>[0]) => [tagOf(each, 'team'), tagOf(each, 'old')];
    /** Tags of all that was made for these Machines. */
    const found = async () => {
      const uids = new Set(refs.map(({ uid }) => uid));
      const all = [
        ...(await cloud.instances()).filter(isAlive),
        ...(await cloud.volumes()),
        ...(await cloud.interfaces()).map(({ TagSet }) => ({ Tags: TagSet })),
      ];
      return all.filter((each) => uids.has(tagOf(each, machineUid) ?? '')).map(teamOf);
    };
    expect(await found()).toEqual(Array.from({ length: 6 }, () => ['a', '1']));

    const key = { namespace, name: 'tagged' };
    // Gardener replaces whole classes, and with them the annotations that are not its own.
    const edited = { metadata: { annotations: null }, providerSpec: { tags: { old: null, team: 'b' } } };
    await control.patch(machineClasses, key, mergePatch(edited));

    await until(
      'everything has the new tags',
      async () => (await found()).every(([team, old]) => team === 'b' && !old),
      { describe: () => millwright.story() },
    );
    expect(await found()).toHaveLength(6);
    const notedOn = async (ref: ObjectRef) => (await control.get(machines, ref)).metadata.annotations?.[names.vmTags];
    await until('the Machines say so', async () => {
      const noted = await Promise.all(refs.map(notedOn));
      return noted.every((text) => isDeepStrictEqual(JSON.parse(text ?? 'null'), { ...tags, team: 'b' }));
    });
    for (const ref of refs) await millwright.remove(ref);
  });

  it('[mcm 105 partly] are Running once their source/destination check is off, and say before why it is not', async () => {
    await createClass('router', { srcAndDstChecksEnabled: false });
    await cloud.setFaults({ kind: 'unauthorized', actions: ['ModifyNetworkInterfaceAttribute'] });
    const ref = await createMachine('router', 'router');

    expect(await millwright.untilRefused(ref, 'Uninitialized')).toContain(
      'allow the action ec2:ModifyNetworkInterfaceAttribute',
    );
    expect(phaseOf(await millwright.control.get(machines, ref))).not.toBe('Running');

    await cloud.setFaults();
    await millwright.untilPhase(ref, 'Running');
    const own = (await cloud.interfaces()).filter(({ TagSet }) => tagOf({ Tags: TagSet }, machineUid) === ref.uid);
    expect(own.map(({ SourceDestCheck }) => SourceDestCheck)).toEqual([false]);
    await millwright.remove(ref);
  });

  it('[mcm 104 partly] have failed when their spot requests are marked for termination, and other machines have not', async () => {
    await createClass('spot', { spotPrice: '' });
    const plain = await createMachine('plain');
    await cloud.setFaults({ kind: 'spotInterruption', afterMs: 0, noticeMs: 600_000 });
    const spot = await createMachine('spot', 'spot');

    const { status } = await millwright.untilPhase(spot, 'Failed');
    const because = 'the taint millwright.dev/vm-interrupted (marked-for-termination)';
    expect(status?.lastOperation?.description).toMatch(because);
    expect((await instancesOf(spot)).map(isAlive)).toEqual([true]);
    await millwright.untilPhase(plain, 'Running');
    await Promise.all([spot, plain].map((ref) => millwright.remove(ref)));
  });

  it('need no more rights than docs/providers/aws-policy.json gives', async () => {
    const file = new URL('../../docs/providers/aws-policy.json', import.meta.url);
    const policy: { Statement: { Action: string | string[] }[] } = JSON.parse(await readFile(file, 'utf8'));
    const allowed = policy.Statement.flatMap(({ Action }) => Action).filter((action) => !action.startsWith('iam:'));

    const called = new Set((await cloud.calls()).map(({ service, action }) => `${service}:${action}`));

    expect([...called].filter((action) => !allowed.includes(action))).toEqual([]);
    const unused = allowed.filter((action) => !called.has(action));
    // moto has no IPv6 prefixes.
    expect(unused.toSorted()).toEqual(['ec2:AssignIpv6Addresses']);
  });
});
