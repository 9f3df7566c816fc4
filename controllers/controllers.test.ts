import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Dialect } from '../api/dialect.ts';
import { gardener } from '../api/gardener/index.ts';
import { annotations as annotationNames, finalizers, labels } from '../api/gardener/names.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import { cordoners, names } from '../api/names.ts';
import type { KubeObject } from '../api/objects.ts';
import type { Node } from '../kube/core.ts';
import { createStore } from '../kube/store.ts';
import { requestRefresh } from '../temporal/workflows.ts';
import { validDeploymentSpec, validSetSpec } from '../test/support/valid.ts';
import { createMachineController } from './machines.ts';
import { createOwnerController } from './owners.ts';
import { indexesOf, type Watches } from './watches.ts';

/** What was sent, in words: `start <id>`, `signal <id>` (which also starts), `refresh <id>`. */
let sent: string[];
let refuse: Error | undefined;
/** What was signalled. */
let observed: unknown[];

const workflow = {
  start: async (_type: string, { workflowId }: { workflowId: string }) => send('start', workflowId),
  signalWithStart: async (_type: string, options: { workflowId: string; signalArgs: unknown[] }) => {
    await send('signal', options.workflowId);
    observed.push(...options.signalArgs);
  },
  getHandle: (id: string) => ({ signal: async (name: string) => send(name, id) }),
};
const installation = { client: { workflow } as unknown as Client, name: 'i' };
const refresh = (id: string) => void sent.push(`refresh ${id}`);
const resyncMs = 60_000;
const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };

async function send(what: string, id: string): Promise<void> {
  if (refuse !== undefined) throw refuse;
  sent.push(`${what} ${id}`);
}

function createStores(dialect: Dialect) {
  const indexes = indexesOf(dialect, defaults);
  return {
    machines: createStore<KubeObject>(indexes.machines),
    sets: createStore<KubeObject>(indexes.sets),
    deployments: createStore<KubeObject>(indexes.deployments),
    sources: createStore<KubeObject>(indexes.sources),
    secrets: createStore<KubeObject>(),
    nodes: createStore<Node>(indexes.nodes),
  };
}

/** Watches whose stores the test fills. */
function watch(dialect: Dialect): void {
  stores = createStores(dialect);
  for (const each of Object.values(stores)) {
    each.setSynced();
    each.setReachable(true);
  }
  const entries = Object.entries(stores).map(([kind, { store }]) => [kind, store]);
  watches = Object.fromEntries(entries) as Watches;
}

let stores: ReturnType<typeof createStores>;
let watches: Watches;
let version: number;
beforeEach(() => {
  sent = [];
  refuse = undefined;
  observed = [];
  version = 1;
  jest.useFakeTimers();
  watch(gardener);
});
afterEach(() => {
  jest.useRealTimers();
});

const meta = (name: string, changes: object = {}) => ({
  namespace: 'n',
  name,
  uid: `${name}-uid`,
  resourceVersion: String(version++),
  generation: 1,
  creationTimestamp: '2026-08-19T10:00:00Z',
  ...changes,
});
const ours = { finalizers: [finalizers.machine] };
const controlledBy = (uid: string) => ({
  ownerReferences: [{ apiVersion: 'v1', kind: 'x', name: 'x', uid, controller: true }],
});

describe('the controller of machines', () => {
  const conditions = [{ type: 'Ready', status: 'True' }];
  let controller: ReturnType<typeof createMachineController>;
  beforeEach(() => {
    controller = createMachineController({ watches, dialect: gardener, installation, defaults, resyncMs, refresh });
  });

  /** A resync, with the time until the next one. */
  async function resync(key: string): Promise<void> {
    await controller.resync(key);
    jest.advanceTimersByTime(resyncMs);
  }
  async function seeMachine(phase: string, changes: object = ours): Promise<void> {
    const metadata = { ...meta('m'), labels: { [labels.node]: 'node' }, ...changes };
    stores.machines.put({ metadata, status: { currentStatus: { phase }, conditions } } as Machine);
    await controller.handle('n/m');
  }
  async function seeNode(status: string, taints: readonly object[] = []): Promise<void> {
    const own = { finalizers: [finalizers.node], labels: { [labels.machineName]: 'm' } };
    const metadata = { ...meta('node', own), namespace: undefined };
    const conditions = [{ type: 'Ready', status }];
    stores.nodes.put({ metadata, spec: { taints }, status: { conditions } } as unknown as Node);
    await controller.handle('n/m');
  }
  /** A later version of an object: a cache ignores another one of the same version. */
  const newer = <T extends KubeObject>(object: T | undefined, change: object = {}): T => {
    const { resourceVersion } = meta('any');
    return { ...object, metadata: { ...object?.metadata, ...change, resourceVersion } } as unknown as T;
  };
  const id = 'i/machine/n/m/m-uid';

  it('starts the workflow of a new machine, and signals the loss of our finalizer but not its addition', async () => {
    await seeMachine('', {});
    await seeMachine('');
    await seeMachine('Pending');
    expect(sent).toEqual([`start ${id}`]);

    await seeMachine('Pending', {});
    expect(sent.slice(1)).toEqual([`signal ${id}`]);
  });

  it.each([
    ['at rest', 'Failed'],
    ['that waits for its Node', 'Unknown'],
  ])('refreshes the workflow of a preserved machine %s when somebody moves the end', async (_, phase) => {
    const annotations = { [annotationNames.preserve]: 'now' };
    async function seeEnd(preserveExpiryTime: string): Promise<void> {
      const metadata = { ...meta('m', { ...ours, annotations }), resourceVersion: String(version++) };
      const currentStatus = { phase, preserveExpiryTime };
      stores.machines.put({ metadata, status: { currentStatus, conditions } } as Machine);
      await controller.handle('n/m');
    }
    await seeEnd('2999-01-01T02:00:00Z');
    sent = [];
    await seeEnd('2999-01-01T02:00:00Z');
    expect(sent).toEqual([]);

    await seeEnd('2999-01-01T01:00:00Z');
    await seeEnd('2999-01-01T01:00:00Z');

    expect(sent).toEqual([`refresh ${id}`]);
  });

  it('signals that a machine has another owner, or none', async () => {
    await seeMachine('Unknown');
    sent = [];
    const owned = {
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: 's', uid: 's', controller: true }],
    };
    await seeMachine('Unknown', { ...ours, ...owned });
    await seeMachine('Unknown', { ...ours, ...owned });
    expect(sent).toEqual([`signal ${id}`]);
    await seeMachine('Unknown');
    expect(sent).toEqual([`signal ${id}`, `signal ${id}`]);
  });

  it('signals the deployment of a machine that is seen before its set, and no other change of the set', async () => {
    const owned = controlledBy('s-uid');
    await seeMachine('', owned);
    const ofDeployment = {
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineDeployment', name: 'pool', uid: 'd', controller: true }],
    };
    const set = { metadata: meta('s', ofDeployment) };
    stores.sets.put(set);
    const keys = controller.hears.sets({ kind: 'added', object: set });
    expect(keys).toEqual(['n/m']);
    for (const key of keys) await controller.handle(key);

    expect(sent).toEqual([`start ${id}`, `signal ${id}`]);
    expect(observed.at(-1)).toMatchObject({ deployment: 'pool' });
    expect(controller.hears.sets({ kind: 'updated', previous: set, object: set })).toEqual([]);
  });

  it('signals the deployment that owns the set of a machine, whatever label another deployment has in its template', async () => {
    const labelled = { [labels.node]: 'node', name: 'a' };
    for (const name of ['a', 'b']) {
      const owner = { apiVersion: 'v1', kind: 'MachineDeployment', name, uid: name, controller: true };
      stores.sets.put({ metadata: meta(`s-${name}`, { labels: labelled, ownerReferences: [owner] }) });
      await seeMachine('Unknown', { ...controlledBy(`s-${name}-uid`), labels: labelled });
      expect(observed.at(-1)).toMatchObject({ deployment: name });
    }
  });

  it('signals a node that lacks what its Machine wants it to have, each edit anew, and not that it has got it', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    const templateOf = (pool: string) => ({ metadata: { labels: { pool } } });
    for (const [generation, pool] of [
      [2, 'a'],
      [3, 'b'],
    ] as const) {
      const [machine] = stores.machines.store.list();
      stores.machines.put({
        ...newer(machine, { generation }),
        spec: { nodeTemplate: templateOf(pool) },
      } as KubeObject);
      await controller.handle('n/m');
    }
    expect(sent).toEqual([`signal ${id}`, `signal ${id}`]);

    // The first edit has reached the Node, and then the second.
    for (const pool of ['a', 'b']) {
      const [node] = stores.nodes.store.list();
      const annotations = { [annotationNames.lastAppliedNodeTemplate]: JSON.stringify(templateOf(pool)) };
      stores.nodes.put(newer(node, { labels: { ...node?.metadata.labels, pool }, annotations }));
      await controller.handle('n/m');
    }
    expect(sent).toHaveLength(2);
  });

  it('signals a node that lacks something else than before, and one that lacks the same again', async () => {
    await seeMachine('Running');
    await seeNode('True');
    const nodeTemplate = { metadata: { labels: { pool: 'a', team: 't' } } };
    const [machine] = stores.machines.store.list();
    stores.machines.put({ ...newer(machine), spec: { nodeTemplate } } as KubeObject);
    const noted = { [annotationNames.lastAppliedNodeTemplate]: JSON.stringify(nodeTemplate) };
    const [bare] = stores.nodes.store.list();
    const signals = async (own: Readonly<Record<string, string>>) => {
      sent = [];
      stores.nodes.put(newer(bare, { labels: { ...bare?.metadata.labels, ...own }, annotations: noted }));
      await controller.handle('n/m');
      return sent.length;
    };
    expect(await signals({ pool: 'a' })).toBe(1);
    expect(await signals({ team: 't' })).toBe(1);
    expect(await signals({ pool: 'x', team: 't' })).toBe(0);
    expect(await signals({})).toBe(1);
    expect(await signals({ pool: 'a', team: 't' })).toBe(0);
    expect(await signals({})).toBe(1);
  });

  it('does not signal that a node still lacks the same, whatever its kubelet reports', async () => {
    await seeMachine('Running');
    await seeNode('True');
    const [machine] = stores.machines.store.list();
    const spec = { nodeTemplate: { metadata: { labels: { pool: 'a' } } } };
    stores.machines.put({ ...newer(machine), spec } as KubeObject);
    sent = [];
    await controller.handle('n/m');
    expect(sent).toEqual([`signal ${id}`]);
    sent = [];
    for (let reports = 0; reports < 3; reports++) await seeNode('True');
    expect(sent).toEqual([]);
  });

  it('signals a machine at rest whose finalizer was removed', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    await seeMachine('Running', {});

    expect(sent).toEqual([`signal ${id}`]);
  });

  it('signals again what went away and returned', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    await seeNode('False');
    await seeNode('True');
    expect(sent).toEqual([`signal ${id}`]);

    await seeNode('False');
    expect(sent).toEqual([`signal ${id}`, `signal ${id}`]);
  });

  it('signals once that the VM of a Node is about to be taken away, and no taint that says nothing of it', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    const other = { key: 'example.com/other', effect: 'NoSchedule' };
    await seeNode('True', [other]);
    expect(sent).toEqual([]);

    const taint = { key: 'aws-node-termination-handler/spot-itn', effect: 'NoSchedule' };
    await seeNode('True', [taint]);
    await seeNode('True', [other, { ...taint, value: 'event-1' }]);
    expect(sent).toEqual([`signal ${id}`]);
  });

  it('signals what is to be written for a preservation, each change anew, and a drain that is due once', async () => {
    await seeMachine('Failed');
    await seeNode('False');
    sent = [];
    const annotated = (value: string) => ({ ...ours, annotations: { [annotationNames.preserve]: value } });
    await seeMachine('Failed', annotated('false'));
    expect(sent).toEqual([]);
    await seeMachine('Failed', annotated('now'));
    await seeMachine('Failed', annotated('when-failed'));
    expect(sent).toEqual([`signal ${id}`, `signal ${id}`]);

    const currentStatus = { phase: 'Failed', preserveExpiryTime: '2999-01-01T00:00:00Z' };
    const [machine] = stores.machines.store.list();
    stores.machines.put({
      ...machine,
      metadata: { ...machine?.metadata, resourceVersion: String(version++) },
      status: { currentStatus, conditions: [{ type: 'Ready', status: 'False' }] },
    } as KubeObject);
    sent = [];
    const [node] = stores.nodes.store.list();
    const marks = { [annotationNames.scaleDownDisabled]: 'true', [names.cordonedBy]: cordoners.preservation };
    for (let i = 0; i < 2; i++) {
      const metadata = { ...node?.metadata, annotations: marks, resourceVersion: String(version++) };
      stores.nodes.put({ ...node, metadata, spec: { unschedulable: true } } as unknown as Node);
      await controller.handle('n/m');
    }
    expect(sent).toEqual([`signal ${id}`]);
  });

  it('refreshes a deleted machine when our finalizer is off and other finalizers keep the object', async () => {
    const deleted = { deletionTimestamp: '2026-08-19T11:00:00Z' };
    await seeMachine('Terminating', { ...deleted, finalizers: [finalizers.machine, 'another'] });
    sent = [];
    await seeMachine('Terminating', { ...deleted, finalizers: ['another'] });

    expect(sent).toEqual([`refresh ${id}`]);
  });

  it('starts at a resync what needs attention, and signals it when that has changed nothing', async () => {
    await seeMachine('Pending');
    jest.advanceTimersByTime(resyncMs);
    sent = [];
    await resync('n/m');
    await resync('n/m');
    await resync('n/m');
    await resync('n/m');
    expect(sent).toEqual([`start ${id}`, `signal ${id}`, `start ${id}`, `signal ${id}`]);
  });

  it('sends nothing at the resync after a change, as that was sent, and starts the workflow again later', async () => {
    await seeMachine('Pending');
    await seeMachine('CrashLoopBackOff');
    sent = [];
    await resync('n/m');
    expect(sent).toEqual([]);

    await resync('n/m');
    await resync('n/m');
    expect(sent).toEqual([`signal ${id}`, `start ${id}`]);
  });

  it.each([-3_600_000, 3_600_000])('does at a resync what is due where the clock steps by %d ms', async (ms) => {
    await seeMachine('Pending');
    sent = [];
    jest.setSystemTime(Date.now() + ms);
    await resync('n/m');
    expect(sent).toEqual([]);

    await resync('n/m');
    await resync('n/m');
    expect(sent).toEqual([`signal ${id}`, `start ${id}`]);
  });

  it('signals nothing of the Node of a machine whose deletion is under way', async () => {
    await seeMachine('Running');
    await seeNode('True');
    const deleted = { ...ours, deletionTimestamp: '2026-08-19T11:00:00Z' };
    await seeMachine('Running', deleted);
    await seeMachine('Terminating', deleted);
    sent = [];
    await seeNode('False');
    stores.nodes.remove({ metadata: { ...meta('node'), namespace: undefined } } as unknown as Node);
    await controller.handle('n/m');

    expect(sent).toEqual([]);
  });

  it('sends nothing at a resync of a machine at rest', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    await resync('n/m');

    expect(sent).toEqual([]);
  });

  it('does not count a resync that failed', async () => {
    await seeMachine('Pending');
    jest.advanceTimersByTime(resyncMs);
    sent = [];
    refuse = new Error('no answer');
    await expect(resync('n/m')).rejects.toThrow('no answer');
    refuse = undefined;
    await resync('n/m');

    expect(sent).toEqual([`start ${id}`]);
  });

  it('signals everything again after a restore from a backup, and refreshes it', async () => {
    await seeMachine('Pending');
    sent = [];
    await controller.handle('n/m');
    expect(sent).toEqual([]);

    controller.onRestored();
    await controller.handle('n/m');
    expect(sent).toEqual([`refresh ${id}`, `signal ${id}`]);
  });
});

describe('the controller of machines of an API without classes, whose Nodes are found by provider ID', () => {
  const inline: Dialect = {
    ...gardener,
    kinds: { machine: gardener.kinds.machine, set: gardener.kinds.set, deployment: gardener.kinds.deployment },
    source: {
      ...gardener.source,
      nameOf: () => undefined,
      secretsOf: ({ metadata: { namespace = '' } }) => [{ namespace, name: 'credentials' }],
    },
    policy: { ...gardener.policy, nodeMatch: 'providerID' },
  };
  const id = 'i/machine/n/m/m-uid';
  let controller: ReturnType<typeof createMachineController>;
  beforeEach(() => {
    watch(inline);
    controller = createMachineController({ watches, dialect: inline, installation, defaults, resyncMs, refresh });
  });

  async function handleAll(keys: Iterable<string>): Promise<void> {
    for (const key of keys) await controller.handle(key);
  }
  const putMachine = (phase: string, spec: object) => {
    const conditions = [{ type: 'Ready', status: 'True' }];
    const object = { metadata: meta('m', ours), spec, status: { currentStatus: { phase }, conditions } };
    stores.machines.put(object as KubeObject);
  };

  it('signals a change of its Node, whatever the name of that', async () => {
    putMachine('Running', { providerID: 'cloud:///zone/vm-1' });
    const own = { finalizers: [finalizers.node], labels: { [labels.machineName]: 'm' } };
    const metadata = { ...meta('another-name', own), namespace: undefined };
    const status = { conditions: [{ type: 'Ready', status: 'False' }] };
    const node = { metadata, spec: { providerID: 'cloud:///region/VM-1' }, status } as unknown as Node;
    const [change] = stores.nodes.put(node);
    if (change === undefined || change.kind === 'synced') throw new Error('the Node is new');
    await handleAll(controller.hears.nodes(change));

    expect(sent).toEqual([`signal ${id}`]);
  });

  it('signals a change of a Secret of the Machine while its VM may wait for that', async () => {
    putMachine('CrashLoopBackOff', {});
    await controller.handle('n/m');
    const [change] = stores.secrets.put({ metadata: meta('credentials') });
    if (change === undefined || change.kind === 'synced') throw new Error('the Secret is new');
    sent = [];
    await handleAll(controller.hears.secrets(change));

    expect(sent).toEqual([`signal ${id}`]);
  });
});

describe('the controller of owners', () => {
  let controller: ReturnType<typeof createOwnerController>;
  beforeEach(() => {
    controller = createOwnerController({ watches, dialect: gardener, installation, resyncMs, refresh });
  });

  /** A resync, with the time until the next one. */
  async function resync(uid: string): Promise<void> {
    await controller.resync(uid);
    jest.advanceTimersByTime(resyncMs);
  }
  async function seeSet(changes: object = {}, observedGeneration = 0): Promise<void> {
    const spec = { ...validSetSpec, replicas: 0 };
    stores.sets.put({
      metadata: meta('s', { ...ours, ...changes }),
      spec,
      status: { observedGeneration },
    } as MachineSet);
    await controller.handle('s-uid');
  }
  const seeDeployment = () =>
    stores.deployments.put({ metadata: meta('d'), spec: validDeploymentSpec } as MachineDeployment);
  const id = 'i/machine-set/n/s/s-uid';

  it('refreshes a run once when its owner needs nothing any more', async () => {
    await seeSet();
    await seeSet({}, 1);
    await controller.handle('s-uid');

    expect(sent).toEqual([`signal ${id}`, `refresh ${id}`]);
  });

  it('refreshes a run when its owner is gone', async () => {
    await seeSet();
    stores.sets.retain(new Set());
    await controller.handle('s-uid');

    expect(sent).toEqual([`signal ${id}`, `refresh ${id}`]);
  });

  it('has a run for an owner whose spec is not valid, also once it says so, and refreshes the run when it is gone', async () => {
    const spec = { ...validSetSpec, selector: {} };
    const message = 'spec.selector is missing or selects everything: set matchLabels to labels that spec.template has';
    const condition = { type: 'ReplicaFailure', status: 'True', reason: 'InvalidSpec', message };
    const status = { observedGeneration: 1, machineSetCondition: [condition] };
    stores.sets.put({ metadata: meta('s', ours), spec, status } as MachineSet);
    await controller.handle('s-uid');
    await controller.handle('s-uid');
    await resync('s-uid');
    expect(sent).toEqual([`signal ${id}`, `start ${id}`]);

    stores.sets.retain(new Set());
    await controller.handle('s-uid');
    expect(sent.slice(2)).toEqual([`refresh ${id}`]);
  });

  it('refreshes the run of a set when a deployment adopts the set', async () => {
    await seeSet();
    seeDeployment();
    await seeSet(controlledBy('d-uid'));

    expect(sent).toEqual([`signal ${id}`, `refresh ${id}`]);
  });

  it('signals a set whose deployment is gone, once that is certain', async () => {
    stores.deployments.setReachable(false);
    await seeSet(controlledBy('d-uid'));
    expect(sent).toEqual([]);

    stores.deployments.setReachable(true);
    await controller.handle('s-uid');
    expect(sent).toEqual([`signal ${id}`]);
  });

  it('leaves a set of a deployment to that deployment', async () => {
    seeDeployment();
    await seeSet(controlledBy('d-uid'));
    await controller.handle('d-uid');

    expect(sent).toEqual(['signal i/rollout/n/d/d-uid']);
  });

  it('starts at a resync what needs something, and signals it when that has changed nothing', async () => {
    await seeSet();
    sent = [];
    await resync('s-uid');
    await resync('s-uid');
    expect(sent).toEqual([`start ${id}`, `signal ${id}`]);

    await seeSet({}, 1);
    sent = [];
    await resync('s-uid');
    expect(sent).toEqual([]);
  });

  it('signals a set that selects a machine without an owner, as long as no other set does', async () => {
    const putSet = (name: string) => {
      const spec = { ...validSetSpec, replicas: 0 };
      stores.sets.put({ metadata: meta(name, ours), spec, status: { observedGeneration: 1 } } as MachineSet);
    };
    const see = async (changes: object) => {
      const [change] = stores.machines.put({ metadata: meta('free', changes) } as Machine);
      if (change === undefined || change.kind === 'synced') throw new Error('the machine is new');
      const keys = [...controller.hears.machines!(change)];
      for (const key of keys) await controller.handle(key);
      return keys;
    };
    putSet('s');
    await controller.handle('s-uid');
    expect(await see({ labels: { pool: 'b' } })).not.toContain('s-uid');
    expect(await see({ labels: { pool: 'a' } })).toContain('s-uid');
    expect(sent).toEqual([`signal ${id}`]);

    sent = [];
    putSet('rival');
    expect(await see({ labels: { pool: 'a' } })).toEqual(expect.arrayContaining(['s-uid', 'rival-uid']));
    expect(sent).toEqual([`refresh ${id}`]); // nothing is left for it to do
  });

  it('signals a deployment that selects a machine without an owner by one of its sets', async () => {
    seeDeployment();
    await seeSet(controlledBy('d-uid'), 1);
    sent = [];
    const [change] = stores.machines.put({ metadata: meta('free', { labels: { pool: 'a' } }) } as Machine);
    if (change === undefined || change.kind === 'synced') throw new Error('the machine is new');
    expect([...controller.hears.machines!(change)]).toContain('d-uid');
    await controller.handle('d-uid');
    expect(sent).toEqual(['signal i/rollout/n/d/d-uid']);
  });

  it('signals a set one of whose machines it selects no more', async () => {
    const see = async (labels: object) => {
      stores.machines.put({
        metadata: meta('own', { ...controlledBy('s-uid'), labels }),
        status: { currentStatus: { phase: 'Running' } },
      } as Machine);
      await controller.handle('s-uid');
    };
    const spec = { ...validSetSpec, replicas: 1 };
    stores.sets.put({ metadata: meta('s', ours), spec, status: { observedGeneration: 1 } } as MachineSet);
    await see({ pool: 'a' });
    expect(sent).toEqual([]);
    await see({ pool: 'b' });
    expect(sent).toEqual([`signal ${id}`]);
  });

  it('looks again a second after a machine becomes available: the clock of the worker may be behind', async () => {
    const lastUpdateTime = new Date(Date.now() - 4_000).toISOString();
    const metadata = meta('m', { ...ours, ...controlledBy('s-uid') });
    stores.machines.put({ metadata, status: { currentStatus: { phase: 'Running', lastUpdateTime } } } as Machine);
    const spec = { ...validSetSpec, replicas: 1, minReadySeconds: 10 };
    const annotations = { [names.enforceMinReadySeconds]: 'true' };
    stores.sets.put({ metadata: meta('s', { ...ours, annotations }), spec } as MachineSet);

    expect(controller.againInMs('s-uid')).toBe(7_000);
  });

  describe('of a set with two replicas and one machine that is frozen', () => {
    const machine = (name: string, phase: string, changes: object = {}) =>
      ({
        metadata: meta(name, { ...controlledBy('s-uid'), labels: { pool: 'a' }, ...changes }),
        status: { currentStatus: { phase } },
      }) as Machine;
    async function see(phase: string): Promise<void> {
      stores.machines.put(machine('staying', phase));
      await controller.handle('s-uid');
    }
    async function seeFrozen(isFrozen: boolean): Promise<void> {
      stores.sets.put({
        metadata: meta('s', { ...ours, ...(isFrozen && { labels: { [labels.freeze]: 'True' } }) }),
        spec: { ...validSetSpec, replicas: 2 },
        status: { observedGeneration: 1 },
      } as MachineSet);
      await controller.handle('s-uid');
    }
    beforeEach(async () => {
      stores.machines.put(machine('staying', 'Running'));
      await seeFrozen(true);
      expect(sent).toEqual([`signal ${id}`]);
      sent = [];
    });

    it('signals nothing while none may be created, whatever else changes, and signals when there is something to do', async () => {
      await see('Unknown');
      await see('Running');
      expect(sent).toEqual([]);

      await seeFrozen(false);
      expect(sent).toEqual([`signal ${id}`]);
    });

    it('signals at the next resync what it has withheld', async () => {
      await see('Unknown');
      await resync('s-uid');
      expect(sent).toEqual([`signal ${id}`]);
    });

    it('signals again what there is to do when it could not be done in between', async () => {
      await seeFrozen(false);
      await seeFrozen(true);
      await seeFrozen(false);
      expect(sent).toEqual([`signal ${id}`, `signal ${id}`]);
    });

    it('signals every change while the garbage collector has to release its machines', async () => {
      const orphaning = { finalizers: [...ours.finalizers, 'orphan'], deletionTimestamp: '2026-08-19T12:00:00Z' };
      stores.sets.put({ metadata: meta('s', orphaning), spec: { ...validSetSpec, replicas: 2 } } as MachineSet);
      await controller.handle('s-uid');
      await see('Unknown');
      expect(sent).toEqual([`signal ${id}`, `signal ${id}`]);
    });
  });
});

describe('refreshing a workflow', () => {
  it('does nothing where none is open, and fails for any other reason', async () => {
    refuse = new WorkflowNotFoundError('none', 'x', undefined);
    await requestRefresh(installation, 'x');
    refuse = new Error('no answer');

    await expect(requestRefresh(installation, 'x')).rejects.toThrow('no answer');
  });
});
