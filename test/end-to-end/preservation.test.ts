/** Machines that are kept for people to look at, in every way in which MCM keeps them. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { type Node, nodes, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

const { preserve, scaleDownDisabled, scaleDownDisabledByMcm, lastAppliedNodePreserveValue } = annotations;
const byMcm = { [scaleDownDisabled]: 'true', [scaleDownDisabledByMcm]: 'true' };

describe('a preserved machine', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation({
      // The kubelets report once and no more, so that what a test writes into a Node stays.
      cloud: { statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 200 },
      flags: ['--machine-preserve-timeout', '1h', '--max-health-replacements', '100%', '--outage-share', '100'],
    });
    millwright.recordAs('preservation');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  /** A deployment whose machines run; they have failed when their Nodes were unhealthy for a second. */
  async function pool(
    name: string,
    replicas: number,
    spec: object = {},
    ofMachines: object = {},
  ): Promise<ObjectRef[]> {
    await millwright.createDeployment(name, replicas, {
      ...spec,
      template: {
        metadata: { labels: { [labels.name]: name } },
        spec: { class: { kind: 'MachineClass', name: 'small' }, healthTimeout: '1s', ...ofMachines },
      },
    });
    return (await millwright.untilRunning(name, replicas)).map(refOf);
  }

  const wait = <T>(what: string, check: () => Promise<T | false | undefined>): Promise<T> =>
    until(what, check, { describe: () => millwright.story() });

  const machineOf = (ref: ObjectRef): Promise<Machine> => millwright.control.get(machines, ref);
  const nodeOf = ({ name }: ObjectRef): Promise<Node> => millwright.target.get(nodes, { name });
  const expiryOf = ({ status }: Machine) => status?.currentStatus?.preserveExpiryTime;
  const conditionOf = ({ status }: Node) => status?.conditions?.find(({ type }) => type === 'Preserved');
  const isCordoned = ({ spec }: Node) => spec?.unschedulable === true;
  const marksOf = ({ metadata }: Node) => ({
    [scaleDownDisabled]: metadata.annotations?.[scaleDownDisabled],
    [scaleDownDisabledByMcm]: metadata.annotations?.[scaleDownDisabledByMcm],
  });

  const annotated = (value: string | null) => mergePatch({ metadata: { annotations: { [preserve]: value } } });
  const annotate = (ref: ObjectRef, value: string | null) => millwright.control.patch(machines, ref, annotated(value));
  const annotateNode = ({ name }: ObjectRef, value: string | null) =>
    millwright.target.patch(nodes, { name }, annotated(value));
  const fail = ({ name }: ObjectRef) => reportCondition(millwright.target, name, 'Ready', 'Unknown');
  const recover = ({ name }: ObjectRef) => reportCondition(millwright.target, name, 'Ready', 'True');

  const untilPreserved = (ref: ObjectRef) =>
    wait(`${ref.name} is preserved`, async () => {
      const [machine, node] = [await machineOf(ref), await nodeOf(ref)];
      const isMarked = marksOf(node)[scaleDownDisabled] === 'true'; // written last
      return expiryOf(machine) !== undefined && conditionOf(node)?.status === 'True' && isMarked && { machine, node };
    });

  /** Preserved as a machine that has failed. */
  const untilKept = (ref: ObjectRef) =>
    wait(`${ref.name} has failed and is preserved`, async () => {
      const node = await nodeOf(ref);
      const machine = await machineOf(ref); // after it: the expiry was written before anything on the Node
      const isDrained = conditionOf(node)?.message?.startsWith('Preserved node drained successfully.') === true;
      return phaseOf(machine) === 'Failed' && isDrained && isCordoned(node) && { machine, node };
    });

  const untilReleased = (ref: ObjectRef) =>
    wait(`${ref.name} is not preserved`, async () => {
      const [machine, node] = [await machineOf(ref), await nodeOf(ref)];
      return expiryOf(machine) === undefined && conditionOf(node)?.status === 'False' && { machine, node };
    });

  async function runPod({ name: nodeName, namespace }: ObjectRef, name: string): Promise<void> {
    await millwright.target.create(pods, {
      metadata: { namespace, name },
      spec: { nodeName, containers: [{ name: 'app', image: 'app' }], tolerations: [{ operator: 'Exists' }] },
    });
  }

  const isGone = async (namespace: string, name: string) =>
    (await millwright.target.find(pods, { namespace, name })) === undefined;

  const inHours = (time: string | undefined) => (Date.parse(time ?? '') - Date.now()) / 3_600_000;

  it('[mcm 93] by `now` has it at once, with expiry, condition and mark, and stays when it fails until its time is over', async () => {
    const [ref] = (await pool('now', 1)) as [ObjectRef];
    await annotate(ref, 'now');
    const { machine, node } = await untilPreserved(ref);
    expect(inHours(expiryOf(machine))).toBeCloseTo(1, 1);
    expect(marksOf(node)).toEqual(byMcm);
    expect(isCordoned(node)).toBe(false);
    expect(conditionOf(node)).toMatchObject({
      reason: 'Preserved by user.',
      message: `Machine preserved until ${expiryOf(machine)}.`,
    });
    expect((await millwright.describe(ref)).preservedUntil).toBe(expiryOf(machine));
    await millwright.untilEvent(ref.name, 'Preserved');

    await fail(ref);
    const kept = await untilKept(ref);
    expect(expiryOf(kept.machine)).toBe(expiryOf(machine));
    expect(await millwright.describe(ref)).toMatchObject({ doing: 'keeping the failed machine' });
    await wait('the deployment counts it', async () => {
      const { status } = await millwright.control.get(machineDeployments, { namespace: ref.namespace, name: 'now' });
      return status?.preservedFailedReplicas === 1 && status;
    });

    const soon = new Date(Date.now() + 3_000).toISOString().replace(/\.\d+/, '');
    const over = mergePatch({ status: { currentStatus: { preserveExpiryTime: soon } } });
    await millwright.control.patch(machines, ref, over, { subresource: 'status' });
    await millwright.untilRunning('now', 1, { without: [ref] });
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(soon));
    expect(await millwright.vmsOf(ref)).toMatchObject([{ state: 'terminated' }]);
  });

  it('[mcm 94] by `when-failed` has it from its failure on, with cordon and drain, until it recovers, and then again', async () => {
    const [ref] = (await pool('armed', 1)) as [ObjectRef];
    const { namespace } = ref;
    await annotateNode(ref, 'when-failed');
    await wait('it is noted', async () => {
      return (await machineOf(ref)).metadata.annotations?.[lastAppliedNodePreserveValue] === 'when-failed';
    });
    expect(expiryOf(await machineOf(ref))).toBeUndefined();

    for (const round of [1, 2]) {
      await runPod(ref, `armed-${round}`);
      await fail(ref);
      const { machine, node } = await untilKept(ref);
      expect(inHours(expiryOf(machine))).toBeCloseTo(1, 1);
      expect([isCordoned(node), marksOf(node)]).toEqual([true, byMcm]);
      expect(node.status?.conditions?.map(({ type }) => type)).not.toContain('Terminating');
      expect(await isGone(namespace, `armed-${round}`)).toBe(true);

      await recover(ref);
      const after = await untilReleased(ref);
      expect(phaseOf(after.machine)).toBe('Running');
      expect([isCordoned(after.node), marksOf(after.node)]).toEqual([false, {}]);
      expect(after.node.metadata.annotations?.[names.cordonedBy]).toBeUndefined();
      expect(conditionOf(after.node)?.reason).toBe('Preservation stopped.');
      expect(after.node.metadata.annotations?.[preserve]).toBe('when-failed');
    }
    expect((await millwright.machinesOf('armed')).map(({ metadata }) => metadata.uid)).toEqual([ref.uid]);
    expect((await millwright.eventsOf(ref.name)).map(({ reason }) => reason)).toEqual(
      expect.arrayContaining(['Preserved', 'PreservedDrained', 'PreservationEnded']),
    );
  });

  it('[mcm 95] is kept by its set up to the limit, and a lower limit lets the surplus go', async () => {
    const all = await pool('auto', 3, { autoPreserveFailedMachineMax: 2 });
    const { namespace } = millwright;
    for (const ref of all) await fail(ref);
    const isAuto = ({ metadata }: Machine) => metadata.annotations?.[preserve] === 'auto-preserved';
    const kept = await wait('two are kept, and one was replaced', async () => {
      const found = await millwright.machinesOf('auto');
      const failed = found.filter((each) => phaseOf(each) === 'Failed' && isAuto(each));
      const isDone = found.length === 3 && found.some((each) => phaseOf(each) === 'Running');
      return isDone && failed.length === 2 && failed.map(refOf);
    });
    for (const ref of kept) {
      const { node } = await untilKept(ref);
      expect(conditionOf(node)?.reason).toBe('Preserved by MCM.');
    }
    await wait('the set counts both, and no other one as failed', async () => {
      const { items } = await millwright.control.list(machineSets, { namespace });
      const { status } = items.find(({ metadata }) => metadata.name.startsWith('auto-')) ?? {};
      const { autoPreserveFailedMachineCount, preservedFailedReplicas, failedMachines = [] } = status ?? {};
      return autoPreserveFailedMachineCount === 2 && preservedFailedReplicas === 2 && failedMachines.length === 0;
    });

    const lower = mergePatch({ spec: { autoPreserveFailedMachineMax: 1 } });
    await millwright.control.patch(machineDeployments, { namespace, name: 'auto' }, lower);
    const left = await wait('one of them is left', async () => {
      const found = await millwright.machinesOf('auto');
      const failed = found.filter((each) => phaseOf(each) === 'Failed');
      const isDone = found.length === 3 && found.filter((each) => phaseOf(each) === 'Running').length === 2;
      return isDone && failed.length === 1 && failed[0];
    });
    expect(kept.map(({ uid }) => uid)).toContain(left.metadata.uid);

    await recover(refOf(left));
    const { machine } = await untilReleased(refOf(left));
    expect(machine.metadata.annotations?.[preserve]).toBeUndefined();
  });

  it('[mcm 96] by `false` is none, and none any more; at its end it loses what it got, and is replaced if it has failed', async () => {
    const all = await pool('never', 2, { autoPreserveFailedMachineMax: 2 });
    const [refused, stopped] = all as [ObjectRef, ObjectRef];
    await annotate(refused, 'false');
    await fail(refused);
    await millwright.untilRunning('never', 2, { without: [refused] });

    await annotate(stopped, 'when-failed');
    await fail(stopped);
    await untilKept(stopped);
    await annotate(stopped, 'false');
    await millwright.untilRunning('never', 2, { without: [stopped] });

    const [ended] = (await pool('ended', 1, {}, { machinePreserveTimeout: '12s' })) as [ObjectRef];
    await millwright.target.patch(
      nodes,
      { name: ended.name },
      mergePatch({ metadata: { annotations: { [scaleDownDisabled]: 'true' } } }),
    );
    await annotateNode(ended, 'now');
    await millwright.untilEvent(ended.name, 'Preserved');
    const { machine, node } = await untilReleased(ended);
    expect(phaseOf(machine)).toBe('Running');
    expect([machine, node].map(({ metadata }) => metadata.annotations?.[preserve])).toEqual([undefined, undefined]);
    expect(marksOf(node)).toEqual({ [scaleDownDisabled]: 'true' }); // somebody else's
    await annotateNode(ended, 'when-failed');
    await fail(ended);
    await millwright.untilEvent(ended.name, 'PreservedDrained');
    await millwright.untilRunning('ended', 1, { without: [ended] });
  });

  it('[mcm 97] is one by its Node, whose annotation wins over its own and clears that', async () => {
    const all = await pool('whose', 2);
    const [kept, released] = all as [ObjectRef, ObjectRef];
    for (const [ref, ofMachine, ofNode] of [
      [kept, 'false', 'when-failed'],
      [released, 'now', 'false'],
    ] as const) {
      await annotate(ref, ofMachine);
      await annotateNode(ref, ofNode);
      await wait('its own is cleared', async () => {
        const { annotations: own = {} } = (await machineOf(ref)).metadata;
        return own[preserve] === undefined && own[lastAppliedNodePreserveValue] === ofNode;
      });
      await fail(ref);
    }
    await untilKept(kept);
    await wait('the other one was replaced', async () => {
      const found = await millwright.machinesOf('whose');
      return found.length === 2 && found.every(({ metadata }) => metadata.uid !== released.uid);
    });
    expect(phaseOf(await machineOf(kept))).toBe('Failed');
  });

  it('is replaced by a rollout, and deleted with its deployment', async () => {
    const [ref] = (await pool('rolled', 1)) as [ObjectRef];
    await annotate(ref, 'when-failed');
    await fail(ref);
    await untilKept(ref);
    await millwright.createClass('other');
    const change = mergePatch({ spec: { template: { spec: { class: { name: 'other' } } } } });
    const key = { namespace: ref.namespace, name: 'rolled' };
    await millwright.control.patch<MachineDeployment>(machineDeployments, key, change);
    await millwright.untilRunning('rolled', 1, { without: [ref] });
    expect(await millwright.vmsOf(ref)).toMatchObject([{ state: 'terminated' }]);

    const [next] = (await millwright.machinesOf('rolled')).map(refOf) as [ObjectRef];
    await annotate(next, 'now');
    await untilPreserved(next);
    await millwright.scale('rolled', 0);
    await millwright.untilGone(next);
  });
});
