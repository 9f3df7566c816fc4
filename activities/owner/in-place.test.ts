/** What an owner tells its machines about in-place updates. */
import { describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeploymentStrategy } from '../../api/gardener/schema/machine-deployment.ts';
import { orderOf, toOrder } from '../../api/in-place-order.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { inPlaceOrders, names } from '../../api/names.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { mergePatch } from '../../kube/patch.ts';
import { setUpOwners, template } from '../../test/support/live-owners.ts';
import { refOf } from '../../test/support/refs.ts';

const { client, newDeployment, sets, own, setPhase, read, settle } = setUpOwners();
const { candidate, selected, updated, released } = inPlaceOrders;

const strategyOf = (orchestrationType: 'Auto' | 'Manual', maxSurge = 0): MachineDeploymentStrategy => ({
  type: 'InPlaceUpdate',
  inPlaceUpdate: { maxSurge, maxUnavailable: 1, orchestrationType },
});

const change = (ref: ObjectRef, note: string) =>
  client.patch(machineDeployments, ref, mergePatch({ spec: { template: { metadata: { annotations: { note } } } } }));

const isReturning = ({ metadata }: Machine) => metadata.labels?.[labels.updateResult] !== undefined;
const setOrder = (machine: Machine, order: string) => {
  const annotations = { [names.inPlaceUpdate]: toOrder(order, controllerOf(machine) ?? '') };
  return client.patch(machines, machine.metadata, mergePatch({ metadata: { annotations } }));
};

/** Three machines in the middle of an update: one is selected, the others are candidates. */
async function newUpdate(strategy = strategyOf('Auto')): Promise<{ ref: ObjectRef; turn: Machine }> {
  const ref = await newDeployment({ replicas: 3, strategy });
  await settle(ref);
  for (const machine of await own()) await setPhase(machine, 'Running');
  await settle(ref);
  await change(ref, 'b');
  await settle(ref);
  const turn = (await own()).find((machine) => orderOf(machine) === selected);
  return { ref, turn: turn! };
}

describe('an in-place update whose template goes back', () => {
  it('is over for machines that are not drained yet', async () => {
    const { ref } = await newUpdate();
    expect((await own()).map(orderOf).toSorted()).toEqual([candidate, candidate, selected]);
    await change(ref, template.metadata.annotations.note);
    expect(ownerNeeds((await read(ref)).view)).toContain('inPlace');
    await settle(ref);
    expect((await own()).map(orderOf)).toEqual([released, released, released]);
  });

  it('goes on for one whose agent may be at it, and ends when that succeeds', async () => {
    const { ref, turn } = await newUpdate();
    await setPhase(turn, 'InPlaceUpdating');
    await change(ref, template.metadata.annotations.note);
    await settle(ref);
    expect((await own()).map(orderOf).toSorted()).toEqual([released, released, selected]);
    await setOrder(turn, updated);
    expect(ownerNeeds((await read(ref)).view)).toContain('inPlace');
    await settle(ref);
    const back = await client.get(machines, turn.metadata);
    expect([orderOf(back), isReturning(back)]).toEqual([undefined, true]);
    expect(back.metadata.ownerReferences).toEqual(turn.metadata.ownerReferences);
    expect(back.metadata.labels).toMatchObject(turn.metadata.labels ?? {});
  });

  it('is over, too, where the deployment is deleted without its machines', async () => {
    const { ref } = await newUpdate();
    const old = (await sets()).find(({ spec }) => spec?.replicas === 3);
    const lone = await client.patch(machineSets, old!.metadata, mergePatch({ metadata: { ownerReferences: null } }));
    await settle(refOf(lone), 'MachineSet');
    expect((await own()).map(orderOf)).toEqual([released, released, released]);
    expect(ref.uid).not.toBe(lone.metadata.uid);
  });
});

it('an in-place update whose Node is gone goes on with the next machine once that one is replaced', async () => {
  const { ref, turn } = await newUpdate();
  const ordersOfOthers = async () =>
    (await own())
      .filter(({ metadata }) => metadata.uid !== turn.metadata.uid)
      .map(orderOf)
      .toSorted();
  for (const phase of ['InPlaceUpdating', 'InPlaceUpdateFailed', 'Unknown']) {
    await setPhase(turn, phase);
    await settle(ref);
    expect(await ordersOfOthers()).toEqual([candidate, candidate]);
  }

  await setPhase(turn, 'Failed');
  await settle(ref);
  const all = await own();
  const [made] = all.filter((machine) => orderOf(machine) === undefined);
  expect([all.length, await client.find(machines, turn.metadata)]).toEqual([3, undefined]);
  expect(await ordersOfOthers()).toEqual([candidate, candidate, undefined]);

  await setPhase(made!, 'Running');
  await settle(ref);
  expect(await ordersOfOthers()).toEqual([candidate, selected, undefined]);
});

describe('an in-place update that machine-controller-manager has left half done', () => {
  const unordered = mergePatch({ metadata: { annotations: { [names.inPlaceUpdate]: null } } });

  /**
   * As `newUpdate`, but nothing of ours is on the machines: one has what MCM's node agent or a person has brought
   * about.
   */
  async function newLeft(orchestrationType: 'Auto' | 'Manual', reason: string, phase: string) {
    const { ref } = await newUpdate(strategyOf(orchestrationType));
    const all = await own();
    for (const { metadata } of all) await client.patch(machines, metadata, unordered);
    const [turn] = all;
    const time = new Date().toISOString();
    const condition = { type: 'InPlaceUpdate', status: 'True', reason, lastTransitionTime: time };
    const status = { currentStatus: { phase }, conditions: [condition] };
    await client.patch(machines, turn!.metadata, mergePatch({ status }), { subresource: 'status' });
    await settle(ref);
    return { ref, turn: turn! };
  }

  const ordersBeside = async (turn: Machine) =>
    (await own()).filter(({ metadata }) => metadata.uid !== turn.metadata.uid).map(orderOf);

  it.each([
    ['Auto', 'SelectedForUpdate', 'Running'],
    ['Auto', 'ReadyForUpdate', 'InPlaceUpdating'],
    ['Auto', 'UpdateFailed', 'InPlaceUpdateFailed'],
    ['Manual', 'SelectedForUpdate', 'Running'],
    ['Manual', 'UpdateFailed', 'InPlaceUpdateFailed'],
  ] as const)(
    '%s, %s: selects, replaces and creates none beside it, and hands it over when it is updated',
    async (orchestrationType, reason, phase) => {
      const { ref, turn } = await newLeft(orchestrationType, reason, phase);
      expect(await ordersBeside(turn)).toEqual([candidate, candidate]);

      await setPhase(turn, 'Running');
      await setOrder(turn, updated);
      await settle(ref);
      const uids = (await own()).map(({ metadata }) => metadata.uid);
      expect([uids.length, uids.includes(turn.metadata.uid)]).toEqual([3, true]);
      const newSet = (await sets()).find(({ spec }) => spec?.template?.metadata?.annotations?.['note'] === 'b');
      const handedOver = await client.get(machines, turn.metadata);
      expect(handedOver.metadata.ownerReferences).toMatchObject([{ uid: newSet?.metadata.uid, controller: true }]);
    },
  );
});

it('[mcm 100 partly] an in-place update by hand makes no machines above the replicas', async () => {
  const { ref } = await newUpdate(strategyOf('Manual', 1));
  expect((await own()).map(orderOf)).toEqual([candidate, candidate, candidate]);
  expect((await read(ref)).view).toMatchObject({ maxSurge: 0, maxUnavailable: 1 });
});
