/** The cluster of the Nodes is gone for good: how its Machines are deleted all the same. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startMillwright } from '../support/millwright.ts';
import { until } from '../support/until.ts';

describe('a Machine whose cluster of Nodes does not come back', () => {
  let dir: string;
  let proxy: FaultProxy;
  let millwright: Installation;
  let isDown = false;

  async function takeAway(): Promise<void> {
    isDown = true;
    await proxy.goDown();
  }
  async function bringBack(): Promise<void> {
    isDown = false;
    await proxy.comeUp();
  }

  beforeEach(async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-lost-target-'));
    await proxy.writeKubeconfig(join(dir, 'target'));
    millwright = await startInstallation({
      targetKubeconfig: join(dir, 'target'),
      alone: 'the cluster of its Nodes goes away',
    });
  });
  afterEach(async () => {
    if (isDown) await bringBack(); // the Nodes are removed
    await millwright?.stop();
    await proxy.close();
    await rm(dir, { recursive: true });
  });

  it('is deleted with its VM once its deletion is forced, and its Node stays', async () => {
    const { control, target, cloud } = millwright;
    const ref = await millwright.createMachine('lost-forced');
    await millwright.untilPhase(ref, 'Running');
    await takeAway();
    await control.delete(machines, ref);
    await until('its deletion has begun', async (see) => see(await millwright.describe(ref)).phase === 'Terminating');
    expect((await cloud.stats()).vmsNow).toBe(1);

    await control.patch(machines, ref, mergePatch({ metadata: { labels: { [labels.forceDeletion]: 'true' } } }));
    await millwright.untilGone(ref);

    expect((await cloud.stats()).vmsNow).toBe(0);
    const events = await until('it is said', async (see) => {
      const found = see(await millwright.eventsOf(ref)).filter(({ reason }) => reason === 'Deleted');
      return found.length > 0 ? found : undefined;
    });
    expect(events[0]?.note).toContain('The cluster of the Nodes did not answer, and has the Node still');
    await bringBack();
    expect((await target.get(nodes, { name: ref.name })).metadata.deletionTimestamp).toBeUndefined();
  });

  it('is deleted by processes that are started without that cluster', async () => {
    const { control, namespace, cloud } = millwright;
    const ref = await millwright.createMachine('lost-restarted');
    await millwright.untilPhase(ref, 'Running');
    for (const process of millwright.processes.splice(0)) await process.stop();
    await takeAway();
    await control.delete(machines, ref);
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    const without = await startMillwright({
      ...{ namespace, kubeconfig, targetKubeconfig: 'none', isElected: false },
    });

    await millwright.untilGone(ref);

    expect((await cloud.stats()).vmsNow).toBe(0);
    await without.stop();
  });
});
