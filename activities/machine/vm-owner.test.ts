import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { toMachineSnapshot } from '../../api/gardener/machine/snapshot.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { KubeClient } from '../../kube/client.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { refOf } from '../../test/support/refs.ts';
import { until } from '../../test/support/until.ts';
import { createVmOwnerActivities, type NamingMachine, ownerOf } from './vm-owner.ts';

describe('of Machines that name one VM', () => {
  const machine = (name: string, minute: number, more: Partial<NamingMachine> = {}): NamingMachine => ({
    ...{ name, uid: `uid-${name}`, createdAt: `2026-10-01T10:0${minute}:00Z`, providerID: 'a:///b/1' },
    ...more,
  });
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
    const { findVmOwner } = createVmOwnerActivities({ control: { ...client, pages }, defaults });
    const ask = (machine: Machine) => findVmOwner(refOf(machine), toMachineSnapshot(machine, defaults));

    expect(await Promise.all([ask(copy), ask(first), ask(copy)])).toEqual([{ name: 'a' }, {}, { name: 'a' }]);
    expect(lists).toBe(1);
    await client.delete(machines, first.metadata);
    expect(await ask(copy)).toEqual({});
  });
});
