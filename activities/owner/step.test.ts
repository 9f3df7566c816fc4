/**
 * That a step does what was planned only as long as everything is as it was planned for, and what is left of one that
 * fails.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import { finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { Candidate } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { mergePatch } from '../../kube/patch.ts';
import { nothing, setUpOwners, template } from '../../test/support/live-owners.ts';
import { isActive } from '../../test/support/machine-facts.ts';
import { until } from '../../test/support/until.ts';
import type { ClaimMachines } from './step.ts';

const { client, activities, activitiesOf, newDeployment, sets, own, setPhase, planFor, settle } = setUpOwners();

/** A machine that may be deleted. */
function candidate({ metadata }: Machine, change: Partial<Candidate> = {}): Candidate {
  const { name, uid, resourceVersion } = metadata;
  return { name, uid, resourceVersion, set: '', failed: false, ...change };
}

/** Keeps a machine from vanishing at once when it is deleted. */
async function hold({ metadata }: Machine): Promise<void> {
  await client.patch(machines, metadata, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
}

describe('actOnOwner', () => {
  it('makes no set for a template that has changed since it was planned', async () => {
    const ref = await newDeployment();
    const plan = await planFor(ref);
    const other = { ...template, spec: { class: { kind: 'MachineClass', name: 'large' } } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { template: other } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect(await sets()).toEqual([]);
  });

  it('makes nothing for an owner that was deleted since it was planned', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 5 } }));
    const plan = await planFor(ref);
    await client.delete(machineDeployments, ref);
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect(await own()).toHaveLength(2);
  });

  it('makes no set for a deployment that is deleted while its finalizer is put on', async () => {
    const ref = await newDeployment();
    const plan = await planFor(ref);
    expect(plan).toMatchObject({ addFinalizers: true, createSet: { replicas: 2 } });
    const late: KubeClient = {
      ...client,
      patch: async (...request) => {
        const patched = await client.patch(...request);
        if (request[0].plural === machineDeployments.plural) await client.delete(machineDeployments, ref);
        return patched as never;
      },
    };
    await activitiesOf(late).actOnOwner(ref, 'MachineDeployment', plan);
    expect(await sets()).toEqual([]);
  });

  it('scales no set of which the spec has changed since it was planned', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const plan = await planFor(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    await client.patch(machineSets, set.metadata, mergePatch({ spec: { minReadySeconds: 9 } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect((await sets())[0]?.spec?.replicas).toBe(0);
    expect(await own()).toEqual([]);
  });

  it('[invariant 5 partly] carries out nothing that was planned for another generation of the owner', async () => {
    const ref = await newDeployment({ replicas: 5 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const plan = await planFor(ref);
    expect(plan.remove).toHaveLength(4);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 5 } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect((await own()).filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toHaveLength(5);
    expect((await sets())[0]?.spec?.replicas).toBe(5);
  });

  it('[invariant 5 partly] deletes and creates nothing in a set that has other replicas than were planned', async () => {
    const ref = await newDeployment({ replicas: 2 });
    await settle(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    const candidates = (await own()).map((machine) => candidate(machine, { set: set.metadata.name }));
    const plan = { ...(await planFor(ref)), remove: candidates };
    await client.patch(machineSets, set.metadata, mergePatch({ spec: { replicas: 7 } }));
    const create = [{ set: set.metadata.name, uid: set.metadata.uid, id: 'first', names: ['more'] }];
    await activities.actOnOwner(ref, 'MachineDeployment', { ...plan, create });
    expect((await own()).map(({ metadata }) => metadata.name)).toEqual(candidates.map(({ name }) => name));
  });

  it('[invariant 5 partly] deletes no machine that has changed since it was planned', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const before = await own();
    const [first, second] = before;
    if (first === undefined || second === undefined) throw new Error('there are no machines');
    await setPhase(first, 'Running');
    const another = candidate(second, { uid: 'other' });
    const [set] = await sets();
    const { name = '', uid = '' } = set?.metadata ?? {};
    const remove = [candidate(first), candidate(first, { failed: true }), another].map((one) => ({
      ...one,
      set: name,
    }));
    const planned = [{ name, uid, generation: 1, replicas: 2 }];
    await activities.actOnOwner(ref, 'MachineDeployment', { ...nothing, sets: planned, remove });
    const left = await own();
    expect(left).toHaveLength(2);
    expect(left.map(({ metadata }) => metadata.annotations)).toEqual(
      before.map(({ metadata }) => metadata.annotations),
    );
  });

  it('[invariant 5 partly] stops between two batches when the owner is changed', async () => {
    const ref = await newDeployment({ replicas: 50 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 0 } }));
    let deleted = 0;
    const meddler: KubeClient = {
      ...client,
      delete: async (...request) => {
        deleted += 1;
        if (deleted === 1) await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 50 } }));
        return client.delete(...request);
      },
    };
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    expect((await own()).length).toBeGreaterThanOrEqual(30);
  });

  it.each([
    ['its owner', 'MachineDeployment'],
    ['their set', 'MachineSet'],
  ])(
    'deletes no more machines once %s is deleted with --cascade=orphan, in the middle of a step',
    async (_name, kind) => {
      const ref = await newDeployment({ replicas: 50 });
      await settle(ref);
      for (const machine of await own()) await hold(machine);
      if (kind === 'MachineDeployment') await client.delete(machineDeployments, ref);
      else await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 0 } }));
      const [set] = await sets();
      let deleted = 0;
      const orphan = { propagationPolicy: 'Orphan' } as const;
      const meddler: KubeClient = {
        ...client,
        delete: async (...request) => {
          deleted += 1;
          if (deleted === 1 && kind === 'MachineDeployment') await client.delete(machineDeployments, ref, orphan);
          if (deleted === 1 && kind === 'MachineSet') await client.delete(machineSets, set!.metadata, orphan);
          return client.delete(...request);
        },
      };
      const plan = await planFor(ref);
      expect(plan.remove).toHaveLength(50);
      await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', plan);
      expect(deleted).toBe(20);
      expect((await planFor(ref)).remove).toEqual([]);
      expect((await own()).filter(isActive)).toHaveLength(30);
    },
  );

  it('leaves nothing under way and begins nothing more when a request fails', async () => {
    const ref = await newDeployment({ replicas: 60 });
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    let asked = 0;
    let underWay = 0;
    let created = 0;
    const failing: KubeClient = {
      ...client,
      create: async (...request) => {
        asked += 1;
        if (asked === 4) throw new Error('the fourth one fails');
        underWay += 1;
        const made = await client.create(...request);
        created += 1;
        underWay -= 1;
        return made;
      },
    };
    const plan = await planFor(ref);
    const step = activitiesOf(failing).actOnOwner(ref, 'MachineDeployment', plan);
    await expect(step).rejects.toThrow('the fourth one fails');
    expect(underWay).toBe(0);
    expect(created).toBe(6);
    expect(await own()).toHaveLength(created);

    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect(await own()).toHaveLength(60);
  });

  it('[mcm 60 partly] creates one machine, then two, then four, and so on', async () => {
    const ref = await newDeployment({ replicas: 20 });
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const batches: number[] = [];
    let underWay = 0;
    const counting: KubeClient = {
      ...client,
      create: async (...request) => {
        if (underWay === 0) batches.push(0);
        underWay += 1;
        batches[batches.length - 1]! += 1;
        await turn();
        const made = await client.create(...request);
        underWay -= 1;
        return made;
      },
    };
    await activitiesOf(counting).actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    expect(batches).toEqual([1, 2, 4, 8, 5]);
  });

  it.each([
    [20, { machinedeployments: 1, machinesets: 1 }],
    [50, { machinedeployments: 2, machinesets: 2 }],
  ])('reads the owner and the set again after 20 machines or more: %i', async (replicas, expected) => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas } }));
    const { report: _, ...plan } = await planFor(ref); // a report reads for itself
    const reads: Record<string, number> = {};
    const counting: KubeClient = {
      ...client,
      find: (...request) => {
        const { plural } = request[0];
        reads[plural] = (reads[plural] ?? 0) + 1;
        return client.find(...request);
      },
    };

    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now()); // a reading serves for a second
    await activitiesOf(counting)
      .actOnOwner(ref, 'MachineDeployment', plan)
      .finally(() => clock.mockRestore());

    expect(await own()).toHaveLength(replicas);
    expect(reads).toEqual(expected);
  });

  it.each<[string, (ref: ObjectRef) => Promise<void>]>([
    [
      'in a set that was released',
      async () => {
        const released = mergePatch({ metadata: { ownerReferences: null } });
        for (const { metadata } of await sets()) await client.patch(machineSets, metadata, released);
      },
    ],
    [
      'of a deployment that was changed',
      async (ref) => {
        await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 0 } }));
      },
    ],
  ])('creates no machine %s while it waited for the grant of its machines', async (_, meanwhile) => {
    const ref = await newDeployment();
    await client.patch(
      machineDeployments,
      ref,
      mergePatch({ metadata: { annotations: { [names.maxProvisioning]: '5' } } }),
    );
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const plan = await planFor(ref);
    const grantLate: ClaimMachines = async (_, claim) => {
      await meanwhile(ref);
      return { granted: claim.names };
    };

    await activitiesOf(client, undefined, grantLate).actOnOwner(ref, 'MachineDeployment', plan);

    expect(plan.create[0]?.names).toHaveLength(2);
    expect(await own()).toEqual([]);
  });

  it('begins nothing once nobody waits for it any longer', async () => {
    const ref = await newDeployment();
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const plan = await planFor(ref);
    const given = activitiesOf(client, AbortSignal.abort(new Error('given up')));
    await expect(given.actOnOwner(ref, 'MachineDeployment', plan)).rejects.toThrow('given up');
    expect(await own()).toEqual([]);
  });

  it('[invariant 5 partly] creates no machine beside those of a step that was lost and is still under way', async () => {
    const ref = await newDeployment({ replicas: 60 });
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const lost = await planFor(ref);
    let resume = () => {};
    const isRolloutSuspended = new Promise<void>((resolve) => {
      resume = resolve;
    });
    let made = 0;
    const held: KubeClient = {
      ...client,
      create: async (...request) => {
        if (++made > 5) await isRolloutSuspended;
        return client.create(...request);
      },
    };
    const underWay = activitiesOf(held).actOnOwner(ref, 'MachineDeployment', lost);
    await until('five machines were made', async (see) => see(await own()).length === 5);

    // Another run takes over, which knows nothing but what it reads.
    const next = await planFor(ref);
    await activities.actOnOwner(ref, 'MachineDeployment', next);
    expect(await own()).toHaveLength(60);
    await client.delete(machines, { namespace: ref.namespace, name: lost.create[0]?.names[50] ?? '' });
    resume();
    await underWay;

    expect(await own()).toHaveLength(59);
    // What was planned before the other run began finds that one in its place, and does nothing.
    const begin = mergePatch({ metadata: { annotations: { [names.creating]: 'pool-other' } } });
    await client.patch(machineSets, (await sets())[0]!.metadata, begin);
    await activities.actOnOwner(ref, 'MachineDeployment', next);
    expect(await own()).toHaveLength(59);
  });
});
