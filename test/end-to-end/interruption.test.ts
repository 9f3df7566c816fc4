import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { verdictOf } from '../../api/verdict.ts';
import { nodes, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { update } from '../../kube/update.ts';
import { interruptionScheduleId } from '../../temporal/schedules.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

const spotTaint = 'aws-node-termination-handler/spot-itn';

describe('a VM that is about to be taken away', () => {
  let millwright: Installation;

  beforeAll(async () => {
    // The kubelets report once and no more, so that what a test writes into a Node stays.
    const cloud = { statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 200 };
    millwright = await startInstallation({ flags: ['--interruption-check-period', '1s'], cloud });
    millwright.recordAs('interruption');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const hold = 'example.com/hold';

  /** Runs a pod on the Node of a machine, which has its name. It stays to be looked at until it is let go. */
  async function runHeldPod({ namespace, name }: ObjectRef): Promise<void> {
    await millwright.target.create(pods, {
      metadata: { namespace, name, finalizers: [hold] },
      spec: { nodeName: name, containers: [{ name: 'app', image: 'app' }] },
    });
  }

  async function untilEvicted({ namespace, name }: ObjectRef): Promise<void> {
    await until(
      `the pod on ${name} is evicted`,
      async () => {
        const { metadata, status } = await millwright.target.get(pods, { namespace, name });
        const cause = status?.conditions?.find(({ type }) => type === 'DisruptionTarget');
        return metadata.deletionTimestamp !== undefined && cause?.reason === 'EvictionByEvictionAPI';
      },
      { describe: () => millwright.story() },
    );
  }

  async function letGo({ namespace, name }: ObjectRef): Promise<void> {
    await millwright.target.patch(pods, { namespace, name }, mergePatch({ metadata: { finalizers: null } }));
  }

  async function setTaint(name: string, key: string | undefined): Promise<void> {
    const { uid } = (await millwright.target.get(nodes, { name })).metadata;
    const taints = key === undefined ? null : [{ key, effect: 'NoSchedule' }];
    await update(millwright.target, nodes, { name, uid }, () => ({ spec: { taints } }));
  }

  const untilRunning = (deployment: string, count: number, without?: ObjectRef) =>
    until(
      `${count} machines of ${deployment} run`,
      async () => {
        const others = (await millwright.machinesOf(deployment)).filter(
          ({ metadata }) => metadata.uid !== without?.uid,
        );
        const running = others.filter((machine) => phaseOf(machine) === 'Running');
        return others.length === count && running.length === count ? running : undefined;
      },
      { describe: () => millwright.story() },
    );

  const vmStates = async (ref: ObjectRef) => (await millwright.vmsOf(ref)).map(({ state }) => state);

  async function providerSpecOf(name: string): Promise<object> {
    const { providerSpec } = await millwright.control.get(machineClasses, { namespace: millwright.namespace, name });
    return providerSpec as object;
  }

  /** Has the VM of one of three machines taken, and expects what follows. */
  async function expectReplaced(deployment: string, take: (ref: ObjectRef) => Promise<void>, because: string) {
    const before = await untilRunning(deployment, 3);
    const [first, ...others] = before.map((machine) => refOf(machine));
    const taken = first!;
    await runHeldPod(taken);

    await take(taken);

    // It is evicted, and the replacement runs while the pod has not gone yet.
    await untilEvicted(taken);
    const after = await untilRunning(deployment, 3, taken);
    expect(await vmStates(taken)).toEqual(['running']);
    const uids = after.map(({ metadata }) => metadata.uid);
    expect(uids).toEqual(expect.arrayContaining(others.map(({ uid }) => uid)));
    await millwright.untilEvent(taken.name, 'VmInterrupted');
    const reported = await millwright.eventsOf(taken.name, 'VmInterrupted');
    expect(reported.map(({ note }) => note)).toEqual([
      `the VM is about to be taken away: node ${taken.name} has ${because}`,
    ]);

    await letGo(taken);
    await millwright.untilGone(taken);
    expect(await vmStates(taken)).toEqual(['terminated']);
    expect(await millwright.machinesOf(deployment)).toHaveLength(3);
    for (const other of others) expect(await vmStates(other)).toEqual(['running']);
  }

  it('is drained and replaced when its Node has the taint of a termination handler, and no other machine is', async () => {
    await millwright.createDeployment('tainted', 3);
    await expectReplaced('tainted', (ref) => setTaint(ref.name, spotTaint), `the taint ${spotTaint}`);
  });

  it('is drained and replaced when the cloud says so, and no other machine is', async () => {
    const { control, cloud, namespace } = millwright;
    await millwright.createClass('spot', { providerSpec: { ...(await providerSpecOf('small')), spot: true } });
    const template = {
      metadata: { labels: { [labels.name]: 'spot' } },
      spec: { class: { kind: 'MachineClass', name: 'spot' } },
    };
    await millwright.createDeployment('spot', 3, { template });
    const plain = await millwright.createMachine('ordinary');
    await millwright.untilPhase(plain, 'Running');

    const interrupt = async (ref: ObjectRef) => cloud.interruptVm((await millwright.vmsOf(ref))[0]!.id, 600_000);
    await expectReplaced('spot', interrupt, 'the taint millwright.dev/vm-interrupted (interrupted)');

    expect(await vmStates(plain)).toEqual(['running']);
    expect(phaseOf(await control.get(machines, plain))).toBe('Running');
    await control.delete(machines, plain);
    await control.delete(machineDeployments, { namespace, name: 'spot' });
    await control.delete(machineClasses, { namespace, name: 'spot' });
  });

  it('is asked for only while there is a class whose VMs may be taken away', async () => {
    const { control, temporal, namespace } = millwright;
    const isScheduled = () =>
      temporal.schedule
        .getHandle(interruptionScheduleId(namespace))
        .describe()
        .then(
          () => true,
          () => false,
        );
    const untilScheduled = (wanted: boolean) =>
      until(`scheduled: ${wanted}`, async (see) => see(await isScheduled()) === wanted, {
        describe: () => millwright.story(),
      });
    await untilScheduled(false);

    await millwright.createClass('other', { providerSpec: await providerSpecOf('small') });
    await until('the class is checked', async () => {
      return verdictOf(await control.get(machineClasses, { namespace, name: 'other' })) !== undefined;
    });
    expect(await isScheduled()).toBe(false);
    await millwright.createClass('spare', { providerSpec: { ...(await providerSpecOf('small')), spot: true } });
    await untilScheduled(true);
    await control.delete(machineClasses, { namespace, name: 'spare' });
    await untilScheduled(false);
  });

  it('makes a Machine without an owner Failed, which is left alone, until its Node says so no more', async () => {
    const ref = await millwright.createMachine('alone');
    await millwright.untilPhase(ref, 'Running');
    await setTaint(ref.name, spotTaint);

    const { status, metadata } = await millwright.untilPhase(ref, 'Failed');
    expect(metadata.deletionTimestamp).toBeUndefined();
    expect(status?.lastOperation).toMatchObject({
      type: 'HealthCheck',
      state: 'Failed',
      description: `the VM is about to be taken away: node alone has the taint ${spotTaint}`,
    });
    expect(await vmStates(ref)).toEqual(['running']);

    await setTaint(ref.name, undefined);
    await millwright.untilPhase(ref, 'Running');
    await millwright.control.delete(machines, ref);
    await millwright.untilGone(ref);
  });
});
