import { afterEach, expect, it } from '@jest/globals';
import { createVm } from '../../activities/providers/simulated/client.ts';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import { names, searchAttributes } from '../../api/names.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

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

it('a machine that is taken out of its set is replaced, until so many were that the set is frozen; Events and the owner say so', async () => {
  millwright = await startInstallation();
  const { control, namespace } = millwright;
  await millwright.createDeployment('drifting', 1); // frozen at 1 + 1 + 2 machines
  const patch = (name: string, metadata: object) =>
    control.patch(machines, { namespace, name }, mergePatch({ metadata }));
  const made = async () =>
    (await millwright.machines()).filter(({ metadata }) => metadata.name.startsWith('drifting-'));
  const owned = async () => (await made()).filter((machine) => controllerOf(machine) !== undefined);
  const isFrozen = async () => (await millwright.deployment('drifting')).metadata.labels?.[labels.freeze] === 'True';
  const untilOwned = async () => {
    const [machine] = await until('the set has a machine', async (see) => {
      const found = see(await owned());
      return found.length === 1 && found;
    });
    return machine?.metadata.name ?? '';
  };
  const takeOut = async () => {
    const name = await untilOwned();
    await patch(name, { labels: { name: 'elsewhere' } });
    await until(`${name} is released`, async () => !(await owned()).some(({ metadata }) => metadata.name === name));
    return name;
  };

  const first = await takeOut();
  expect((await millwright.untilEvent(first, 'Released')).note).toContain('label name');
  await millwright.untilEvent('drifting', 'ReleasedMachine', first);
  expect((await millwright.command('describe', 'machine', first)).output).toMatch(/^Owner +none$/m);
  const second = await takeOut();
  const third = await takeOut();
  await untilOwned();
  await until('the deployment is frozen', isFrozen);
  const fourth = await takeOut();

  const { metadata } = await millwright.deployment('drifting');
  const ref = { dialect: 'gardener', namespace, name: 'drifting', uid: metadata.uid };
  await until('the deployment is blocked', async (see) => {
    const { searchAttributes: shown } = see(await millwright.handleOf(ref, 'MachineDeployment').describe());
    return shown[searchAttributes.blockedOn]?.[0] === 'Freeze';
  });
  const { output } = await millwright.command('describe', 'deployment', 'drifting');
  expect(output).toContain('as it or its deployment is frozen');
  await millwright.createDeployment('other', 1); // it gets its machine meanwhile
  await millwright.untilRunning('other', 1);
  const left = (await made()).map(({ metadata }) => metadata.name);
  expect(left.toSorted()).toEqual([first, second, third, fourth].toSorted());

  await patch(first, { labels: { name: 'drifting' } });
  await millwright.untilEvent(first, 'Adopted');
  await millwright.untilEvent('drifting', 'AdoptedMachine', first);
  await control.delete(machines, { namespace, name: first });
  await patch(second, { annotations: { [names.releasedBy]: null } });
  await until('the deployment is not frozen', async () => !(await isFrozen()));
  await untilOwned();
});
