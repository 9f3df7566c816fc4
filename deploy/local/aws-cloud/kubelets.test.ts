import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RunInstancesCommand, TerminateInstancesCommand } from '@aws-sdk/client-ec2';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { leases, nodes } from '../../../kube/core.ts';
import { until } from '../../../test/support/until.ts';
import { type AwsCloud, startAwsCloud } from './admin.ts';

describe('a kubelet', () => {
  const kubeconfig = process.env.MILLWRIGHT_TEST_KUBECONFIG ?? '';
  let dir: string;
  let cloud: AwsCloud;
  let kube: KubeClient;
  /** Names of the instances, and of their Nodes. */
  const started: string[] = [];

  beforeAll(async () => {
    const access = loadKubeconfig(kubeconfig);
    kube = createKubeClient({ access, userAgent: 'test', qps: 1000, burst: 1000 });
    const fast = { bootMs: 0, joinMs: 0, deleteMs: 0, leaseRenewMs: 100 };
    dir = await mkdtemp(join(tmpdir(), 'aws-kubelets-'));
    cloud = await startAwsCloud({ dir, kubeconfig, ...fast });
  }, 400_000); // where moto has to be installed

  afterAll(async () => {
    for (const name of started) if (await kube.find(nodes, { name })) await kube.delete(nodes, { name });
    await kube.close();
    await cloud.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function start() {
    const { ami, subnetId } = cloud.seeds;
    const request = { ImageId: ami, InstanceType: 't3.large' as const, SubnetId: subnetId, MinCount: 1, MaxCount: 1 };
    const { Instances: [instance] = [] } = await cloud.direct.send(new RunInstancesCommand(request));
    const { InstanceId: id = '', PrivateDnsName: name = '' } = instance ?? {};
    started.push(name);
    return { id, name };
  }

  async function renewTimeOf(name: string) {
    return (await kube.find(leases, { namespace: 'kube-node-lease', name }))?.spec?.renewTime;
  }

  async function untilRenewed(name: string) {
    const before = await renewTimeOf(name);
    await until(`the lease of ${name} is renewed`, async () => ![undefined, before].includes(await renewTimeOf(name)));
  }

  it('registers a Ready Node by the name of the instance, and renews its Lease until the instance ends', async () => {
    const { id, name } = await start();
    const node = await until('its node has registered', () => kube.find(nodes, { name }));
    expect(node.spec?.providerID).toBe(`aws:///eu-west-1/${id}`);
    expect(node.status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
    await untilRenewed(name);

    const witness = await start();
    await cloud.direct.send(new TerminateInstancesCommand({ InstanceIds: [id] }));
    await untilRenewed(witness.name);
    await untilRenewed(witness.name); // a renewal of the other one may have been under way
    const last = await renewTimeOf(name);
    await untilRenewed(witness.name);
    await untilRenewed(witness.name);
    expect(await renewTimeOf(name)).toBe(last);
  });
});
