import { afterEach, expect, it } from '@jest/globals';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

let millwright: Installation;

afterEach(async () => {
  await millwright?.stop(); // fails when a workflow did something else when it was replayed
});

it('[invariant 10] workers that keep no workflow in memory make, replace and delete machines: every task is a replay', async () => {
  millwright = await startInstallation({ flags: ['--max-cached-workflows', '0'] });
  const { cloud, control, namespace } = millwright;
  await cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'create', times: 1 });
  await millwright.createDeployment('pool', 2);
  const [first] = await millwright.untilMachines(2, 'Running');

  await control.delete(machines, { namespace, name: first?.metadata.name ?? '' });
  await until('the machine is replaced', async (see) => see(await cloud.stats()).vmsEver === 3);
  await millwright.untilMachines(2, 'Running');
  await control.delete(machineDeployments, { namespace, name: 'pool' });

  await until('no machine is left', async (see) => see(await millwright.machines()).length === 0);
  expect(await cloud.stats()).toMatchObject({ vmsEver: 3, vmsNow: 0 });
});
