/** Drains of pods with volumes. The test moves volumes as the attach/detach controller does. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { defineResource, type KubeObject } from '../../api/objects.ts';
import { pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';
import { startVolumes } from '../support/volumes.ts';

const priorityClasses = defineResource<KubeObject & { value: number }>({
  group: 'scheduling.k8s.io',
  version: 'v1',
  plural: 'priorityclasses',
  kind: 'PriorityClass',
  namespaced: false,
});

describe.each([
  { order: 'one by one', flags: ['--serial-volume-drain', 'true'] },
  { order: 'together', flags: [] },
])('pods with volumes that leave $order', ({ order, flags }) => {
  let millwright: Installation;
  let volumes: ReturnType<typeof startVolumes>;
  let ref: ObjectRef;

  beforeAll(async () => {
    millwright = await startInstallation({ flags, cloud: { maxGraceMs: 100 } });
    const { namespace, target } = millwright;
    const other = await millwright.createMachine(`other-${namespace}`);
    ref = await millwright.createMachine(`drained-${namespace}`);
    for (const each of [other, ref]) await millwright.untilPhase(each, 'Running');
    volumes = startVolumes(target, namespace, other.name);
    await volumes.setRoom(3);
  });
  afterAll(async () => {
    await volumes?.stop();
    await millwright?.stop();
  });

  /** Pods that leave together do not go before the test says so. */
  const isHeld = order === 'together';

  async function release(name: string): Promise<void> {
    const { target, namespace } = millwright;
    await target.patch(pods, { namespace, name }, mergePatch({ metadata: { finalizers: null } }));
  }

  async function runPod(name: string, claimName: string, priorityClassName?: string): Promise<void> {
    const { target, namespace } = millwright;
    await target.create(pods, {
      metadata: { namespace, name, ...(isHeld && { finalizers: ['test/held'] }) },
      spec: {
        nodeName: ref.name,
        containers: [{ name: 'app', image: 'app' }],
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
        ...(priorityClassName !== undefined && { priorityClassName }),
      },
    });
    const isRunning = async () => (await target.get(pods, { namespace, name })).status?.phase === 'Running';
    await until(`${name} runs`, isRunning);
  }

  const tags = order === 'one by one' ? '[mcm 51] [mcm 52] ' : '';
  it(`${tags}do so in the order of priority, and the VM goes when their volumes are attached elsewhere, but for those that are foreign or shared`, async () => {
    const { control, target, namespace } = millwright;
    const high = `${namespace}-high`;
    await target.create(priorityClasses, { metadata: { name: high }, value: 1_000 });
    for (const claim of ['a', 'b', 'c']) await volumes.create(claim, ref.name);
    await volumes.create('foreign', ref.name, 'nfs.example.com');
    await runPod('low', 'a');
    await runPod('high', 'b', high);
    for (const pod of ['shared-1', 'shared-2']) await runPod(pod, 'c');
    await runPod('foreign', 'foreign');

    const { steps } = volumes;
    await control.delete(machines, ref);
    if (isHeld) {
      const together = ['low', 'high', 'foreign', 'shared-1'];
      await until('all leave', async () => together.every((pod) => steps.includes(`${pod} leaves`)), {
        describe: async () => `${steps}\n${await millwright.story()}`,
      });
      expect(steps).not.toContain('shared-2 leaves');
      for (const pod of [...together, 'shared-2']) await release(pod);
    }
    await millwright.untilGone(ref);
    // What was attached here last may be attached elsewhere a moment after the Machine is gone.
    const lastMoves = [/^low is att/, /^high is att/, /^shared-\d is att/];
    await until('all volumes have moved', () => lastMoves.every((move) => steps.some((step) => move.test(step))));

    const at = (step: string) => {
      expect(steps).toContain(step);
      return steps.indexOf(step);
    };
    const all = ['low', 'high', 'shared-1', 'shared-2', 'foreign'];
    for (const pod of all) at(`${pod} is gone`);
    for (const pod of ['low', 'high']) at(`${pod} is attached elsewhere`);
    expect(at('shared-2 leaves')).toBeGreaterThan(at('shared-1 is gone'));
    if (order === 'one by one') {
      expect(at('high leaves')).toBe(0);
      expect(at('low leaves')).toBeGreaterThan(at('high is attached elsewhere'));
      const leaves = all.map((pod) => at(`${pod} leaves`)).sort((a, b) => a - b);
      const ends = all.map((pod) => at(`${pod} is gone`)).sort((a, b) => a - b);
      for (const [index, end] of ends.slice(0, -1).entries()) expect(leaves[index + 1]).toBeGreaterThan(end);
    }
    const left = (await volumes.attachments()).filter(({ spec }) => spec?.nodeName === ref.name);
    expect(left.map(({ spec }) => spec?.attacher)).toEqual(['nfs.example.com']); // nobody detaches it here
    await target.delete(priorityClasses, { name: high });
  });
});
