import { randomUUID } from 'node:crypto';
import { type Api, logIn } from './api.ts';
import { password as adminPassword, computes, type Ports, region, urlOf } from './config.ts';
import type { Setting } from './faults.ts';
import { imageName, volumeType } from './template.ts';

/** What is in the cloud from the start: all that a class of machines refers to. */
export interface Seeds {
  readonly region: string;
  readonly zone: string;
  readonly otherZone: string;
  /** A zone in which every VM fails to start. */
  readonly failingZone: string;
  /** A zone in which no port can be bound. */
  readonly unboundZone: string;
  readonly projectId: string;
  readonly projectName: string;
  readonly username: string;
  readonly password: string;
  readonly domainName: string;
  readonly applicationCredentialId: string;
  readonly applicationCredentialName: string;
  readonly applicationCredentialSecret: string;
  readonly imageId: string;
  readonly imageName: string;
  readonly flavorId: string;
  readonly flavorName: string;
  readonly networkId: string;
  readonly networkName: string;
  /** Both in that network. */
  readonly subnetIds: readonly [string, string];
  /** Another network, with one subnet. */
  readonly otherNetworkId: string;
  readonly otherSubnetId: string;
  readonly securityGroup: string;
  readonly keyName: string;
  readonly serverGroupId: string;
  /** Not the default one. */
  readonly volumeType: string;
}

/** A project of its own in an OpenStack. */
export interface Project {
  readonly seeds: Seeds;
  /** Asks as its user. */
  readonly member: Api;
  /** Replaces the settings with which OpenStack refuses. */
  set(settings: readonly Setting[]): Promise<void>;
}

interface Named {
  readonly id: string;
  readonly name: string;
}

/** Makes the project, its user and what a class of machines needs. */
export async function makeProject(ports: Ports): Promise<Project> {
  const identityUrl = urlOf(ports.keystone);
  const [keystone, nova, neutron, glance] = [
    ...[`${identityUrl}/v3`, `${urlOf(ports.nova)}/v2.1`],
    ...[`${urlOf(ports.neutron)}/v2.0`, `${urlOf(ports.glance)}/v2`],
  ];
  const admin = await logIn({ identityUrl, username: 'admin', password: adminPassword, project: 'admin' });
  const id = randomUUID().slice(0, 8);
  const [name, flavorName] = [`machines-${id}`, `small-${id}`];
  const password = `password-${randomUUID()}`;

  async function makeMember(): Promise<Api> {
    const { project } = await admin.call<{ project: Named }>('POST', `${keystone}/projects`, { project: { name } });
    const user = { name, password, default_project_id: project.id };
    const made = await admin.call<{ user: Named }>('POST', `${keystone}/users`, { user });
    const { roles } = await admin.call<{ roles: Named[] }>('GET', `${keystone}/roles?name=member`);
    await admin.call('PUT', `${keystone}/projects/${project.id}/users/${made.user.id}/roles/${roles[0]?.id}`);
    return logIn({ identityUrl, username: name, password, project: name });
  }

  async function makeFlavor(): Promise<Named> {
    const flavor = { name: flavorName, vcpus: 2, ram: 4096, disk: 20 };
    return (await admin.call<{ flavor: Named }>('POST', `${nova}/flavors`, { flavor })).flavor;
  }

  async function makeNetwork(member: Api, name: string, cidrs: readonly string[]) {
    const { network } = await member.call<{ network: Named }>('POST', `${neutron}/networks`, { network: { name } });
    const subnets = [];
    for (const cidr of cidrs) {
      const subnet = { network_id: network.id, ip_version: 4, cidr, gateway_ip: null };
      subnets.push((await member.call<{ subnet: Named }>('POST', `${neutron}/subnets`, { subnet })).subnet.id);
    }
    return { id: network.id, subnets };
  }

  const [member, flavor] = await Promise.all([makeMember(), makeFlavor()]);
  const latest = { 'openstack-api-version': 'compute 2.90' };
  const [{ application_credential: credential }, network, other, { images }, { server_group: group }] =
    await Promise.all([
      member.call<{ application_credential: Named & { secret: string } }>(
        'POST',
        `${keystone}/users/${member.userId}/application_credentials`,
        { application_credential: { name, roles: [{ name: 'member' }] } }, // not those that it implies
      ),
      makeNetwork(member, 'nodes', ['10.250.0.0/17', '10.250.128.0/17']),
      makeNetwork(member, 'storage', ['10.251.0.0/16']),
      member.call<{ images: Named[] }>('GET', `${glance}/images?name=${imageName}`),
      member.call<{ server_group: Named }>(
        'POST',
        `${nova}/os-server-groups`,
        { server_group: { name: 'nodes', policy: 'soft-anti-affinity' } },
        latest,
      ),
      member.call('POST', `${nova}/os-keypairs`, { keypair: { name: 'nodes' } }),
      member.call('POST', `${neutron}/security-groups`, { security_group: { name: 'nodes' } }),
    ]);

  const ofNova = (key: string) => ({
    url: `${nova}/os-quota-sets/${member.projectId}`,
    body: (limit: number) => ({ quota_set: { [key]: limit, force: true } }), // even below what is used
  });
  const quotas = {
    instances: ofNova('instances'),
    cores: ofNova('cores'),
    ports: { url: `${neutron}/quotas/${member.projectId}`, body: (port: number) => ({ quota: { port } }) },
    volumes: {
      url: `${urlOf(ports.cinder)}/v3/${admin.projectId}/os-quota-sets/${member.projectId}`,
      body: (volumes: number) => ({ quota_set: { volumes } }),
    },
  };
  const extraSpecs = `${nova}/flavors/${flavor.id}/os-extra_specs`;
  /** Of a kind that no host has: the scheduler finds no valid host. */
  const missing = 'resources:VGPU';
  let current: readonly Setting[] = [];

  async function setQuota(of: keyof typeof quotas, limit: number): Promise<void> {
    const { url, body } = quotas[of];
    await admin.call('PUT', url, body(limit));
  }

  return {
    seeds: {
      ...{ region, zone: computes.compute1.zone, otherZone: computes.compute2.zone },
      ...{ failingZone: computes.failing.zone, unboundZone: computes.unbound.zone },
      ...{ projectId: member.projectId, projectName: name, username: name, password, domainName: 'Default' },
      ...{ applicationCredentialId: credential.id, applicationCredentialName: name },
      applicationCredentialSecret: credential.secret,
      ...{ imageId: images[0]?.id ?? '', imageName, flavorId: flavor.id, flavorName },
      ...{ networkId: network.id, networkName: 'nodes' },
      subnetIds: [network.subnets[0] ?? '', network.subnets[1] ?? ''],
      ...{ otherNetworkId: other.id, otherSubnetId: other.subnets[0] ?? '' },
      ...{ securityGroup: 'nodes', keyName: 'nodes', serverGroupId: group.id, volumeType },
    },
    member,
    async set(settings) {
      const had = current;
      current = settings;
      for (const each of had) {
        if (each.kind === 'capacity') await admin.call('DELETE', `${extraSpecs}/${missing}`);
        else await setQuota(each.of, -1);
      }
      for (const each of settings) {
        if (each.kind === 'capacity') await admin.call('POST', extraSpecs, { extra_specs: { [missing]: '1' } });
        else await setQuota(each.of, each.limit);
      }
    },
  };
}
