import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { names } from '../../../api/names.ts';
import { type OpenstackCloud, startOpenstackCloud } from '../../../deploy/local/openstack-cloud/admin.ts';
import { urlOf } from '../../../deploy/local/openstack-cloud/config.ts';
import { withDatabase } from '../../../deploy/local/openstack-cloud/database.ts';
import { until } from '../../support/until.ts';
import type { CloudFault, Counterpart, FaultKind, Owner } from '../counterpart.ts';
import { machineNameOf } from '../world.ts';

type OpenstackFault = Parameters<OpenstackCloud['setFaults']>[0];

const ofCreation = { operations: ['POST /compute/servers'] };
/** Keys of metadata have no slash. */
const uidKey = names.machineUid.replace('/', '-');

/** How the OpenStack cloud shows each fault of the suite. A port counts as a token, and always does. */
const faults: { readonly [K in FaultKind]: (fault: Extract<CloudFault, { kind: K }>) => OpenstackFault[] } = {
  lostAnswer: ({ ms }) => [
    { kind: 'lostAnswer', effect: 'done', ...ofCreation, times: 1 },
    { kind: 'invisible', ms },
  ],
  slowAnswer: ({ ms }) => [{ kind: 'hang', effect: 'done', ...ofCreation, ms }],
  listedLate: ({ ms }) => [{ kind: 'invisible', ms }],
  noCapacity: () => [{ kind: 'capacity' }],
  // Ports and volumes are made before the server, and this quota refuses only that.
  halfWay: () => [{ kind: 'quota', of: 'instances', limit: 0 }],
  missingPermission: () => [{ kind: 'forbidden' }],
  throttled: ({ times }) => [{ kind: 'throttle', times }],
  askedToWait: ({ retryAfterSeconds }) => [{ kind: 'throttle', retryAfterSeconds }],
};

/** Starts an OpenStack cloud for the suite. */
export async function startOpenstackCounterpart(): Promise<Counterpart> {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-conformance-cloud-'));
  const cloud = await startOpenstackCloud({ dir });
  const { seeds, direct, openstack } = cloud;
  const [nova, neutron, cinder] = [
    `${urlOf(openstack.ports.nova)}/v2.1`,
    `${urlOf(openstack.ports.neutron)}/v2.0`,
    `${urlOf(openstack.ports.cinder)}/v3/${seeds.projectId}`,
  ];
  const tags = { 'kubernetes.io-cluster-conformance': '1', 'kubernetes.io-role-node': '1' };
  const tagsOf: Record<Owner, Record<string, string>> = {
    class: tags,
    another: { ...tags, 'kubernetes.io-cluster-conformance': '', 'kubernetes.io-cluster-another': '1' },
    nobody: {},
  };
  let copies: string[] = [];

  /** A Machine's server has its name, by which the provider asks for it. */
  async function makeServer(metadata: Record<string, string>, name: string): Promise<string> {
    const { imageId: imageRef, flavorId: flavorRef } = seeds;
    const server = { name, imageRef, flavorRef, metadata, networks: 'none' };
    const answer = await direct.call<{ server: { id: string } }>(
      'POST',
      `${nova}/servers`,
      { server },
      { 'openstack-api-version': 'compute 2.37' },
    );
    const { id } = answer.server;
    await until('the server is active', async () => {
      const { server } = await direct.call<{ server: { status: string } }>('GET', `${nova}/servers/${id}`);
      return server.status === 'ACTIVE';
    });
    return id;
  }

  /** nova keeps the volume of a server that was deleted before it had a host. */
  async function release(volume: string): Promise<void> {
    const withAttachments = { 'openstack-api-version': 'volume 3.27' };
    const list = `${cinder}/attachments?volume_id=${volume}`;
    const { attachments } = await direct.call<{ attachments: { id: string }[] }>(
      'GET',
      list,
      undefined,
      withAttachments,
    );
    for (const { id } of attachments) {
      await direct.call('DELETE', `${cinder}/attachments/${id}`, undefined, withAttachments);
    }
  }

  async function emptied(): Promise<boolean> {
    const servers = await cloud.servers();
    for (const { id } of servers) await direct.call('DELETE', `${nova}/servers/${id}`);
    if (servers.length > 0) return false;
    const [ports, volumes] = await Promise.all([cloud.ports(), cloud.volumes()]);
    for (const { id } of ports) await direct.call('DELETE', `${neutron}/ports/${id}`);
    for (const { id, status } of volumes) {
      if (status === 'available' || status === 'error') await direct.call('DELETE', `${cinder}/volumes/${id}`);
      if (status === 'reserved') await release(id);
    }
    return ports.length === 0 && volumes.length === 0;
  }

  return {
    providerSpec: cloud.providerSpec({ tags }),
    credentials: cloud.credentials,
    lacks: {},
    async setFault(fault) {
      const shown = fault === undefined ? [] : (faults[fault.kind] as (fault: CloudFault) => OpenstackFault[])(fault);
      await cloud.setFaults(...shown);
    },
    async things() {
      const [servers, ports, volumes] = await Promise.all([cloud.servers(), cloud.ports(), cloud.volumes()]);
      return [
        ...servers.map(({ id, metadata }) => ({ kind: 'vm' as const, id, uid: metadata[uidKey] })),
        ...ports.map(({ id, description }) => ({ kind: 'port' as const, id, uid: description.split('=')[1] })),
        ...volumes.map(({ id, metadata }) => ({ kind: 'disk' as const, id, uid: metadata[uidKey] })),
      ];
    },
    manyVms: 250,
    calls: async () => (await cloud.calls()).length,
    async makeVms(owner, count, { uid, name = uid === undefined ? `made-${randomUUID()}` : machineNameOf(uid) } = {}) {
      // Nova tells the age of a server in whole seconds: those of a Machine are younger than its first one.
      if (uid !== undefined) await sleep(1_000 - (Date.now() % 1_000));
      const id = await makeServer({ ...tagsOf[owner], ...(uid !== undefined && { [uidKey]: uid }) }, name);
      const more = copyServer(openstack.dir, id, count - 1);
      copies.push(...more);
      return [id, ...more].map((each) => `openstack:///${seeds.region}/${each}`);
    },
    async reset() {
      await cloud.setFaults();
      forgetServers(openstack.dir, copies);
      copies = [];
      await until('the cloud is empty', emptied);
    },
    async stop() {
      await cloud.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Tables with what nova knows of a server, and the column with its ID. */
const ofServer = {
  nova: {
    ...{ instances: 'uuid', instance_extra: 'instance_uuid', instance_info_caches: 'instance_uuid' },
    ...{ instance_metadata: 'instance_uuid', instance_system_metadata: 'instance_uuid' },
    block_device_mapping: 'instance_uuid',
  },
  nova_api: { instance_mappings: 'instance_uuid' },
} as const;

/** Copies a server within nova's databases: nova itself takes a second for each. No host has the copies. */
function copyServer(dir: string, id: string, count: number): string[] {
  const ids = Array.from({ length: count }, () => randomUUID());
  eachTable(dir, (database, table, idColumn) => {
    const columns = database
      .prepare(`select name from pragma_table_info('${table}')`)
      .all()
      .map(({ name }) => String(name));
    const copied = columns.filter((name) => name !== 'id' && name !== idColumn && name !== 'uuid');
    const unset = new Set(['host', 'node', 'launched_on']);
    const values = copied.map((name) => (table === 'instances' && unset.has(name) ? 'null' : name));
    const hasOwnId = columns.includes('uuid') && idColumn !== 'uuid';
    const insert = database.prepare(
      `insert into ${table} (${[idColumn, ...(hasOwnId ? ['uuid'] : []), ...copied].join()})
       select ${['?', ...(hasOwnId ? ['?'] : []), ...values].join()} from ${table} where ${idColumn} = ?`,
    );
    for (const copy of ids) insert.run(copy, ...(hasOwnId ? [randomUUID()] : []), id);
  });
  return ids;
}

function forgetServers(dir: string, ids: readonly string[]): void {
  if (ids.length === 0) return;
  eachTable(dir, (database, table, idColumn) => {
    const remove = database.prepare(`delete from ${table} where ${idColumn} = ?`);
    for (const id of ids) remove.run(id);
  });
}

/** In one transaction for each database. */
function eachTable(dir: string, act: (database: DatabaseSync, table: string, idColumn: string) => void): void {
  for (const [name, tables] of Object.entries(ofServer)) {
    withDatabase(dir, name, (database) => {
      database.exec('begin immediate');
      for (const [table, idColumn] of Object.entries(tables)) act(database, table, idColumn);
      database.exec('commit');
    });
  }
}
