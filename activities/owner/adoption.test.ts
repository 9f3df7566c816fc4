/** Which machines a set adopts and releases, and which of them the autoscaler takes, on a real API server. */
import { describe, expect, it } from '@jest/globals';
import { annotations, finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import type { KubeClient } from '../../kube/client.ts';
import { mergePatch } from '../../kube/patch.ts';
import { setUpOwners, spec, template } from '../../test/support/live-owners.ts';

const {
  client,
  events,
  activities,
  activitiesOf,
  newDeployment,
  newLoneSet,
  sets,
  own,
  setPhase,
  read,
  planFor,
  settle,
} = setUpOwners();

const label = (machine: Machine, labels: Record<string, string>) =>
  client.patch(machines, machine.metadata, mergePatch({ metadata: { labels } }));
const annotate = (ref: ObjectRef, added: Record<string, string>, changes: object = {}) =>
  client.patch(machineDeployments, ref, mergePatch({ metadata: { annotations: added }, spec: changes }));
const uidOf = ({ metadata }: Machine) => metadata.uid;
/** Events of releases and adoptions, on an owner and a machine. */
const changesOf = ({ uid }: ObjectRef, machine: Machine) =>
  events
    .filter(
      ({ regarding, reason }) => [uid, uidOf(machine)].includes(regarding.uid ?? '') && /ed(Machine)?$/.test(reason),
    )
    .map(({ type, reason, note }) => `${type} ${reason} ${note}`);

async function newMachine(ref: ObjectRef, name: string, labels: Record<string, string>): Promise<Machine> {
  return client.create(machines, { metadata: { namespace: ref.namespace, name, labels }, spec: template.spec });
}

/** Machines that run, and stay until their finalizer goes. */
async function run(ref: ObjectRef): Promise<Machine[]> {
  await settle(ref);
  for (const machine of await own()) {
    await client.patch(machines, machine.metadata, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
    await setPhase(machine, 'Running');
  }
  await settle(ref);
  return own();
}

describe('a set', () => {
  it('[mcm 62 partly] adopts a machine that it selects, instead of making one', async () => {
    const ref = await newLoneSet(2);
    const free = await newMachine(ref, 'free', { name: 'pool' });
    const other = await newMachine(ref, 'other', { name: 'other' });
    await settle(ref, 'MachineSet');
    const found = await own();
    expect(found).toHaveLength(3);
    expect(found.filter((machine) => controllerOf(machine) === ref.uid).map(uidOf)).toContain(uidOf(free));
    const [adopted, left] = [free, other].map((one) => found.find((each) => uidOf(each) === uidOf(one)));
    expect(adopted?.metadata.ownerReferences).toMatchObject([
      { kind: 'MachineSet', name: 'lone', uid: ref.uid, controller: true, blockOwnerDeletion: true },
    ]);
    expect(left?.metadata).not.toHaveProperty('ownerReferences');
    expect(ownerNeeds((await read(ref, 'MachineSet')).view)).toEqual([]);
  });

  it('[mcm 62 partly] releases a machine that it selects no more, makes another one, and adopts the first one again', async () => {
    const ref = await newLoneSet(1);
    await settle(ref, 'MachineSet');
    const [machine] = (await own()) as [Machine];
    await label(machine, { name: 'debug' });
    await settle(ref, 'MachineSet');
    const [released, next] = (await own()).toSorted((a) => (uidOf(a) === uidOf(machine) ? -1 : 1));
    expect(released?.metadata).toMatchObject({ uid: uidOf(machine), labels: { name: 'debug' } });
    expect(released?.metadata).not.toHaveProperty('ownerReferences');
    expect(released?.metadata).not.toHaveProperty('deletionTimestamp');
    expect(controllerOf(next!)).toBe(ref.uid);
    expect(released?.metadata.annotations).toMatchObject({ [names.releasedBy]: 'lone' });
    const kept = ' because of its label name: it keeps its VM, and nobody replaces or deletes it';
    expect(changesOf(ref, machine)).toEqual([
      `Warning Released MachineSet lone has released it${kept}`,
      `Warning ReleasedMachine MachineSet lone has released machine ${machine.metadata.name}${kept}`,
    ]);

    await client.patch(machineSets, ref, mergePatch({ spec: { replicas: 2 } }));
    await label(machine, { name: 'pool' });
    await settle(ref, 'MachineSet');
    expect((await own()).map((one) => controllerOf(one))).toEqual([ref.uid, ref.uid]);
    expect((await client.get(machines, machine.metadata)).metadata.annotations ?? {}).not.toHaveProperty(
      names.releasedBy,
    );
    expect(changesOf(ref, machine).slice(2)).toEqual([
      'Normal Adopted MachineSet lone has adopted it',
      `Normal AdoptedMachine MachineSet lone has adopted machine ${machine.metadata.name}`,
    ]);
  });

  it('deletes what is too much after an adoption, and nothing before', async () => {
    const ref = await newLoneSet(1);
    await settle(ref, 'MachineSet');
    const [first] = (await own()) as [Machine];
    await setPhase(first, 'Running');
    await newMachine(ref, 'free', { name: 'pool' });
    const plan = await planFor(ref, 'MachineSet');
    expect(plan).toMatchObject({ ownerChanges: [{ name: 'free', set: 'lone', isAdopted: true }], remove: [] });
    await settle(ref, 'MachineSet');
    expect((await own()).map(uidOf)).toEqual([uidOf(first)]);
  });

  it('[mcm 62 partly] adopts no machine that another set selects, too', async () => {
    const ref = await newLoneSet(0);
    await client.create(machineSets, {
      metadata: { namespace: ref.namespace, name: 'rival' },
      spec: { ...spec, strategy: undefined, replicas: 0 } as never,
    });
    const free = await newMachine(ref, 'free', { name: 'pool' });
    await settle(ref, 'MachineSet');
    expect((await own()).map(({ metadata }) => [metadata.uid, metadata.ownerReferences])).toEqual([
      [uidOf(free), undefined],
    ]);
    await client.delete(machineSets, { namespace: ref.namespace, name: 'rival' });
    await client.patch(machineSets, ref, mergePatch({ spec: { replicas: 1 } }));
    await settle(ref, 'MachineSet');
    expect((await own()).map((one) => [uidOf(one), controllerOf(one)])).toEqual([[uidOf(free), ref.uid]]);
  });

  it('of a deployment adopts machines with the hash of its template, and no others', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [set] = await sets();
    const labels = set!.spec!.template!.metadata!.labels!;
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    const ours = await newMachine(ref, 'ours', labels);
    const others = await newMachine(ref, 'others', { name: 'pool' });
    await settle(ref);
    const controllers = new Map((await own()).map((machine) => [uidOf(machine), controllerOf(machine)]));
    expect(controllers.size).toBe(3);
    expect([controllers.get(uidOf(ours)), controllers.get(uidOf(others))]).toEqual([set?.metadata.uid, undefined]);
  });

  it.each<[string, (ref: ObjectRef, machine: Machine) => Promise<unknown>]>([
    ['the set is deleted', (ref) => client.delete(machineSets, ref)],
    ['the machine is deleted', async (_, { metadata }) => client.delete(machines, metadata)],
    ['the machine gets other labels', (_, machine) => label(machine, { name: 'debug' })],
    [
      'the machine gets another controller',
      async (_, { metadata }) => {
        const owner = { apiVersion: 'v1', kind: 'MachineSet', name: 'x', uid: 'x', controller: true };
        await client.patch(machines, metadata, mergePatch({ metadata: { ownerReferences: [owner] } }));
      },
    ],
  ])('adopts nothing when %s just before that', async (_, happen) => {
    const ref = await newLoneSet(0, { finalizers: [finalizers.machine] });
    await settle(ref, 'MachineSet');
    const free = await newMachine(ref, 'free', { name: 'pool' });
    await client.patch(machines, free.metadata, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
    const plan = await planFor(ref, 'MachineSet');
    expect(plan.ownerChanges).toHaveLength(1);
    let isFirst = true;
    const meddler: KubeClient = {
      ...client,
      patch: async (...request) => {
        if (isFirst) {
          isFirst = false;
          await happen(ref, free);
        }
        return client.patch(...request);
      },
    };
    const isOfSet = _ === 'the set is deleted';
    if (isOfSet) await happen(ref, free);
    await (isOfSet ? activities : activitiesOf(meddler)).actOnOwner(ref, 'MachineSet', plan);
    expect((await own()).map((machine) => controllerOf(machine))).not.toContain(ref.uid);
  });
});

it('a deployment adopts a set that it selects and nobody controls, with its machines, and says so', async () => {
  const free = await newLoneSet(1, { labels: { name: 'pool' } });
  await settle(free, 'MachineSet');
  const [machine] = (await own()) as [Machine];
  const ref = await newDeployment({ replicas: 1 });
  await settle(ref);
  expect((await sets()).map((set) => [set.metadata.name, controllerOf(set)])).toEqual([['lone', ref.uid]]);
  expect((await own()).map(uidOf)).toEqual([uidOf(machine)]);
  expect(
    events.filter(({ regarding, reason }) => regarding.uid === ref.uid && reason.startsWith('Adopted')),
  ).toMatchObject([{ type: 'Normal', reason: 'AdoptedMachineSet', note: 'Adopted MachineSet lone' }]);
});

describe('machines that a deployment lists to be deleted', () => {
  const { triggerDeletion, lastReplicaChangeByScalerTime, markedForDeletionTime, priority } = annotations;
  const time = '2026-08-19T10:00:00Z';
  const later = '2026-08-19T11:00:00Z';
  const listOf = async (ref: ObjectRef) =>
    (await client.get(machineDeployments, ref)).metadata.annotations?.[triggerDeletion];
  const leaving = async () => (await own()).filter(({ metadata }) => metadata.deletionTimestamp).map(uidOf);

  it('[mcm 65 partly] [invariant 7] are those that go when the replicas drop, and stay listed until then', async () => {
    const ref = await newDeployment({ replicas: 4 });
    const [a, b, c, d] = (await run(ref)) as [Machine, Machine, Machine, Machine];
    await setPhase(a, 'Unknown');
    await setPhase(b, 'Pending');
    const list = `${c.metadata.name}~${time},${d.metadata.name}~${time},gone~${time},~,x~soon`;
    await annotate(ref, { [triggerDeletion]: list, [lastReplicaChangeByScalerTime]: time }, { replicas: 2 });

    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    expect(await leaving()).toEqual([]);
    expect(await listOf(ref)).toBe(`${c.metadata.name}~${time},${d.metadata.name}~${time}`);
    for (const { metadata } of [c, d]) {
      const { metadata: marked } = await client.get(machines, metadata);
      expect(marked.annotations).toMatchObject({ [priority]: '1', [markedForDeletionTime]: time });
    }
    await settle(ref);
    expect((await leaving()).toSorted()).toEqual([c, d].map(uidOf).toSorted());
    expect(await listOf(ref)).toBeUndefined();
    expect(await own()).toHaveLength(4);
  });

  it('[mcm 66 partly] [invariant 7] stay while the replicas have not changed since they were marked, and go then, replaced where they are missed', async () => {
    const ref = await newDeployment({ replicas: 2 });
    const [a] = (await run(ref)) as [Machine, Machine];
    const list = `${a.metadata.name}~${later}`;
    await annotate(ref, { [triggerDeletion]: list, [lastReplicaChangeByScalerTime]: time });
    await settle(ref);
    expect([await leaving(), await listOf(ref)]).toEqual([[], list]);
    expect(ownerNeeds((await read(ref)).view)).toEqual([]);

    await annotate(ref, { [lastReplicaChangeByScalerTime]: later });
    await settle(ref);
    expect([await leaving(), await listOf(ref)]).toEqual([[uidOf(a)], undefined]);
    expect(await own()).toHaveLength(3);
  });

  it('are those of the deployment alone', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await run(ref);
    const other = await newMachine(ref, 'other', { name: 'other' });
    await annotate(ref, { [triggerDeletion]: `other~${time}`, [lastReplicaChangeByScalerTime]: time });
    await settle(ref);
    expect(await listOf(ref)).toBeUndefined();
    expect((await client.get(machines, other.metadata)).metadata).not.toHaveProperty('annotations');
  });

  it('keep what is listed while they are marked', async () => {
    const ref = await newDeployment({ replicas: 2 });
    const [a, b] = (await run(ref)) as [Machine, Machine];
    await annotate(ref, { [triggerDeletion]: `${a.metadata.name}~${time},gone~${time}` });
    const both = `${a.metadata.name}~${time},${b.metadata.name}~${time},gone~${time}`;
    let isFirst = true;
    const meddler: KubeClient = {
      ...client,
      patch: async (...request) => {
        if (isFirst) {
          isFirst = false;
          await annotate(ref, { [triggerDeletion]: both });
        }
        return client.patch(...request);
      },
    };
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    expect(await listOf(ref)).toBe(both);
    await settle(ref);
    expect(await listOf(ref)).toBe(both.replace(`,gone~${time}`, ''));
  });

  it('are found on a paused deployment as well', async () => {
    const ref = await newDeployment({ replicas: 2 });
    const [, b] = (await run(ref)) as [Machine, Machine];
    const listed = { [triggerDeletion]: b.metadata.name };
    await annotate(ref, listed, { paused: true, replicas: 1 });
    await settle(ref);
    expect(await leaving()).toEqual([uidOf(b)]);
  });
});

describe('old sets beyond the history limit', () => {
  const change = (ref: ObjectRef, name: string) =>
    client.patch(
      machineDeployments,
      ref,
      mergePatch({ spec: { template: { spec: { class: { kind: 'MachineClass', name } } } } }),
    );

  it('[mcm 81 partly] are deleted, the oldest first, and none while a rollout goes on', async () => {
    const ref = await newDeployment({ replicas: 1, revisionHistoryLimit: 1 });
    const roll = async (name: string) => {
      await change(ref, name);
      await settle(ref);
      const before = (await sets()).length;
      for (let round = 0; round < 4; round++) {
        for (const machine of await own()) {
          const patch = mergePatch({ metadata: { finalizers: null } });
          if (machine.metadata.deletionTimestamp) await client.patch(machines, machine.metadata, patch);
          else await setPhase(machine, 'Running');
        }
        await settle(ref);
      }
      return before;
    };
    await run(ref);
    expect([await roll('b'), await roll('c'), await roll('d')]).toEqual([2, 3, 3]);
    const left = (await sets()).map((set) => set.spec?.template?.spec?.class?.name);
    expect(left.toSorted()).toEqual(['c', 'd']);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { revisionHistoryLimit: 0 } }));
    await settle(ref);
    expect((await sets()).map((set) => set.spec?.template?.spec?.class?.name)).toEqual(['d']);
    expect(await own()).toHaveLength(1);
  });
});
