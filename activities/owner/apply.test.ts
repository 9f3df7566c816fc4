/** What a step makes, changes and takes away. */
import { describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { OwnerPlan } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { recordedCreation } from '../../api/owner/creations.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { newSetName, templateHash } from '../../api/owner/template.ts';
import type { KubeClient } from '../../kube/client.ts';
import { mergePatch } from '../../kube/patch.ts';
import { nothing, setUpOwners, template } from '../../test/support/live-owners.ts';
import { isActive } from '../../test/support/machine-facts.ts';
import { phaseOf } from '../../test/support/owner-world.ts';

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

async function manage({ metadata }: Machine): Promise<Machine> {
  return client.patch(machines, metadata, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
}

describe('actOnOwner', () => {
  it('[mcm 70 partly] makes a set with the hash in labels, selector and template', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    const hash = templateHash(gardener, template);
    const [set] = await sets();
    expect(set).toMatchObject({
      metadata: {
        name: newSetName('pool', hash),
        labels: { name: 'pool', [labels.templateHash]: hash },
        annotations: {
          'example.com/copied': 'yes',
          [annotations.revision]: '1',
          [annotations.desiredReplicas]: '0',
          [annotations.maxReplicas]: '1',
        },
        finalizers: [finalizers.machine],
        ownerReferences: [{ kind: 'MachineDeployment', name: 'pool', uid: ref.uid, controller: true }],
      },
      spec: {
        replicas: 0,
        selector: { matchLabels: { name: 'pool', [labels.templateHash]: hash } },
        template: { metadata: { labels: { name: 'pool', [labels.templateHash]: hash } }, spec: template.spec },
      },
    });
  });

  it('[mcm 82 partly] takes another name when the first one belongs to another template', async () => {
    const name = newSetName('pool', templateHash(gardener, template));
    await newLoneSet(0, { name });
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    const deployment = await client.get(machineDeployments, ref);
    expect(deployment.status?.collisionCount).toBeGreaterThan(0);
    const mine = (await sets()).filter((set) => controllerOf(set) === ref.uid);
    expect(mine).toHaveLength(1);
    expect(mine[0]?.metadata.name).not.toBe(name);
  });

  it.each([
    ['says of a machine that is made in a rollout, and of no other, that it is', true, ['true']],
    ['says nothing where the autoscaler is not kept away', false, [undefined]],
  ])('%s', async (_name, keepsAutoscalerAway, expected) => {
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    const ref = await newDeployment({ replicas: 2, strategy });
    await settle(ref);
    const before = await own();
    for (const machine of before) await setPhase(machine, 'Running');
    const other = { ...template, spec: { class: { kind: 'MachineClass', name: 'large' } } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { template: other } }));
    const { actOnOwner } = activitiesOf(client, undefined, undefined, keepsAutoscalerAway);
    for (let steps = 0; steps < 3; steps++) await actOnOwner(ref, 'MachineDeployment', await planFor(ref));

    const marks = (machine: Machine) => machine.metadata.annotations?.[names.createdInRollout];
    const isNew = ({ metadata }: Machine) => before.every((each) => each.metadata.name !== metadata.name);
    expect(before.map(marks)).toEqual([undefined, undefined]);
    expect((await own()).filter(isNew).map(marks)).toEqual(expected);
  });

  it('claims machines where the namespace limits them, after their set has recorded them, and creates those that are granted', async () => {
    const annotations = { [names.maxProvisioning]: '1' };
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ metadata: { annotations }, spec: { replicas: 3 } }));
    const plan = await planFor(ref);
    const wanted = plan.create.flatMap((creation) => creation.names);
    const wait = { limit: 'provisioning', most: 1, used: 1, holders: [], holderCount: 0, isOwn: true } as const;
    const claims: unknown[] = [];
    const { actOnOwner } = activitiesOf(client, undefined, async (scope, claim) => {
      const [set] = await sets();
      claims.push([scope, claim, set?.metadata.annotations?.[names.creating]?.split(':')[1]?.split(',')]);
      return { granted: claim.names.slice(0, 1), wait };
    });

    const result = await actOnOwner(ref, 'MachineDeployment', plan);

    const { dialect, namespace, name, uid } = ref;
    const claim = { kind: 'MachineDeployment', name, uid, names: wanted };
    expect(claims).toEqual([[{ dialect, namespace }, claim, wanted]]);
    expect((await own()).map(({ metadata }) => metadata.name)).toEqual(wanted.slice(0, 1));
    expect(result.limited).toEqual({ ...wait, names: wanted.slice(1) });
  });

  it('claims nothing for an owner that takes part in no limit', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const { actOnOwner } = activitiesOf(client, undefined, async () => {
      throw new Error('not expected');
    });

    expect(await actOnOwner(ref, 'MachineDeployment', await planFor(ref))).toEqual({});
    expect(await own()).toHaveLength(1);
  });

  it('scales a set and creates its machines however often its counts are written meanwhile', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const plan = await planFor(ref);
    let counts = 0;
    const countedMeanwhile: KubeClient = {
      ...client,
      patch: async (...request) => {
        const [resource, key] = request;
        const isOfSet = resource.plural === machineSets.plural;
        counts += Number(isOfSet);
        const count = mergePatch({ status: { replicas: counts } });
        if (isOfSet && counts < 3) await client.patch(machineSets, key, count, { subresource: 'status' });
        return client.patch(...request);
      },
    };
    await client.patch(machineSets, (await sets())[0]!.metadata, mergePatch({ status: { replicas: 9 } }), {
      subresource: 'status',
    });
    await activitiesOf(countedMeanwhile).actOnOwner(ref, 'MachineDeployment', plan);
    expect(counts).toBeGreaterThan(2);
    expect([(await sets())[0]?.spec?.replicas, (await own()).length]).toEqual([1, 1]);
  });

  it('changes a set once in a step that creates machines, and names them no more once all is done', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 4 } }));
    let patches = 0;
    const counting: KubeClient = {
      ...client,
      patch: async (...request) => {
        patches += Number(request[0].plural === machineSets.plural);
        return client.patch(...request);
      },
    };
    const plan = await planFor(ref);
    const { report: _, ...silent } = plan;
    await activitiesOf(counting).actOnOwner(ref, 'MachineDeployment', silent);
    expect([patches, (await own()).length]).toEqual([1, 4]);
    const named = (await sets())[0]?.metadata.annotations?.[names.creating];
    expect(named).toBe(`${plan.create[0]?.id}:${plan.create[0]?.names.join()}`);

    await settle(ref);
    expect((await sets())[0]?.metadata.annotations).not.toHaveProperty([names.creating]);
    expect((await read(ref)).view.sets).toMatchObject([{ outdated: [] }]);
  });

  /** Has one more machine created, and answers its name: the set records its creation from then on. */
  async function growByOne(ref: ObjectRef, replicas: number): Promise<string> {
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas } }));
    const plan = await planFor(ref);
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    const [name, ...others] = plan.create.flatMap((creation) => creation.names);
    expect([typeof name, others, await recordedNames()]).toEqual(['string', [], [[name]]]);
    return name!;
  }

  const recordedNames = async () => (await sets()).map((set) => recordedCreation(set)?.names);

  it('keeps the record of a creation whose machine is gone before a reading has seen it, and uses its name again for the next one', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const name = await growByOne(ref, 3);
    const first = (await own()).find(({ metadata }) => metadata.name === name)!;
    await client.delete(machines, first.metadata);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    await settle(ref);
    expect([await recordedNames(), (await own()).length]).toEqual([[[name]], 2]);

    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 3 } }));
    await settle(ref);
    const again = (await own()).find(({ metadata }) => metadata.name === name);
    expect(again?.metadata.uid).not.toBe(first.metadata.uid);
    expect([await recordedNames(), (await own()).length]).toEqual([[undefined], 3]);
  });

  it('keeps the record of a completed creation until the rollout is over, and then removes it, though the set needs no scaling', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    await setPhase((await own())[0]!, 'Running');
    const note = { template: { metadata: { annotations: { note: 'b' } } } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: note }));
    await settle(ref);
    const [made] = (await own()).filter(({ metadata }) => metadata.annotations?.['note'] === 'b');
    const newSet = async () => (await sets()).find(({ metadata }) => metadata.uid === controllerOf(made!))!;
    const before = await newSet();
    expect(recordedCreation(before)?.names).toEqual([made?.metadata.name]);
    expect((await own()).length).toBe(2);

    await setPhase(await manage(made!), 'Running');
    await settle(ref);
    const after = await newSet();
    expect([recordedCreation(after), after.metadata.generation]).toEqual([undefined, before.metadata.generation]);
    expect((await own()).length).toBe(1);
  });

  it('[mcm 59 partly] creates a machine once, however often the step is repeated, and none in a set that is another', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    const [set] = await sets();
    const { name = '', uid = '' } = set?.metadata ?? {};
    const planned = [{ name, uid, generation: 1, replicas: 0 }];
    const plan = { ...nothing, sets: planned, create: [{ set: name, uid, id: 'first', names: ['m-1', 'm-2'] }] };
    await Promise.all([1, 2].map(() => activities.actOnOwner(ref, 'MachineDeployment', plan)));
    const made = await own();
    expect(made.map(({ metadata }) => metadata.name)).toEqual(['m-1', 'm-2']);
    expect(made[0]?.metadata).not.toHaveProperty('finalizers');

    const foreign = { ...plan, sets: [{ name, uid: 'other', generation: 1, replicas: 0 }] };
    await activities.actOnOwner(ref, 'MachineDeployment', foreign);
    expect(await own()).toHaveLength(2);
  });

  it.each([
    ['of the deployment', machineDeployments],
    ['of the set', machineSets],
  ])('creates no machine while the label freeze %s is True', async (_name, resource) => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    const plan = await planFor(ref);
    const [set] = await sets();
    const key = { namespace: ref.namespace, name: resource === machineSets ? (set?.metadata.name ?? '') : ref.name };
    await client.patch(resource as typeof machineSets, key, mergePatch({ metadata: { labels: { freeze: 'True' } } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    await settle(ref);
    expect(await own()).toEqual([]);
    await client.patch(resource as typeof machineSets, key, mergePatch({ metadata: { labels: { freeze: 'true' } } }));
    await settle(ref);
    expect(await own()).toHaveLength(2);
  });

  it.each<[string, (machine: Machine) => Promise<unknown>]>([
    ['its node has joined after all', (machine) => setPhase(machine, 'Running')],
    ['the API server does not answer', () => Promise.reject(new Error('no answer'))],
  ])(
    '[invariant 5 partly] a Failed machine that is not deleted, as %s, makes no room when it goes later',
    async (_name, before) => {
      const ref = await newDeployment();
      const annotations = { [names.replacementPolicy]: 'TerminationComplete' };
      await client.patch(machineDeployments, ref, mergePatch({ metadata: { annotations } }));
      await settle(ref);
      const [first, second] = (await own()).map(manage);
      const failed = await first!;
      for (const machine of [failed, await second!]) await setPhase(machine, 'Running');
      await settle(ref);
      await setPhase(failed, 'Failed');
      const meddled: KubeClient = {
        ...client,
        delete: async (...request) => {
          await before(failed);
          return client.delete(...request);
        },
      };
      await activitiesOf(meddled)
        .actOnOwner(ref, 'MachineDeployment', await planFor(ref))
        .catch(() => undefined);
      expect((await own()).filter(isActive)).toHaveLength(2);
      await setPhase(failed, 'Running');

      const change = { spec: { template: { spec: { class: { kind: 'MachineClass', name: 'large' } } } } };
      await client.patch(machineDeployments, ref, mergePatch(change));
      await settle(ref);
      const [fresh] = (await own()).filter((machine) => phaseOf(machine) === '');
      await setPhase(await manage(fresh!), 'Running');
      await settle(ref);
      expect((await own()).map((machine) => isActive(machine)).toSorted()).toEqual([false, true, true]);
    },
  );

  it('goes on with all others where the API server does not keep a setting of one machine, and reports it on the owner', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const [forgetful, other] = await own();
    const change = { template: { ...template, spec: { ...template.spec, drainTimeout: '5m' } }, replicas: 3 };
    await client.patch(machineDeployments, ref, mergePatch({ spec: change }));
    const patch: KubeClient['patch'] = (resource, key, sent, options) => {
      const { spec: _, ...kept } = sent.body as { spec?: object };
      return client.patch(resource, key, key.name === forgetful?.metadata.name ? mergePatch(kept) : sent, options);
    };
    const { actOnOwner } = activitiesOf({ ...client, patch });
    await actOnOwner(ref, 'MachineDeployment', await planFor(ref)); // the set gets it
    await actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const { notKept } = await actOnOwner(ref, 'MachineDeployment', await planFor(ref));

    const name = forgetful?.metadata.name ?? '';
    expect(notKept).toBe(
      `the API server does not keep what was written to machine ${name}: {"spec":{"drainTimeout":"5m"}}. ` +
        'Update the CRDs, or correct the webhook that changes it',
    );
    const has = Object.fromEntries((await own()).map(({ metadata, spec }) => [metadata.name, spec?.drainTimeout]));
    expect(has).toMatchObject({ [name]: undefined, [other?.metadata.name ?? '']: '5m' });
    expect(Object.keys(has)).toHaveLength(3);
    expect((await client.get(machineDeployments, ref)).status?.observedGeneration).toBe(2);
    const ofOwner = events.filter(({ regarding }) => regarding.uid === ref.uid);
    expect(ofOwner).toContainEqual(expect.objectContaining({ reason: 'SettingsNotKept', note: notKept }));
  });

  it('answers that the API server does not keep that a machine is replaced, and records no replacement', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [{ metadata }] = (await own()) as [Machine];
    const askedAt = '2026-08-19T10:20:00Z';
    const currentStatus = { phase: 'Unknown', lastUpdateTime: '2026-08-19T10:10:00Z' };
    const lastOperation = { type: 'HealthCheck', state: 'Failed', lastUpdateTime: askedAt };
    await client.patch(machines, metadata, mergePatch({ status: { currentStatus, lastOperation } }), {
      subresource: 'status',
    });
    const { actOnOwner } = activitiesOf({ ...client, patch: (resource, key) => client.get(resource, key) });
    const { generation, sets: planned } = await planFor(ref);
    const { name, uid, resourceVersion } = metadata;
    const replace = [{ name, uid, resourceVersion, set: planned[0]?.name ?? '', askedAt }];

    const { notKept } = await actOnOwner(ref, 'MachineDeployment', { ...nothing, generation, sets: planned, replace });

    expect(notKept).toContain(`machine ${name}: {"metadata":{"annotations":{"${names.replace}":"${askedAt}"}}}`);
    const reasons = events.filter(({ regarding }) => regarding.uid === ref.uid).map(({ reason }) => reason);
    expect(reasons).toContain('SettingsNotKept');
    expect(reasons).not.toContain('ReplacingMachine');
  });

  it('goes on from the failed attempts that the run knows, where the API server does not keep them on a set', async () => {
    const ref = await newDeployment({ replicas: 1 });
    const patch: KubeClient['patch'] = (resource, key, sent, options) => {
      const { metadata, ...rest } = sent.body as { metadata?: { annotations?: object } };
      const annotations = { ...metadata?.annotations, [names.failedAttempts]: undefined };
      return client.patch(resource, key, mergePatch({ ...rest, metadata: { ...metadata, annotations } }), options);
    };
    const { actOnOwner, observeOwner } = activitiesOf({ ...client, patch });
    const act = async (attempts: OwnerPlan['attempts'] = {}) =>
      actOnOwner(ref, 'MachineDeployment', { ...(await planFor(ref)), attempts });
    const failOne = async (attempts?: OwnerPlan['attempts']) => {
      await settle(ref);
      const [machine] = await own();
      const lastOperation = { type: 'Create', state: 'Failed', description: 'the VM has failed' };
      const failed = mergePatch({ status: { currentStatus: { phase: 'Failed' }, lastOperation } });
      await client.patch(machines, machine!.metadata, failed, { subresource: 'status' });
      return act(attempts);
    };

    const first = await failOne();
    const [set] = await sets();
    const { name } = set!.metadata;
    const recorded = first.attempts?.[name];
    expect(recorded).toMatchObject({ count: 1, reason: 'the VM has failed', until: expect.any(String) });
    expect(first.notKept).toContain(`machine set ${name}: {"metadata":{"annotations":{`);
    expect(set?.metadata.annotations).not.toHaveProperty([names.failedAttempts]);
    const paused = await observeOwner(ref, 'MachineDeployment', 0, { attempts: { [name]: recorded! } });
    expect(paused?.view.sets).toMatchObject([{ failedAttempts: { count: 1, isPaused: true } }]);

    const { until: _, ...underWay } = recorded!;
    expect((await act({ [name]: recorded! })).attempts).toEqual({ [name]: underWay });
    expect((await failOne({ [name]: recorded! })).attempts).toBeUndefined(); // the answer to the step before was lost
    const second = await failOne({ [name]: underWay });
    expect(second.attempts).toMatchObject({ [name]: { count: 2, since: recorded?.since } });
  });

  it('records on a set that machines have failed without having joined, once for a try, and forgets it when one joins', async () => {
    const ref = await newDeployment({
      replicas: 2,
      template: { ...template, spec: { ...template.spec, creationTimeout: '15s' } },
    });
    await settle(ref);
    const fail = async (machine: Machine | undefined) => {
      const status = {
        currentStatus: { phase: 'Failed' },
        lastOperation: { type: 'Create', state: 'Failed', description: 'the VM has failed' },
      };
      const key = machine?.metadata ?? { namespace: '', name: '' };
      await client.patch(machines, key, mergePatch({ status }), { subresource: 'status' });
    };
    const step = async () => activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const tries = async () => JSON.parse((await sets())[0]?.metadata.annotations?.[names.failedAttempts] ?? 'null');

    const [first, second] = await own();
    const startMs = Date.now();
    await fail(first);
    await step();
    const recorded = await tries();
    expect(recorded).toMatchObject({ count: 1, since: first?.metadata.creationTimestamp, reason: 'the VM has failed' });
    const pauseMs = Date.parse(recorded.until) - startMs;
    expect(pauseMs).toBeGreaterThan(13_000);
    expect(pauseMs).toBeLessThan(60_000);
    await fail(second);
    await step();
    expect(await tries()).toEqual(recorded);
    expect(await own()).toEqual([]);
    expect((await planFor(ref)).create).toEqual([]);
    expect(
      events.filter(({ reason, regarding }) => reason === 'CreationPaused' && regarding.uid === ref.uid),
    ).toHaveLength(1);

    const [set] = await sets();
    const over = JSON.stringify({ ...recorded, until: '2020-01-01T00:00:00Z' });
    await client.patch(
      machineSets,
      set!.metadata,
      mergePatch({ metadata: { annotations: { [names.failedAttempts]: over } } }),
    );
    await step();
    expect(await tries()).toEqual({ ...recorded, until: undefined });
    const [third, fourth] = await own();
    await fail(third);
    await step();
    expect(await tries()).toMatchObject({ count: 2, since: recorded.since });

    await setPhase(fourth!, 'Running');
    await step();
    expect(await tries()).toBeNull();
    expect(await own()).toHaveLength(2);

    await fail((await own()).find(({ metadata }) => metadata.uid !== fourth?.metadata.uid));
    const { name } = set!.metadata;
    const { until: _, ...underWay } = { ...recorded, count: 5 };
    await activities.actOnOwner(ref, 'MachineDeployment', {
      ...(await planFor(ref)),
      scale: [{ set: name, replicas: 2, forgetsAttempts: true }],
      attempts: { [name]: underWay },
    });
    const again = await tries();
    expect(again).toMatchObject({ count: 1 });

    const due = JSON.stringify({ ...again, until: '2020-01-01T00:00:00Z' });
    await client.patch(
      machineSets,
      set!.metadata,
      mergePatch({ metadata: { annotations: { [names.failedAttempts]: due } } }),
    );
    await fail(fourth); // of the attempt before the one that the step begins
    await step();
    expect(await tries()).toEqual({ ...again, until: undefined });
  });

  it('adds finalizers beside those of others', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await client.patch(machineDeployments, ref, mergePatch({ metadata: { finalizers: ['example.com/other'] } }));
    await settle(ref);
    const { metadata } = await client.get(machineDeployments, ref);
    expect(metadata.finalizers).toEqual(['example.com/other', finalizers.machine]);
  });

  it('is at rest with a released owner that others hold back', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(
      machineDeployments,
      ref,
      mergePatch({ metadata: { finalizers: ['example.com/other', finalizers.machine] } }),
    );
    const [set] = await sets();
    const { name = '' } = set?.metadata ?? {};
    await client.patch(
      machineSets,
      { namespace: ref.namespace, name },
      mergePatch({ metadata: { finalizers: ['example.com/other', finalizers.machine] } }),
    );
    await client.delete(machineDeployments, ref);
    await settle(ref);
    expect((await client.get(machineDeployments, ref)).metadata.finalizers).toEqual(['example.com/other']);
    expect((await sets()).map(({ metadata }) => metadata.finalizers)).toEqual([['example.com/other']]);
    expect(ownerNeeds((await read(ref)).view)).toEqual([]);
  });
});
