/**
 * Deployments that go to sleep and wake up: what people and controllers have written on them and on their sets stays.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineSets } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

const timeoutMs = 300_000;

describe('a deployment that hibernates and wakes up', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation({ alone: 'many machines keep everybody else waiting' });
    await millwright.createClass('medium');
  });
  afterAll(() => millwright?.stop());

  /** Waits until it has this number of machines, all of them Running, and its workflow has completed. */
  async function untilAtRest(name: string, count: number): Promise<void> {
    const ref = refOf(await millwright.deployment(name));
    await until(
      `${name} has ${count} machines and is at rest`,
      async () => {
        const all = await millwright.machinesOf(name);
        const { status, metadata } = await millwright.deployment(name);
        const isSeen = status?.observedGeneration === metadata.generation && (status?.availableReplicas ?? 0) === count;
        // Machines that are being deleted are too many for a while.
        const isFrozen = [metadata, ...(await millwright.setsOf(name)).map((set) => set.metadata)].some(
          (each) => labels.freeze in (each.labels ?? {}),
        );
        if (!isSeen || isFrozen || all.length !== count || !all.every((each) => phaseOf(each) === 'Running'))
          return false;
        const { status: ofRun } = await millwright.handleOf(ref, 'MachineDeployment').describe();
        return ofRun.name === 'COMPLETED';
      },
      { timeoutMs, describe: () => millwright.story() },
    );
  }

  const marksOf = ({ metadata }: KubeObject) => ({ labels: metadata.labels, annotations: metadata.annotations });
  const marksOfAll = async (name: string) =>
    [await millwright.deployment(name), ...(await millwright.setsOf(name))].map(marksOf);

  /** What users, GitOps tools, Gardener and the cluster autoscaler write on a deployment. */
  const ofOthers = {
    labels: { 'worker.gardener.cloud/pool': 'a', team: 'blue' },
    annotations: {
      'autoscaler.gardener.cloud/scale-down-utilization-threshold': '0.5',
      'example.com/owner': 'somebody',
      [annotations.lastReplicaChangeByScalerTime]: '2026-01-02T03:04:05Z',
      [annotations.lastAppliedConfiguration]: '{}',
    },
  };
  const ofSet = { labels: { shift: 'night' }, annotations: { 'example.com/ticket': '42' } };
  const bounds = { maxSurge: 1, maxUnavailable: 0 };

  it.each([
    ['RollingUpdate', 100, { type: 'RollingUpdate', rollingUpdate: bounds }, false, 1],
    ['paused', 3, { type: 'RollingUpdate', rollingUpdate: bounds }, true, 1],
    // The surge of an update in place counts for nothing there, as with machine-controller-manager.
    ['InPlaceUpdate', 3, { type: 'InPlaceUpdate', inPlaceUpdate: { ...bounds, orchestrationType: 'Auto' } }, false, 0],
  ])(
    'keeps every label and annotation, its own and those of its sets: %s',
    async (title, count, strategy, paused, surge) => {
      const name = title.toLowerCase();
      const template = (version: string) => ({
        metadata: { labels: { [labels.name]: name }, annotations: { 'checksum/version': version } },
        spec: { class: { kind: 'MachineClass', name: version === '1' ? 'small' : 'medium' } },
      });
      await millwright.createDeployment(name, 0, { strategy, template: template('1') });
      await untilAtRest(name, 0);
      await millwright.changeDeployment(name, { metadata: ofOthers, spec: { template: template('2') } });
      await untilAtRest(name, 0);
      await millwright.changeDeployment(name, { spec: { replicas: count, ...(paused && { paused }) } });
      const [emptySet] = await millwright.setsOf(name);
      for (const { metadata } of await millwright.setsOf(name))
        await millwright.control.patch(machineSets, metadata, mergePatch({ metadata: ofSet }));
      await untilAtRest(name, count);
      const awake = await marksOfAll(name);
      expect(awake).toHaveLength(3);
      expect(awake[0]).toMatchObject({ ...ofOthers, annotations: { [annotations.revision]: '2' } });
      const replicasSaid = (replicas: number) => ({
        [annotations.desiredReplicas]: String(replicas),
        [annotations.maxReplicas]: String(replicas + surge),
      });
      expect(awake[2]).toMatchObject({
        labels: ofSet.labels,
        annotations: {
          ...ofSet.annotations,
          'example.com/owner': 'somebody',
          [annotations.revision]: '2',
          ...replicasSaid(count),
        },
      });
      expect(awake[2]?.annotations).not.toHaveProperty([names.creating]);
      const before = await millwright.machinesOf(name);

      await millwright.scale(name, 0);
      await untilAtRest(name, 0);
      const [deployment, old, current] = awake;
      const asleep = { ...current, annotations: { ...current?.annotations, ...replicasSaid(0) } };
      expect(await marksOfAll(name)).toEqual([deployment, old, asleep]);

      await millwright.scale(name, count);
      await untilAtRest(name, count);
      expect(await marksOfAll(name)).toEqual(awake);
      expect((await millwright.setsOf(name))[0]?.metadata.uid).toBe(emptySet?.metadata.uid);
      // All machines are others, and like those before.
      const after = await millwright.machinesOf(name);
      const uids = new Set(before.map(({ metadata }) => metadata.uid));
      expect(after.filter(({ metadata }) => uids.has(metadata.uid))).toEqual([]);
      const likeOf = (found: typeof after) =>
        found.map(({ metadata, spec }) => {
          const { [labels.node]: _node, ...rest } = metadata.labels ?? {};
          return { labels: rest, annotations: Object.keys(metadata.annotations ?? {}).toSorted(), class: spec?.class };
        });
      expect(likeOf(after)).toEqual(likeOf(before));
      expect(after[0]?.metadata.annotations).toMatchObject({ 'checksum/version': '2' });
    },
    3 * timeoutMs,
  );
});
