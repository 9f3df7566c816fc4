import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import type { SimulatedResource } from '../../deploy/local/simulated-cloud/admin.ts';
import { type Installation, phaseOf, plainSecret, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

function countKinds(resources: readonly SimulatedResource[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of resources) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

describe('a MachineDeployment', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ alone: 'a hundred machines keep everybody else waiting' });
    millwright.recordAs('scale');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  it('[mcm 70] with 0 replicas makes one set with the hash in its labels, selector and template', async () => {
    const { control, namespace } = millwright;
    await millwright.createDeployment('empty', 0);

    await until('the deployment is complete', async (see) => {
      const { status } = see(await control.get(machineDeployments, { namespace, name: 'empty' }));
      return status?.conditions?.some(({ reason }) => reason === 'NewMachineSetAvailable');
    });
    const { items } = await control.list(machineSets, { namespace, labelSelector: `${labels.name}=empty` });
    const [set, ...others] = items;
    expect(others).toEqual([]);
    if (set === undefined) throw new Error('there is no set');

    const hash = set.metadata.labels?.[labels.templateHash];
    expect(set.metadata.name).toMatch(/^empty-[bcdfghjklmnpqrstvwxz2-9]{5}$/);
    expect(hash).toMatch(/^\d+$/);
    expect(set.spec?.selector?.matchLabels?.[labels.templateHash]).toBe(hash);
    expect(set.spec?.template?.metadata?.labels?.[labels.templateHash]).toBe(hash);
    expect(set.metadata.ownerReferences).toMatchObject([
      { kind: 'MachineDeployment', name: 'empty', controller: true },
    ]);
  });

  it('[mcm 14] [mcm 21] [mcm 58] [mcm 59] goes to 100 machines, to 30, to 0 and away, and leaves no VM, disk, NIC or address', async () => {
    const { control, cloud, namespace } = millwright;
    // The cloud deletes VMs alone: what else belongs to them, Millwright has to.
    await cloud.setFaults({ kind: 'leak', operation: 'delete' });
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
    const joined = await millwright.nodes();
    expect(joined).toHaveLength(100);
    for (const { status } of joined)
      expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
    expect(countKinds(await cloud.resources())).toEqual({ vm: 100, disk: 100, nic: 100, ip: 100 });
    const [set] = (await control.list(machineSets, { namespace, labelSelector: `${labels.name}=pool` })).items;
    for (const { metadata } of all) {
      expect(metadata.name.startsWith(`${set?.metadata.name}-`)).toBe(true);
      expect(metadata.ownerReferences).toMatchObject([{ uid: set?.metadata.uid }]);
    }
    await until('the counts are written', async (see) => {
      const { status } = see(await control.get(machineDeployments, key));
      return status?.availableReplicas === 100 && status.readyReplicas === 100 ? status : undefined;
    });
    const setStatus = await until('the counts of the set are written, too', async (see) => {
      const { status } = see(await control.get(machineSets, { namespace, name: set?.metadata.name ?? '' }));
      return status?.availableReplicas === 100 ? status : undefined;
    });
    expect(setStatus).toMatchObject({ replicas: 100, fullyLabeledReplicas: 100, readyReplicas: 100 });

    await millwright.scale('pool', 30);
    await millwright.untilMachines(30, 'Running');
    const left = await cloud.resources();
    expect(countKinds(left)).toEqual({ vm: 30, disk: 30, nic: 30, ip: 30 });
    const uids = new Set((await millwright.machines()).map(({ metadata }) => metadata.uid));
    expect(left.filter(({ tags }) => !uids.has(tags[names.machineUid] ?? ''))).toEqual([]);

    await millwright.scale('pool', 0);
    await until('no machine is left', async (see) => see(await millwright.machines()).length === 0);
    await control.delete(machineDeployments, key);

    await until(
      'the deployment is gone',
      async (see) => see(await control.find(machineDeployments, key)) === undefined,
    );
    expect((await control.list(machineSets, { namespace, labelSelector: `${labels.name}=pool` })).items).toEqual([]);
    expect(await millwright.nodes()).toEqual([]);
    expect(await cloud.stats()).toMatchObject({ vmsEver: 100 });
    expect(await cloud.resources()).toEqual([]);
    await cloud.setFaults();
  }, 400_000);

  it('[mcm 58] leaves nothing in the cloud of a machine whose creation failed half-way', async () => {
    const { control, cloud, namespace } = millwright;
    const half: Parameters<typeof cloud.setFaults>[0] = { kind: 'leak', parts: ['nic'], operation: 'create' };
    await cloud.setFaults(half, { kind: 'outage', how: 'unavailable', operation: 'delete' });
    await millwright.createDeployment('half', 1);
    await until('the creation has failed', async (see) => see(await cloud.resources()).length > 0);
    expect(new Set((await cloud.resources()).map(({ kind }) => kind))).toEqual(new Set(['nic']));
    await cloud.setFaults(half);

    await control.delete(machineDeployments, { namespace, name: 'half' });

    await until('no machine is left', async (see) => see(await millwright.machines()).length === 0);
    expect(await cloud.resources()).toEqual([]);
    await cloud.setFaults();
  });

  it('[mcm 6] [mcm 11] makes one create call for a machine, with its class and both of its Secrets', async () => {
    const { cloud, namespace } = millwright;
    await millwright.putSecret('own', { token: 'overridden', userData: 'of the class' });
    await millwright.putSecret('shared', { token: plainSecret.token });
    const tags = { cluster: namespace, pool: 'merged' };
    await millwright.createClass('merged', {
      providerSpec: { endpoint: cloud.url, machineType: 'medium', region: 'there', tags, labels: { pool: 'merged' } },
      ...{ secretRef: { namespace, name: 'own' }, credentialsSecretRef: { namespace, name: 'shared' } },
    });

    const { name, uid } = await millwright.createMachine('merged', { class: { kind: 'MachineClass', name: 'merged' } });
    await millwright.untilMachines(1, 'Running');

    const creates = (await cloud.calls()).filter(
      ({ operation, token }) => operation === 'create' && token?.includes(uid),
    );
    expect(creates).toMatchObject([{ outcome: 201 }]);
    const [vm, ...others] = (await cloud.vms({ all: true })).filter((each) => each.name === name);
    expect(others).toEqual([]);
    expect(vm).toMatchObject({ machineType: 'medium', region: 'there', userData: 'of the class' });
    expect(vm?.tags).toEqual({ ...tags, [names.machineUid]: uid });
    expect(vm?.node?.labels).toEqual({ pool: 'merged' });
    expect(creates[0]?.vm).toBe(vm?.id);
  });

  it('[mcm 69] deletes the machines of a set without a deployment, then the set', async () => {
    const { control, namespace } = millwright;
    const matchLabels = { group: 'lone' };
    const key = { namespace, name: 'lone' };
    const template = { metadata: { labels: matchLabels }, spec: { class: { kind: 'MachineClass', name: 'small' } } };
    await control.create(machineSets, { metadata: key, spec: { replicas: 2, selector: { matchLabels }, template } });
    const own = async () =>
      (await millwright.machines()).filter(({ metadata }) => metadata.labels?.['group'] === 'lone');
    await until('2 machines run', async (see) => {
      const found = see(await own());
      return found.length === 2 && found.every((machine) => phaseOf(machine) === 'Running');
    });

    await control.delete(machineSets, key);

    await until('the set is gone', async (see) => see(await control.find(machineSets, key)) === undefined);
    expect(await own()).toEqual([]);
  });
});
