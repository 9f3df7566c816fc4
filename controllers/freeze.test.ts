/** Freezes on a real API server; the test fills the caches. */
import { afterAll, beforeEach, expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import { annotations, labels } from '../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import { names } from '../api/names.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../api/objects.ts';
import type { EventRecord } from '../kube/events.ts';
import { mergePatch } from '../kube/patch.ts';
import { createStore } from '../kube/store.ts';
import { newNamespace, testClient } from '../test/support/kube.ts';
import { validDeploymentSpec, validSetSpec } from '../test/support/valid.ts';
import type { Controller } from './controller.ts';
import { createFreezeController } from './freeze.ts';
import { indexesOf, type Watches } from './watches.ts';

const client = testClient();
const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
let namespace: string;
let recorded: EventRecord[];
let controller: Controller;
let stores: Readonly<Record<'deployments' | 'sets' | 'machines', ReturnType<typeof createStore<KubeObject>>>>;

afterAll(() => client.close());
beforeEach(async () => {
  namespace = await newNamespace(client);
  recorded = [];
  const indexes = indexesOf(gardener, defaults);
  stores = {
    deployments: createStore<KubeObject>(indexes.deployments),
    sets: createStore<KubeObject>(indexes.sets),
    machines: createStore<KubeObject>(indexes.machines),
  };
  for (const each of Object.values(stores)) {
    each.setSynced();
    each.setReachable(true);
  }
  const entries = Object.entries(stores).map(([kind, { store }]) => [kind, store]);
  controller = createFreezeController({
    control: client,
    watches: Object.fromEntries(entries) as Watches,
    dialect: gardener,
    events: { record: (event) => void recorded.push(event), flush: async () => undefined },
    freezeLimits: { safetyUp: 2, safetyDown: 1 },
    thawedMs: 60_000,
  });
});

/** The caches see all objects as they are, and the owner is handled. */
async function handle({ metadata }: KubeObject): Promise<void> {
  const kinds = { deployments: machineDeployments, sets: machineSets, machines };
  for (const [kind, resource] of Object.entries(kinds)) {
    const { items } = await client.list(resource as Resource<KubeObject>, { namespace });
    for (const item of items) stores[kind as keyof typeof kinds].put(item);
  }
  await controller.handle(metadata.uid);
}

const newSet = (change: object = {}): Promise<MachineSet> =>
  client.create(machineSets, {
    metadata: { namespace, name: 'set', ...change },
    spec: { ...validSetSpec, replicas: 1 },
  });

const ownedBy = (resource: Resource<KubeObject>, { metadata: { name, uid } }: KubeObject) => ({
  ownerReferences: [{ apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid, controller: true }],
});

async function addMachines(set: MachineSet, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    const metadata = { namespace, name, ...ownedBy(machineSets, set) };
    await client.create(machines, { metadata, spec: { class: { kind: 'MachineClass', name: 'small' } } });
  }
}

async function isFrozen(resource: Resource<MachineSet> | Resource<MachineDeployment>, name: string): Promise<boolean> {
  const { metadata, status } = await client.get(resource as Resource<MachineSet & MachineDeployment>, {
    namespace,
    name,
  });
  const conditions = [...(status?.machineSetCondition ?? []), ...(status?.conditions ?? [])];
  const hasLabel = metadata.labels?.[labels.freeze] === 'True';
  expect(conditions.some(({ type, status: value }) => type === 'Frozen' && value === 'True')).toBe(hasLabel);
  return hasLabel;
}

const reasons = () => recorded.map(({ reason }) => reason);

it('freezes a set without a deployment at twice its replicas and two, and thaws it at one machine less', async () => {
  const set = await newSet();
  await addMachines(set, 'a', 'b', 'c');
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(false);

  await addMachines(set, 'd');
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(true);

  await client.patch(machineSets, { namespace, name: 'set' }, mergePatch({ spec: { replicas: 2 } }));
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(false);
  expect(reasons()).toEqual(['FrozeMachineSet', 'UnfrozeMachineSet']);
});

it('writes and records nothing where nothing changes', async () => {
  const set = await newSet();
  await addMachines(set, 'a', 'b', 'c', 'd');
  await handle(set);
  const before = await client.get(machineSets, { namespace, name: 'set' });
  await handle(set);
  await controller.resync?.(set.metadata.uid);

  expect(await client.get(machineSets, { namespace, name: 'set' })).toEqual(before);
  expect(reasons()).toEqual(['FrozeMachineSet']);
});

it('leaves a set that a person has thawed until a machine is added, and names no count in its Events', async () => {
  const set = await newSet();
  await addMachines(set, 'a', 'b', 'c', 'd');
  await handle(set);
  const asked = mergePatch({ metadata: { annotations: { [annotations.unfreeze]: 'yes' } } });
  await client.patch(machineSets, { namespace, name: 'set' }, asked);
  await handle(set);
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(false);
  const { metadata } = await client.get(machineSets, { namespace, name: 'set' });
  expect(metadata.annotations?.[annotations.unfreeze]).toBeUndefined();

  await addMachines(set, 'e');
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(true);
  expect(reasons()).toEqual(['FrozeMachineSet', 'UnfrozeMachineSet', 'FrozeMachineSet']);
  expect(recorded[2]).toEqual(recorded[0]);
});

it('reads the deployment live: a cache that lags behind a scale-up freezes nothing', async () => {
  const spec = { ...validDeploymentSpec, replicas: 1 };
  const deployment = await client.create(machineDeployments, { metadata: { namespace, name: 'pool' }, spec });
  const set = await newSet(ownedBy(machineDeployments, deployment));
  await addMachines(set, 'a', 'b', 'c', 'd', 'e', 'f');
  await client.patch(machineDeployments, { namespace, name: 'pool' }, mergePatch({ spec: { replicas: 9 } }));
  stores.deployments.put(deployment);
  stores.sets.put(set);
  for (const machine of (await client.list(machines, { namespace })).items) stores.machines.put(machine);
  await controller.handle(deployment.metadata.uid);
  expect(await isFrozen(machineSets, 'set')).toBe(false);
  expect(await isFrozen(machineDeployments, 'pool')).toBe(false);

  await client.patch(machineDeployments, { namespace, name: 'pool' }, mergePatch({ spec: { replicas: 1 } }));
  await handle(deployment);
  expect(await isFrozen(machineSets, 'set')).toBe(true);
  expect(await isFrozen(machineDeployments, 'pool')).toBe(true);
});

it('counts the machines that a set has released, says so, and looks at the set when one of them changes', async () => {
  const set = await newSet();
  await addMachines(set, 'a');
  const release = (name: string) =>
    client.create(machines, {
      metadata: { namespace, name, annotations: { [names.releasedBy]: 'set' } },
      spec: { class: { kind: 'MachineClass', name: 'small' } },
    });
  const [kept, deleted] = [await release('b'), await release('c'), await release('d')];
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(true);
  const { status } = await client.get(machineSets, { namespace, name: 'set' });
  expect(status?.machineSetCondition?.find(({ type }) => type === 'Frozen')?.message).toBe(
    'The number of machines backing MachineSet: set is 4 >= 4 which is the Max-ScaleUp-Limit; it has released 3 of them because of their labels',
  );

  const { uid } = set.metadata;
  const forgotten = { ...kept, metadata: { ...kept.metadata, annotations: {} } };
  const leaving = { ...deleted, metadata: { ...deleted.metadata, deletionTimestamp: '2026-08-19T10:00:00Z' } };
  expect(controller.hears.machines?.({ kind: 'updated', previous: kept, object: forgotten })).toContain(uid);
  expect(controller.hears.machines?.({ kind: 'updated', previous: deleted, object: leaving })).toContain(uid);
  expect(controller.hears.machines?.({ kind: 'updated', previous: kept, object: kept })).toEqual([]);

  await client.delete(machines, { namespace, name: 'c' });
  stores.machines.remove(deleted);
  await handle(set);
  expect(await isFrozen(machineSets, 'set')).toBe(false);
});
