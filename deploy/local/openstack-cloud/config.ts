/** The configuration files of OpenStack's services. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Packages } from './packages.ts';

export const region = 'RegionOne';

/** Password of the user admin, and of each service's user. */
export const password = 'secret';

/** Each service with the path of its API, and the path of that in a front. */
export const services = {
  keystone: { type: 'identity', version: '/v3' },
  glance: { type: 'image', version: '' },
  placement: { type: 'placement', version: '' },
  neutron: { type: 'network', version: '' },
  nova: { type: 'compute', version: '/v2.1' },
  cinder: { type: 'volumev3', version: '/v3/%(project_id)s' },
} as const;
export type ServiceName = keyof typeof services;
export const serviceNames = Object.keys(services) as ServiceName[];
export type Ports = Readonly<Record<ServiceName, number>>;

/** The compute hosts, by name, each alone in an availability zone. */
export const computes = {
  compute1: { zone: 'az1', driver: 'fake.FakeDriver', isBound: true },
  compute2: { zone: 'az2', driver: 'fake.FakeDriver', isBound: true },
  /** Its hypervisor fails to start a VM. */
  failing: { zone: 'failing', driver: 'fake.FakeBuildAbortDriver', isBound: true },
  /** It has no agent of neutron, so no port can be bound there. */
  unbound: { zone: 'unbound', driver: 'fake.FakeDriver', isBound: false },
} as const;

/** The most that a list answers at once: few, so that a longer one comes in pages. */
export const pageSize = 100;

export const urlOf = (port: number) => `http://127.0.0.1:${port}`;

type Section = Readonly<Record<string, string | number | boolean>>;

interface Place {
  /** Folder of the state: databases, keys, images. */
  readonly dir: string;
  readonly ports: Ports;
  readonly packages: Packages;
}

/** Writes `<service>.conf` for every service into the folder. */
export async function writeConfigs(place: Place): Promise<void> {
  await Promise.all(
    Object.entries(configsOf(place)).map(([name, sections]) =>
      writeFile(join(place.dir, `${name}.conf`), toIni(sections), { mode: 0o600 }),
    ),
  );
}

function configsOf({ dir, ports, packages: { root } }: Place): Record<ServiceName, Record<string, Section>> {
  const database = (name: string) => ({ connection: databaseUrl(dir, name), sqlite_synchronous: false });
  /** For keystone and placement, which answer in threads: a connection may be closed in another than its own. */
  const sharedDatabase = (name: string) => ({
    ...database(name),
    connection: `${databaseUrl(dir, name)}?check_same_thread=false`,
  });
  const access = (username: string) => ({
    ...{ www_authenticate_uri: urlOf(ports.keystone), auth_url: urlOf(ports.keystone), auth_type: 'password' },
    ...{ project_domain_name: 'Default', user_domain_name: 'Default', project_name: 'service' },
    ...{ username, password, region_name: region },
  });
  /** A service that is down for longer is not asked. A busy machine delays its heartbeats, and a copy has old ones. */
  const service_down_time = 10 ** 9;
  const oslo_concurrency = { lock_path: join(dir, 'lock') };
  return {
    keystone: {
      database: sharedDatabase('keystone'),
      fernet_tokens: { key_repository: join(dir, 'fernet') },
      fernet_receipts: { key_repository: join(dir, 'fernet') },
      credential: { key_repository: join(dir, 'credential') },
      identity: { password_hash_rounds: 4 }, // the fewest: each more doubles the time of a login
    },
    placement: { placement_database: sharedDatabase('placement'), keystone_authtoken: access('placement') },
    glance: {
      DEFAULT: { bind_host: '127.0.0.1', bind_port: ports.glance, workers: 0, enabled_backends: 'fs:file' },
      glance_store: { default_backend: 'fs' },
      fs: { filesystem_store_datadir: join(dir, 'images') },
      os_glance_staging_store: { filesystem_store_datadir: join(dir, 'images/staging') },
      os_glance_tasks_store: { filesystem_store_datadir: join(dir, 'images/tasks') },
      database: database('glance'),
      paste_deploy: { flavor: 'keystone', config_file: join(root, 'usr/share/glance-common/glance-api-paste.ini') },
      oslo_concurrency,
      keystone_authtoken: access('glance'),
    },
    neutron: {
      DEFAULT: {
        ...{ bind_host: '127.0.0.1', bind_port: ports.neutron, state_path: join(dir, 'neutron') },
        ...{ core_plugin: 'ml2', service_plugins: '', transport_url: 'fake://' },
        api_paste_config: join(root, 'usr/share/neutron-common/api-paste.ini'),
        ...{ notify_nova_on_port_status_changes: false, notify_nova_on_port_data_changes: false },
        pagination_max_limit: pageSize,
        ...{ api_workers: 0, rpc_workers: 0, rpc_state_report_workers: 0 },
      },
      database: database('neutron'),
      ml2: {
        ...{ type_drivers: 'local,flat,vlan,vxlan', tenant_network_types: 'vxlan' },
        ...{ mechanism_drivers: 'openvswitch', extension_drivers: 'port_security' },
      },
      ml2_type_vxlan: { vni_ranges: '1:10000' },
      quotas: { quota_network: -1, quota_subnet: -1, quota_port: -1, quota_security_group: -1 },
      oslo_concurrency,
      keystone_authtoken: access('neutron'),
    },
    nova: {
      DEFAULT: {
        ...{ host: Object.keys(computes)[0] ?? '', my_ip: '127.0.0.1', state_path: join(dir, 'nova') },
        ...{ osapi_compute_listen: '127.0.0.1', osapi_compute_listen_port: ports.nova, transport_url: 'fake://' },
        ...{ vif_plugging_is_fatal: false, vif_plugging_timeout: 0, service_down_time },
        // Without a zone a VM must not get to one of the hosts that fail.
        default_schedule_zone: computes.compute1.zone,
      },
      api: { max_limit: pageSize },
      wsgi: { api_paste_config: join(root, 'usr/share/nova-common/api-paste.ini') },
      api_database: database('nova_api'),
      database: database('nova'),
      quota: { instances: -1, cores: -1, ram: -1, server_groups: -1, server_group_members: -1 },
      oslo_concurrency,
      vnc: { enabled: false },
      keystone_authtoken: access('nova'),
      glance: access('nova'),
      placement: access('placement'),
      neutron: access('neutron'),
      // Otherwise volumes stay in use after their VM is deleted.
      service_user: { ...access('nova'), send_service_user_token: true },
    },
    cinder: {
      DEFAULT: {
        ...{ host: 'storage', my_ip: '127.0.0.1', state_path: join(dir, 'cinder'), transport_url: 'fake://' },
        ...{ osapi_volume_listen: '127.0.0.1', osapi_volume_listen_port: ports.cinder, service_down_time },
        ...{ enabled_backends: 'fake', default_volume_type: '__DEFAULT__', allow_availability_zone_fallback: true },
        ...{ quota_volumes: -1, quota_gigabytes: -1, osapi_max_limit: pageSize },
        api_paste_config: join(root, 'usr/share/cinder-common/api-paste.ini'),
        resource_query_filters_file: join(root, 'etc/cinder/resource_filters.json'),
      },
      fake: { volume_driver: 'cinder_driver.FakeVolumeDriver', volume_backend_name: 'fake' },
      database: database('cinder'),
      oslo_concurrency,
      coordination: { backend_url: `file://${dir}/cinder` },
      keystone_authtoken: { ...access('cinder'), service_token_roles: 'service', service_token_roles_required: true },
    },
  };
}

export const databaseUrl = (dir: string, name: string) => `sqlite:///${join(dir, `${name}.db`)}`;

function toIni(sections: Readonly<Record<string, Section>>): string {
  return Object.entries(sections)
    .map(([name, options]) => {
      const lines = Object.entries(options).map(([key, value]) => `${key} = ${value}\n`);
      return `[${name}]\n${lines.join('')}`;
    })
    .join('\n');
}
