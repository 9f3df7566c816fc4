/** What a step says about owner and sets: conditions, generations, revisions and Events. */
import { describe, expect, it } from '@jest/globals';
import { annotations } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import type { KubeClient } from '../../kube/client.ts';
import { StatusError } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { nothing, setUpOwners, spec } from '../../test/support/live-owners.ts';
import { planLateReport } from '../../workflows/rollout/plan.ts';

const { client, events, activities, activitiesOf, newDeployment, newLoneSet, sets, own, read, planFor, settle } =
  setUpOwners();

describe('actOnOwner', () => {
  it('reports the progress and keeps the conditions of others', async () => {
    const ref = await newDeployment({ replicas: 0 });
    const available = { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable', message: 'yes' };
    await client.patch(machineDeployments, ref, mergePatch({ status: { conditions: [available] } }), {
      subresource: 'status',
    });
    await settle(ref);
    const { status, metadata }: MachineDeployment = await client.get(machineDeployments, ref);
    expect(status?.observedGeneration).toBe(metadata.generation);
    expect(status?.conditions).toMatchObject([
      available,
      { type: 'Progressing', status: 'True', reason: 'NewMachineSetAvailable' },
    ]);
    expect((await sets()).map((set) => set.status?.observedGeneration === set.metadata.generation)).toEqual([true]);
  });

  it('records what it did as Events on deployment and set', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const recorded = events.filter(({ regarding }) => regarding.namespace === ref.namespace);
    expect(new Set(recorded.map(({ reason, regarding }) => `${regarding.kind} ${reason}`))).toEqual(
      new Set(['MachineDeployment ScalingMachineSet', 'MachineSet SuccessfulCreate']),
    );
  });

  it('words what it scales, creates and deletes as machine-controller-manager does', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const names = (await own()).map(({ metadata }) => metadata.name);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    await settle(ref);
    const [set] = await sets();
    const left = (await own()).map(({ metadata }) => metadata.name);
    const [added] = left.filter((name) => !names.includes(name));
    const [deleted] = names.filter((name) => !left.includes(name));

    const notes = events
      .filter(({ regarding }) => regarding.namespace === ref.namespace)
      .map(({ reason, note }) => `${reason} ${note}`);
    expect(new Set(notes)).toEqual(
      new Set([
        `ScalingMachineSet Scaled up machine set ${set?.metadata.name} to 2`,
        ...names.map((name) => `SuccessfulCreate Created Machine: ${name}`),
        `ScalingMachineSet Scaled down machine set ${set?.metadata.name} to 1`,
        `SuccessfulDelete Deleted machine: ${deleted}`,
        `DeletedByOwner scale-down of MachineDeployment ${ref.name}`,
        `SuccessfulCreate Created Machine: ${added}`,
      ]),
    );
  });

  it('writes on sets and deployment what is asked for, and in which revision', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 3 } }));
    await settle(ref);
    expect((await sets())[0]?.metadata.annotations).toMatchObject({
      [annotations.desiredReplicas]: '3',
      [annotations.maxReplicas]: '4',
    });
    const strategy = { rollingUpdate: { maxSurge: 5 } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { strategy } }));
    await settle(ref);
    expect((await sets())[0]?.metadata).toMatchObject({
      generation: 2,
      annotations: { [annotations.maxReplicas]: '8' },
    });
    const { metadata } = await client.get(machineDeployments, ref);
    expect(metadata.annotations).toMatchObject({ [annotations.revision]: '1' });
  });

  it('takes note of the generation that it acted upon, not of one that came meanwhile', async () => {
    const ref = await newDeployment({ replicas: 0 });
    const plan = await planFor(ref);
    const meddler: KubeClient = {
      ...client,
      create: async (...request) => {
        await client.patch(machineDeployments, ref, mergePatch({ spec: { paused: true } }));
        return client.create(...request);
      },
    };
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', plan);
    const { metadata, status } = await client.get(machineDeployments, ref);
    expect([metadata.generation, status?.observedGeneration]).toEqual([2, 1]);
  });

  it('takes note of the generation of a set that it has scaled itself, and of no later one', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const meddler: KubeClient = {
      ...client,
      create: async (...request) => {
        const [set] = await sets();
        if (set !== undefined)
          await client.patch(machineSets, set.metadata, mergePatch({ spec: { minReadySeconds: 9 } }));
        return client.create(...request);
      },
    };
    const plan = await planFor(ref);
    const [set] = await sets();
    const create = [{ set: set?.metadata.name ?? '', uid: set?.metadata.uid ?? '', id: 'first', names: ['m-1'] }];
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', { ...plan, create });
    const [after] = await sets();
    expect([after?.metadata.generation, after?.status?.observedGeneration]).toEqual([3, 2]);
  });
});

describe('machines that the API server refuses', () => {
  const refusal = new StatusError('POST machines', 403, { reason: 'Forbidden', message: 'exceeded quota: 2 machines' });
  const failureOf = async (ref: ObjectRef) => {
    const { status } = await client.get(machineDeployments, ref);
    const recorded = (await sets()).map((set) => set.status?.machineSetCondition ?? []);
    return [...recorded, status?.conditions?.filter(({ type }) => type === 'ReplicaFailure') ?? []];
  };
  const toldOf = (reason: string) => ({
    type: 'ReplicaFailure',
    status: 'True',
    reason,
    message: expect.stringContaining('exceeded quota'),
  });

  it('[mcm 68] are reported by set and deployment, and not any more once they are there', async () => {
    const ref = await newDeployment();
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const refused: KubeClient = {
      ...client,
      create: async () => {
        throw refusal;
      },
    };
    const fail = async () => activitiesOf(refused).actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    await expect(fail()).rejects.toThrow('exceeded quota');
    expect(await failureOf(ref)).toMatchObject([[toldOf('FailedCreate')], [toldOf('FailedCreate')]]);
    const [set] = await sets();
    const recorded = events.filter(({ regarding }) => regarding.uid === set?.metadata.uid);
    expect(recorded).toMatchObject([{ type: 'Warning', reason: 'FailedCreate' }]);
    expect(ownerNeeds((await read(ref)).view)).toContain('status');

    await expect(fail()).rejects.toThrow('exceeded quota');
    expect((await sets())[0]?.metadata.resourceVersion).toBe(set?.metadata.resourceVersion);
    await activities.actOnOwner(ref, 'MachineDeployment', planLateReport((await read(ref)).view, 'no progress'));
    expect(await failureOf(ref)).toMatchObject([[toldOf('FailedCreate')], [toldOf('FailedCreate')]]);

    await settle(ref);
    expect(await own()).toHaveLength(2);
    expect(await failureOf(ref)).toEqual([[], []]);
  });

  it('[mcm 68 partly] are reported when they cannot be deleted, and not any more once none has to be', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const refused: KubeClient = {
      ...client,
      delete: async () => {
        throw refusal;
      },
    };
    const plan = await planFor(ref);
    const step = activitiesOf(refused).actOnOwner(ref, 'MachineDeployment', plan);
    await expect(step).rejects.toThrow('exceeded quota');
    expect(await failureOf(ref)).toMatchObject([[toldOf('FailedDelete')], [toldOf('FailedDelete')]]);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    await settle(ref);
    expect(await failureOf(ref)).toEqual([[], []]);
  });

  it('[mcm 68 partly] are reported by a set without a deployment', async () => {
    const ref = await newLoneSet(1);
    const refused: KubeClient = {
      ...client,
      create: async () => {
        throw refusal;
      },
    };
    await activities.actOnOwner(ref, 'MachineSet', { ...nothing, addFinalizers: true });
    const plan = await planFor(ref, 'MachineSet');
    await expect(activitiesOf(refused).actOnOwner(ref, 'MachineSet', plan)).rejects.toThrow('exceeded quota');
    expect((await client.get(machineSets, ref)).status?.machineSetCondition).toMatchObject([toldOf('FailedCreate')]);
    await settle(ref, 'MachineSet');
    expect((await client.get(machineSets, ref)).status?.machineSetCondition ?? []).toEqual([]);
    expect(ownerNeeds((await read(ref, 'MachineSet')).view)).toEqual([]);
  });
});

describe('an owner that is not valid', () => {
  it('[mcm 4 partly] gets a condition that says why and nothing else, until it is mended', async () => {
    const ref = await newDeployment({ selector: {} });
    await settle(ref);
    const { metadata, status } = await client.get(machineDeployments, ref);
    expect(status?.conditions).toMatchObject([
      {
        type: 'Progressing',
        status: 'False',
        reason: 'InvalidSpec',
        message: expect.stringContaining('spec.selector'),
      },
    ]);
    expect(status?.observedGeneration).toBe(metadata.generation);
    expect(metadata).not.toHaveProperty('finalizers');
    expect([await sets(), ownerNeeds((await read(ref)).view)]).toEqual([[], []]);

    await client.patch(machineDeployments, ref, mergePatch({ spec: { selector: spec.selector } }));
    await settle(ref);
    expect(await own()).toHaveLength(2);
    expect((await client.get(machineDeployments, ref)).status?.conditions).toMatchObject([{ status: 'True' }]);
  });

  it('keeps its machines when it was valid before, and can be deleted', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { selector: { matchLabels: null }, replicas: 0 } }));
    await settle(ref);
    expect(await own()).toHaveLength(2);
    await client.delete(machineDeployments, ref);
    await settle(ref);
    expect([await own(), await sets(), await client.find(machineDeployments, ref)]).toEqual([[], [], undefined]);
  });

  it('[mcm 4 partly] says it as ReplicaFailure when it is a set', async () => {
    const ref = await newLoneSet(1);
    await client.patch(machineSets, ref, mergePatch({ spec: { selector: { matchLabels: null } } }));
    await settle(ref, 'MachineSet');
    const failure = { type: 'ReplicaFailure', status: 'True', reason: 'InvalidSpec' };
    expect((await client.get(machineSets, ref)).status?.machineSetCondition).toMatchObject([failure]);
    expect([await own(), ownerNeeds((await read(ref, 'MachineSet')).view)]).toEqual([[], []]);
    await client.patch(machineSets, ref, mergePatch({ spec: { selector: spec.selector } }));
    await settle(ref, 'MachineSet');
    expect(await own()).toHaveLength(1);
    expect((await client.get(machineSets, ref)).status).not.toHaveProperty('machineSetCondition.0');
  });
});
