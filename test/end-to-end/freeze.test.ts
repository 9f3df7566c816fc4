/**
 * Sets with more machines than they may have, because somebody else creates machines, and sets with many that are being
 * deleted.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import { apiVersionOf } from '../../api/objects.ts';
import { type Event, events, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { isActive, isAvailable } from '../support/machine-facts.ts';
import { until } from '../support/until.ts';

const hold = 'example.com/hold';

async function setOf({ control, namespace }: Installation, name: string): Promise<MachineSet> {
  const { items } = await control.list(machineSets, { namespace });
  const found = items.find(({ metadata }) => metadata.ownerReferences?.[0]?.name === name);
  if (found === undefined) throw new Error(`${name} has no set`);
  return found;
}

/** What says that a deployment and its set are frozen: labels, and reasons of the conditions. */
async function freezeOf(millwright: Installation, name: string) {
  const [deployment, set] = await Promise.all([millwright.deployment(name), setOf(millwright, name)]);
  const frozen = ({ type, status }: { type: string; status: string }) => type === 'Frozen' && status === 'True';
  return {
    deployment: [
      deployment.metadata.labels?.[labels.freeze],
      deployment.status?.conditions?.find(frozen)?.reason,
      deployment.metadata.annotations?.[annotations.unfreeze],
    ],
    set: [
      set.metadata.labels?.[labels.freeze],
      set.status?.machineSetCondition?.find(frozen)?.reason,
      set.metadata.annotations?.[annotations.unfreeze],
    ],
  };
}

const overshooting = ['True', 'OverShootingReplicaCount', undefined];
const thawed = { deployment: [undefined, undefined, undefined], set: [undefined, undefined, undefined] };

async function untilFreezeIs(millwright: Installation, name: string, wanted: object): Promise<void> {
  let last: object = {};
  await until(
    `the freeze of ${name} is ${JSON.stringify(wanted)}`,
    async () => {
      last = await freezeOf(millwright, name);
      return JSON.stringify(last) === JSON.stringify(wanted);
    },
    { describe: async () => `${JSON.stringify(last)}\n${await millwright.story()}` },
  );
}

/** Waits until the Events of this reason on the set of a deployment are one object that counts to this number. */
async function untilCounted(millwright: Installation, name: string, reason: string, count: number): Promise<void> {
  const { control, namespace } = millwright;
  const { uid } = (await setOf(millwright, name)).metadata;
  const find = async (): Promise<Event[]> =>
    (await control.list(events, { namespace })).items.filter(
      (each) => each.reason === reason && each.regarding?.uid === uid,
    );
  await until(`${reason} was counted ${count} times`, async (see) => {
    const [first] = see(await find());
    return first !== undefined && (first.series?.count ?? 1) === count;
  });
  expect(await find()).toHaveLength(1);
}

describe('a deployment whose machines take long to be deleted', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation();
    await millwright.createDeployment('pool', 6, {
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
    });
    await millwright.untilMachines(6, 'Running');
    await millwright.cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'delete' });
  });
  afterAll(async () => {
    await millwright?.cloud.setFaults();
    await millwright?.stop();
  });

  /** Waits for so many machines that run, and so many that are being deleted. */
  async function untilThere(running: number, leaving: number): Promise<void> {
    await until(`${running} run and ${leaving} are being deleted`, async (see) => {
      const found = await millwright.machinesOf('pool');
      const active = found.filter(isActive);
      const counts = see([active.filter(isAvailable).length, active.length, found.length - active.length]);
      return String(counts) === String([running, running, leaving]);
    });
  }

  it('has its replicas again when it is scaled down and up, and is not frozen by those that are being deleted', async () => {
    await millwright.scale('pool', 1);
    await untilThere(1, 5);
    await untilFreezeIs(millwright, 'pool', thawed);

    await millwright.scale('pool', 6);
    await untilThere(6, 5);
    await untilFreezeIs(millwright, 'pool', thawed);
  });

  it('gets another machine for one that somebody deletes', async () => {
    const { control, namespace } = millwright;
    const [first] = (await millwright.machinesOf('pool')).filter(isActive);
    await control.delete(machines, { namespace, name: first!.metadata.name });

    await untilThere(6, 6);
  });

  it('replaces all of its machines, and is not frozen by those that it replaces', async () => {
    const { target } = millwright;
    const taint = { key: 'aws-node-termination-handler/spot-itn', effect: 'NoSchedule' };
    for (const { metadata } of (await millwright.machinesOf('pool')).filter(isActive)) {
      await target.patch(nodes, { name: metadata.name }, mergePatch({ spec: { taints: [taint] } }));
    }
    await untilThere(6, 12);
    await untilFreezeIs(millwright, 'pool', thawed);
  });
});

describe('a set in which somebody else creates machines', () => {
  let millwright: Installation;
  beforeAll(async () => {
    // So a freeze lasts while machines are missing: with the default only while there are too many.
    millwright = await startInstallation({ flags: ['--safety-down', '5'] });
    await millwright.createDeployment('pool', 4); // frozen at 4 + 1 + 2 machines, thawed at 2
    await millwright.untilMachines(4, 'Running');
  });
  afterAll(async () => {
    for (const { metadata } of (await millwright?.machines()) ?? []) {
      if (metadata.finalizers?.includes(hold)) await release(metadata.name);
    }
    await millwright?.stop();
  });

  /** More than it takes to freeze the set: some of them may be deleted before all exist. */
  const surplusOf = (prefix: string) => Array.from({ length: 6 }, (_, i) => `${prefix}-${i}`);

  /** Machines that stay when they are deleted, until they are released. */
  async function overshoot(names: readonly string[]): Promise<void> {
    const { control, namespace } = millwright;
    const { metadata, spec: of } = await setOf(millwright, 'pool');
    const { name, uid } = metadata;
    const owner = { apiVersion: apiVersionOf(machineSets), kind: 'MachineSet', name, uid, controller: true };
    const common = {
      namespace,
      labels: of?.template?.metadata?.labels ?? {},
      annotations: { [annotations.priority]: '1' }, // deleted before the others
      finalizers: [hold],
    };
    const spec = { class: { kind: 'MachineClass', name: 'small' } };
    // All at once: their owner deletes what it has too much of.
    await Promise.all(
      names.map((each) =>
        control.create(machines, { metadata: { ...common, name: each, ownerReferences: [owner] }, spec }),
      ),
    );
  }

  async function release(name: string): Promise<void> {
    const { control, namespace } = millwright;
    await until(`only ${name} is held`, async (see) => {
      const machine = see(await control.find(machines, { namespace, name }));
      return machine === undefined || (machine.metadata.finalizers?.length === 1 && machine);
    });
    await control.patch(machines, { namespace, name }, mergePatch({ metadata: { finalizers: null } }));
  }

  async function patchDeployment(metadata: object): Promise<void> {
    const { control, namespace } = millwright;
    await control.patch(machineDeployments, { namespace, name: 'pool' }, mergePatch({ metadata }));
  }

  it('[mcm 85] is frozen by label, condition and Event: its surplus is deleted, and a missing machine is not made', async () => {
    const surplus = surplusOf('first');
    await overshoot(surplus);
    await untilFreezeIs(millwright, 'pool', { deployment: overshooting, set: overshooting });
    await untilCounted(millwright, 'pool', 'FrozeMachineSet', 1);

    await until('the surplus is being deleted', async (see) => {
      const found = see(await millwright.machinesOf('pool'));
      return found.filter(({ metadata }) => metadata.deletionTimestamp !== undefined).length === surplus.length;
    });
    for (const name of surplus) await release(name);
    const [one] = await until('four are left', async (see) => {
      const found = see(await millwright.machinesOf('pool'));
      return found.length === 4 && found;
    });
    const { control, namespace } = millwright;
    await control.delete(machines, { namespace, name: one?.metadata.name ?? '' });
    await until('three are left', async (see) => see(await millwright.machinesOf('pool')).length === 3);
    // Another deployment gets its machine meanwhile.
    await millwright.createDeployment('other', 1);
    await millwright.untilMachines(4, 'Running');
    expect(await millwright.machinesOf('pool')).toHaveLength(3);
    expect(await freezeOf(millwright, 'pool')).toEqual({ deployment: overshooting, set: overshooting });
  });

  it('[mcm 87] keeps its deployment frozen, whoever takes the label away, and no deployment is frozen without it', async () => {
    await patchDeployment({ labels: { [labels.freeze]: null } });
    await untilFreezeIs(millwright, 'pool', { deployment: overshooting, set: overshooting });

    const { control, namespace } = millwright;
    const key = { namespace, name: 'other' };
    const mark = await control.patch(
      machineDeployments,
      key,
      mergePatch({ metadata: { labels: { [labels.freeze]: 'True' } } }),
    );
    expect(mark.metadata.labels?.[labels.freeze]).toBe('True');
    await untilFreezeIs(millwright, 'other', thawed);
  });

  it('[mcm 86] thaws by annotation, and with few enough machines: label, condition and annotation go, and machines are made', async () => {
    await patchDeployment({ annotations: { [annotations.unfreeze]: 'yes' } });
    await untilFreezeIs(millwright, 'pool', thawed);
    await untilCounted(millwright, 'pool', 'UnfrozeMachineSet', 1);
    await millwright.untilMachines(5, 'Running');

    const surplus = surplusOf('second');
    await overshoot(surplus);
    await untilFreezeIs(millwright, 'pool', { deployment: overshooting, set: overshooting });
    await untilCounted(millwright, 'pool', 'FrozeMachineSet', 2);
    for (const name of surplus) await release(name);
    await until('four are left', async (see) => see(await millwright.machinesOf('pool')).length === 4);
    expect((await freezeOf(millwright, 'pool')).set).toEqual(overshooting);

    // Now it is thawed at six, and has four.
    await millwright.scale('pool', 8);
    await untilFreezeIs(millwright, 'pool', thawed);
    await untilCounted(millwright, 'pool', 'UnfrozeMachineSet', 2);
    await millwright.untilMachines(9, 'Running');
  });
});
