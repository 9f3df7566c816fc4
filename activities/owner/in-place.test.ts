/** What an owner tells its machines about in-place updates. */
import { describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeploymentStrategy } from '../../api/gardener/schema/machine-deployment.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { inPlaceOrders, names } from '../../api/names.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
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

const orderOf = ({ metadata }: Machine) => metadata.annotations?.[names.inPlaceUpdate];
const isReturning = ({ metadata }: Machine) => metadata.labels?.[labels.updateResult] !== undefined;
const setOrder = ({ metadata }: Machine, order: string) =>
  client.patch(machines, metadata, mergePatch({ metadata: { annotations: { [names.inPlaceUpdate]: order } } }));

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

it('[mcm 100 partly] an in-place update by hand makes no machines above the replicas', async () => {
  const { ref } = await newUpdate(strategyOf('Manual', 1));
  expect((await own()).map(orderOf)).toEqual([candidate, candidate, candidate]);
  expect((await read(ref)).view).toMatchObject({ maxSurge: 0, maxUnavailable: 1 });
});
