import { afterEach, describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../kube/gardener.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('in the middle of creating machines', () => {
  let millwright: Installation;

  afterEach(async () => {
    await millwright?.stop();
  });

  it('[invariant 1] a killed worker costs no VM: 50 machines run, and the cloud has made 50 VMs ever', async () => {
    millwright = await startInstallation({ cloud: { bootMs: 300, joinMs: 300 } });
    const { cloud, processes, start } = millwright;
    await cloud.setFaults({ kind: 'latency', operation: 'create', ms: 300, maxMs: 2_000 });
    await millwright.createDeployment('pool', 50);
    await until('some creations are done and some are under way', async () => {
      const { vmsEver } = await cloud.stats();
      return vmsEver >= 5 ? true : undefined;
    });

    await processes[0]?.kill('SIGKILL');
    expect((await millwright.machines()).filter((machine) => phaseOf(machine) === 'Running').length).toBeLessThan(50);
    await start();

    await millwright.untilMachines(50, 'Running', 120_000);
    expect(await cloud.stats()).toMatchObject({ vmsEver: 50, vmsNow: 50 });
  }, 240_000);

  it('[invariant 1] [mcm 11] a cloud that loses every third answer makes one VM for each machine', async () => {
    millwright = await startInstallation();
    const { cloud, control, namespace } = millwright;
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'done', operation: 'create', every: 3 });
    await millwright.createDeployment('pool', 12);

    await millwright.untilMachines(12, 'Running', 120_000);

    expect(await cloud.stats()).toMatchObject({ vmsEver: 12, vmsNow: 12 });
    const lost = (await cloud.faults()).map(({ shown }) => shown);
    expect(lost[0]).toBeGreaterThan(0);
    await control.delete(machineDeployments, { namespace, name: 'pool' });
    await until('no machine is left', async () => ((await millwright.machines()).length === 0 ? true : undefined));
    expect(await cloud.stats()).toMatchObject({ vmsNow: 0 });
  }, 240_000);
});
