/** Creations and drains alone, and beside drains that a PodDisruptionBudget blocks. */
import { machines } from '../../api/gardener/resources.ts';
import { searchAttributes } from '../../api/names.ts';
import { podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { until } from '../support/until.ts';
import type { Scenario } from './scenario.ts';
import type { World } from './world.ts';

const creations = 100;
const drains = 50;
/** For any number of machines. */
const timeoutMs = 3_600_000;

const namesOf = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

/** Machines without an owner. Their Nodes have their names. */
function machinesIn({ control, temporal, namespaces, classes }: World) {
  const [namespace = ''] = namespaces;
  const nameOf = (name: string) => `${namespace}-${name}`;

  return {
    async create(names: readonly string[]): Promise<void> {
      const spec = { class: { kind: 'MachineClass', name: classes[0] } };
      const create = (name: string) => control.create(machines, { metadata: { namespace, name: nameOf(name) }, spec });
      await Promise.all(names.map(create));
      await until(
        'they run',
        async () => {
          const { items } = await control.list(machines, { namespace });
          const running = items.filter(({ status }) => status?.currentStatus?.phase === 'Running');
          const found = new Set(running.map(({ metadata }) => metadata.name));
          return names.every((name) => found.has(nameOf(name)));
        },
        { timeoutMs },
      );
    },

    /** Runs a pod on the Node of each. */
    async runPods(names: readonly string[], labels: Readonly<Record<string, string>>): Promise<void> {
      const run = (name: string) =>
        control.create(pods, {
          metadata: { namespace, name, labels },
          spec: {
            nodeName: nameOf(name),
            containers: [{ name: 'app', image: 'app' }],
            terminationGracePeriodSeconds: 1,
          },
        });
      await Promise.all(names.map(run));
      await until(
        'their pods run',
        async () => {
          const { items } = await control.list(pods, { namespace });
          const found = new Set(
            items.filter(({ status }) => status?.phase === 'Running').map((pod) => pod.metadata.name),
          );
          return names.every((name) => found.has(name));
        },
        { timeoutMs },
      );
    },

    /** Lets no pod with these labels be evicted. */
    async guard(matchLabels: Readonly<Record<string, string>>): Promise<void> {
      const key = { namespace, name: 'guarded' };
      const { metadata } = await control.create(podDisruptionBudgets, {
        metadata: key,
        spec: { selector: { matchLabels }, minAvailable: '100%' },
      });
      // Not in steady state: the budget may allow evictions later.
      const counts = { currentHealthy: 0, desiredHealthy: 1, expectedPods: 1, disruptionsAllowed: 0 };
      const status = { observedGeneration: metadata.generation, ...counts };
      await control.patch(podDisruptionBudgets, key, mergePatch({ status }), { subresource: 'status' });
    },

    async delete(names: readonly string[]): Promise<void> {
      await Promise.all(names.map((name) => control.delete(machines, { namespace, name: nameOf(name) })));
    },

    async untilGone(names: readonly string[]): Promise<void> {
      await until(
        'they are gone',
        async () => {
          const { items } = await control.list(machines, { namespace });
          const left = new Set(items.map(({ metadata }) => metadata.name));
          return !names.some((name) => left.has(nameOf(name)));
        },
        { timeoutMs },
      );
    },

    async untilBlocked(count: number): Promise<void> {
      const query = `${searchAttributes.installation} = '${namespace}' AND ${searchAttributes.blockedOn} = 'PodDisruptionBudget'`;
      const isDone = async () => ((await temporal?.workflow.count(query))?.count ?? count) >= count;
      await until(`${count} are blocked`, isDone, { timeoutMs });
    },
  };
}

async function secondsOf(work: Promise<void>): Promise<number> {
  const since = performance.now();
  await work;
  return (performance.now() - since) / 1_000;
}

export const blockedDrains: Scenario = {
  description: `${creations} machines are created and ${drains} drained, alone and beside N drains that a budget blocks`,
  async prepare(world, count, tell) {
    await world.startMillwright();
    const fleet = machinesIn(world);
    const labels = { app: 'guarded' };
    await fleet.guard(labels);
    tell(`creating ${count + 2 * drains} machines`);
    const blocked = namesOf('blocked', count);
    const others = ['alone', 'beside'].flatMap((prefix) => namesOf(prefix, drains));
    await fleet.create([...blocked, ...others]);
    await fleet.runPods(blocked, labels);
    await fleet.runPods(others, {});
  },
  async act(world, count, tell) {
    const fleet = machinesIn(world);
    /** Both at the same time, s. */
    const measure = async (prefix: string) => {
      tell(`measuring ${prefix}`);
      const drained = namesOf(prefix, drains);
      const drain = async () => {
        await fleet.delete(drained);
        await fleet.untilGone(drained);
      };
      const all = [secondsOf(fleet.create(namesOf(`new-${prefix}`, creations))), secondsOf(drain())] as const;
      const [created, gone] = await Promise.all(all);
      return { [`${creations} creations ${prefix}`]: created, [`${drains} drains ${prefix}`]: gone };
    };
    const alone = await measure('alone');
    await fleet.delete(namesOf('blocked', count));
    await fleet.untilBlocked(count);
    return { ...alone, ...(await measure('beside')) };
  },
};
