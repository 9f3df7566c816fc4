/** The state of a new OpenStack, which each start copies: its databases take longer to make than all else. */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { lock } from '../build.ts';
import { type Api, logIn } from './api.ts';
import {
  computes,
  databaseUrl,
  type Ports,
  password,
  region,
  serviceNames,
  services,
  urlOf,
  writeConfigs,
} from './config.ts';
import { withDatabase } from './database.ts';
import { ensurePackages, openstackCache, type Packages, say } from './packages.ts';
import { choosePorts, type OpenstackAddress, programs, startServices, stopServices } from './services.ts';

const run = promisify(execFile);

/** What a template depends on, besides the packages. */
const sources = ['template.ts', 'config.ts'].map((name) => fileURLToPath(new URL(name, import.meta.url)));

/** Name of the one image, which is public. */
export const imageName = 'debian-12';
const addressFile = 'address.json';
/** Another volume type than the default one. */
export const volumeType = 'fast';

interface Place {
  readonly dir: string;
  readonly ports: Ports;
  readonly packages: Packages;
}

/**
 * The folder of the state, and the address that its databases know. Makes it at the first call of a user, which takes a
 * minute.
 */
export async function ensureTemplate() {
  const packages = await ensurePackages();
  const template = join(openstackCache(), `template-${await hashOfRecipe(packages)}`);
  if (!existsSync(template)) {
    const unlock = await lock(join(openstackCache(), 'template.lock'), 'OpenStack');
    try {
      if (!existsSync(template)) await makeTemplate(template, packages);
    } finally {
      await unlock();
    }
  }
  const madeAt: OpenstackAddress = JSON.parse(await readFile(join(template, addressFile), 'utf8'));
  return { packages, template, madeAt };
}

async function hashOfRecipe({ root }: Packages): Promise<string> {
  const hash = createHash('sha256').update(basename(dirname(root)));
  const files = [
    ...sources,
    ...(await readdir(programs)).filter((each) => each.endsWith('.py')).map((each) => join(programs, each)),
  ];
  for (const file of files.toSorted()) hash.update(await readFile(file));
  return hash.digest('hex').slice(0, 12);
}

async function makeTemplate(dir: string, packages: Packages): Promise<void> {
  say('making its databases, once, about a minute');
  const ports = await choosePorts();
  const making = `${dir}.making`;
  await rm(making, { recursive: true, force: true });
  await mkdir(making, { recursive: true });
  const place = { dir: making, ports, packages };
  await Promise.all(
    ['images', 'lock', 'nova', 'neutron', 'cinder'].map((name) => mkdir(join(making, name), { recursive: true })),
  );
  await Promise.all(['fernet', 'credential'].map((name) => mkdir(join(making, name), { mode: 0o700 })));
  await writeConfigs(place);
  await Promise.all([makeKeystone(place), makeOthers(place), makeNeutron(place), makeNova(place)]);
  await writeAheadLogs(making);
  const servers = await startServices(place, ['keystone']);
  try {
    await registerServices(place);
    servers.push(
      ...(await startServices(
        place,
        serviceNames.filter((name) => name !== 'keystone'),
      )),
    );
    await makeSeeds(place);
  } finally {
    await stopServices(servers);
  }
  for (const log of (await readdir(making)).filter((each) => each.endsWith('.log'))) await rm(join(making, log));
  await writeFile(join(making, addressFile), JSON.stringify({ dir: making, ports } satisfies OpenstackAddress));
  await rename(making, dir);
}

/** Runs one of the packages' commands. Throws with the end of what it has printed. */
async function command({ dir, packages }: Place, service: string, name: string, ...args: string[]): Promise<string> {
  return python(
    { packages },
    join(packages.root, 'usr/bin', name),
    '--config-file',
    join(dir, `${service}.conf`),
    ...args,
  );
}

async function python({ packages }: Pick<Place, 'packages'>, ...args: string[]): Promise<string> {
  const env = { ...process.env, ...packages.env };
  const { stdout } = await run(packages.python, args, { env, maxBuffer: 2 ** 26 }).catch(
    (error: { stderr?: string }) => {
      throw new Error(`OpenStack: ${args.join(' ')} has failed:\n${error.stderr?.split('\n').slice(-15).join('\n')}`);
    },
  );
  return stdout;
}

async function makeKeystone(place: Place): Promise<void> {
  const { uid, gid } = userInfo();
  const owner = ['--keystone-user', String(uid), '--keystone-group', String(gid)];
  const url = `${urlOf(place.ports.keystone)}/v3/`;
  const manage = (...args: string[]) => command(place, 'keystone', 'keystone-manage', ...args);
  await manage('db_sync');
  await manage('fernet_setup', ...owner);
  await manage('credential_setup', ...owner);
  const urls = ['admin', 'internal', 'public'].flatMap((each) => [`--bootstrap-${each}-url`, url]);
  await manage('bootstrap', '--bootstrap-password', password, '--bootstrap-region-id', region, ...urls);
}

async function makeOthers(place: Place): Promise<void> {
  await command(place, 'placement', 'placement-manage', 'db', 'sync');
  await command(place, 'glance', 'glance-manage', 'db_sync');
  await command(place, 'cinder', 'cinder-manage', 'db', 'sync');
}

async function makeNeutron(place: Place): Promise<void> {
  await python(place, join(programs, 'neutron_tables.py'), databaseUrl(place.dir, 'neutron'));
  await command(place, 'neutron', 'neutron-db-manage', 'stamp', 'heads');
  withDatabase(place.dir, 'neutron', addAgents);
}

/**
 * Neutron binds ports only on a host with an agent that is alive: none is here, so each has an entry that lives until
 * 2099.
 */
function addAgents(database: DatabaseSync): void {
  const insert = database.prepare(
    `insert into agents (id, agent_type, binary, topic, host, admin_state_up, created_at, started_at, heartbeat_timestamp,
      configurations, load, resources_synced) values (?, 'Open vSwitch agent', 'neutron-openvswitch-agent', 'N/A', ?, 1,
      datetime('now'), datetime('now'), '2099-01-01 00:00:00.000000', ?, 0, 1)`,
  );
  const settings = {
    ...{ bridge_mappings: { physnet1: 'br-ex' }, tunnel_types: ['vxlan'], tunneling_ip: '127.0.0.1' },
    ...{ datapath_type: 'system', ovs_capabilities: {} },
  };
  for (const [host, { isBound }] of Object.entries(computes)) {
    if (isBound) insert.run(randomUUID(), host, JSON.stringify(settings));
  }
}

async function makeNova(place: Place): Promise<void> {
  const { dir } = place;
  const manage = (...args: string[]) => command(place, 'nova', 'nova-manage', ...args);
  await manage('api_db', 'sync');
  await manage('cell_v2', 'map_cell0', '--database_connection', databaseUrl(dir, 'nova_cell0'));
  await manage('db', 'sync');
  const cell = ['--database_connection', databaseUrl(dir, 'nova'), '--transport-url', 'fake://'];
  await manage('cell_v2', 'create_cell', '--name', 'cell1', ...cell);
}

/** Otherwise the readers of a database lock out its writers. */
async function writeAheadLogs(dir: string): Promise<void> {
  for (const file of (await readdir(dir)).filter((each) => each.endsWith('.db'))) {
    const database = new DatabaseSync(join(dir, file));
    database.exec('pragma journal_mode = wal');
    database.close();
  }
}

const asAdmin = ({ ports }: Place) =>
  logIn({ identityUrl: urlOf(ports.keystone), username: 'admin', password, project: 'admin' });

/** What an administrator makes with the APIs. */
async function makeSeeds(place: Place): Promise<void> {
  const api = await asAdmin(place);
  await Promise.all([makeImage(api, place.ports), makeVolumeType(api, place.ports), makeZones(api, place)]);
}

/** Without it no other service starts. */
async function registerServices(place: Place): Promise<void> {
  const { ports } = place;
  const { call } = await asAdmin(place);
  const url = `${urlOf(ports.keystone)}/v3`;
  const { project } = await call<{ project: { id: string } }>('POST', `${url}/projects`, {
    project: { name: 'service' },
  });
  await call('POST', `${url}/roles`, { role: { name: 'service' } }).catch(() => undefined);
  const { roles } = await call<{ roles: { id: string; name: string }[] }>('GET', `${url}/roles`);
  const needed = roles.filter(({ name }) => name === 'admin' || name === 'service');
  for (const [name, { type, version }] of Object.entries(services)) {
    if (name === 'keystone') continue;
    const user = { name, password, default_project_id: project.id };
    const { user: made } = await call<{ user: { id: string } }>('POST', `${url}/users`, { user });
    for (const { id } of needed) await call('PUT', `${url}/projects/${project.id}/users/${made.id}/roles/${id}`);
    const entry = { name: name === 'cinder' ? 'cinderv3' : name, type };
    const { service } = await call<{ service: { id: string } }>('POST', `${url}/services`, { service: entry });
    for (const endpoint of ['public', 'internal', 'admin']) {
      const address = `${urlOf(ports[name as keyof typeof services])}${version}`;
      const body = { service_id: service.id, interface: endpoint, url: address, region_id: region };
      await call('POST', `${url}/endpoints`, { endpoint: body });
    }
  }
}

async function makeImage({ call }: Api, ports: Ports): Promise<void> {
  const url = `${urlOf(ports.glance)}/v2/images`;
  const image = { name: imageName, visibility: 'public', disk_format: 'raw', container_format: 'bare' };
  const { id } = await call<{ id: string }>('POST', url, image);
  await call('PUT', `${url}/${id}/file`, 'no system', { 'content-type': 'application/octet-stream' });
}

async function makeVolumeType({ call, projectId }: Api, ports: Ports): Promise<void> {
  const url = `${urlOf(ports.cinder)}/v3/${projectId}/types`;
  await call('POST', url, { volume_type: { name: volumeType } });
}

/** Waits until all compute services have registered, and puts each host into its zone. */
async function makeZones({ call }: Api, place: Place): Promise<void> {
  const url = `${urlOf(place.ports.nova)}/v2.1`;
  const hosts = Object.entries(computes);
  for (;;) {
    const { hypervisors } = await call<{ hypervisors: unknown[] }>('GET', `${url}/os-hypervisors`);
    if (hypervisors.length === hosts.length) break;
    await command(place, 'nova', 'nova-manage', 'cell_v2', 'discover_hosts');
    await sleep(200);
  }
  for (const [host, { zone }] of hosts) {
    const aggregate = { name: zone, availability_zone: zone };
    const made = await call<{ aggregate: { id: number } }>('POST', `${url}/os-aggregates`, { aggregate });
    await call('POST', `${url}/os-aggregates/${made.aggregate.id}/action`, { add_host: { host } });
  }
}
