/** What a sweep reads of a real API server, and what it does there. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { List } from '../api/dialect.ts';
import { registerDialect } from '../api/dialects.ts';
import { gardener } from '../api/gardener/index.ts';
import { finalizers, labels } from '../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import { isNewer } from '../api/model/ref.ts';
import type { LostMachine, ResourceKey, SweepNamespace, SweptSource } from '../api/model/sweep.ts';
import { names } from '../api/names.ts';
import { jsonBytes, maxListBytes } from '../api/payloads.ts';
import type { KubeClient } from '../kube/client.ts';
import { nodes } from '../kube/core.ts';
import type { EventRecord } from '../kube/events.ts';
import { mergePatch } from '../kube/patch.ts';
import { startFaultProxy, statusBody } from '../test/faults/proxy.ts';
import { newNamespace, recordingLogger, testClient, testKubeconfig } from '../test/support/kube.ts';
import { createSweepActivities } from './sweep.ts';

const nowhere = { server: 'http://127.0.0.1:1', credentials: async () => ({ headers: {}, tls: {} }) };

const recorded: EventRecord[] = [];
const events = { record: (event: EventRecord) => recorded.push(event), flush: async () => undefined };
const defaults = { creationSeconds: 1, drainSeconds: 1, maxEvictRetries: 1, nodeConditions: [] };
const brake = { brakeCount: 3, brakeRate: 10, approvalSeconds: 60 };
const limits = { confirmAfterSeconds: 120, minimumAgeSeconds: 600, ...brake };
/** Of a Temporal that remembers nothing: temporal/past-sweeps.ts has tests of its own. */
const past = {
  readPast: async () => ({ unanswered: [] }),
  countDeletions: async () => 0,
  findLosses: async (machines: readonly LostMachine[]) => machines.map(() => undefined),
};
const logger = recordingLogger();
let client: KubeClient;
let activities: ReturnType<typeof createSweepActivities>;
let namespace: string;
let input: SweepNamespace;

beforeAll(async () => {
  client = testClient();
  activities = createSweepActivities({
    control: client,
    target: client,
    events,
    logger,
    past,
    sweep: limits,
    defaults,
  });
});
beforeEach(async () => {
  recorded.length = 0;
  namespace = await newNamespace(client);
  input = { dialect: 'gardener', namespace };
});
afterAll(() => client.close());

async function createMachine(name: string, spec: object = {}, phase?: string, node?: string): Promise<string> {
  const own = { namespace, name, ...(node !== undefined && { labels: { [labels.node]: node } }) };
  const { metadata } = await client.create(machines, { metadata: own, spec });
  const status = mergePatch({ status: { currentStatus: { phase } } });
  if (phase !== undefined) await client.patch(machines, metadata, status, { subresource: 'status' });
  return metadata.uid;
}

async function createNode(name: string, providerID: string): Promise<void> {
  await client.create(nodes, { metadata: { name }, spec: { providerID } });
}

async function createClass(name: string, metadata: object = {}) {
  const made = await client.create(machineClasses, {
    metadata: { namespace, name, ...metadata },
    provider: 'simulated',
    secretRef: { namespace, name: 'pool' },
    providerSpec: { size: 'small' },
  });
  return made.metadata;
}

const protectedClass = (name: string) => createClass(name, { finalizers: [finalizers.machine, 'example.com/other'] });

describe('findOwnerless', () => {
  it('[mcm 88 partly] gives a resource to the Machine of its UID, its provider ID or, without either, its name', async () => {
    const uid = await createMachine('by-uid');
    await createMachine('named', { providerID: 'cloud:///1' });
    await createMachine('unnamed');
    const asked: [boolean, ResourceKey][] = [
      [true, { kind: 'vm', id: 'cloud:///0', uid, name: '' }],
      [true, { kind: 'disk', id: 'disk-0', uid, name: '' }],
      [true, { kind: 'vm', id: 'cloud:///1', name: 'other-name' }],
      [true, { kind: 'vm', id: 'cloud:///2', name: 'unnamed' }],
      // A Machine with a provider ID has one VM, whatever another is called.
      [false, { kind: 'vm', id: 'cloud:///3', name: 'named' }],
      [false, { kind: 'vm', id: 'cloud:///4', uid: 'of-nobody', name: 'unnamed' }],
      [false, { kind: 'vm', id: 'cloud:///5', name: 'nobody' }],
      [false, { kind: 'disk', id: 'cloud:///1', name: 'unnamed' }],
      // What another system has made with its VM: only the VM says whose it is.
      [true, { kind: 'disk', id: 'disk-1', name: '', attachedTo: 'cloud:///1' }],
      [true, { kind: 'nic', id: 'nic-2', name: '', attachedTo: 'cloud:///2' }],
      [false, { kind: 'ip', id: 'ip-5', name: '', attachedTo: 'cloud:///5' }],
      [false, { kind: 'disk', id: 'disk-6', uid: 'of-nobody', name: '', attachedTo: 'cloud:///1' }],
    ];

    const { ownerless, adopted } = await activities.findOwnerless(
      input,
      asked.map(([, key]) => key),
    );

    expect(ownerless).toEqual(asked.flatMap(([isOwned], i) => (isOwned ? [] : [i])));
    expect(adopted).toEqual([]);
  });

  it('[invariant 4 partly] returns the old UID of a Machine that was restored from a backup', async () => {
    await createMachine('restored', { providerID: 'cloud:///1' });

    const vm: ResourceKey = { kind: 'vm', id: 'cloud:///1', uid: 'from-before', name: 'restored' };
    const disk: ResourceKey = { kind: 'disk', id: 'disk-1', uid: 'from-before', name: '' };

    expect(await activities.findOwnerless(input, [vm, disk])).toMatchObject({
      ...{ ownerless: [1], adopted: ['from-before'] },
      surplus: [],
    });
  });

  it('says how many Machines there are, and at which version of the cluster', async () => {
    await createMachine('first');
    const { machines: before } = await activities.findOwnerless(input, []);
    await createMachine('second');
    const { machines: after } = await activities.findOwnerless(input, []);

    expect([before.count, after.count]).toEqual([1, 2]);
    expect(isNewer(after.resourceVersion, before.resourceVersion)).toBe(true);
  });

  it('[invariant 4 partly] gives a VM to the Machine that spells its provider ID otherwise', async () => {
    await createMachine('spelled', { providerID: 'azure:///West/VM-1' });
    await createMachine('restored', { providerID: 'aws:///eu-west-1/i-2' });
    const spelled: ResourceKey = { kind: 'vm', id: 'azure:///subscriptions/s/west-2/vm-1', name: 'a' };
    const restored: ResourceKey = { kind: 'vm', id: 'aws:///eu-west-1a/i-2', uid: 'from-before', name: 'b' };
    const disk: ResourceKey = { kind: 'disk', id: 'disk-1', uid: 'from-before', name: '' };
    const otherCloud: ResourceKey = { kind: 'vm', id: 'gce:///eu-west-1/i-2', name: 'c' };

    expect(await activities.findOwnerless(input, [spelled, restored, disk, otherCloud])).toMatchObject({
      ownerless: [2, 3],
      adopted: ['from-before'],
      surplus: [],
    });
  });

  it('[invariant 4 partly] gives a VM to the Machine whose Node names it', async () => {
    const [named, other] = [`node-of-${namespace}`, `other-node-of-${namespace}`];
    await createNode(named, 'cloud:///zone-a/VM-1');
    await createNode(other, 'cloud:///zone-a/vm-2');
    await createMachine('joined', { providerID: 'cloud:///region/another' }, 'Running', named);

    const asked: ResourceKey[] = [
      { kind: 'vm', id: 'cloud:///region/vm-1', name: '' },
      { kind: 'vm', id: 'cloud:///region/vm-2', name: '' },
    ];

    expect((await activities.findOwnerless(input, asked)).ownerless).toEqual([1]);
    await Promise.all([named, other].map((name) => client.delete(nodes, { name })));
  });

  it('[mcm 90 partly] [invariant 4 partly] calls a VM surplus that carries the UID of a Machine which has joined and names another', async () => {
    const node = `surplus-node-of-${namespace}`;
    await createNode(node, 'cloud:///zone-a/of-node');
    const uid = await createMachine('joined', { providerID: 'cloud:///zone-a/own' }, 'Running', node);
    const unhealthy = await createMachine('unhealthy', { providerID: 'cloud:///zone-a/its' }, 'Unknown');
    const updating = await createMachine('updating', { providerID: 'cloud:///zone-a/old' }, 'InPlaceUpdating');
    const inCreation = await createMachine('in-creation', { providerID: 'cloud:///zone-a/first' }, 'Pending');
    const unnamed = await createMachine('unnamed', {}, 'Running');
    const vm = (id: string, owner: string): ResourceKey => ({
      kind: 'vm',
      id: `cloud:///a/${id}`,
      uid: owner,
      name: '',
    });
    const asked = [
      ...[vm('OWN', uid), vm('of-node', uid), vm('second', uid), vm('other', unhealthy)],
      vm('other', updating),
      ...[vm('other', inCreation), vm('other', unnamed), { ...vm('disk', uid), kind: 'disk' as const }],
    ];

    expect(await activities.findOwnerless(input, asked)).toMatchObject({
      ...{ ownerless: [], adopted: [] },
      surplus: [
        { place: 2, machine: 'joined', keeper: 'cloud own' },
        { place: 3, machine: 'unhealthy', keeper: 'cloud its' },
        { place: 4, machine: 'updating', keeper: 'cloud old' },
      ],
    });
    await client.delete(nodes, { name: node });
  });

  it('[invariant 4 partly] [invariant 6 partly] fails where it cannot read Machines or Nodes, and answers nothing', async () => {
    const away = testClient(nowhere);
    const asked: ResourceKey[] = [{ kind: 'vm', id: 'cloud:///1', name: '' }];
    for (const clusters of [
      { control: away, target: client },
      { control: client, target: away },
    ]) {
      const { findOwnerless } = createSweepActivities({ ...clusters, events, logger, past, sweep: limits, defaults });
      await expect(findOwnerless(input, asked)).rejects.toThrow('127.0.0.1:1');
    }
    await away.close();
  });
});

describe('readSweepScope', () => {
  it('says of a class with a Secret of another namespace that no cloud can be asked', async () => {
    const { uid } = await createClass('foreign');
    const credentialsSecretRef = { namespace: 'elsewhere', name: 'cloud' };
    await client.patch(machineClasses, { namespace, name: 'foreign' }, mergePatch({ credentialsSecretRef }));

    const { sources } = await activities.readSweepScope(input);

    const problem = expect.stringContaining('credentialsSecretRef.namespace is "elsewhere": copy the Secret "cloud"');
    expect(sources).toMatchObject([{ object: { uid }, problem, credentials: [{ namespace, name: 'pool' }] }]);
  });

  it('reads the classes as they are, with their Secrets, and which are leaving', async () => {
    const lostAt = '2026-01-01T00:00:00.000Z';
    const stays = await createClass('stays', { annotations: { [names.lostMachine]: lostAt } });
    const leaving = await protectedClass('leaving');
    await client.delete(machineClasses, { namespace, name: 'leaving' });

    const { sources, limits: own, past: left } = await activities.readSweepScope(input);

    expect([own, left]).toEqual([limits, { unanswered: [] }]);
    expect(sources.toSorted((a, b) => (a.object.name < b.object.name ? -1 : 1))).toEqual([
      expect.objectContaining({
        object: { name: 'leaving', uid: leaving.uid },
        release: { generation: (leaving.generation ?? 0) + 1 },
      }),
      {
        object: { name: 'stays', uid: stays.uid },
        ...{ provider: 'simulated', providerSpec: { size: 'small' } },
        origin: { kind: 'MachineClass', namespace, name: 'stays', generation: stays.generation },
        lostAt,
        credentials: [{ namespace, name: 'pool' }],
      },
    ]);
  });
});

describe('classes that are too large for a payload together, or alone', () => {
  const text = (length: number) => ({ text: 'x'.repeat(length) });

  it('are read in portions, and those that no cloud is asked with without their providerSpec', async () => {
    const names = Array.from({ length: 22 }, (_, i) => `class-${String(i).padStart(2, '0')}`);
    for (const name of names) {
      const providerSpec = text(name === 'class-07' ? 1_000_000 : 60_000);
      await client.create(machineClasses, { metadata: { namespace, name }, provider: 'simulated', providerSpec });
    }

    const first = await activities.readSweepScope(input);
    const second = await activities.readSweepScope(input, first.next);

    expect(second.next).toBeUndefined();
    expect([...first.sources, ...second.sources].map(({ object }) => object.name)).toEqual(names);
    for (const page of [first, second]) expect(jsonBytes(page)).toBeLessThan(maxListBytes + 1_000);
    const refused = [...first.sources, ...second.sources].filter(({ problem }) => problem !== undefined);
    const problem = 'providerSpec has 1000011 bytes as JSON, and 65536 is the most: shorten it';
    expect(refused).toMatchObject([{ object: { name: 'class-07' }, providerSpec: {}, problem }]);
  });
});

describe('findDoubts', () => {
  const none = { readPast: past.readPast, countDeletions: past.countDeletions };
  const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: '2026-08-19T10:00:00Z' };
  const made: string[] = [];
  const setReady = (name: string, status: string) =>
    client.patch(nodes, { name }, mergePatch({ status: { conditions: [{ ...ready, status }] } }), {
      subresource: 'status',
    });
  afterAll(() => Promise.all(made.map((name) => client.delete(nodes, { name }))));

  it('[invariant 4 partly] says of an orphan that its own Node is Ready, and that its Machine was not deleted', async () => {
    const [byId, byName, ofAnother, notReady] = ['id', 'name', 'another', 'not-ready'].map(
      (name) => `${name}-${namespace}`,
    );
    made.push(byId!, byName!, ofAnother!, notReady!);
    await createNode(byId!, 'cloud:///zone/ABC');
    await client.create(nodes, { metadata: { name: byName! } });
    await createNode(ofAnother!, 'cloud:///zone/other');
    await createNode(notReady!, 'cloud:///zone/bad');
    for (const name of made) await setReady(name, name === notReady ? 'False' : 'True');
    const lost: LostMachine[] = [];
    const findLosses = async (machines: readonly LostMachine[]) => {
      lost.push(...machines);
      return machines.map(({ uid }) => (uid === 'u-open' ? 'its workflow is open' : undefined));
    };
    const { findDoubts } = createSweepActivities({
      ...{ control: client, target: client, events, logger, past: { ...none, findLosses }, sweep: limits, defaults },
    });
    const asked = [
      { uid: 'u-1', ageMs: 1, vms: [{ id: 'cloud:///region/abc', name: 'a' }] },
      { ageMs: 2, vms: [{ id: 'cloud:///region/2', name: byName! }] },
      { uid: 'u-open', ageMs: 3, vms: [{ id: 'cloud:///region/3', name: ofAnother! }] },
      { uid: 'u-4', ageMs: 4, vms: [{ id: 'cloud:///region/bad', name: notReady! }] },
    ];
    const surplus = {
      uid: 'u-5',
      ageMs: 5,
      vms: [{ id: 'cloud:///region/5', name: byName! }],
      isSurplus: true as const,
    };
    const surplusNode = {
      uid: 'u-6',
      ageMs: 6,
      vms: [{ id: 'cloud:///region/Abc', name: 'b' }],
      isSurplus: true as const,
    };

    expect(await findDoubts(input, [...asked, surplus, surplusNode])).toEqual([
      [`its Node ${byId} is Ready`],
      [`its Node ${byName} is Ready`],
      ['Temporal does not say that Millwright deleted its Machine: its workflow is open'],
      ...[[], [], [`its Node ${byId} is Ready`]],
    ]);
    expect(lost).toEqual([
      { namespace, name: 'a', ageMs: 1, uid: 'u-1' },
      { namespace, name: byName, ageMs: 2 },
      { namespace, name: ofAnother, ageMs: 3, uid: 'u-open' },
      { namespace, name: notReady, ageMs: 4, uid: 'u-4' },
    ]);
  });

  it('[invariant 4 partly] [invariant 6 partly] fails where it cannot read the Nodes', async () => {
    const away = testClient(nowhere);
    const { findDoubts } = createSweepActivities({
      control: client,
      target: away,
      events,
      logger,
      past,
      sweep: limits,
      defaults,
    });
    await expect(findDoubts(input, [{ ageMs: 0, vms: [{ id: 'cloud:///1', name: 'a' }] }])).rejects.toThrow(
      '127.0.0.1:1',
    );
    await away.close();
  });
});

describe('releaseSources', () => {
  async function leavingClass(name: string) {
    await protectedClass(name);
    await client.delete(machineClasses, { namespace, name });
    const { uid, generation = 0 } = (await client.get(machineClasses, { namespace, name })).metadata;
    return { name, uid, generation };
  }

  it('[mcm 8 partly] takes our finalizer, and no other, off a deleted class that nobody uses', async () => {
    const leaving = await leavingClass('leaving');

    expect(await activities.releaseSources(input, [leaving])).toEqual(['leaving']);

    const { metadata } = await client.get(machineClasses, { namespace, name: 'leaving' });
    expect(metadata.finalizers).toEqual(['example.com/other']);
  });

  it('records an Event on one that it may not change, and releases the others', async () => {
    const classes = [await leavingClass('locked'), await leavingClass('leaving')];
    const proxy = await startFaultProxy(testKubeconfig());
    const control = testClient(proxy.access);
    proxy.setRule(({ method, url }) => {
      const isRefused = method === 'PATCH' && url.pathname.endsWith('/locked');
      return isRefused ? { kind: 'answer', status: 403, body: statusBody(403, 'Forbidden') } : undefined;
    });
    const { releaseSources } = createSweepActivities({
      ...{ control, target: client, events, logger, past, sweep: limits, defaults },
    });

    expect(await releaseSources(input, classes)).toEqual(['leaving']);

    expect(recorded.at(-1)).toMatchObject({ regarding: { name: 'locked' }, reason: 'SourceNotReleased' });
    expect(recorded.at(-1)?.note).toContain('Forbidden');
    await control.close();
    await proxy.close();
  });

  it('records an Event on one whose finalizer the API server keeps', async () => {
    const leaving = await leavingClass('kept');
    const control: typeof client = { ...client, patch: (resource, key) => client.get(resource, key) };
    const { releaseSources } = createSweepActivities({
      ...{ control, target: client, events, logger, past, sweep: limits, defaults },
    });

    expect(await releaseSources(input, [leaving])).toEqual([]);

    expect(recorded.at(-1)).toMatchObject({
      regarding: { name: 'kept' },
      reason: 'SourceNotReleased',
      note: 'could not take our finalizer off: the API server does not keep the change',
    });
  });

  it('[mcm 8 partly] leaves one that is used, that stays, that was changed or that is another by now', async () => {
    const spec = (name: string) => ({ class: { kind: 'MachineClass', name } });
    const template = (name: string) => ({ metadata: { labels: { a: 'b' } }, spec: spec(name) });
    const selector = { matchLabels: { a: 'b' } };
    const names = ['of-machine', 'of-set', 'of-deployment', 'changed', 'another'];
    const leaving = await Promise.all(names.map(leavingClass));
    const { uid, generation = 0 } = await protectedClass('stays');
    await createMachine('m', spec('of-machine'));
    const metadata = { namespace, name: 'owner' };
    await client.create(machineSets, { metadata, spec: { replicas: 0, selector, template: template('of-set') } });
    await client.create(machineDeployments, {
      metadata,
      spec: { replicas: 0, selector, strategy: { type: 'Recreate' }, template: template('of-deployment') },
    });
    await client.patch(machineClasses, { namespace, name: 'changed' }, mergePatch({ providerSpec: { size: 'huge' } }));

    const asked = leaving.map((each) => (each.name === 'another' ? { ...each, uid: 'from-before' } : each));
    expect(await activities.releaseSources(input, [...asked, { name: 'stays', uid, generation }])).toEqual([]);

    const { items } = await client.list(machineClasses, { namespace });
    expect(items).toHaveLength(6);
    expect(items.every((each) => each.metadata.finalizers?.includes(finalizers.machine))).toBe(true);
  });
});

describe('recordNotices', () => {
  it('records Events on the class', async () => {
    const object = { name: 'small', uid: 'uid-1' };
    await activities.recordNotices(input, [{ object, reason: 'OrphanDeleted', note: 'deleted vm cloud:///1' }]);

    expect(recorded).toMatchObject([
      { regarding: { kind: 'MachineClass', namespace, ...object }, type: 'Warning', reason: 'OrphanDeleted' },
    ]);
  });
});

describe('a dialect whose Machines carry their source', () => {
  const dialect = 'inline';
  const source = {
    ...gardener.source,
    list: async (list: List): Promise<SweptSource[]> =>
      (await list(machines)).map(({ metadata: { name, uid } }) => ({
        ...{ object: { name, uid }, provider: 'simulated', providerSpec: {}, credentials: [] },
      })),
  };
  const { source: _, ...kinds } = gardener.kinds;

  beforeAll(() => registerDialect({ ...gardener, name: dialect, kinds, source }));

  it('is swept by its Machines, has Events on them, and has nothing to release', async () => {
    const uid = await createMachine('one');
    const { sources } = await activities.readSweepScope({ dialect, namespace });
    expect(sources).toMatchObject([{ object: { name: 'one', uid }, provider: 'simulated' }]);

    const [{ object } = { object: { name: '', uid: '' } }] = sources;
    await activities.recordNotices({ dialect, namespace }, [{ object, reason: 'OrphanDeleted', note: 'deleted' }]);
    expect(recorded).toMatchObject([{ regarding: { kind: 'Machine', name: 'one', uid } }]);
    expect(await activities.releaseSources({ dialect, namespace }, [{ ...object, generation: 1 }])).toEqual([]);
  });

  it('[invariant 4] loses no VM to the sweep of another, nor has to be installed', async () => {
    const away = { ...machines, group: 'not.installed' };
    registerDialect({ ...gardener, name: 'away', kinds: { ...gardener.kinds, machine: away } });
    const uid = await createMachine('one');
    const asked: ResourceKey[] = [{ kind: 'disk', id: 'disk-0', uid, name: '' }];
    const { ownerless } = await activities.findOwnerless({ dialect, namespace }, asked);
    expect(ownerless).toEqual([]);
    await expect(activities.findOwnerless({ dialect: 'away', namespace }, asked)).rejects.toThrow();
  });
});
