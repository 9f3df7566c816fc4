/**
 * Machines in OpenStack: the provider OpenStack against keystone, nova, neutron, glance and cinder of
 * deploy/local/openstack-cloud.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import {
  type OpenstackCloud,
  type Port,
  startOpenstackCloud,
  type Volume,
} from '../../deploy/local/openstack-cloud/admin.ts';
import { urlOf } from '../../deploy/local/openstack-cloud/config.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { quickSweeps, sweep } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

/** As of an application credential: `*` stands for a part of a path. */
interface AccessRule {
  readonly service: string;
  readonly method: string;
  readonly path: string;
}

/** Key of metadata with the UID of the Machine. */
const uidKey = names.machineUid.replace('/', '-');

describe('machines in OpenStack', () => {
  let dir: string;
  let cloud: OpenstackCloud;
  let millwright: Installation;
  let urls: { readonly nova: string; readonly neutron: string; readonly cinder: string };

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'openstack-'));
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    cloud = await startOpenstackCloud({ dir, kubeconfig, joinMs: 100 });
    const { ports } = cloud.openstack;
    urls = {
      nova: `${urlOf(ports.nova)}/v2.1`,
      neutron: `${urlOf(ports.neutron)}/v2.0`,
      cinder: `${urlOf(ports.cinder)}/v3/${cloud.seeds.projectId}`,
    };
    millwright = await startInstallation({ flags: ['--providers', 'openstack', ...quickSweeps] });
    const userData = '#!/bin/sh\nexec kubelet --canary-77ab';
    await millwright.putSecret('openstack', { ...cloud.credentials, userData });
    await millwright.putSecret('openstack-password', { ...cloud.passwordCredentials, userData });
    await createClass('openstack', {});
  }, 600_000); // where the packages have to be downloaded
  afterEach(() => cloud?.setFaults());
  afterAll(async () => {
    await millwright?.stop();
    await cloud?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function createClass(name: string, spec: object, secret = 'openstack'): Promise<void> {
    const { namespace } = millwright;
    await millwright.createClass(name, {
      provider: 'OpenStack',
      secretRef: { namespace, name: secret },
      providerSpec: cloud.providerSpec({ rootDiskSize: undefined, ...spec }),
    });
  }

  const createMachine = (name: string, className = 'openstack') =>
    millwright.createMachine(name, { class: { kind: 'MachineClass', name: className } });

  const serversOf = async ({ uid }: ObjectRef) =>
    (await cloud.servers()).filter(({ metadata }) => metadata[uidKey] === uid);
  const isOfMillwright = ({ name }: Port) => name !== '';

  /** Everything in the project that a Machine may have left. */
  async function allThatIsLeft(): Promise<string[]> {
    const [servers, ports, volumes] = await Promise.all([cloud.servers(), cloud.ports(), cloud.volumes()]);
    return [...servers, ...ports.filter(isOfMillwright), ...volumes].map(({ name }) => name);
  }

  async function untilNothingIsLeft(): Promise<void> {
    const isEmpty = async () => (await allThatIsLeft()).length === 0;
    await until('nothing is left', isEmpty, { describe: async () => String(await allThatIsLeft()) });
  }

  it('[mcm 108 partly] are 2 at once, are all replaced by a rollout, are 1 and are none, and leave nothing', async () => {
    const { control, namespace } = millwright;
    const template = {
      metadata: { labels: { name: 'pool' } },
      spec: { class: { kind: 'MachineClass', name: 'openstack' } },
    };
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } };
    await millwright.createDeployment('pool', 2, { template, strategy });
    const first = await millwright.untilMachines(2, 'Running', 240_000);

    const made = await cloud.servers();
    expect(made).toHaveLength(2);
    for (const machine of first) {
      const { uid, name, labels } = machine.metadata;
      const server = made.find(({ metadata }) => metadata[uidKey] === uid);
      expect(server?.name).toBe(name);
      expect(machine.spec?.providerID).toBe(`openstack:///${cloud.seeds.region}/${server?.id}`);
      expect(labels?.['node']).toBe(name);
    }
    const { podNetworkCIDRs = [] } = cloud.providerSpec().spec;
    expect(podNetworkCIDRs.length).toBeGreaterThan(1);
    const ports = (await cloud.ports()).filter(isOfMillwright);
    expect(ports.map(({ name }) => name).toSorted()).toEqual(made.map(({ name }) => name).toSorted());
    for (const port of ports) {
      expect(port.allowed_address_pairs.map(({ ip_address }) => ip_address).toSorted()).toEqual(
        podNetworkCIDRs.toSorted(),
      );
      expect(port.fixed_ips.map(({ subnet_id }) => subnet_id).toSorted()).toEqual(cloud.seeds.subnetIds.toSorted());
    }

    const key = { namespace, name: 'pool' };
    const rolled = mergePatch({ spec: { template: { metadata: { annotations: { 'example.com/image': '2' } } } } });
    await control.patch(machineDeployments, key, rolled);
    const second = await millwright.untilReplaced(first, 300_000);
    expect(await cloud.servers()).toHaveLength(2);

    await millwright.scale('pool', 1);
    await millwright.untilMachines(1, 'Running');
    expect(await cloud.servers()).toHaveLength(1);

    await control.delete(machineDeployments, key);
    await millwright.untilMachines(0, '');
    expect(await allThatIsLeft()).toEqual([]);
    expect(await millwright.nodesOf([...first, ...second])).toEqual([]);
  }, 900_000);

  it('are in several networks, of which one is that of the pods, and have what their class says', async () => {
    const { networkName, otherNetworkId, serverGroupId, imageName, keyName } = cloud.seeds;
    const networks = [{ id: otherNetworkId }, { name: networkName, podNetwork: true }];
    const more = { networkID: undefined, subnetIDs: undefined, imageID: undefined, imageName, networks };
    await createClass('networks', { ...more, serverGroupID: serverGroupId, useConfigDrive: true });
    const ref = await createMachine('networks', 'networks');
    await millwright.untilPhase(ref, 'Running');

    const ports = (await cloud.ports()).filter(isOfMillwright).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    expect(ports.map(({ name, network_id, allowed_address_pairs: pairs }) => [name, network_id, pairs.length])).toEqual(
      [
        ['networks', otherNetworkId, 0],
        ['networks-1', cloud.seeds.networkId, 2],
      ],
    );
    const [server] = await serversOf(ref);
    expect(server).toMatchObject({ key_name: keyName, config_drive: 'True' });
    const { server_group } = await cloud.direct.call<{ server_group: { members: string[] } }>(
      'GET',
      `${urls.nova}/os-server-groups/${serverGroupId}`,
    );
    expect(server_group.members).toEqual([server?.id]);
    await millwright.remove(ref);
    expect(await allThatIsLeft()).toEqual([]);
  });

  describe('without a Machine', () => {
    it('are swept, with a port and a volume that are left over, even one reserved for a server that is gone, and those of others are not', async () => {
      const { tags } = cloud.providerSpec().spec;
      const { networkId: network_id } = cloud.seeds;
      const makePort = async (name: string, description: string, own: string[]) => {
        const body = { port: { name, network_id, description } };
        const { port } = await cloud.direct.call<{ port: Port }>('POST', `${urls.neutron}/ports`, body);
        await cloud.direct.call('PUT', `${urls.neutron}/ports/${port.id}/tags`, { tags: own });
        return port.id;
      };
      const makeVolume = async (name: string, metadata: object) => {
        const body = { volume: { name, size: 1, metadata } };
        const { volume } = await cloud.direct.call<{ volume: Volume }>('POST', `${urls.cinder}/volumes`, body);
        return volume.id;
      };
      /** As nova does before it looks for a host. */
      const reserve = async (volume_uuid: string) => {
        await until('it can be reserved', async () =>
          (await cloud.volumes()).some((each) => each.id === volume_uuid && each.status === 'available'),
        );
        const body = { attachment: { volume_uuid, instance_uuid: randomUUID() } };
        await cloud.direct.call('POST', `${urls.cinder}/attachments`, body, { 'openstack-api-version': 'volume 3.27' });
      };
      const ofNobody = `${names.machineUid}=of-nobody`;
      await makePort('leaked', ofNobody, Object.keys(tags));
      await makeVolume('leaked', { ...tags, [uidKey]: 'of-nobody' });
      await reserve(await makeVolume('leaked', { ...tags, [uidKey]: 'of-nobody' }));
      const foreignPort = await makePort('foreign', `${names.machineUid}=of-others`, [
        'kubernetes.io-cluster-other',
        'kubernetes.io-role-node',
      ]);
      await makeVolume('foreign', { 'kubernetes.io-cluster-other': '1', [uidKey]: 'of-others' });

      await until(
        'the sweep has deleted them',
        async () => {
          await sweep(millwright);
          return !(await allThatIsLeft()).includes('leaked');
        },
        { timeoutMs: 150_000 },
      );

      expect(await allThatIsLeft()).toEqual(['foreign', 'foreign']);
      await cloud.direct.call('DELETE', `${urls.neutron}/ports/${foreignPort}`);
      for (const { id } of await cloud.volumes()) await cloud.direct.call('DELETE', `${urls.cinder}/volumes/${id}`);
      await until('the volume is gone', async () => (await cloud.volumes()).length === 0);
    });
  });

  it.each([
    ['instances', 'Quota exceeded for instances'],
    ['ports', 'Quota exceeded for resources'],
    ['volumes', 'VolumeLimitExceeded'],
  ] as const)(
    '[mcm 108 partly] [mcm 109 partly] wait for quota of %s with the words of OpenStack, and leave nothing',
    async (of, words) => {
      await createClass(`quota-${of}`, { rootDiskSize: 1 });
      await cloud.setFaults({ kind: 'quota', of });
      const ref = await createMachine(`quota-${of}`, `quota-${of}`);

      expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain(words);
      await untilNothingIsLeft();
      await millwright.remove(ref);
    },
  );

  it('have failed with the words of nova when no host can start them, and are gone with their ports', async () => {
    const { failingZone, unboundZone } = cloud.seeds;
    await createClass('failing', { availabilityZone: failingZone });
    await createClass('unbound', { availabilityZone: unboundZone });
    const [failing, unbound] = [await createMachine('failing', 'failing'), await createMachine('unbound', 'unbound')];

    expect(await millwright.untilRefused(failing, 'Internal')).toMatch(/BuildFailed: Build of instance \S+ aborted/);
    expect(await millwright.untilRefused(unbound, 'Internal')).toMatch(
      /BuildFailed: Exceeded maximum number of retries/,
    );
    await Promise.all([failing, unbound].map((ref) => millwright.remove(ref)));
    expect(await allThatIsLeft()).toEqual([]);
  });

  it('[mcm 108] [mcm 109 partly] [invariant 1] wait for a host with the words of nova, are made once where an answer is lost and nova lists late, allow all pods, and leave no port and volume, even of a failed creation', async () => {
    const { direct, seeds } = cloud;
    await createClass('whole', { rootDiskSize: 1 });
    await cloud.setFaults({ kind: 'capacity' });
    const ref = await createMachine('whole', 'whole');
    expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain('NoValidHost: No valid host was found.');
    await untilNothingIsLeft();

    const once = { operations: ['POST /compute/servers'], times: 1 };
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'done', ...once }, { kind: 'invisible', ms: 60_000, ...once });
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilPhase(ref, 'Running', 180_000);

    expect(await serversOf(ref)).toHaveLength(1);
    const [port, ...others] = (await cloud.ports()).filter(isOfMillwright);
    expect(others).toEqual([]);
    const { podNetworkCIDRs } = cloud.providerSpec().spec;
    expect(port?.allowed_address_pairs.map(({ ip_address }) => ip_address).toSorted()).toEqual(
      podNetworkCIDRs?.toSorted(),
    );
    expect(await cloud.volumes()).toHaveLength(1);
    // A second server cannot be made: the first has the port.
    const { flavorId: flavorRef, imageId: imageRef } = seeds;
    const second = { server: { name: 'whole', flavorRef, imageRef, networks: [{ port: port?.id }] } };
    await expect(direct.call('POST', `${urls.nova}/servers`, second)).rejects.toMatchObject({ status: 409 });

    await millwright.remove(ref);
    expect(await allThatIsLeft()).toEqual([]);
  });

  it('are made with a password, and go on when their token is revoked in between', async () => {
    await createClass('password', {}, 'openstack-password');
    const ref = await createMachine('password', 'password');
    await millwright.untilPhase(ref, 'Running');
    const logins = async () =>
      (await cloud.calls()).filter(({ operation }) => operation === 'POST /identity/auth/tokens').length;
    const before = await logins();

    await cloud.setFaults({ kind: 'expired' });
    await millwright.remove(ref);

    expect(await logins()).toBe(before + 1);
    expect(await allThatIsLeft()).toEqual([]);
  });

  it('[mcm 108 partly] take over a server that machine-controller-manager made, and delete it with its port and volume', async () => {
    const { seeds, direct } = cloud;
    const { spec } = cloud.providerSpec();
    const name = 'of-mcm';
    const { port } = await direct.call<{ port: Port }>('POST', `${urls.neutron}/ports`, {
      port: { name, network_id: seeds.networkId, fixed_ips: [{ subnet_id: seeds.subnetIds[0] }] },
    });
    await direct.call('PUT', `${urls.neutron}/ports/${port.id}/tags`, { tags: Object.keys(spec.tags) });
    const { volume } = await direct.call<{ volume: { id: string } }>('POST', `${urls.cinder}/volumes`, {
      volume: { name, size: 20, imageRef: seeds.imageId, metadata: spec.tags },
    });
    await until('the volume can be used', async () =>
      (await cloud.volumes()).some(({ id, status }) => id === volume.id && status === 'available'),
    );
    const { server } = await direct.call<{ server: { id: string } }>('POST', `${urls.nova}/servers`, {
      server: {
        ...{ name, flavorRef: seeds.flavorId, metadata: spec.tags, networks: [{ port: port.id }] },
        block_device_mapping_v2: [
          {
            ...{ boot_index: 0, uuid: volume.id, source_type: 'volume', destination_type: 'volume' },
            delete_on_termination: false,
          },
        ],
      },
    });
    // As when machine-controller-manager stops before it has stored the provider ID.
    const { namespace, control } = millwright;
    const { metadata } = await control.create(machines, {
      metadata: { namespace, name, finalizers: [finalizers.machine] },
      spec: { class: { kind: 'MachineClass', name: 'openstack' } },
    });
    const ref: ObjectRef = { dialect: 'gardener', namespace, name, uid: metadata.uid };

    const machine = await millwright.untilPhase(ref, 'Running', 180_000);

    expect(machine.spec?.providerID).toBe(`openstack:///${seeds.region}/${server.id}`);
    expect((await cloud.servers()).map(({ id }) => id)).toEqual([server.id]);
    await millwright.remove(ref);
    expect(await allThatIsLeft()).toEqual([]);
  }, 400_000);

  it('[mcm 108 partly] boot from a volume, get the tags that their class has now, and lose those that it has no more, and are not replaced', async () => {
    const { control, namespace } = millwright;
    const { tags } = cloud.providerSpec().spec;
    const [cluster = '', role = ''] = Object.keys(tags);
    const { volumeType: rootDiskType } = cloud.seeds;
    await createClass('tagged', { rootDiskSize: 20, rootDiskType, tags: { ...tags, team: 'a', old: '1' } });
    const ref = await createMachine('tagged-server', 'tagged');
    await millwright.untilPhase(ref, 'Running');
    const metadata = { ...tags, team: 'a', old: '1', [uidKey]: ref.uid };
    expect(await cloud.volumes()).toMatchObject([
      { name: 'tagged-server', size: 20, volume_type: rootDiskType, metadata },
    ]);

    const newTags = { [role]: null, 'kubernetes.io-role-worker': '1', team: 'b', old: null };
    const edited = mergePatch({ providerSpec: { spec: { tags: newTags } } });
    await control.patch(machineClasses, { namespace, name: 'tagged' }, edited);

    const wanted = { [cluster]: '1', 'kubernetes.io-role-worker': '1', team: 'b', [uidKey]: ref.uid };
    await until(
      'everything has the new tags',
      async () => {
        const [[server], [volume], ports] = await Promise.all([serversOf(ref), cloud.volumes(), cloud.ports()]);
        const portTags = ports.find(isOfMillwright)?.tags.toSorted();
        return (
          isDeepStrictEqual(server?.metadata, wanted) &&
          isDeepStrictEqual(volume?.metadata, wanted) &&
          isDeepStrictEqual(portTags, [cluster, 'kubernetes.io-role-worker', 'team=b'])
        );
      },
      { describe: async () => JSON.stringify([await serversOf(ref), await cloud.volumes(), await cloud.ports()]) },
    );
    await millwright.remove(ref);
    expect(await allThatIsLeft()).toEqual([]);
  });

  it('need no more rights than docs/providers/openstack-access-rules.json gives', async () => {
    const file = new URL('../../docs/providers/openstack-access-rules.json', import.meta.url);
    const rules: AccessRule[] = JSON.parse(await readFile(file, 'utf8'));
    const isAllowed = (rule: AccessRule) => {
      const path = new RegExp(`^${rule.path.replaceAll('.', '\\.').replaceAll('*', '[^/]+')}$`);
      return (call: AccessRule) => call.service === rule.service && call.method === rule.method && path.test(call.path);
    };
    const called = (await cloud.calls()).flatMap(({ service, method, path }) => {
      const own = path.replace(/\?.*/, '').replace(`/${service}/`, '/');
      return service === 'identity'
        ? []
        : [{ service: service === 'volume' ? 'block-storage' : service, method, path: own }];
    });

    const denied = called.filter((call) => !rules.some((rule) => isAllowed(rule)(call)));
    expect([...new Set(denied.map(({ method, service, path }) => `${method} ${service} ${path}`))]).toEqual([]);
    expect(rules.filter((rule) => !called.some(isAllowed(rule)))).toEqual([]);
  });
});
