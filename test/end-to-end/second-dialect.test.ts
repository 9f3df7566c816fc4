/** A second API of machines goes through the same engine: nothing is edited for it outside of test/support/fleet. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ObjectRef } from '../../api/model/ref.ts';
import { vmOf } from '../../api/provider-id.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { fleet } from '../support/fleet/dialect.ts';
import { type Fleet, startFleet } from '../support/fleet/millwright.ts';
import { type FleetMachine, fleetDeployments, fleetMachines } from '../support/fleet/resources.ts';
import { until } from '../support/until.ts';

describe('an API without classes and phases, whose Nodes are found by provider ID', () => {
  let millwright: Fleet;
  beforeAll(async () => {
    millwright = await startFleet();
  });
  afterAll(() => millwright?.stop());

  const find = (ref: { namespace: string; name: string }) => millwright.control.find(fleetMachines, ref);
  const isRunning = (machine: FleetMachine | undefined) => machine?.status?.nodeHealthy === true;

  async function running(ref: ObjectRef): Promise<FleetMachine> {
    return until(`${ref.name} runs`, async (see) => {
      const machine = see(await find(ref));
      return isRunning(machine) ? machine : undefined;
    });
  }
  const nodeOf = ({ spec }: FleetMachine) => ({ name: spec?.nodeName ?? '' });
  const listMachines = async () =>
    (await millwright.control.list(fleetMachines, { namespace: millwright.namespace })).items;

  async function setReady(machine: FleetMachine, status: 'True' | 'False'): Promise<void> {
    const patch = strategicMergePatch({ status: { conditions: [{ type: 'Ready', status }] } });
    await millwright.target.patch(nodes, nodeOf(machine), patch, { subresource: 'status' });
  }

  it('creates a VM from what the Machine carries, and finds its Node by provider ID', async () => {
    const machine = await running(await millwright.createFleetMachine('found'));

    const node = await millwright.target.get(nodes, nodeOf(machine));
    expect(node.metadata.name).toBe('node-of-found');
    expect(vmOf(node.spec?.providerID ?? '')).toBe(vmOf(machine.spec?.providerID ?? '-'));
    expect(node.metadata.labels?.[fleet.marks.nodeMachineLabel]).toBe('found');
    expect(node.metadata.finalizers).toContain(fleet.marks.nodeFinalizer);
    expect(machine.metadata.finalizers).toContain(fleet.marks.finalizer);
    expect(machine.status).not.toHaveProperty('currentStatus');
  });

  it('records an unhealthy Node, and that it is healthy again', async () => {
    const ref = await millwright.createFleetMachine('ailing');
    const machine = await running(ref);

    await setReady(machine, 'False');
    await until('it is unhealthy', async (see) => see(await find(ref))?.status?.nodeHealthy === false);
    await setReady(machine, 'True');
    const healthy = await running(ref);

    expect(healthy.spec?.providerID).toBe(machine.spec?.providerID);
  });

  it('replaces the VM of a Machine whose Node was deleted', async () => {
    const ref = await millwright.createFleetMachine('replaced');
    const before = await running(ref);

    await millwright.target.delete(nodes, nodeOf(before));
    const after = await until('it has another VM', async (see) => {
      const machine = see(await find(ref));
      const { providerID } = machine?.spec ?? {};
      const isAnother = providerID !== undefined && providerID !== before.spec?.providerID;
      return isAnother && isRunning(machine) ? machine : undefined;
    });

    expect(after.metadata.uid).toBe(ref.uid);
    expect(after.metadata.deletionTimestamp).toBeUndefined();
    const made = await millwright.vmsOf(ref);
    expect(made.map(({ alive }) => alive)).toEqual([false, true]);
  });

  it('deletes VM and Node with the Machine', async () => {
    const ref = await millwright.createFleetMachine('deleted');
    const machine = await running(ref);

    await millwright.control.delete(fleetMachines, ref);
    await until('it is gone', async (see) => see(await find(ref)) === undefined);

    expect((await millwright.vmsOf(ref)).filter(({ alive }) => alive)).toEqual([]);
    expect(await millwright.target.find(nodes, nodeOf(machine))).toBeUndefined();
  });

  it('rolls a deployment over within its bounds', async () => {
    const { control, namespace, spec } = millwright;
    const key = { namespace, name: 'pool' };
    const labels = { pool: 'a' };
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    await control.create(fleetDeployments, {
      metadata: key,
      spec: {
        replicas: 3,
        selector: { matchLabels: labels },
        strategy,
        template: { metadata: { labels }, spec },
      },
    });
    const ofPool = async () => (await listMachines()).filter(({ metadata }) => metadata.labels?.['pool'] === 'a');
    const untilThree = (machineType: string) =>
      until(`three ${machineType} machines run`, async (see) => {
        const own = see(await ofPool());
        const isDone = own.length === 3 && own.every(isRunning);
        return isDone && own.every((each) => JSON.stringify(each.spec).includes(`"${machineType}"`));
      });
    await untilThree('small');

    let most = 0;
    const template = { spec: { providerSpec: { ...spec.providerSpec, machineType: 'large' } } };
    await control.patch(fleetDeployments, key, mergePatch({ spec: { template } }));
    await until('it has rolled over', async (see) => {
      const own = see(await ofPool());
      most = Math.max(most, own.filter(({ metadata }) => metadata.deletionTimestamp === undefined).length);
      return own.every((each) => JSON.stringify(each.spec).includes('"large"'));
    });
    await untilThree('large');

    expect(most).toBe(4);
    await control.delete(fleetDeployments, key);
    await until('its machines are gone', async (see) => see(await ofPool()).length === 0);
  });
});
