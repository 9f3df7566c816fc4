import { afterEach, expect, it } from '@jest/globals';
import { createVm } from '../../activities/providers/simulated/client.ts';
import { labels } from '../../api/gardener/names.ts';
import { names } from '../../api/names.ts';
import { type Installation, startInstallation } from '../support/installation.ts';

let millwright: Installation;

afterEach(async () => {
  await millwright?.stop();
});

it('[mcm 12] a Machine takes over the VM that has its UID already', async () => {
  millwright = await startInstallation({ isStopped: true });
  millwright.recordAs('adoption');
  const { cloud } = millwright;
  const { name, uid } = await millwright.createMachine('adopted');
  const vm = await createVm(
    { endpoint: cloud.url, token: 'letmein' },
    {
      token: 'made-by-another',
      name,
      region: 'here',
      machineType: 'small',
      tags: { cluster: millwright.namespace, [names.machineUid]: uid },
      userData: 'none',
      node: { labels: {}, taints: [] },
    },
    AbortSignal.timeout(10_000),
  );

  await millwright.start();

  const [machine] = await millwright.untilMachines(1, 'Running');
  expect(machine?.spec?.providerID).toBe(`simulated:///here/${vm.id}`);
  expect(machine?.metadata.labels?.[labels.node]).toBe(name);
  expect(await cloud.stats()).toMatchObject({ vmsEver: 1, creates: 1 });
});
