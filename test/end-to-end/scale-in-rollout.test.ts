/** Replicas that change in the middle of a rollout. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels, taints, updateResults } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { type Node, nodes } from '../../kube/core.ts';
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
    millwright = await startInstallation({ cloud: { statusUpdateMs: 2 ** 31 - 1 } });
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
  });
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
  const isOf = (className: string) => (machine: Machine) => machine.spec?.class?.name === className;

  it.each([
    ['RollingUpdate', { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }],
    ['Recreate', { type: 'Recreate' }],
  ])(
    '[mcm 76] goes on with %s, and gets and loses machines without one more of the old template',
    async (name, strategy) => {
      const pool = name.toLowerCase();
      await millwright.createDeployment(pool, 4, { strategy });
      for (const [from, to, before, after] of [
        ['small', 'medium', 4, 6],
        ['medium', 'small', 6, 2],
      ] as const) {
        const all = await millwright.untilRunning(pool, before, { className: from });
        old = { pool, className: from, uids: new Set(all.map(({ metadata }) => metadata.uid)) };
        await change(pool, toClass(to));
        await until('it is under way', async (see) => {
          const found = see(await millwright.machinesOf(pool));
          return found.some(isOf(to)) || found.some(({ metadata }) => metadata.deletionTimestamp !== undefined);
        });
        await millwright.scale(pool, after);
        await millwright.untilRunning(pool, after, { className: to });
        old = undefined;
      }
      expect([...strangers]).toEqual([]);
    },
  );

  it('keeps the machines of the new template when it shrinks, and makes none twice', async () => {
    const { control, namespace, cloud } = millwright;
    await millwright.createDeployment('once', 6, {
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 3 } },
    });
    await millwright.untilRunning('once', 6, { className: 'small' });
    const { vmsEver } = await cloud.stats();
    await cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'create' });
    await change('once', toClass('medium'));
    const fresh = await until('three new machines wait for their VMs', async () => {
      const found = (await millwright.machinesOf('once')).filter(isOf('medium'));
      return found.length === 3 && found;
    });
    await millwright.scale('once', 4);
    await until(
      'old machines go',
      async (see) => see(await millwright.machinesOf('once')).filter(isOf('small')).length < 3,
    );
    await cloud.setFaults();
    const uids = (await millwright.untilRunning('once', 4, { className: 'medium' })).map(
      ({ metadata }) => metadata.uid,
    );
    expect(uids).toEqual(expect.arrayContaining(fresh.map(({ metadata }) => metadata.uid)));
    expect((await cloud.stats()).vmsEver).toBe(vmsEver + 4);
    const { metadata } = await control.get(machineDeployments, { namespace, name: 'once' });
    const { items } = await control.list(machineSets, { namespace });
    const own = items.filter(({ metadata: { ownerReferences } }) => ownerReferences?.[0]?.uid === metadata.uid);
    expect(own.map(({ spec }) => spec?.replicas ?? 0).toSorted()).toEqual([0, 4]);
  });

  /** Labels those Nodes of a deployment for which it is due. */
  async function labelNodes(name: string, label: object, isDue: (node: Node) => boolean): Promise<void> {
    for (const { metadata } of await millwright.machinesOf(name)) {
      const node = await millwright.target.find(nodes, { name: metadata.name });
      if (node === undefined || !isDue(node)) continue;
      await millwright.target.patch(nodes, { name: metadata.name }, mergePatch({ metadata: { labels: label } }));
    }
  }
  const reasonOf = ({ status }: Node) => status?.conditions?.find(({ type }) => type === 'InPlaceUpdate')?.reason;

  /** The agents on the Nodes, and whoever sees their critical components run again. */
  async function playAgents(name: string): Promise<void> {
    const isReady = (node: Node) =>
      reasonOf(node) === 'ReadyForUpdate' && node.metadata.labels?.[labels.updateResult] === undefined;
    await labelNodes(name, { [labels.updateResult]: updateResults.successful }, isReady);
    for (const { metadata } of await millwright.machinesOf(name)) {
      const node = await millwright.target.find(nodes, { name: metadata.name });
      const rest = node?.spec?.taints?.filter(({ key }) => key !== taints.criticalComponentsNotReady.key) ?? [];
      if (rest.length < (node?.spec?.taints?.length ?? 0))
        await millwright.target.patch(nodes, { name: metadata.name }, mergePatch({ spec: { taints: rest } }));
    }
  }

  it.each(['Auto', 'Manual'])(
    '[mcm 76] goes on with InPlaceUpdate, %s, and gets machines of the new template and loses old ones',
    async (orchestrationType) => {
      const pool = `in-place-${orchestrationType.toLowerCase()}`;
      const inPlaceUpdate = { maxSurge: 0, maxUnavailable: 1, orchestrationType };
      await millwright.createDeployment(pool, 3, { strategy: { type: 'InPlaceUpdate', inPlaceUpdate } });
      const first = await millwright.untilRunning(pool, 3, { className: 'small' });
      const select = () =>
        orchestrationType === 'Manual' &&
        labelNodes(pool, { [labels.selectedForUpdate]: 'true' }, (node) => reasonOf(node) === 'CandidateForUpdate');
      const isNew = ({ metadata }: Machine) => metadata.annotations?.['version'] === '2';
      const setsOf = async () => {
        const { items } = await millwright.control.list(machineSets, { namespace: millwright.namespace });
        const own = items.filter(({ metadata }) => metadata.labels?.[labels.name] === pool);
        const isCurrent = (set: (typeof own)[number]) => set.spec?.template?.metadata?.annotations?.['version'] === '2';
        return { old: own.find((set) => !isCurrent(set)), current: own.find(isCurrent) };
      };

      await change(pool, { template: { metadata: { annotations: { version: '2' } } } });
      await until('all are candidates', async (see) => {
        const found = see(
          await Promise.all(first.map(({ metadata }) => millwright.target.get(nodes, { name: metadata.name }))),
        );
        return found.every((node) => reasonOf(node) !== undefined);
      });
      // More, while nobody has been updated: they come in the new set, and the old one stays as it is.
      await millwright.scale(pool, 5);
      const grown = await until(
        'two new machines run',
        async () => {
          const all = await millwright.machinesOf(pool);
          const running = all.filter((each) => isNew(each) && phaseOf(each) === 'Running');
          return all.length === 5 && running.length === 2 && all;
        },
        { describe: () => millwright.story() },
      );
      const uidsOf = (found: readonly Machine[]) => found.map(({ metadata }) => metadata.uid).toSorted();
      expect(uidsOf(grown.filter((each) => !isNew(each)))).toEqual(uidsOf(first));
      // Fewer: the old set loses one, the new one none.
      await millwright.scale(pool, 4);
      const shrunk = await until(
        'an old machine is gone',
        async () => {
          const all = await millwright.machinesOf(pool);
          return all.length === 4 && all;
        },
        { describe: () => millwright.story() },
      );
      expect(uidsOf(shrunk.filter(isNew))).toEqual(uidsOf(grown.filter(isNew)));
      // And the rest is updated, with its VMs.
      await until(
        'the update is complete',
        async () => {
          await select();
          await playAgents(pool);
          const { old, current } = await setsOf();
          const all = await millwright.machinesOf(pool);
          const areOfNew = all.every(
            (each) => controllerOf(each) === current?.metadata.uid && phaseOf(each) === 'Running',
          );
          const { status } = await millwright.control.get(machineDeployments, {
            namespace: millwright.namespace,
            name: pool,
          });
          const reason = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
          const isDone = areOfNew && reason === 'NewMachineSetAvailable' && status?.updatedReplicas === 4;
          return isDone && all.length === 4 && old?.spec?.replicas === 0;
        },
        { describe: () => millwright.story() },
      );
      expect(uidsOf(await millwright.machinesOf(pool))).toEqual(uidsOf(shrunk));
    },
  );

  it('[mcm 76] [mcm 78 partly] shrinks in proportion while it is paused there, and then goes on', async () => {
    await millwright.createDeployment('paused', 6, {
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 3 } },
    });
    await millwright.untilRunning('paused', 6, { className: 'small' });
    await change('paused', toClass('medium'));
    await until('it is under way', async (see) => see(await millwright.machinesOf('paused')).some(isOf('medium')));
    await change('paused', { paused: true });
    const half = await until(
      'it stands still with 6 machines',
      async () => {
        // Read first: from then on no step is under way that has not seen the pause.
        const { status } = await millwright.deployment('paused');
        const isPaused = status?.conditions?.some(({ reason }) => reason === 'DeploymentPaused') === true;
        const all = await millwright.machinesOf('paused');
        const stays = (each: Machine) => each.metadata.deletionTimestamp === undefined && phaseOf(each) === 'Running';
        return isPaused && all.length === 6 && all.every(stays) ? all : undefined;
      },
      { describe: () => millwright.story() },
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
          isShared &&
          replicasOf('small') + replicasOf('medium') === 4 &&
          (await millwright.machinesOf('paused')).length === 4
        );
      },
      { describe: () => millwright.story() },
    );
    await change('paused', { paused: false });
    await millwright.untilRunning('paused', 4, { className: 'medium' });
  });
});
