/** Replicas that change in the middle of a rollout. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';

describe('a deployment that is scaled in the middle of a rollout', () => {
  let millwright: Installation;
  let watch: Reflector<Machine>;
  /** The machines of a deployment when its rollout began: no other one of their class may come. */
  let old: { readonly pool: string; readonly className: string; readonly uids: ReadonlySet<string> } | undefined;
  const strangers = new Set<string>();

  beforeAll(async () => {
    millwright = await startInstallation();
    await millwright.createClass('medium');
    const { control, namespace } = millwright;
    const onEvent = () => {
      const own = watch?.store.list().filter(({ metadata }) => metadata.labels?.[labels.name] === old?.pool) ?? [];
      for (const { metadata, spec } of own)
        if (spec?.class?.name === old?.className && !old?.uids.has(metadata.uid)) strangers.add(metadata.name);
    };
    watch = startReflector<Machine>({
      client: control,
      resource: machines,
      namespace,
      logger: recordingLogger(),
      onEvent,
    });
    await watch.waitForSync();
  }, 120_000);
  afterAll(async () => {
    await watch?.stop();
    await millwright?.stop();
  });

  const change = (name: string, spec: object) =>
    millwright.control.patch<MachineDeployment>(
      machineDeployments,
      { namespace: millwright.namespace, name },
      mergePatch({ spec }),
    );
  const toClass = (name: string) => ({ template: { spec: { class: { name } } } });
  const machinesOf = async (name: string) =>
    (await millwright.machines()).filter(({ metadata }) => metadata.labels?.[labels.name] === name);
  const isOf = (className: string) => (machine: Machine) => machine.spec?.class?.name === className;

  const untilDone = (name: string, className: string, count: number) =>
    until(
      `${name} has ${count} machines of ${className}`,
      async () => {
        const all = await machinesOf(name);
        const isRunning = (machine: Machine) =>
          phaseOf(machine) === 'Running' && machine.metadata.deletionTimestamp === undefined;
        return all.length === count && all.every(isRunning) && all.every(isOf(className)) ? all : undefined;
      },
      { timeoutMs: 90_000, describe: () => millwright.story() },
    );

  it.each([
    ['RollingUpdate', { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }],
    ['Recreate', { type: 'Recreate' }],
  ])(
    '[mcm 76 partly] goes on with %s, and gets and loses machines without one more of the old template',
    async (name, strategy) => {
      const pool = name.toLowerCase();
      await millwright.createDeployment(pool, 4, { strategy });
      for (const [from, to, before, after] of [
        ['small', 'medium', 4, 6],
        ['medium', 'small', 6, 2],
      ] as const) {
        const all = await untilDone(pool, from, before);
        old = { pool, className: from, uids: new Set(all.map(({ metadata }) => metadata.uid)) };
        await change(pool, toClass(to));
        await until('it is under way', async () => {
          const found = await machinesOf(pool);
          return found.some(isOf(to)) || found.some(({ metadata }) => metadata.deletionTimestamp !== undefined);
        });
        await millwright.scale(pool, after);
        await untilDone(pool, to, after);
        old = undefined;
      }
      expect([...strangers]).toEqual([]);
    },
    240_000,
  );

  it('[mcm 76 partly] [mcm 78 partly] shrinks in proportion while it is paused there, and then goes on', async () => {
    await millwright.createDeployment('paused', 6, {
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 3 } },
    });
    await untilDone('paused', 'small', 6);
    await change('paused', toClass('medium'));
    await until('it is under way', async () => (await machinesOf('paused')).some(isOf('medium')));
    await change('paused', { paused: true });
    const half = await until(
      'it stands still with 6 machines',
      async () => {
        const all = await machinesOf('paused');
        return all.length === 6 && all.every((each) => phaseOf(each) === 'Running') ? all : undefined;
      },
      { timeoutMs: 60_000, describe: () => millwright.story() },
    );
    const fresh = half.filter(isOf('medium')).length;
    await change('paused', { replicas: 4 });
    await until(
      '4 are left, of both in proportion',
      async () => {
        const { items } = await millwright.control.list(machineSets, { namespace: millwright.namespace });
        const sets = items.filter(({ metadata }) => metadata.name.startsWith('paused-'));
        const replicasOf = (className: string) =>
          sets.find(({ spec }) => spec?.template?.spec?.class?.name === className)?.spec?.replicas ?? 0;
        const isShared = replicasOf('medium') === Math.round((fresh * 4) / 6);
        return (
          isShared && replicasOf('small') + replicasOf('medium') === 4 && (await machinesOf('paused')).length === 4
        );
      },
      { timeoutMs: 60_000, describe: () => millwright.story() },
    );
    await change('paused', { paused: false });
    await untilDone('paused', 'medium', 4);
  }, 240_000);
});
