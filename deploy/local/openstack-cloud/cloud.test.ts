import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { leases, nodes } from '../../../kube/core.ts';
import { until } from '../../../test/support/until.ts';
import { type OpenstackCloud, type Server, startOpenstackCloud } from './admin.ts';
import { type Api, logIn, Refused } from './api.ts';

const kubeconfig = process.env.MILLWRIGHT_TEST_KUBECONFIG ?? '';
let dir: string;
let cloud: OpenstackCloud;
/** With a Kubernetes cluster. */
let other: OpenstackCloud;
let api: Api;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'openstack-cloud-'));
  [cloud, other] = await Promise.all([
    startOpenstackCloud({ dir: join(dir, 'a') }),
    startOpenstackCloud({ dir: join(dir, 'b'), kubeconfig, joinMs: 0, leaseRenewMs: 100 }),
  ]);
  const { username, password, projectName: project } = cloud.seeds;
  api = await logIn({ identityUrl: `${cloud.url}/identity`, username, password, project });
}, 600_000); // where OpenStack has to be downloaded

afterAll(async () => {
  await Promise.all([cloud?.stop(), other?.stop()]);
  await rm(dir, { recursive: true, force: true });
});

afterEach(() => cloud.setFaults());

const compute = (path: string) => `${cloud.url}/compute/v2.1${path}`;
const network = (path: string) => `${cloud.url}/network/v2.0${path}`;

/** Creates a server without a network, and answers with its ID. */
async function create({ url, seeds }: OpenstackCloud, by: Api, more: object = {}): Promise<string> {
  const { imageId: imageRef, flavorId: flavorRef } = seeds;
  const server = { name: `server-${randomUUID()}`, imageRef, flavorRef, networks: 'none', ...more };
  const headers = { 'openstack-api-version': 'compute 2.37' };
  const answer = await by.call<{ server: Server }>('POST', `${url}/compute/v2.1/servers`, { server }, headers);
  return answer.server.id;
}

/** Logs in with the application credential. */
async function newToken() {
  const { applicationCredentialID: id, applicationCredentialSecret: secret, authURL } = cloud.credentials;
  const identity = { methods: ['application_credential'], application_credential: { id, secret } };
  const answer = await fetch(`${authURL}/auth/tokens`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
    body: JSON.stringify({ auth: { identity } }),
  });
  const { token } = (await answer.json()) as { token: { catalog: { type: string; endpoints: { url: string }[] }[] } };
  return { token: answer.headers.get('x-subject-token') ?? '', catalog: token.catalog };
}

async function find(id: string): Promise<Server> {
  return (await api.call<{ server: Server }>('GET', compute(`/servers/${id}`))).server;
}

function built(id: string): Promise<Server> {
  return until(`${id} is built`, async (see) => {
    const server = see(await find(id));
    return server.status !== 'BUILD' && server;
  });
}

async function refusalOf(call: Promise<unknown>) {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  return error instanceof Refused ? { status: error.status, message: error.message } : error;
}

async function listed(): Promise<string[]> {
  return (await api.call<{ servers: Server[] }>('GET', compute('/servers'))).servers.map(({ id }) => id);
}

describe('the front', () => {
  it('takes an application credential, and is what the catalog and the links of answers name', async () => {
    const { catalog } = await newToken();
    const urls = catalog.flatMap(({ endpoints }) => endpoints.map(({ url }) => url));
    const types = ['compute', 'identity', 'image', 'network', 'placement', 'volumev3'];
    expect(catalog.map(({ type }) => type).toSorted()).toEqual(types);
    expect(urls.filter((url) => !url.startsWith(cloud.url))).toEqual([]);
    const [first, second] = [await create(cloud, api), await create(cloud, api)];
    await Promise.all([built(first), built(second)]); // nova lists what it has not scheduled yet in another way
    const links: { rel: string; href: string }[] = [];
    const found: string[] = [];
    for (let page = compute('/servers?limit=1'); page; page = links.pop()?.href ?? '') {
      const answer = await api.call<{ servers: Server[]; servers_links?: typeof links }>('GET', page);
      found.push(...answer.servers.map(({ id }) => id));
      links.push(...(answer.servers_links ?? []));
      expect(page.startsWith(cloud.url)).toBe(true);
    }
    expect(found).toEqual(expect.arrayContaining([first, second]));
  });

  it('keeps what comes through another one apart, though both have one OpenStack', async () => {
    const { username, password, projectName: project } = other.seeds;
    const theirs = await logIn({ identityUrl: `${other.url}/identity`, username, password, project });
    await cloud.setFaults({ kind: 'outage', how: 'unavailable' }, { kind: 'capacity' }, { kind: 'quota' });
    const id = await create(other, theirs);

    expect(other.openstack).toEqual(cloud.openstack);
    expect((await cloud.servers()).map((each) => each.id)).not.toContain(id);
    expect(await refusalOf(api.call('GET', compute('/servers')))).toMatchObject({ status: 503 });
    await until('it is active', async (see) =>
      see(await other.servers()).some((each) => each.id === id && each.status === 'ACTIVE'),
    );
    expect((await cloud.calls()).filter(({ path }) => path.includes(id))).toEqual([]);
  });
});

describe('OpenStack itself', () => {
  it('makes a server with an own port, a volume from an image and user data, and refuses that port once more', async () => {
    const { networkId, subnetIds, imageId, serverGroupId, keyName, otherZone, projectId } = cloud.seeds;
    const name = `whole-${randomUUID()}`;
    const port = {
      ...{ network_id: networkId, name, fixed_ips: subnetIds.map((subnet_id) => ({ subnet_id })) },
      allowed_address_pairs: ['10.96.0.0/11', '10.128.0.0/11'].map((ip_address) => ({ ip_address })),
    };
    const volumes = `${cloud.url}/volume/v3/${projectId}/volumes`;
    const [made, disk] = await Promise.all([
      api.call<{ port: { id: string } }>('POST', network('/ports'), { port }),
      api.call<{ volume: { id: string } }>('POST', volumes, { volume: { name, size: 20, imageRef: imageId } }),
    ]);
    await until('the volume is there', async (see) =>
      see(await cloud.volumes()).some(({ id, status }) => id === disk.volume.id && status === 'available'),
    );
    const order = {
      ...{ name, imageRef: undefined, networks: [{ port: made.port.id }], key_name: keyName, config_drive: true },
      ...{ availability_zone: otherZone, user_data: Buffer.from('#!/bin/sh').toString('base64') },
      block_device_mapping_v2: [
        ...[
          {
            boot_index: 0,
            uuid: disk.volume.id,
            source_type: 'volume',
            destination_type: 'volume',
            delete_on_termination: true,
          },
        ],
      ],
    };
    const { flavorId: flavorRef } = cloud.seeds;
    const request = { server: { ...order, flavorRef }, 'os:scheduler_hints': { group: serverGroupId } };
    const { server } = await api.call<{ server: Server }>('POST', compute('/servers'), request);

    expect(await built(server.id)).toMatchObject({ status: 'ACTIVE', 'OS-EXT-AZ:availability_zone': otherZone });
    const again = await refusalOf(api.call('POST', compute('/servers'), request));
    expect(again).toMatchObject({
      status: expect.any(Number),
      message: expect.stringMatching(/in use|not available|invalid/i),
    });
    const ofIt = (await cloud.ports()).find(({ id }) => id === made.port.id);
    expect(ofIt).toMatchObject({ device_id: server.id, fixed_ips: [expect.anything(), expect.anything()] });
    expect(ofIt?.allowed_address_pairs).toHaveLength(2);
    await api.call('DELETE', compute(`/servers/${server.id}`));
    await until(
      'its volume is gone with it',
      async (see) => !see(await cloud.volumes()).some(({ id }) => id === disk.volume.id),
    );
    expect((await cloud.ports()).find(({ id }) => id === made.port.id)).toMatchObject({ device_id: '' });
  });

  it('ends a server in ERROR without room, on a hypervisor that fails, and where no port can be bound', async () => {
    const { failingZone, unboundZone, networkId: uuid } = cloud.seeds;
    const [failing, unbound] = await Promise.all([
      create(cloud, api, { availability_zone: failingZone }),
      create(cloud, api, { availability_zone: unboundZone, networks: [{ uuid }] }),
    ]);
    await cloud.setFaults({ kind: 'capacity' });
    const noRoom = await create(cloud, api);
    const endsWith = async (id: string, text: string) => {
      expect(await built(id)).toMatchObject({ status: 'ERROR', fault: { message: expect.stringContaining(text) } });
    };

    await endsWith(noRoom, 'No valid host was found');
    await endsWith(failing, 'aborted: FakeBuildAbortDriver');
    await endsWith(unbound, 'Exceeded maximum number of retries');
    await cloud.setFaults();
    expect(await built(await create(cloud, api))).toMatchObject({ status: 'ACTIVE' });
  });

  it('refuses what is over the quota of the project', async () => {
    await cloud.setFaults(
      ...(['instances', 'ports', 'volumes'] as const).map((of) => ({ kind: 'quota' as const, of, limit: 0 })),
    );
    const { networkId: network_id, projectId } = cloud.seeds;
    const volumes = `${cloud.url}/volume/v3/${projectId}/volumes`;

    expect(await refusalOf(create(cloud, api))).toMatchObject({
      status: 403,
      message: expect.stringContaining('Quota exceeded for instances'),
    });
    expect(await refusalOf(api.call('POST', network('/ports'), { port: { network_id } }))).toMatchObject({
      status: 409,
      message: expect.stringContaining('OverQuota'),
    });
    expect(await refusalOf(api.call('POST', volumes, { volume: { size: 1 } }))).toMatchObject({
      status: 413,
      message: expect.stringContaining('VolumeLimitExceeded'),
    });
  });
});

describe('a fault', () => {
  it('loses the answer of a call that was done, and keeps the server from the lists for a while', async () => {
    const operations = ['POST /compute/servers'];
    const name = `lost-${randomUUID()}`;
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'done', operations }, { kind: 'invisible', ms: 600_000 });
    await expect(create(cloud, api, { name })).rejects.toThrow();

    const made = (await cloud.servers()).find((each) => each.name === name);
    expect(made).toBeDefined();
    expect((await cloud.calls()).findLast(({ operation }) => operation === operations[0])).toMatchObject({
      ...{ outcome: 'lost', effect: true, body: { server: { name } }, requestId: expect.stringMatching(/^req-/) },
    });
    expect(await listed()).not.toContain(made?.id);
    expect(await find(made?.id ?? '')).toMatchObject({ name });
  });

  it('refuses tokens that are older than itself, as OpenStack does a wrong one', async () => {
    const { token } = await newToken();
    const ask = async (token: string) => {
      const answer = await fetch(compute('/servers'), { headers: { 'x-auth-token': token } });
      return [answer.status, answer.headers.get('www-authenticate'), await answer.json()];
    };
    await cloud.setFaults({ kind: 'expired' });
    expect(await ask(token)).toEqual(await ask('wrong'));
    const before = (await cloud.calls()).length;
    await listed();

    const calls = (await cloud.calls()).slice(before).map(({ operation, outcome }) => [operation, outcome]);
    expect(calls).toEqual([
      ['GET /compute/servers', 401],
      ['POST /identity/auth/tokens', 201],
      ['GET /compute/servers', 200],
    ]);
  });

  it('throttles and forbids with the answers of each service', async () => {
    const operations = ['GET /network/ports', 'GET /compute/servers'];
    await cloud.setFaults({ kind: 'throttle', retryAfterSeconds: 7, times: 1 }, { kind: 'forbidden', operations });
    const { username, password, projectName: project } = cloud.seeds;
    const outside = await logIn({ identityUrl: `${cloud.url}/identity`, username, password, project }).catch(String);
    expect(outside).toMatch(/429.*"retryAfter":"7"/);

    expect(await refusalOf(listed())).toMatchObject({
      status: 403,
      message: expect.stringContaining("Policy doesn't allow"),
    });
    expect(await refusalOf(api.call('GET', network('/ports')))).toMatchObject({
      status: 403,
      message: expect.stringContaining('PolicyNotAuthorized'),
    });
    expect(await api.call('GET', compute('/flavors'))).toBeDefined();
  });
});

describe('a kubelet', () => {
  let kube: KubeClient;

  beforeAll(() => {
    kube = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'test', qps: 1000, burst: 1000 });
  });
  afterAll(() => kube.close());

  async function renewTimeOf(name: string) {
    return (await kube.find(leases, { namespace: 'kube-node-lease', name }))?.spec?.renewTime;
  }

  async function untilRenewed(name: string) {
    const before = await renewTimeOf(name);
    await until(`the lease of ${name} is renewed`, async () => ![undefined, before].includes(await renewTimeOf(name)));
  }

  it('registers a Ready Node by the name of the server, and renews its Lease until the server ends', async () => {
    const [name, witness] = [`node-${randomUUID()}`, `node-${randomUUID()}`];
    const [id] = await Promise.all([name, witness].map((each) => create(other, other.direct, { name: each })));
    const node = await until('its node has registered', () => kube.find(nodes, { name }));
    expect(node.spec?.providerID).toBe(`openstack:///RegionOne/${id}`);
    expect(node.status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
    await untilRenewed(name);

    await other.direct.call('DELETE', `${other.url}/compute/v2.1/servers/${id}`);
    await until('it is gone', async (see) => !see(await other.servers()).some((each) => each.id === id));
    // The kubelets look at nova's database every 200 ms, and renew twice as often.
    for (let times = 0; times < 5; times += 1) await untilRenewed(witness);
    const last = await renewTimeOf(name);
    await untilRenewed(witness);
    await untilRenewed(witness);
    expect(await renewTimeOf(name)).toBe(last);
    await Promise.all([name, witness].map((each) => kube.delete(nodes, { name: each })));
  });
});
