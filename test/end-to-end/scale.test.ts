import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('a MachineDeployment', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ alone: 'a hundred machines keep everybody else waiting' });
    millwright.recordAs('scale');
  }, 120_000);
  afterAll(async () => {
    await millwright?.stop();
  });

  it('[mcm 70] with 0 replicas makes one set with the hash in its labels, selector and template', async () => {
    const { control, namespace } = millwright;
    await millwright.createDeployment('empty', 0);

    const set = await until('the set is there', async () => {
      const { items } = await control.list(machineSets, { namespace, labelSelector: `${labels.name}=empty` });
      return items[0];
    });

    const hash = set.metadata.labels?.[labels.templateHash];
    expect(set.metadata.name).toMatch(/^empty-[bcdfghjklmnpqrstvwxz2-9]{5}$/);
    expect(hash).toMatch(/^\d+$/);
    expect(set.spec?.selector?.matchLabels?.[labels.templateHash]).toBe(hash);
    expect(set.spec?.template?.metadata?.labels?.[labels.templateHash]).toBe(hash);
    expect(set.metadata.ownerReferences).toMatchObject([
      { kind: 'MachineDeployment', name: 'empty', controller: true },
    ]);
  });

  it('[mcm 11] [mcm 14] [mcm 21] [mcm 58] [mcm 59] [mcm 69] goes to 100 machines, to 30, to 0 and away, and leaves nothing', async () => {
    const { control, cloud, namespace } = millwright;
    const key = { namespace, name: 'pool' };
    await millwright.createDeployment('pool', 100);

    const all = await millwright.untilMachines(100, 'Running', 180_000);

    for (const machine of all) {
      expect(machine.metadata.finalizers).toContain(finalizers.machine);
      expect(machine.metadata.annotations?.[annotations.priority]).toBe('3');
      expect(machine.metadata.labels?.[labels.node]).toBe(machine.metadata.name);
      expect(machine.metadata.ownerReferences).toMatchObject([{ kind: 'MachineSet', controller: true }]);
      expect(machine.spec?.providerID).toMatch(/^simulated:\/\/\/here\//);
      expect(machine.status?.lastOperation).toMatchObject({ type: 'Create', state: 'Successful' });
      expect(machine.status?.lastOperation?.description).toMatch(/successfully joined the cluster after \d+ s$/);
    }
    expect(await cloud.stats()).toMatchObject({ vmsEver: 100, vmsNow: 100 });
    expect(await millwright.nodes()).toHaveLength(100);
    const [set] = (await control.list(machineSets, { namespace, labelSelector: `${labels.name}=pool` })).items;
    await until('the counts are written', async () => {
      const { status } = await control.get(machineDeployments, key);
      return status?.availableReplicas === 100 && status.readyReplicas === 100 ? status : undefined;
    });
    const setStatus = (await control.get(machineSets, { namespace, name: set?.metadata.name ?? '' })).status;
    expect(setStatus).toMatchObject({
      replicas: 100,
      fullyLabeledReplicas: 100,
      readyReplicas: 100,
      availableReplicas: 100,
    });

    await millwright.scale('pool', 30);
    await millwright.untilMachines(30, 'Running', 120_000);
    await until('the VMs of 70 are gone', async () => (await cloud.stats()).vmsNow === 30);

    await millwright.scale('pool', 0);
    await until('no machine is left', async () => (await millwright.machines()).length === 0);
    await control.delete(machineDeployments, key);

    await until('the deployment is gone', async () => (await control.find(machineDeployments, key)) === undefined);
    expect((await control.list(machineSets, { namespace, labelSelector: `${labels.name}=pool` })).items).toEqual([]);
    expect(await millwright.nodes()).toEqual([]);
    expect(await cloud.stats()).toMatchObject({ vmsEver: 100, vmsNow: 0 });
  }, 400_000);

  it('[mcm 69] deletes the machines of a set without a deployment, then the set', async () => {
    const { control, namespace } = millwright;
    const matchLabels = { group: 'lone' };
    const key = { namespace, name: 'lone' };
    const template = { metadata: { labels: matchLabels }, spec: { class: { kind: 'MachineClass', name: 'small' } } };
    await control.create(machineSets, { metadata: key, spec: { replicas: 2, selector: { matchLabels }, template } });
    const own = async () =>
      (await millwright.machines()).filter(({ metadata }) => metadata.labels?.['group'] === 'lone');
    await until('2 machines run', async () => {
      const found = await own();
      return found.length === 2 && found.every((machine) => phaseOf(machine) === 'Running');
    });

    await control.delete(machineSets, key);

    await until('the set is gone', async () => (await control.find(machineSets, key)) === undefined);
    expect(await own()).toEqual([]);
  });
});
