import { beforeEach, describe, expect, it } from '@jest/globals';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { finalizers, labels } from '../api/gardener/names.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import type { KubeObject } from '../api/objects.ts';
import { controllerOf } from '../api/owner/view.ts';
import type { Node } from '../kube/core.ts';
import { createStore } from '../kube/store.ts';
import { requestRefresh } from '../temporal/workflows.ts';
import { validDeploymentSpec, validSetSpec } from '../test/support/valid.ts';
import { createMachineWaker, type MachineWaker } from './machines.ts';
import { createOwnerWaker, type OwnerWaker } from './owners.ts';
import { byController, byUid, type Watches } from './watches.ts';

/** What was sent, in words: `start <id>`, `wake <id>` (with a signal), `look <id>`. */
let sent: string[];
let refuse: Error | undefined;

const workflow = {
  start: async (_type: string, { workflowId }: { workflowId: string }) => send('start', workflowId),
  signalWithStart: async (_type: string, { workflowId }: { workflowId: string }) => send('wake', workflowId),
  getHandle: (id: string) => ({ signal: async (name: string) => send(name, id) }),
};
const installation = { client: { workflow } as unknown as Client, name: 'i' };
const look = (id: string) => void sent.push(`look ${id}`);
const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };

async function send(what: string, id: string): Promise<void> {
  if (refuse !== undefined) throw refuse;
  sent.push(`${what} ${id}`);
}

function createStores() {
  const controller = (object: KubeObject) => [controllerOf(object) ?? ''];
  const uid = ({ metadata }: KubeObject) => [metadata.uid];
  return {
    machines: createStore<Machine>({ [byController]: controller }),
    sets: createStore<MachineSet>({ [byUid]: uid, [byController]: controller }),
    deployments: createStore<MachineDeployment>({ [byUid]: uid }),
    nodes: createStore<Node>(),
  };
}

let stores: ReturnType<typeof createStores>;
let watches: Watches;
let version: number;
beforeEach(() => {
  sent = [];
  refuse = undefined;
  version = 1;
  stores = createStores();
  for (const each of Object.values(stores)) {
    each.setSynced();
    each.setReachable(true);
  }
  const { machines, sets, deployments, nodes } = stores;
  const empty = { get: () => undefined, byIndex: () => [] };
  const parts = { machines: machines.store, sets: sets.store, deployments: deployments.store, nodes: nodes.store };
  watches = { ...parts, classes: empty, secrets: empty } as unknown as Watches;
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

describe('the waker of machines', () => {
  const conditions = [{ type: 'Ready', status: 'True' }];
  let waker: MachineWaker;
  beforeEach(() => {
    waker = createMachineWaker({ watches, installation, defaults, look });
  });

  async function seeMachine(phase: string, changes: object = ours): Promise<void> {
    const metadata = { ...meta('m'), labels: { [labels.node]: 'node' }, ...changes };
    stores.machines.put({ metadata, status: { currentStatus: { phase }, conditions } } as Machine);
    await waker.handle('n/m');
  }
  async function seeNode(status: string): Promise<void> {
    const own = { finalizers: [finalizers.node], labels: { [labels.machineName]: 'm' } };
    const metadata = { ...meta('node', own), namespace: undefined };
    stores.nodes.put({ metadata, status: { conditions: [{ type: 'Ready', status }] } } as unknown as Node);
    await waker.handle('n/m');
  }
  const id = 'i/machine/n/m/m-uid';

  it('starts a new machine, tells it nothing of our own finalizer, and tells it when that is lost', async () => {
    await seeMachine('', {});
    await seeMachine('');
    await seeMachine('Pending');
    expect(sent).toEqual([`start ${id}`]);

    await seeMachine('Pending', {});
    expect(sent.slice(1)).toEqual([`wake ${id}`]);
  });

  it('signals a machine at rest whose finalizer was taken off', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    await seeMachine('Running', {});

    expect(sent).toEqual([`wake ${id}`]);
  });

  it('tells again what has gone and comes back', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    await seeNode('False');
    await seeNode('True');
    expect(sent).toEqual([`wake ${id}`]);

    await seeNode('False');
    expect(sent).toEqual([`wake ${id}`, `wake ${id}`]);
  });

  it('has a deleted machine look when its finalizer is off and others keep the object', async () => {
    const deleted = { deletionTimestamp: '2026-08-19T11:00:00Z' };
    await seeMachine('Terminating', { ...deleted, finalizers: [finalizers.machine, 'another'] });
    sent = [];
    await seeMachine('Terminating', { ...deleted, finalizers: ['another'] });

    expect(sent).toEqual([`look ${id}`]);
  });

  it('starts at a recheck what needs attention, and tells it again when that has changed nothing', async () => {
    await seeMachine('Pending');
    sent = [];
    await waker.recheck('n/m');
    await waker.recheck('n/m');
    await waker.recheck('n/m');
    expect(sent).toEqual([`start ${id}`, `wake ${id}`, `wake ${id}`]);

    await seeMachine('CrashLoopBackOff');
    sent = [];
    await waker.recheck('n/m');
    expect(sent).toEqual([`start ${id}`]);
  });

  it('sends nothing at a recheck of a machine at rest', async () => {
    await seeMachine('Running');
    await seeNode('True');
    sent = [];
    await waker.recheck('n/m');

    expect(sent).toEqual([]);
  });

  it('counts a recheck that failed as none', async () => {
    await seeMachine('Pending');
    sent = [];
    refuse = new Error('no answer');
    await expect(waker.recheck('n/m')).rejects.toThrow('no answer');
    refuse = undefined;
    await waker.recheck('n/m');

    expect(sent).toEqual([`start ${id}`]);
  });

  it('tells everything anew when what was told may be wrong', async () => {
    await seeMachine('Pending');
    sent = [];
    await waker.handle('n/m');
    expect(sent).toEqual([]);

    waker.forget();
    await waker.handle('n/m');
    expect(sent).toEqual([`wake ${id}`]);
  });
});

describe('the waker of owners', () => {
  let waker: OwnerWaker;
  beforeEach(() => {
    waker = createOwnerWaker({ watches, installation, look });
  });

  async function seeSet(changes: object = {}, observedGeneration = 0): Promise<void> {
    const spec = { ...validSetSpec, replicas: 0 };
    stores.sets.put({
      metadata: meta('s', { ...ours, ...changes }),
      spec,
      status: { observedGeneration },
    } as MachineSet);
    await waker.handle('s-uid');
  }
  const seeDeployment = () =>
    stores.deployments.put({ metadata: meta('d'), spec: validDeploymentSpec } as MachineDeployment);
  const id = 'i/machine-set/n/s/s-uid';

  it('has a run look once when its owner needs nothing any more', async () => {
    await seeSet();
    await seeSet({}, 1);
    await waker.handle('s-uid');

    expect(sent).toEqual([`wake ${id}`, `look ${id}`]);
  });

  it('has a run look when its owner is gone', async () => {
    await seeSet();
    stores.sets.retain(new Set());
    await waker.handle('s-uid');

    expect(sent).toEqual([`wake ${id}`, `look ${id}`]);
  });

  it('has the run of a set look when a deployment adopts it', async () => {
    await seeSet();
    seeDeployment();
    await seeSet(controlledBy('d-uid'));

    expect(sent).toEqual([`wake ${id}`, `look ${id}`]);
  });

  it('lets a set whose deployment is gone look after itself, once that is certain', async () => {
    stores.deployments.setReachable(false);
    await seeSet(controlledBy('d-uid'));
    expect(sent).toEqual([]);

    stores.deployments.setReachable(true);
    await waker.handle('s-uid');
    expect(sent).toEqual([`wake ${id}`]);
  });

  it('leaves a set of a deployment to that deployment', async () => {
    seeDeployment();
    await seeSet(controlledBy('d-uid'));
    await waker.handle('d-uid');

    expect(sent).toEqual(['wake i/rollout/n/d/d-uid']);
  });

  it('starts at a recheck what needs something, and tells it again when that has changed nothing', async () => {
    await seeSet();
    sent = [];
    await waker.recheck('s-uid');
    await waker.recheck('s-uid');
    expect(sent).toEqual([`start ${id}`, `wake ${id}`]);

    await seeSet({}, 1);
    sent = [];
    await waker.recheck('s-uid');
    expect(sent).toEqual([]);
  });
});

describe('having a workflow look', () => {
  it('is nothing where none is open, and fails for any other reason', async () => {
    refuse = new WorkflowNotFoundError('none', 'x', undefined);
    await requestRefresh(installation, 'x');
    refuse = new Error('no answer');

    await expect(requestRefresh(installation, 'x')).rejects.toThrow('no answer');
  });
});
