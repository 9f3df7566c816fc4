import { describe, expect, it } from '@jest/globals';
import { machines } from '../../../api/gardener/resources.ts';
import { names } from '../../../api/names.ts';
import { MemoryCluster } from '../../../kube/memory-cluster.ts';
import { createWorld, template, type WorldOptions } from '../../../test/support/owner-world.ts';
import type { OwnedObjects } from '../../owner-state.ts';
import { planManifest, planText, removals } from './plan.ts';
import { simulate } from './simulation.ts';

/** Simulates the rollout of another template of a deployment whose machines all run. */
async function simulateRollout(
  options: Omit<WorldOptions, 'limit'>,
  changes: object = {},
  annotations: Readonly<Record<string, string>> = {},
  others: Required<OwnedObjects> = { deployments: [], sets: [], machines: [] },
) {
  const world = createWorld({ ...options, limit: 100 });
  world.addSet('a', options.replicas, true);
  for (const machine of world.machines) {
    world.edit(machines, machine, {
      metadata: { finalizers: ['machine.sapcloud.io/machine-controller'] },
      status: { currentStatus: { phase: 'Running' } },
    });
  }
  world.editSpec({ template: template('b'), ...changes });
  const { deployment, sets, machines: owned } = world;
  const { metadata } = deployment!;
  const changed = {
    ...deployment!,
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
  };
  const objects = { ...others, sets: [...sets, ...others.sets], machines: [...owned, ...others.machines] };
  return { world, simulation: await simulate(changed, objects) };
}

/** Another deployment of the namespace, with one set that has so many machines, all of them running. */
function otherPool(count: number, replicas: number, annotations: Readonly<Record<string, string>>) {
  const meta = (name: string, owner?: { readonly kind: string; readonly name: string }) => ({
    ...{ name, uid: name, namespace: 'n', resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z' },
    ...(owner && { ownerReferences: [{ apiVersion: 'x', ...owner, uid: owner.name, controller: true }] }),
  });
  const set = { kind: 'MachineSet', name: 'other-a' };
  return {
    deployments: [{ metadata: { ...meta('other'), annotations }, spec: { replicas } }],
    sets: [{ metadata: meta('other-a', { kind: 'MachineDeployment', name: 'other' }), spec: { replicas: count } }],
    machines: Array.from({ length: count }, (_, i) => ({
      metadata: meta(`other-a-${i}`, set),
      status: { currentStatus: { phase: 'Running' } },
    })),
  };
}

describe('rollout plan', () => {
  it('shows machines and bounds of each step', async () => {
    const { world, simulation } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 });

    const [a, b] = world.machines.map(({ metadata }) => metadata.name).toSorted();
    const lines = planText({ namespace: 'n', name: 'pool', ...simulation }).split('\n');
    const set = simulation.steps[0]?.createSet ?? '';
    expect(lines.map((line) => line.replaceAll(/ {2,}/g, '  '))).toEqual([
      'MachineDeployment n/pool: 5 steps, RollingUpdate, 2 replicas',
      'STEP  ACTION  OLD  NEW  LEAVING  MACHINES (<=3)  AVAILABLE (>=2)',
      '  now  2  0  0  2  2',
      `1  create machine set ${set}  2  0  0  2  2`,
      `2  create 1 in ${set}  2  1  0  3  2`,
      `3  delete ${a}  1  1  1  2  2`,
      `4  create 1 in ${set}  1  2  0  3  2`,
      `5  delete ${b}  0  2  1  2  2`,
      '  end  0  2  0  2  2',
      'assumed: each new machine becomes ready, and each deletion and update in place ends, before the next step',
      'assumed: nothing else changes meanwhile, and no unhealthy machine asks to be replaced',
    ]);
  });

  it('takes it that a machine that somebody has deleted is gone after the first step', async () => {
    const { world } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 });
    const [first, ...others] = world.machines;
    const deleted = { ...first!, metadata: { ...first!.metadata, deletionTimestamp: '2026-08-19T10:00:00Z' } };
    const owned = { sets: world.sets, machines: [deleted, ...others] };
    const { before, steps, after } = await simulate(world.deployment!, owned);

    expect([before, ...steps, after].map(({ old, new: fresh, leaving }) => [old, fresh, leaving])).toEqual([
      [1, 0, 1],
      [1, 0, 1],
      [1, 2, 0],
      [0, 2, 1],
      [0, 2, 0],
    ]);
  });

  it('counts machines that are being deleted where the deployment asks for that', async () => {
    const annotations = { [names.replacementPolicy]: 'TerminationComplete' };
    const { simulation } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 }, {}, annotations);

    const counts = simulation.steps.map(({ old, new: fresh, leaving, total }) => [old, fresh, leaving, total]);
    expect(counts).toEqual([
      [2, 0, 0, 2],
      [2, 1, 0, 3],
      [1, 1, 1, 3],
      [1, 2, 0, 3],
      [0, 2, 1, 3],
    ]);
  });

  it('shows whose turn it is in an in-place update, and who is handed over', async () => {
    const strategy = {
      type: 'InPlaceUpdate',
      inPlaceUpdate: { maxSurge: 0, maxUnavailable: 1, orchestrationType: 'Auto' },
    };
    const { world, simulation } = await simulateRollout({ replicas: 2, maxSurge: 0, maxUnavailable: 1 }, { strategy });

    const [a, b] = world.machines.map(({ metadata }) => metadata.name).toSorted();
    const set = simulation.steps[0]?.createSet ?? '';
    const lines = planText({ namespace: 'n', name: 'pool', ...simulation }).split('\n');
    expect(lines.slice(0, -2).map((line) => line.replaceAll(/ {2,}/g, '  '))).toEqual([
      'MachineDeployment n/pool: 5 steps, InPlace, 2 replicas',
      'STEP  ACTION  OLD  NEW  LEAVING  MACHINES (<=2)  AVAILABLE (>=1)',
      '  now  2  0  0  2  2',
      `1  create machine set ${set}  2  0  0  2  2`,
      `2  update ${a} in place  2  0  0  2  1`,
      `3  hand over ${a} to the new set  1  1  0  2  1`,
      `4  update ${b} in place  1  1  0  2  1`,
      `5  hand over ${b} to the new set  0  2  0  2  1`,
      '  end  0  2  0  2  2',
    ]);
    expect(simulation.waitsFor).toBeUndefined();
  });

  it('creates no more than the limits of the namespace leave, and says which one it waits for', async () => {
    const annotations = { [names.maxSurge]: '1' };
    const options = { replicas: 4, maxSurge: 3, maxUnavailable: 0 };
    const { simulation } = await simulateRollout(options, {}, annotations);

    expect(Math.max(...simulation.steps.map(({ total }) => total))).toBe(5);
    expect(simulation.steps.flatMap(({ remove }) => remove)).toHaveLength(4);
    expect(simulation.waitsFor).toBeUndefined();

    const other = otherPool(5, 4, annotations);
    const { simulation: full } = await simulateRollout(options, {}, annotations, other);
    expect(full.steps.flatMap(({ create, remove }) => [...create, ...remove])).toEqual([]);
    expect(full.waitsFor).toBe("the namespace's limit of surge machines, 1 of 1 used: other 1");
  });

  it('says that people have to select the machines where they do', async () => {
    const inPlaceUpdate = { maxSurge: 0, maxUnavailable: 1, orchestrationType: 'Manual' };
    const strategy = { type: 'InPlaceUpdate', inPlaceUpdate };
    const { simulation } = await simulateRollout({ replicas: 2, maxSurge: 0, maxUnavailable: 1 }, { strategy });

    expect(simulation.steps.map(({ createSet }) => createSet !== undefined)).toEqual([true]);
    expect(simulation.waitsFor).toBe('2 old machines wait to be selected by people');
  });

  it('counts from the beginning the machines of sets that the deployment is about to adopt', async () => {
    const { world } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 });
    const sets = world.sets.map((set) => ({
      ...set,
      metadata: { ...set.metadata, labels: { name: 'pool' }, ownerReferences: [] },
    }));
    const { before, steps } = await simulate(world.deployment!, { sets, machines: world.machines });

    expect(before).toEqual({ old: 2, new: 0, leaving: 0, total: 2, available: 2 });
    expect(steps.flatMap(({ remove }) => remove)).toHaveLength(2);
  });

  it('takes the deployments of a List, which kubectl get writes for several objects', async () => {
    const item = (name: string) => ({
      apiVersion: 'machine.sapcloud.io/v1alpha1',
      kind: 'MachineDeployment',
      metadata: { name, namespace: 'n' },
      spec: { replicas: 1, selector: { matchLabels: { name: 'pool' } }, template: template('a') },
    });
    const list = { apiVersion: 'v1', kind: 'List', items: [item('a'), { kind: 'Secret' }, item('b')] };
    const planned = await planManifest(new MemoryCluster().client(), JSON.stringify(list), 'n');

    expect(planned.map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it('shows what the deletion of a deployment does until it is gone', async () => {
    const { world } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 });
    const { metadata, ...rest } = world.deployment!;
    const finalizers = ['machine.sapcloud.io/machine-controller-manager'];
    const deleted = { ...rest, metadata: { ...metadata, finalizers, deletionTimestamp: '2026-08-19T10:00:00Z' } };
    const { steps, waitsFor } = await simulate(deleted, { sets: world.sets, machines: world.machines });

    expect(steps.map(({ create, remove, leaving }) => [create.length, remove.length, leaving])).toEqual([[0, 2, 2]]);
    expect(waitsFor).toBeUndefined();
  });

  it('warns where no machine can be created from the class', async () => {
    const { simulation } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 });

    const text = planText({ namespace: 'n', name: 'pool', ...simulation, sourceProblem: 'it does not exist' });
    expect(text).toContain('\nwarning: no machine can be created: it does not exist\n');
  });

  it('does not warn of a class that is in the same manifest', async () => {
    const item = (name: string) => ({
      ...{ apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineDeployment', metadata: { name, namespace: 'n' } },
      spec: { replicas: 1, selector: { matchLabels: { name: 'pool' } }, template: template(name) },
    });
    const given = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineClass', metadata: { name: 'a' } };
    const list = { apiVersion: 'v1', kind: 'List', items: [given, item('a'), item('b')] };
    const planned = await planManifest(new MemoryCluster().client(), JSON.stringify(list), 'n');

    expect(planned.map(({ sourceProblem }) => sourceProblem)).toEqual([
      undefined,
      expect.stringContaining('MachineClass "b" does not exist'),
    ]);
  });

  it('leaves the objects that it was given as they are', async () => {
    const { world } = await simulateRollout({ replicas: 2, maxSurge: 1, maxUnavailable: 0 });

    expect(world.sets.map(({ spec }) => spec?.replicas)).toEqual([2]);
    expect(world.machines.map(({ metadata }) => metadata.deletionTimestamp)).toEqual([undefined, undefined]);
  });

  it.each([
    [6, 1, 0],
    [6, 0, 1],
    [6, 3, 2],
    [250, 25, 10],
  ])(
    'ends with the new machines alone, within the bounds: %i replicas, maxSurge %i, maxUnavailable %i',
    async (replicas, maxSurge, maxUnavailable) => {
      const { simulation } = await simulateRollout({ replicas, maxSurge, maxUnavailable });

      for (const { total, available } of simulation.steps) {
        expect(total).toBeLessThanOrEqual(replicas + maxSurge);
        expect(available).toBeGreaterThanOrEqual(replicas - maxUnavailable);
      }
      expect(simulation.bounds).toEqual({
        mostMachines: replicas + maxSurge,
        leastAvailable: replicas - maxUnavailable,
      });
      expect(simulation.steps.flatMap(({ remove }) => remove)).toHaveLength(replicas);
      expect(simulation.waitsFor).toBeUndefined();
    },
  );

  it('deletes all before it creates any, to recreate', async () => {
    const options = { replicas: 3, strategy: 'Recreate' as const, maxSurge: 0, maxUnavailable: 0 };
    const { simulation } = await simulateRollout(options);

    expect(simulation.steps.map(({ create, remove }) => [create.length > 0, remove.length])).toEqual([
      [false, 3],
      [false, 0],
      [true, 0],
    ]);
    expect(simulation.bounds.leastAvailable).toBe(0);
  });
});

describe('removals', () => {
  it('names what was applied and is not given any more, as kubectl apply does', () => {
    const before = {
      kind: 'MachineDeployment',
      metadata: { labels: { a: '1', b: '2' } },
      spec: { replicas: 3, paused: true },
    };

    expect(removals(before, { metadata: { labels: { a: '1' } }, spec: { replicas: 3 } })).toEqual({
      metadata: { labels: { b: null } },
      spec: { paused: null },
    });
  });
});
