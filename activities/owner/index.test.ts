/**
 * Owners of machines from what is read of them to what becomes of them: plans are made and carried out, one after
 * another.
 */
import { describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { annotations, finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { OwnerPlan } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { templateHash } from '../../api/owner/template.ts';
import { toKubernetesTime } from '../../api/time.ts';
import { configMaps, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { inActivity } from '../../test/support/in-activity.ts';
import { nothing, setUpOwners, template } from '../../test/support/live-owners.ts';
import { refOf } from '../../test/support/refs.ts';
import { until } from '../../test/support/until.ts';
import { isEmpty } from '../../workflows/rollout/plan.ts';

const { client, activities, newDeployment, newLoneSet, sets, own, setPhase, read, planFor, settle } = setUpOwners();

async function manage({ metadata }: Machine): Promise<Machine> {
  return client.patch(machines, metadata, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
}

async function annotate({ metadata }: Machine, added: Record<string, string>): Promise<void> {
  await client.patch(machines, metadata, mergePatch({ metadata: { annotations: added } }));
}

/** Steps until there is nothing to do, and answers what was planned for each step. */
async function plansOf(ref: ObjectRef): Promise<OwnerPlan[]> {
  const plans: OwnerPlan[] = [];
  for (let plan = await planFor(ref); !isEmpty(plan); plan = await planFor(ref)) {
    plans.push(plan);
    if (plans.length > 20) throw new Error('no end after 20 steps');
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
  }
  return plans;
}

/** Waits until what is created is younger than the machine: the API server keeps seconds. */
async function untilYounger({ metadata: { namespace = '', creationTimestamp } }: Machine): Promise<void> {
  const probe = { metadata: { namespace, generateName: 'time-' } };
  await until('the API server is in another second', async (see) => {
    const { metadata } = see(await client.create(configMaps, probe, { dryRun: 'All' }));
    return metadata.creationTimestamp !== creationTimestamp;
  });
}

async function finish({ metadata }: Machine): Promise<void> {
  await client.patch(machines, metadata, mergePatch({ metadata: { finalizers: null } }));
}

describe('a deployment from beginning to end', () => {
  it('[mcm 70 partly] [mcm 59] [mcm 69 partly] gets its set and machines, is scaled, and leaves nothing behind', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const [set, ...others] = await sets();
    expect(others).toEqual([]);
    expect(set?.spec?.replicas).toBe(2);
    const made = await own();
    expect(made.map((machine) => controllerOf(machine))).toEqual([set?.metadata.uid, set?.metadata.uid]);
    for (const machine of made) {
      await manage(machine);
      await setPhase(machine, 'Running');
    }
    await settle(ref);
    expect(ownerNeeds((await read(ref)).view)).toEqual([]);

    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 4 } }), { subresource: 'scale' });
    await settle(ref);
    expect(await own()).toHaveLength(4);

    await client.delete(machineDeployments, ref);
    await settle(ref);
    for (const machine of await own()) await finish(machine);
    await settle(ref);
    expect([await own(), await sets(), await client.find(machineDeployments, ref)]).toEqual([[], [], undefined]);
  });

  it('[mcm 63 partly] replaces a Failed machine before the old one is gone', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [first] = await own();
    if (first === undefined) throw new Error('there is no machine');
    await manage(first);
    await setPhase(first, 'Failed');
    await settle(ref);
    const both = await own();
    expect(both).toHaveLength(2);
    const old = both.find(({ metadata }) => metadata.uid === first.metadata.uid);
    expect(old?.metadata.deletionTimestamp).toBeDefined();
    expect(old?.metadata.annotations).toHaveProperty([names.replaced]);
  });

  it('[mcm 61] creates and deletes a hundred machines at most in one step', async () => {
    const ref = await newDeployment({ replicas: 120 });
    const created = (await plansOf(ref)).flatMap(({ create }) => create.map((each) => each.names.length));
    expect(created).toEqual([100, 20]);

    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 0 } }));
    const removed = (await plansOf(ref)).map(({ remove }) => remove.length).filter((count) => count > 0);
    expect(removed).toEqual([100, 20]);
    expect(await own()).toEqual([]);
  });

  it('[mcm 64] is scaled down by the machine of priority 1, then by marked time, phase and age', async () => {
    const ref = await newDeployment({
      ...{ replicas: 1, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: '100%' } } },
    });
    await settle(ref);
    const [oldest] = (await own()) as [Machine];
    await untilYounger(oldest);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 5 } }));
    await settle(ref);
    const [first, marked, unknown, youngest] = (await own()).filter(
      ({ metadata }) => metadata.uid !== oldest.metadata.uid,
    );
    if (!first || !marked || !unknown || !youngest) throw new Error('there are not five machines');
    for (const machine of await own()) await setPhase(await manage(machine), 'Running');
    await setPhase(unknown, 'Unknown');
    await annotate(first, { [annotations.priority]: '1' });
    await annotate(marked, { [annotations.markedForDeletionTime]: '2026-01-01T00:00:00Z' });

    const order: string[] = [];
    for (const replicas of [4, 3, 2, 1]) {
      await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas } }));
      await settle(ref);
      for (const machine of (await own()).filter(({ metadata }) => metadata.deletionTimestamp)) {
        order.push(machine.metadata.name);
        await finish(machine);
      }
    }
    expect(order).toEqual([first, marked, unknown, oldest].map(({ metadata }) => metadata.name));
  });

  it('[mcm 98] is scaled down by preserved machines only when no others are left, the earliest expiry first', async () => {
    const ref = await newDeployment({
      ...{ replicas: 4, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: '100%' } } },
    });
    await settle(ref);
    const [late, early, marked, plain] = await own();
    if (!late || !early || !marked || !plain) throw new Error('there are not four machines');
    for (const machine of await own()) await setPhase(await manage(machine), 'Running');
    const preserve = async ({ metadata }: Machine, preserveExpiryTime: string) =>
      client.patch(machines, metadata, mergePatch({ status: { currentStatus: { preserveExpiryTime } } }), {
        subresource: 'status',
      });
    await preserve(late, '2099-01-02T00:00:00Z');
    await preserve(early, '2099-01-01T00:00:00Z');
    await setPhase(early, 'Unknown');
    await annotate(marked, { [annotations.priority]: '1' });

    const order: string[] = [];
    for (const replicas of [3, 2, 1, 0]) {
      await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas } }));
      await settle(ref);
      for (const machine of (await own()).filter(({ metadata }) => metadata.deletionTimestamp)) {
        order.push(machine.metadata.name);
        await finish(machine);
      }
    }
    expect(order).toEqual([marked, plain, early, late].map(({ metadata }) => metadata.name));
  });

  it('[invariant 7] loses exactly the machines that the autoscaler has marked, though another is not available', async () => {
    const ref = await newDeployment({ replicas: 4 });
    await settle(ref);
    const [unavailable, ...others] = await own();
    if (unavailable === undefined) throw new Error('there is no machine');
    for (const machine of others) await setPhase(await manage(machine), 'Running');
    await setPhase(await manage(unavailable), 'Unknown');
    const marked = others.slice(0, 2);
    for (const machine of marked) await annotate(machine, { [annotations.priority]: '1' });

    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }), { subresource: 'scale' });
    await settle(ref);

    const leaving = (await own()).filter(({ metadata }) => metadata.deletionTimestamp);
    expect(leaving.map(({ metadata }) => metadata.uid).toSorted()).toEqual(
      marked.map(({ metadata }) => metadata.uid).toSorted(),
    );
  });

  it('begins again with a set that somebody deleted', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    for (const machine of await own()) await manage(machine);
    await client.delete(machineSets, set.metadata);
    await settle(ref);
    for (const machine of await own()) await finish(machine);
    await settle(ref);
    const [next] = await sets();
    expect(next?.metadata.name).toBe(set.metadata.name);
    expect(next?.metadata.uid).not.toBe(set.metadata.uid);
    expect(await own()).toHaveLength(1);
  });
});

describe('a deployment whose template changes', () => {
  const large = { ...template, spec: { class: { kind: 'MachineClass', name: 'large' } } };
  const revisionsOf = (one: { metadata: Machine['metadata'] } | undefined) => [
    one?.metadata.annotations?.[annotations.revision],
    one?.metadata.annotations?.[annotations.revisionHistory],
  ];
  const change = (ref: ObjectRef, patch: object) => client.patch(machineDeployments, ref, mergePatch({ spec: patch }));

  /** Machines come up and go away until nothing more happens. */
  async function rollOver(ref: ObjectRef): Promise<void> {
    for (let rounds = 0; rounds < 20; rounds++) {
      await settle(ref);
      const moving = (await own()).filter((one) => one.metadata.deletionTimestamp || !one.status?.currentStatus?.phase);
      if (moving.length === 0) return;
      for (const machine of moving) {
        if (machine.metadata.deletionTimestamp) await finish(machine);
        else await setPhase(await manage(machine), 'Running');
      }
    }
    throw new Error('no end after 20 rounds');
  }

  it('[invariant 5 partly] gives up no starting machine of the old set whose Node is its own and has joined', async () => {
    const ref = await newDeployment({ replicas: 4 });
    await settle(ref);
    const all = await own();
    for (const machine of all) await setPhase(await manage(machine), 'Pending');
    const nodeOf = ({ metadata: { name, namespace } }: Machine, status: string) => ({
      metadata: {
        name,
        labels: { [gardener.marks.nodeMachineLabel]: name },
        annotations: { [names.machine]: `${namespace}/${name}` },
        finalizers: [gardener.marks.nodeFinalizer],
      },
      status: { conditions: [{ type: 'Ready', status }] },
    });
    const [ready, silent, notReady] = [nodeOf(all[0]!, 'True'), nodeOf(all[1]!, 'Unknown'), nodeOf(all[2]!, 'False')];
    for (const node of [ready, silent, notReady]) await client.create(nodes, node);
    await change(ref, { template: large });
    const { view, candidates } = await read(ref);
    expect(view.sets).toMatchObject([{ active: 4, available: 0, starting: 2 }]);
    const others = all.slice(2).map(({ metadata }) => metadata.name);
    expect(candidates.map(({ name }) => name).toSorted()).toEqual(others.toSorted());

    await settle(ref);
    const left = (await own()).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const kept = left.map(({ metadata }) => metadata.name);
    expect(kept).toEqual(expect.arrayContaining([ready.metadata.name, silent.metadata.name]));
    for (const { metadata } of [ready, silent, notReady]) {
      await client.patch(nodes, metadata, mergePatch({ metadata: { finalizers: null } }));
      await client.delete(nodes, metadata);
    }
  });

  it('[mcm 71 partly] [mcm 83] rolls over to a new set, and back to the old one, which becomes the newest', async () => {
    const ref = await newDeployment();
    await rollOver(ref);
    const [first] = await sets();
    expect(revisionsOf(first)).toEqual(['1', undefined]);

    await change(ref, { template: large });
    await rollOver(ref);
    const second = (await sets()).find(({ metadata }) => metadata.uid !== first?.metadata.uid);
    expect((await own()).map((machine) => controllerOf(machine))).toEqual([second?.metadata.uid, second?.metadata.uid]);
    expect([revisionsOf(second), revisionsOf(await client.get(machineDeployments, ref))]).toEqual([
      ['2', undefined],
      ['2', undefined],
    ]);

    await change(ref, { template });
    await rollOver(ref);
    expect((await own()).map((machine) => controllerOf(machine))).toEqual([first?.metadata.uid, first?.metadata.uid]);
    expect(await sets()).toHaveLength(2);
    const [again] = (await sets()).filter(({ metadata }) => metadata.uid === first?.metadata.uid);
    const deployment = await client.get(machineDeployments, ref);
    expect([revisionsOf(again), revisionsOf(deployment)]).toEqual([
      ['3', '1'],
      ['3', undefined],
    ]);
    expect(deployment.status?.conditions).toMatchObject([
      {
        type: 'Progressing',
        status: 'True',
        reason: 'NewMachineSetAvailable',
        message: `MachineSet "${first?.metadata.name}" has successfully progressed.`,
      },
    ]);
    expect(ownerNeeds((await read(ref)).view)).toEqual([]);
  });

  it('[mcm 73] takes an old machine that is not available before one that is, and one that never was at once', async () => {
    const ref = await newDeployment({ replicas: 4 });
    await rollOver(ref);
    const [first, second, third] = await own();
    if (first === undefined || second === undefined || third === undefined) throw new Error('there are no machines');
    await setPhase(second, 'Unknown');
    await setPhase(third, 'Pending');
    const leaving = async () =>
      (await own()).filter(({ metadata }) => metadata.deletionTimestamp).map(({ metadata }) => metadata.name);

    await change(ref, { template: large });
    await settle(ref);
    expect(await leaving()).toEqual([third.metadata.name]);
    const [fresh, next, ...more] = (await own()).filter(({ status }) => !status?.currentStatus?.phase);
    if (fresh === undefined || next === undefined) throw new Error('there is no room for two');
    expect(more).toEqual([]);
    await finish(third);
    await setPhase(await manage(fresh), 'Running');
    await settle(ref);
    expect(await leaving()).toEqual([]);
    // As many are available as have to be: none of the available ones may go, and the Unknown one may.
    await setPhase(await manage(next), 'Running');
    await settle(ref);
    expect(await leaving()).toEqual([second.metadata.name]);
  });

  it('[mcm 71] rolls over for another class name, label or annotation, and for no other nodeTemplate or timeout', async () => {
    const ref = await newDeployment();
    await rollOver(ref);
    const uids = async () => [await own(), await sets()].map((all) => all.map(({ metadata }) => metadata.uid));
    const before = await uids();
    const nodeTemplate = { metadata: { labels: { added: 'yes' } } };
    await change(ref, { template: { spec: { nodeTemplate, drainTimeout: '1h' } } });
    await rollOver(ref);
    expect(await uids()).toEqual(before);

    for (const changed of [
      { metadata: { labels: { added: 'yes' } } },
      { metadata: { annotations: { added: 'yes' } } },
      { spec: { class: { name: 'large' } } },
    ]) {
      const known = new Set((await sets()).map(({ metadata }) => metadata.uid));
      await change(ref, { template: changed });
      await rollOver(ref);
      const [made, ...others] = (await sets()).filter(({ metadata }) => !known.has(metadata.uid));
      expect(others).toEqual([]);
      expect((await own()).map((machine) => controllerOf(machine))).toEqual([made?.metadata.uid, made?.metadata.uid]);
    }
  });

  it('[mcm 82] makes another set for a template of the same hash, and counts the collision', async () => {
    const [one, other] = ['1129599', '1732382'].map((note) => ({
      ...template,
      metadata: { ...template.metadata, annotations: { note } },
    }));
    expect(templateHash(gardener, other)).toBe(templateHash(gardener, one));
    const ref = await newDeployment({ template: one! });
    await rollOver(ref);
    const [first] = await sets();

    await change(ref, { template: other });
    await rollOver(ref);

    expect((await client.get(machineDeployments, ref)).status?.collisionCount).toBe(1);
    const made = (await sets()).filter(({ metadata }) => metadata.uid !== first?.metadata.uid);
    expect(made).toHaveLength(1);
    expect(await sets()).toHaveLength(2);
    expect(made[0]?.spec?.template?.metadata?.annotations).toEqual({ note: '1732382' });
    expect((await own()).map((machine) => controllerOf(machine))).toEqual([
      made[0]?.metadata.uid,
      made[0]?.metadata.uid,
    ]);
  });

  it('[mcm 78] scales and does not roll while it is paused, and rolls when it is resumed', async () => {
    const progressing = async () => (await client.get(machineDeployments, ref)).status?.conditions;
    const ref = await newDeployment();
    await rollOver(ref);
    await change(ref, { template: large, paused: true, replicas: 3 });
    await rollOver(ref);
    const [set, ...others] = await sets();
    expect([others, set?.spec?.replicas, (await own()).length]).toEqual([[], 3, 3]);
    expect(await progressing()).toMatchObject([
      { type: 'Progressing', status: 'Unknown', reason: 'DeploymentPaused', message: 'Deployment is paused' },
    ]);
    expect(ownerNeeds((await read(ref)).view)).toEqual([]);

    await change(ref, { paused: false });
    await activities.actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    expect(await progressing()).toMatchObject([
      { type: 'Progressing', status: 'Unknown', reason: 'DeploymentResumed', message: 'Deployment is resumed' },
    ]);
    await rollOver(ref);
    expect((await own()).map(({ spec: { class: used } = {} }) => used?.name)).toEqual(['large', 'large', 'large']);
    expect(await progressing()).toMatchObject([{ status: 'True', reason: 'NewMachineSetAvailable' }]);
  });
});

describe('a set without a deployment', () => {
  it('[mcm 59] [mcm 69 partly] keeps its machines, and leaves nothing behind', async () => {
    const ref = await newLoneSet(2);
    await settle(ref, 'MachineSet');
    expect(await own()).toHaveLength(2);
    expect(ownerNeeds((await read(ref, 'MachineSet')).view)).toEqual([]);
    await client.delete(machineSets, ref);
    await settle(ref, 'MachineSet');
    expect([await own(), await sets()]).toEqual([[], []]);
  });

  it('is not observed as such when it has a deployment', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    expect(await activities.observeOwner(refOf(set), 'MachineSet', 0)).toBeNull();
  });
});

describe('a set whose deployment is gone', () => {
  it('looks after itself', async () => {
    const gone = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineDeployment', name: 'pool', uid: 'gone' };
    const ref = await newLoneSet(2, { name: 'left', ownerReferences: [{ ...gone, controller: true }] });
    await newDeployment({ replicas: 0 });
    await settle(ref, 'MachineSet');
    expect(await own()).toHaveLength(2);
    await client.delete(machineSets, ref);
    await settle(ref, 'MachineSet');
    expect(await own()).toEqual([]);
    expect(await client.find(machineSets, ref)).toBeUndefined();
  });
});

describe('machines whose labels are not those of the selector', () => {
  it('are deleted with their owner, if that is deleted first', async () => {
    const ref = await newDeployment({ replicas: 3 });
    await settle(ref);
    const [machine] = await own();
    if (machine === undefined) throw new Error('there is no machine');
    await client.delete(machineDeployments, ref);
    await client.patch(machines, machine.metadata, mergePatch({ metadata: { labels: { name: 'debug' } } }));
    await settle(ref);
    expect(await own()).toEqual([]);
    expect(await client.find(machineDeployments, ref)).toBeUndefined();
  });
});

describe('observeOwner', () => {
  it('answers null for an owner that is gone or whose name another one has', async () => {
    const ref = await newDeployment();
    expect(await activities.observeOwner({ ...ref, uid: 'other' }, 'MachineDeployment', 0)).toBeNull();
    expect(await activities.observeOwner({ ...ref, name: 'other' }, 'MachineDeployment', 0)).toBeNull();
    await activities.actOnOwner({ ...ref, uid: 'other' }, 'MachineDeployment', { ...nothing, addFinalizers: true });
    expect((await client.get(machineDeployments, ref)).metadata).not.toHaveProperty('finalizers');
  });

  it('replaces no preserved machine before its time by the clock of Temporal, whatever the worker says', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [machine] = await own();
    const hoursAgo = (hours: number) => Date.now() - hours * 3_600_000;
    const preserveExpiryTime = new Date(hoursAgo(1)).toISOString().replace(/\.\d+/, '');
    const status = { currentStatus: { phase: 'Failed', preserveExpiryTime } };
    await client.patch(machines, machine!.metadata, mergePatch({ status }), { subresource: 'status' });

    const failedAt = async (currentAttemptScheduledTimestampMs: number) => {
      const { view, candidates } = await inActivity({ currentAttemptScheduledTimestampMs }, () => read(ref));
      return [view.sets.map(({ failed }) => failed), candidates.length];
    };
    expect(await failedAt(hoursAgo(2))).toEqual([[0], 0]);
    expect(await failedAt(hoursAgo(0))).toEqual([[1], 1]);
  });

  it.each([
    ['a day ahead', -86_400_000],
    ['a day behind', 86_400_000],
  ])('counts minReadySeconds by the clock of Temporal where that of the worker is %s', async (_, differenceMs) => {
    const ref = await newDeployment({ replicas: 1, minReadySeconds: 60 });
    const asked = { [names.enforceMinReadySeconds]: 'true' };
    await client.patch(machineDeployments, ref, mergePatch({ metadata: { annotations: asked } }));
    await settle(ref);
    const [machine] = await own();
    const lastTransitionTime = toKubernetesTime(new Date(Date.now() + differenceMs));
    const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime }];
    const status = { currentStatus: { phase: 'Running' }, conditions };
    await client.patch(machines, machine!.metadata, mergePatch({ status }), { subresource: 'status' });

    const availableAfter = async (seconds: number) => {
      const currentAttemptScheduledTimestampMs = Date.parse(lastTransitionTime) + seconds * 1_000;
      const { view } = await inActivity({ currentAttemptScheduledTimestampMs }, () => read(ref));
      return view.sets.map(({ available }) => available);
    };
    expect(await availableAfter(59)).toEqual([0]);
    expect(await availableAfter(61)).toEqual([1]);
  });

  it('counts machines of its own sets alone', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.create(machines, {
      metadata: { namespace: ref.namespace, name: 'foreign', labels: { name: 'pool' } },
      spec: template.spec,
    });
    const { view, candidates } = await read(ref);
    expect(view.sets).toMatchObject([{ total: 0 }]);
    expect(candidates).toEqual([]);
  });
});

describe('actOnOwner', () => {
  it('[invariant 9 partly] writes nothing at rest', async () => {
    const ref = await newDeployment();
    await settle(ref);
    for (const machine of await own()) await setPhase(machine, 'Running');
    await settle(ref);
    const before = [await own(), await sets(), await client.get(machineDeployments, ref)];
    await settle(ref);
    expect([await own(), await sets(), await client.get(machineDeployments, ref)]).toEqual(before);
  });
});

it('a set whose machine has failed without having joined gets the next ones at once when another one of its attempt joins', async () => {
  const currentAttemptScheduledTimestampMs = Date.now(); // the pause never ends by itself
  const settleNow = () => inActivity({ currentAttemptScheduledTimestampMs }, () => settle(ref));
  const ref = await newDeployment({ replicas: 3 });
  await settleNow();
  const [oldest, other] = (await own()).toSorted((a, b) =>
    a.metadata.creationTimestamp < b.metadata.creationTimestamp ? -1 : 1,
  );
  const lastOperation = { type: 'Create', state: 'Failed', description: 'no key' };
  const status = { currentStatus: { phase: 'Failed' }, lastOperation };
  await client.patch(machines, oldest!.metadata, mergePatch({ status }), { subresource: 'status' });

  await settleNow();
  const attempts = async () => (await sets()).map(({ metadata }) => metadata.annotations?.[names.failedAttempts]);
  expect(await attempts()).toEqual([expect.stringContaining('"count":1')]);
  expect(await own()).toHaveLength(2);

  await setPhase(other!, 'Running');
  await settleNow();
  expect(await attempts()).toEqual([undefined]);
  expect(await own()).toHaveLength(3);
});
