import { appendFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { request } from 'undici';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { leases, nodes, pods } from '../../../kube/core.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { until } from '../../../test/support/until.ts';
import { type SimulatedCloud, startSimulatedCloud } from './admin.ts';

const kubeconfig = process.env.MILLWRIGHT_TEST_KUBECONFIG ?? '';
const run = Math.random().toString(36).slice(2, 8);
let dir: string;
let cloud: SimulatedCloud;
let kube: KubeClient;
let number = 0;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'simulated-cloud-'));
  cloud = await startSimulatedCloud({
    ...{ dir, kubeconfig, bootMs: 0, joinMs: 0, deleteMs: 100 },
    ...{ leaseRenewMs: 100, statusUpdateMs: 100, maxGraceMs: 200 },
  });
  kube = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'test', qps: 1000, burst: 1000 });
});

afterAll(async () => {
  for (const { name } of await cloud.vms({ all: true })) await kube.delete(nodes, { name }).catch(() => undefined);
  await kube?.close();
  await cloud?.stop();
  await rm(dir, { recursive: true, force: true });
});

afterEach(() => cloud.setFaults());

interface Answer {
  readonly status: number | 'lost';
  readonly body: {
    id?: string;
    items?: { name: string; kind: string; id: string; vm?: string }[];
    nextPage?: string;
    error?: { code: string; message: string };
  };
}

async function call(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: unknown,
  token = 'letmein',
): Promise<Answer> {
  try {
    const answer = await request(cloud.url + path, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: answer.statusCode, body: (await answer.body.json()) as Answer['body'] };
  } catch {
    return { status: 'lost', body: {} };
  }
}

function newVm(overrides: object = {}) {
  number += 1;
  const name = `vm-${run}-${number}`;
  const node = { labels: {}, taints: [] };
  return { token: name, name, region: 'local', machineType: 'small', tags: {}, userData: 'x', node, ...overrides };
}

async function create(overrides: object = {}): Promise<{ id: string; name: string }> {
  const vm = newVm(overrides);
  const { body } = await call('POST', '/v1/vms', vm);
  return { id: body.id ?? '', name: vm.name };
}

async function untilGone(id = ''): Promise<void> {
  await until(`the VM ${id} is gone`, async (see) => see(await call('GET', `/v1/vms/${id}`)).status === 404);
}

function nodeOf({ name }: { name: string }) {
  return kube.find(nodes, { name });
}

function untilJoined(vm: { name: string }) {
  return until(`${vm.name} has joined`, () => nodeOf(vm));
}

async function renewTimeOf({ name }: { name: string }) {
  const lease = await kube.find(leases, { namespace: 'kube-node-lease', name });
  return lease?.spec?.renewTime;
}

/** Resolves when the kubelet of the VM has renewed its lease twice. */
async function untilRenewedTwice(vm: { name: string }): Promise<void> {
  for (let times = 0; times < 2; times += 1) {
    const before = await renewTimeOf(vm);
    await until(`the lease of ${vm.name} is renewed`, async (see) => {
      const now = see(await renewTimeOf(vm));
      return now !== undefined && now !== before;
    });
  }
}

/** Whether the VM's kubelet renews its lease, seen beside one that does. */
async function isSilent(vm: { name: string }): Promise<boolean> {
  const witness = await create();
  await untilRenewedTwice(witness);
  const before = await renewTimeOf(vm);
  await untilRenewedTwice(witness);
  return (await renewTimeOf(vm)) === before;
}

async function createPod(nodeName: string, finalizers: string[] = []): Promise<{ namespace: string; name: string }> {
  number += 1;
  const key = { namespace: 'default', name: `pod-${run}-${number}` };
  const containers = [{ name: 'main', image: 'none' }];
  await kube.create(pods, { metadata: { ...key, finalizers }, spec: { nodeName, containers } });
  return key;
}

function untilRunning(key: { namespace: string; name: string }) {
  return until(`the pod ${key.name} runs`, async (see) => {
    const pod = see(await kube.get(pods, key));
    return pod.status?.phase === 'Running' && pod;
  });
}

describe('VMs', () => {
  it('come back for a token that is known, the deleted ones too', async () => {
    const vm = newVm();
    const first = await call('POST', '/v1/vms', vm);
    const second = await call('POST', '/v1/vms', vm);
    await call('DELETE', `/v1/vms/${first.body.id}`);
    await untilGone(first.body.id);

    const third = await call('POST', '/v1/vms', vm);

    expect([first.status, second.status, third.status]).toEqual([201, 200, 200]);
    expect(second.body.id).toBe(first.body.id);
    expect(third.body).toMatchObject({ id: first.body.id, state: 'terminated' });
  });

  it('are listed by tags in pages', async () => {
    const tags = { pages: run };
    const made = [await create({ tags }), await create({ tags }), await create({ tags })];
    await create({ tags: { pages: 'other' } });

    const first = await call('GET', `/v1/vms?tag=pages=${run}&limit=2`);
    const second = await call('GET', `/v1/vms?tag=pages=${run}&limit=2&page=${first.body.nextPage}`);

    const listed = [...(first.body.items ?? []), ...(second.body.items ?? [])].map(({ name }) => name);
    expect(listed).toEqual(made.map(({ name }) => name));
    expect(first.body.items).toHaveLength(2);
    expect(second.body.nextPage).toBeUndefined();
  });

  it('are for those with credentials only', async () => {
    const { status, body } = await call('POST', '/v1/vms', newVm(), 'guess');

    expect({ status, code: body.error?.code }).toEqual({ status: 401, code: 'Unauthorized' });
  });

  it('are refused with the name of the field that is wrong', async () => {
    const { status, body } = await call('POST', '/v1/vms', newVm({ name: 'Not a name' }));

    expect({ status, error: body.error }).toEqual({
      status: 400,
      error: { code: 'InvalidParameter', message: 'name: use a DNS name' },
    });
  });

  it('leave a record of every call and of the user data they got', async () => {
    const { id, name } = await create({ userData: '#!/bin/sh' });

    expect((await cloud.calls()).find(({ vm }) => vm === id)).toMatchObject({
      ...{ method: 'POST', path: '/v1/vms', operation: 'create' },
      ...{ token: name, outcome: 201, effect: true },
    });
    expect((await cloud.vms()).find((vm) => vm.id === id)?.userData).toBe('#!/bin/sh');
  });
});

describe('disks, NICs and addresses', () => {
  const list = async (query: string) => (await call('GET', `/v1/resources?${query}`)).body.items ?? [];

  it('come with a VM, are listed with it or by their own tags, and go with it', async () => {
    const own = { parts: `of-${run}` };
    const { id } = await create({ partTags: own });
    await create();

    const listed = await list(`vm=${id}`);
    const tagged = await list(`tag=parts=of-${run}`);
    await call('DELETE', `/v1/vms/${id}`);

    expect(listed.map(({ kind }) => kind)).toEqual(['vm', 'disk', 'nic', 'ip']);
    expect(tagged).toEqual(listed.slice(1));
    expect(tagged.every(({ vm }) => vm === id)).toBe(true);
    await until('its parts are gone', async (see) => see(await list(`vm=${id}`)).length === 0);
    expect(await list(`tag=parts=of-${run}`)).toEqual([]);
  });

  it('are listed in pages', async () => {
    const { id } = await create();

    const first = await call('GET', `/v1/resources?vm=${id}&limit=3`);
    const second = await list(`vm=${id}&limit=3&page=${first.body.nextPage}`);

    expect([...(first.body.items ?? []), ...second].map(({ kind }) => kind)).toEqual(['vm', 'disk', 'nic', 'ip']);
  });

  it('outlive their VM when the fault says so, and are deleted one by one, not before it', async () => {
    await cloud.setFaults({ kind: 'leak', parts: ['disk', 'nic'], operation: 'delete', times: 1 });
    const { id } = await create();
    const disk = (await list(`vm=${id}`)).find(({ kind }) => kind === 'disk')?.id;
    const early = await call('DELETE', `/v1/disks/${disk}`);

    await call('DELETE', `/v1/vms/${id}`);
    await untilGone(id);

    expect({ status: early.status, code: early.body.error?.code }).toEqual({ status: 409, code: 'InUse' });
    expect((await list(`vm=${id}`)).map(({ kind }) => kind)).toEqual(['disk', 'nic']);
    expect((await call('DELETE', `/v1/disks/${disk}`)).status).toBe(202);
    expect((await call('GET', `/v1/disks/${disk}`)).status).toBe(404);
    expect((await cloud.resources()).some((each) => each.id === disk)).toBe(false);
    expect((await list(`vm=${id}`)).map(({ kind }) => kind)).toEqual(['nic']);
  });

  it('are left by a create call that fails half-way, which makes no VM', async () => {
    await cloud.setFaults({ kind: 'leak', parts: ['nic'], operation: 'create', times: 1 });
    const vm = newVm({ partTags: { half: run } });

    const failed = await call('POST', '/v1/vms', vm);
    const left = await list(`tag=half=${run}`);
    const again = await call('POST', '/v1/vms', vm);

    expect([failed.body.error?.code, again.status]).toEqual(['InsufficientCapacity', 201]);
    expect(left.map(({ kind }) => kind)).toEqual(['nic']);
    expect((await list(`vm=${again.body.id}`)).map(({ kind }) => kind)).toEqual(['vm', 'disk', 'nic', 'ip']);
  });
});

describe('faults', () => {
  it('show in every n-th call, so many times, of the machine type and with the tags', async () => {
    await cloud.setFaults({ kind: 'capacity', machineType: 'large', tags: { zone: 'a' }, every: 2, times: 2 });
    const created = async (machineType: string, zone: string) =>
      (await call('POST', '/v1/vms', newVm({ machineType, tags: { zone } }))).status;

    const met = [];
    for (let turn = 0; turn < 6; turn += 1) met.push(await created('large', 'a'));
    const spared = [await created('small', 'a'), await created('large', 'b')];

    expect(met).toEqual([201, 409, 201, 409, 201, 201]);
    expect(spared).toEqual([201, 201]);
    expect(await cloud.faults()).toMatchObject([{ met: 6, shown: 2 }]);
  });

  it('refuse every call, or those of one operation, when a permission is missing', async () => {
    await cloud.setFaults({ kind: 'forbidden', operation: 'create' });

    expect(await call('POST', '/v1/vms', newVm())).toMatchObject({
      status: 403,
      body: { error: { code: 'Forbidden' } },
    });
    expect(await call('GET', '/v1/vms')).toMatchObject({ status: 200 });
    await cloud.setFaults({ kind: 'forbidden' });
    expect(await call('GET', '/v1/vms')).toMatchObject({ status: 403, body: { error: { code: 'Forbidden' } } });
  });

  it('hold the quota only while there are that many VMs', async () => {
    const { id } = await create();
    await cloud.setFaults({ kind: 'quota', limit: (await cloud.stats()).vmsNow });

    const refused = await call('POST', '/v1/vms', newVm());
    await call('DELETE', `/v1/vms/${id}`);
    await untilGone(id);
    const accepted = await call('POST', '/v1/vms', newVm());

    expect([refused.body.error?.code, accepted.status]).toEqual(['QuotaExceeded', 201]);
  });

  it('hold an answer back for a while', async () => {
    await cloud.setFaults({ kind: 'hang', effect: 'none', ms: 300, operation: 'list' });
    const since = performance.now();

    expect((await call('GET', '/v1/vms')).status).toBe('lost');
    expect(performance.now() - since).toBeGreaterThanOrEqual(299);
  });

  it('answer as if the call had been done, and keep nothing of it', async () => {
    await cloud.setFaults({ kind: 'notKept', operation: 'create', times: 1 });
    const vm = newVm();
    const ghost = await call('POST', '/v1/vms', vm);
    expect([ghost.status, (await call('GET', `/v1/vms/${ghost.body.id}`)).status]).toEqual([201, 404]);
    const { body } = await call('POST', '/v1/vms', vm);
    expect(body.id).not.toBe(ghost.body.id);

    await cloud.setFaults({ kind: 'leak', parts: ['disk', 'nic'] }, { kind: 'notKept', resource: 'disk' });
    const [, disk, nic] = (await call('GET', `/v1/resources?vm=${body.id}`)).body.items ?? [];
    await call('DELETE', `/v1/vms/${body.id}`);
    await untilGone(body.id);
    expect((await call('DELETE', `/v1/disks/${disk?.id}`)).status).toBe(202);
    expect((await call('DELETE', `/v1/nics/${nic?.id}`)).status).toBe(202);
    const { items = [] } = (await call('GET', `/v1/resources?vm=${body.id}`)).body;
    expect(items.map(({ kind }) => kind)).toEqual(['disk']);

    await cloud.setFaults({ kind: 'notKept', operation: 'delete' });
    const { id } = await create();
    expect((await call('DELETE', `/v1/vms/${id}`)).status).toBe(202);
    expect((await call('GET', `/v1/vms/${id}`)).status).toBe(200);
    expect((await cloud.calls()).at(-2)).toMatchObject({ operation: 'delete', outcome: 202, effect: false });
  });

  it('lose a field of what is created', async () => {
    await cloud.setFaults({ kind: 'notKept', field: 'tags' });
    const tags = { field: run };
    const { id } = await create({ tags, partTags: tags });
    const { items = [] } = (await call('GET', `/v1/resources?tag=field=${run}`)).body;
    expect(items.map(({ kind }) => kind)).toEqual(['disk', 'nic', 'ip']);
    expect((await call('GET', `/v1/vms/${id}`)).status).toBe(200);
  });

  it('are refused when they are none', async () => {
    const wrong = { kind: 'capacity', every: 0 } as const;

    await expect(cloud.setFaults(wrong)).rejects.toThrow(/every/);
    expect(await cloud.faults()).toEqual([]);
  });
});

describe('nodes', () => {
  it('join ready, as the kubelet of the VM would register them', async () => {
    const labels = { pool: 'a' };
    const taints = [{ key: 'dedicated', value: 'x', effect: 'NoSchedule' }];
    const vm = await create({ machineType: 'medium', node: { labels, taints } });

    const node = await untilJoined(vm);

    expect(node.spec).toMatchObject({ providerID: `simulated:///local/${vm.id}`, taints });
    expect(node.metadata.labels).toMatchObject({ ...labels, 'kubernetes.io/hostname': vm.name });
    expect(node.status?.capacity).toMatchObject({ cpu: '4', memory: '16Gi' });
    expect(node.status?.conditions?.map(({ type, status }) => `${type}=${status}`)).toEqual([
      'MemoryPressure=False',
      'DiskPressure=False',
      'PIDPressure=False',
      'Ready=True',
    ]);
    await untilRenewedTwice(vm);
  });

  it('keep the conditions that others have set when their kubelet renews its own', async () => {
    const vm = await create();
    const { status } = await untilJoined(vm);
    const foreign = { type: 'Terminating', status: 'True', reason: 'Test', message: 'set by the test' };
    const conditions = [...(status?.conditions ?? []), foreign];
    await kube.patch(nodes, { name: vm.name }, mergePatch({ status: { conditions } }), { subresource: 'status' });
    const beatOf = (node: typeof status) => node?.conditions?.find(({ type }) => type === 'Ready')?.lastHeartbeatTime;

    await until(
      'the kubelet has reported again',
      async (see) => beatOf(see(await nodeOf(vm))?.status) !== beatOf(status),
    );

    expect((await nodeOf(vm))?.status?.conditions).toContainEqual(expect.objectContaining(foreign));
  });

  it('do not join when the fault says so, until their VM restarts', async () => {
    await cloud.setFaults({ kind: 'neverJoin', times: 1 });
    const vm = await create();

    await untilRenewedTwice(await create());

    expect(await nodeOf(vm)).toBeUndefined();
    expect((await cloud.vms()).find(({ id }) => id === vm.id)?.state).toBe('running');
    await cloud.restartVm(vm.id);
    await until('the node has joined', async () => (await nodeOf(vm)) !== undefined);
  });

  it('fall silent when their VM dies, and speak again after a restart', async () => {
    await cloud.setFaults({ kind: 'die', afterMs: 1000, times: 1 });
    const dying = await create();
    const killed = await create();
    await untilRenewedTwice(killed);
    await cloud.killVm(killed.id);
    await until('it has died', async (see) =>
      see(await cloud.vms()).every(({ id, alive }) => id !== dying.id || !alive),
    );

    expect([await isSilent(dying), await isSilent(killed)]).toEqual([true, true]);
    expect((await cloud.vms()).find(({ id }) => id === killed.id)).toMatchObject({ state: 'running', alive: false });

    await cloud.restartVm(killed.id);
    await untilRenewedTwice(killed);
  });

  it('stay away when they were deleted until their VM restarts, though the cloud itself does', async () => {
    const vm = await create();
    await untilRenewedTwice(vm);
    const before = await untilJoined(vm);
    await kube.delete(nodes, { name: vm.name });
    await cloud.kill();
    await cloud.restart();
    await untilRenewedTwice(vm);
    expect(await nodeOf(vm)).toBeUndefined();

    await cloud.restartVm(vm.id);

    const after = await untilJoined(vm);
    expect(after.metadata.uid).not.toBe(before.metadata.uid);
  });

  it('outlive a VM that vanishes, silent', async () => {
    await cloud.setFaults({ kind: 'vanish', afterMs: 15_000, times: 1 });
    const vm = await create();
    await untilJoined(vm);

    await until('it has vanished', async (see) => see(await cloud.vms()).every(({ id }) => id !== vm.id));

    expect(await isSilent(vm)).toBe(true);
    expect(await nodeOf(vm)).toBeDefined();
    expect((await cloud.calls()).some((record) => record.vm === vm.id && record.operation === 'delete')).toBe(false);
  });
});

describe('pods', () => {
  it('run on a node that has joined, and on one that joins later', async () => {
    const vm = newVm();
    const early = await createPod(vm.name);
    await call('POST', '/v1/vms', vm);
    await untilJoined(vm);
    const late = await createPod(vm.name);

    for (const key of [early, late]) {
      const { status } = await untilRunning(key);
      expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
      expect(status?.containerStatuses).toMatchObject([{ name: 'main', ready: true }]);
    }
  });

  it('end after their grace period', async () => {
    const vm = await create();
    const key = await createPod(vm.name);
    await untilRunning(key);

    await kube.delete(pods, key, { gracePeriodSeconds: 600 });

    await until('the pod is gone', async (see) => see(await kube.find(pods, key)) === undefined);
  });

  it('wait for a kubelet that has died', async () => {
    const vm = await create();
    const key = await createPod(vm.name);
    await untilRunning(key);
    await cloud.killVm(vm.id);
    await kube.delete(pods, key, { gracePeriodSeconds: 1 });
    const other = await create();
    const otherKey = await createPod(other.name);
    await untilRunning(otherKey);
    await kube.delete(pods, otherKey, { gracePeriodSeconds: 1 });
    await until('the pod is gone', async (see) => see(await kube.find(pods, otherKey)) === undefined);

    expect(await kube.find(pods, key)).toBeDefined();

    await cloud.restartVm(vm.id);
    await until('the pod is gone', async (see) => see(await kube.find(pods, key)) === undefined);
  });
});

describe('a reset', () => {
  it('takes away what exists, also what is not listed yet or has outlived its VM', async () => {
    const before = new Set((await cloud.resources()).map(({ id }) => id));
    await cloud.setFaults({ kind: 'leak', parts: ['disk'], operation: 'delete' });
    const { id } = await create();
    await call('DELETE', `/v1/vms/${id}`);
    await until('its disk is left', async (see) => {
      const added = see((await cloud.resources()).filter((each) => !before.has(each.id)));
      return added.length === 1 && added[0]?.kind === 'disk';
    });
    await cloud.setFaults({ kind: 'invisible', ms: 60_000 });
    await create();

    await cloud.reset();

    expect(await cloud.resources()).toEqual([]);
    expect((await cloud.stats()).vmsNow).toBe(0);
  });
});

describe('VMs that a fault hides', () => {
  it('are in no answer, or only those that are younger or older than a time, until the fault is over', async () => {
    const old = await create();
    const since = new Date().toISOString();
    await until('time has passed', () => Promise.resolve(Date.now() > Date.parse(since)));
    const young = await create();
    const answers = async () => {
      const listed = (await call('GET', '/v1/vms?limit=500')).body.items ?? [];
      const found = [old, young].map(({ id }) => listed.some((each) => each.id === id));
      return [...found, (await call('GET', `/v1/vms/${young.id}`)).status];
    };

    await cloud.setFaults({ kind: 'hidden', since });
    expect(await answers()).toEqual([true, false, 404]);
    await cloud.setFaults({ kind: 'hidden', before: since });
    expect(await answers()).toEqual([false, true, 200]);
    await cloud.setFaults({ kind: 'hidden', operation: 'list' });
    expect(await answers()).toEqual([false, false, 200]);
    await cloud.setFaults();
    expect(await answers()).toEqual([true, true, 200]);
  });
});

describe('the process', () => {
  it('continues after kill -9 with its VMs and their parts, its calls and its faults, and where these were', async () => {
    await untilRenewedTwice(await create());
    await cloud.setFaults({ kind: 'neverJoin' }, { kind: 'capacity', every: 3 });
    await create();
    await create();
    const seen = async () => [
      await cloud.vms({ all: true }),
      ...[await cloud.resources(), await cloud.calls(), await cloud.faults(), await cloud.stats()],
    ];
    const before = await seen();

    await cloud.kill();
    appendFileSync(join(dir, 'journal.jsonl'), '{"vm":{"id":"torn');
    await cloud.restart();

    expect(await seen()).toEqual(before);
    expect((await call('POST', '/v1/vms', newVm())).status).toBe(409);
    await cloud.restart();
    expect(await cloud.stats()).toMatchObject({ vmsEver: (before[0] as unknown[]).length });
  });
});
