import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { leases, nodes } from '../../../kube/core.ts';
import { until } from '../../../test/support/until.ts';
import { type AzureCloud, startAzureCloud } from './admin.ts';

describe('a kubelet', () => {
  const kubeconfig = process.env.MILLWRIGHT_TEST_KUBECONFIG ?? '';
  const names = [randomUUID(), randomUUID()] as const;
  let dir: string;
  let cloud: AzureCloud;
  let kube: KubeClient;

  beforeAll(async () => {
    const access = loadKubeconfig(kubeconfig);
    kube = createKubeClient({ access, userAgent: 'test', qps: 1000, burst: 1000 });
    const fast = { bootMs: 0, joinMs: 0, deleteMs: 0, leaseRenewMs: 100 };
    dir = await mkdtemp(join(tmpdir(), 'azure-kubelets-'));
    cloud = await startAzureCloud({ dir, kubeconfig, ...fast });
  }, 900_000); // where the program has to be built

  afterAll(async () => {
    await Promise.all(names.map((name) => kube.delete(nodes, { name })));
    await kube.close();
    await cloud.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function renewTimeOf(name: string) {
    return (await kube.find(leases, { namespace: 'kube-node-lease', name }))?.spec?.renewTime;
  }

  async function untilRenewed(name: string) {
    const before = await renewTimeOf(name);
    await until(`the lease of ${name} is renewed`, async () => ![undefined, before].includes(await renewTimeOf(name)));
  }

  it('registers a Ready Node by the name of the VM, and renews its Lease until the VM is deleted', async () => {
    const [name, witness] = names;
    await cloud.makeVm(name);
    const node = await until('its node has registered', () => kube.find(nodes, { name }));
    expect(node.spec?.providerID).toBe(`azure:///westeurope/${name}`);
    expect(node.status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
    await untilRenewed(name);

    await cloud.makeVm(witness);
    await cloud.direct.compute.virtualMachines.delete(cloud.seeds.resourceGroup, name);
    await untilRenewed(witness);
    const last = await renewTimeOf(name);
    await untilRenewed(witness);
    await untilRenewed(witness);
    expect(await renewTimeOf(name)).toBe(last);
  });
});
