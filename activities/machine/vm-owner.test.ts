import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { toMachineSnapshot } from '../../api/gardener/machine/snapshot.ts';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { KubeClient } from '../../kube/client.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { refOf } from '../../test/support/refs.ts';
import { until } from '../../test/support/until.ts';
import { createNodeActivities } from './nodes.ts';
import { createVmOwnerActivities, ownerOf } from './vm-owner.ts';

describe('of Machines that name one VM', () => {
  type Rivals = Parameters<typeof ownerOf>[0];
  const machine = (name: string, minute: number, more: Partial<Rivals[number]> = {}): Rivals[number] => ({
    ...{ name, uid: `uid-${name}`, createdAt: `2026-10-01T10:0${minute}:00Z`, stage: 'running', nodeName: name },
    ...more,
  });
  const asCopy = () => {
    const { nodeName: _, ...copy } = machine('copy', 1, { stage: 'failed' });
    return copy;
  };
  const deletingSince = '2026-10-01T11:00:00Z';

  it.each([
    ['the oldest', [machine('b', 1), machine('a', 2)], 'b'],
    ['that with the lower UID where two are as old', [machine('b', 1), machine('a', 1)], 'a'],
    ['the oldest of those that stay', [machine('a', 1, { deletingSince }), machine('c', 3), machine('b', 2)], 'b'],
    [
      'the oldest where all are being deleted',
      [machine('b', 2, { deletingSince }), machine('a', 1, { deletingSince })],
      'a',
    ],
    ['no copy that has failed while another Machine is left', [asCopy(), machine('a', 2, { deletingSince })], 'a'],
    ['a failed copy that is alone', [asCopy()], 'copy'],
    ['nobody where there are none', [], undefined],
  ])('%s has it', (_what, all, name) => {
    expect(ownerOf(all)?.name).toBe(name);
  });
});

describe('findVmOwner', () => {
  const defaults = { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] };
  const vm = `vm-${randomBytes(4).toString('hex')}`;
  let client: KubeClient;
  let namespace: string;
  beforeAll(async () => {
    client = patient(testClient());
    namespace = await newNamespace(client);
  });
  afterAll(() => client.close());

  const create = (name: string, providerID?: string): Promise<Machine> =>
    client.create(machines, {
      metadata: { namespace, name },
      spec: { class: { kind: 'MachineClass', name: 'small' }, ...(providerID !== undefined && { providerID }) },
    });

  async function createOn(name: string, providerID: string, node: string): Promise<Machine> {
    const { metadata } = await create(name, providerID);
    return client.patch(machines, metadata, mergePatch({ metadata: { labels: { [labels.node]: node } } }));
  }

  function createActivities(control: KubeClient, target = client) {
    const { findNode } = createNodeActivities({ control, target, defaults, findOutage: async () => undefined });
    return createVmOwnerActivities({ control, defaults, findNode });
  }

  it('names the Machine whose Node is marked, whichever is older or is being deleted', async () => {
    const id = `a:///zone/marked-${vm}`;
    const node = `node-${vm}`;
    const older = await createOn('older', id, node);
    const nextMs = Date.parse(older.metadata.creationTimestamp) + 1_000;
    await until('the other is younger', async () => Date.now() >= nextMs);
    const marked = await createOn('younger', id, node);
    await client.create(nodes, {
      metadata: { name: node, finalizers: [finalizers.node], labels: { [labels.machineName]: 'younger' } },
      spec: { providerID: id },
    });
    const { findVmOwner } = createActivities(client);
    const ask = (machine: Machine, isForced = false) =>
      findVmOwner(refOf(machine), toMachineSnapshot(machine, defaults), isForced);

    expect([await ask(older), await ask(marked)]).toEqual([{ name: 'younger' }, {}]);
    await client.patch(machines, marked.metadata, mergePatch({ metadata: { finalizers: ['test/kept'] } }));
    await client.delete(machines, marked.metadata);
    expect([await ask(older), await ask(marked)]).toEqual([{ name: 'younger' }, {}]);

    const unreachable: KubeClient = { ...client, find: () => Promise.reject(new Error('no answer')) };
    const { findVmOwner: findWithout } = createActivities(client, unreachable);
    const [ref, snapshot] = [refOf(older), toMachineSnapshot(older, defaults)];
    await expect(findWithout(ref, snapshot)).rejects.toThrow('no answer');
    expect(await findWithout(ref, snapshot, true)).toEqual({});
  });

  it('names the Machine whose Node is marked also where a restore gave both the same age, whatever their UIDs are', async () => {
    const id = `a:///zone/restored-${vm}`;
    const node = `restored-${vm}`;
    const both = await Promise.all(['restored-1', 'restored-2'].map((name) => createOn(name, id, node)));
    const [lower, higher] = both.toSorted((a, b) => (a.metadata.uid < b.metadata.uid ? -1 : 1)) as [Machine, Machine];
    await client.create(nodes, {
      metadata: { name: node, finalizers: [finalizers.node], labels: { [labels.machineName]: higher.metadata.name } },
      spec: { providerID: id },
    });
    const { creationTimestamp } = lower.metadata;
    const pages: KubeClient['pages'] = async function* (...args) {
      for await (const { items, ...page } of client.pages(...args)) {
        const restored = items.map((item) => ({ ...item, metadata: { ...item.metadata, creationTimestamp } }));
        yield { ...page, items: restored };
      }
    };
    const { findVmOwner } = createActivities({ ...client, pages });
    const ask = (machine: Machine) => findVmOwner(refOf(machine), toMachineSnapshot(machine, defaults));

    expect([await ask(lower), await ask(higher)]).toEqual([{ name: higher.metadata.name }, {}]);
    await client.patch(nodes, { name: node }, mergePatch({ metadata: { finalizers: null, labels: null } }));
    expect([await ask(lower), await ask(higher)]).toEqual([{}, { name: lower.metadata.name }]);
  });

  it('names the other Machine, however its provider ID is written, and lists once for all who ask together', async () => {
    const first = await create('a', `a:///zone/${vm}`);
    await create('c');
    const nextMs = Date.parse(first.metadata.creationTimestamp) + 1_000;
    await until('the copy is younger', async () => Date.now() >= nextMs);
    const copy = await create('b', `a:///region/${vm.toUpperCase()}`);
    let lists = 0;
    const pages: KubeClient['pages'] = (...args) => {
      lists += 1;
      return client.pages(...args);
    };
    const { findVmOwner } = createActivities({ ...client, pages });
    const ask = (machine: Machine) => findVmOwner(refOf(machine), toMachineSnapshot(machine, defaults));

    expect(await Promise.all([ask(copy), ask(first), ask(copy)])).toEqual([{ name: 'a' }, {}, { name: 'a' }]);
    expect(lists).toBe(1);
    await client.delete(machines, first.metadata);
    expect(await ask(copy)).toEqual({});
  });
});
