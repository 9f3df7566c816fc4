import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { KubeClient } from '../../kube/client.ts';
import { mergePatch } from '../../kube/patch.ts';
import { nothing, setUpOwners, spec, template } from '../../test/support/live-owners.ts';
import type { OwnerActivities } from './index.ts';

const { client, activitiesOf, newDeployment, sets, own, planFor, settle } = setUpOwners();

/** What the activities have listed. */
let listed: number;
const counting: KubeClient = {
  ...client,
  async list(resource, query) {
    const page = await client.list(resource, query);
    listed += page.items.length;
    return page;
  },
};
const neighbours = 10;
let ref: ObjectRef;
let activities: OwnerActivities;
/** Who has read last, as a run knows it. */
let reader: string | undefined;

/** A deployment with two machines among sets and machines of others, and a worker that has read it. */
beforeEach(async () => {
  ref = await newDeployment();
  await settle(ref);
  const { namespace } = ref;
  for (let i = 0; i < neighbours; i += 1) {
    const metadata = { namespace, name: `other-${i}`, labels: { name: 'other' } };
    await client.create(machineSets, { metadata, spec: { ...spec, replicas: 0 } });
    await client.create(machines, { metadata, spec: template.spec });
  }
  activities = activitiesOf(counting);
  reader = undefined;
  listed = 0;
  expect(await count()).toBe(2);
  expect(listed).toBe(2 * neighbours + 3);
  listed = 0;
});
afterEach(() => {
  jest.restoreAllMocks();
});

/** The machines that a reading counts. */
async function count(seen?: { sets: number; machines: number }, by = activities): Promise<number> {
  const reading = await by.observeOwner(ref, 'MachineDeployment', 0, { ...seen, ...(reader && { reader }) });
  reader = reading?.reader;
  return reading?.view.sets.reduce((sum, { total }) => sum + total, 0) ?? 0;
}

async function relabel(resource: typeof machines | typeof machineSets, name: string): Promise<void> {
  const patch = mergePatch({ metadata: { labels: { name: 'other' } } });
  await client.patch(resource as typeof machines, { namespace: ref.namespace, name }, patch);
}

async function ownMachines(): Promise<Machine[]> {
  return (await own()).filter(({ metadata }) => !metadata.name.startsWith('other'));
}

/** Somebody gives the set another machine, without its labels. */
async function adopt(): Promise<void> {
  const [{ metadata }] = (await ownMachines()) as [Machine];
  const { namespace } = ref;
  const { ownerReferences = [] } = metadata;
  await client.create(machines, { metadata: { namespace, name: 'adopted', ownerReferences }, spec: template.spec });
}

describe('an owner among many', () => {
  it('reads what it owns, and nothing of the others', async () => {
    expect(await count({ sets: 1, machines: 2 })).toBe(2);
    expect(listed).toBe(3);
  });

  it('[invariant 5 partly] counts a machine whose labels were changed, and creates no other for it', async () => {
    const [machine] = await ownMachines();
    await relabel(machines, machine!.metadata.name);
    expect(await count()).toBe(2);
    expect((await planFor(ref)).create).toEqual([]);
  });

  it('[invariant 5 partly] counts the machines of a set whose labels were changed', async () => {
    const { name } = (await sets()).find(({ metadata }) => metadata.ownerReferences !== undefined)!.metadata;
    await relabel(machineSets, name);
    expect(await count()).toBe(2);
  });

  it('counts a set that has lost its labels since another worker created it', async () => {
    const changed = { metadata: { labels: { name: 'pool', rack: '2' } } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { template: changed } }));
    await settle(ref);
    const made = (await sets()).find(({ spec: { template: its } = {} }) => its?.metadata?.labels?.['rack'] === '2');
    await relabel(machineSets, made!.metadata.name);
    const reading = await activities.observeOwner(ref, 'MachineDeployment', 0, { reader: reader! });
    expect(reading?.view.sets).toHaveLength(2);
  });

  it('[invariant 5 partly] counts a machine that loses its labels after another worker has created and read it', async () => {
    const before = (await ownMachines()).map(({ metadata }) => metadata.name);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 3 } }));
    await settle(ref);
    expect(await count(undefined, activitiesOf(client))).toBe(3);
    const made = (await ownMachines()).find(({ metadata }) => !before.includes(metadata.name));
    await relabel(machines, made!.metadata.name);
    expect(await count()).toBe(3);
  });

  it('counts a machine that was adopted without labels, once a watcher has seen it', async () => {
    await adopt();
    expect([await count({ sets: 1, machines: 2 }), await count({ sets: 1, machines: 3 })]).toEqual([2, 3]);
  });

  it('counts it without a watcher a minute later', async () => {
    await adopt();
    jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 61_000);
    expect(await count()).toBe(3);
  });

  it('lists nothing but its own when one of its machines is gone, though a watcher has not seen that yet', async () => {
    const [machine] = await ownMachines();
    await client.delete(machines, machine!.metadata);
    expect(await count({ sets: 1, machines: 2 })).toBe(1);
    expect(listed).toBe(2);
  });

  it('[invariant 2 partly] releases nothing while a set has a machine, also one that no reading has found', async () => {
    await adopt();
    const { generation = 1 } = (await client.get(machineDeployments, ref)).metadata;
    await activities.actOnOwner(ref, 'MachineDeployment', { ...nothing, generation, release: true });
    const [set] = (await sets()).filter(({ metadata }) => metadata.ownerReferences !== undefined);
    expect(set?.metadata).toMatchObject({ finalizers: [finalizers.machine] });
    expect(set?.metadata.deletionTimestamp).toBeUndefined();
  });

  it('reads everything for an owner whose labels no object can have', async () => {
    const selector = { matchLabels: { name: 'not a label' } };
    const wrong = { ...template, metadata: { ...template.metadata, labels: { name: 'not a label' } } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { selector, template: wrong } }));
    expect(await count()).toBe(2);
  });
});
