import { afterEach, describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('while machines are created', () => {
  let millwright: Installation;

  afterEach(async () => {
    await millwright?.stop();
  });

  it('[invariant 1] a cloud that loses every third answer makes one VM for each machine', async () => {
    millwright = await startInstallation();
    millwright.recordAs('lost-answers');
    const { cloud, control, namespace } = millwright;
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'done', operation: 'create', every: 3 });
    await millwright.createDeployment('pool', 12);

    await millwright.untilMachines(12, 'Running');

    expect(await cloud.stats()).toMatchObject({ vmsEver: 12, vmsNow: 12 });
    const lost = (await cloud.faults()).map(({ shown }) => shown);
    expect(lost[0]).toBeGreaterThan(0);
    await control.delete(machineDeployments, { namespace, name: 'pool' });
    await until('no machine is left', async (see) => see(await millwright.machines()).length === 0);
    expect(await cloud.resources()).toEqual([]);
  });
});
