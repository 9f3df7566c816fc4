/** The API server of the Nodes goes away, and all Nodes are unhealthy when it returns. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { startReflector } from '../../kube/reflector.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { isLong } from '../support/long.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { until } from '../support/until.ts';

const pools = isLong() ? 80 : 12;
const healthMs = 20_000;

describe('an outage of the API server of the Nodes', () => {
  let millwright: Installation;
  let proxy: FaultProxy;
  let dir: string;

  beforeAll(async () => {
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    proxy = await startFaultProxy(kubeconfig);
    dir = await mkdtemp(join(tmpdir(), 'millwright-freeze-'));
    const targetKubeconfig = join(dir, 'kubeconfig');
    await proxy.writeKubeconfig(targetKubeconfig);
    millwright = await startInstallation({
      targetKubeconfig,
      // The kubelets report once and no more, so that what a test writes into a Node stays.
      cloud: { statusUpdateMs: 2 ** 31 - 1 },
      flags: [
        ...['--machine-health-timeout', `${healthMs / 1_000}s`],
        ...['--machine-safety-apiserver-statuscheck-timeout', '2s', '--outage-share', '100'],
      ],
    });
  });
  afterAll(async () => {
    await millwright?.stop();
    await proxy?.close();
    await rm(dir, { recursive: true, force: true });
  });

  it('[mcm 92] [invariant 6] judges and replaces no machine, and the health timeouts begin anew after it', async () => {
    const { control, cloud } = millwright;
    const names = Array.from({ length: pools }, (_, i) => `pool-${i}`);
    await Promise.all(names.map((name) => millwright.createDeployment(name, 1)));
    const before = await millwright.untilMachines(pools, 'Running');
    const nodeNames = before.map(({ metadata }) => metadata.name);
    const reportAll = (status: string, of: readonly string[]) =>
      Promise.all(of.map((name) => reportCondition(control, name, 'Ready', status)));
    const sick = before[0]!;
    const failures: Machine[] = [];
    const watch = startReflector<Machine>({
      client: control,
      resource: machines,
      namespace: millwright.namespace,
      logger: recordingLogger(),
      onEvent: (event) => {
        if ('object' in event && phaseOf(event.object) === 'Failed') failures.push(event.object);
      },
    });
    try {
      await reportAll('Unknown', [sick.metadata.name]);
      await until('one machine is Unknown', async (see) =>
        see(await millwright.machines()).some((each) => phaseOf(each) === 'Unknown'),
      );
      await proxy.goDown();
      const overdueMs = Date.now() + healthMs + 2_000;
      // As the node lifecycle controller does when kubelets could not reach the API server.
      await reportAll('Unknown', nodeNames);
      await until('its health timeout is over', async () => Date.now() > overdueMs);
      const during = await millwright.machines();
      expect(during.filter((each) => phaseOf(each) === 'Running')).toHaveLength(pools - 1);
      expect(failures).toEqual([]);

      const upAtMs = Date.now();
      await proxy.comeUp();
      await millwright.untilMachines(pools, 'Unknown');
      await reportAll('True', nodeNames.slice(1));
      await until(
        'all others are healthy again',
        async (see) =>
          see(await millwright.machines()).filter((each) => phaseOf(each) === 'Running').length >= pools - 1,
        { describe: () => millwright.story() },
      );
      expect(failures.filter(({ metadata }) => metadata.uid !== sick.metadata.uid)).toEqual([]);

      await until(
        'the sick one was replaced',
        async () => {
          const found = await millwright.machines();
          const isDone = found.length === pools && found.every((each) => phaseOf(each) === 'Running');
          return isDone && !found.some(({ metadata }) => metadata.uid === sick.metadata.uid);
        },
        { describe: () => millwright.story() },
      );
      expect(new Set(failures.map(({ metadata }) => metadata.uid))).toEqual(new Set([sick.metadata.uid]));
      const failedAtMs = Date.parse(failures[0]?.status?.currentStatus?.lastUpdateTime ?? '');
      expect(failedAtMs).toBeGreaterThan(upAtMs + healthMs - 1_000); // the status has whole seconds
      expect((await cloud.stats()).vmsEver).toBe(pools + 1);
      const sets = new Set((await millwright.machines()).map(({ metadata }) => metadata.labels?.[labels.name]));
      expect(sets.size).toBe(pools);
    } finally {
      await watch.stop();
    }
  });
});
