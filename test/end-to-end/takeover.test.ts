/**
 * Millwright takes over from machine-controller-manager (MCM) whatever that was doing: docs/how-to/migrate-from-mcm.md.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, deletionSteps, labels, taints } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { leases, nodes, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { type McmMachine, playMcm } from '../support/mcm.ts';
import { readAsMcm } from '../support/mcm-reader.ts';
import { creating, deleting, replaced, resting } from '../support/mcm-states.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

/** Kubelets report once and no more, so that only Millwright writes to Nodes. */
const never = 2 ** 31 - 1;
describe('a fleet that MCM leaves', () => {
  let millwright: Installation;
  let mcm: ReturnType<typeof playMcm>;
  let before: Snapshot;
  /** Names of VMs that there were. */
  let vmsBefore: readonly string[];

  beforeAll(async () => {
    millwright = await startInstallation({
      isStopped: true,
      isElected: true,
      cloud: { statusUpdateMs: never },
    });
    mcm = playMcm(millwright);
    await mcm.protectSources();
    const pool = await mcm.deployment('takeover', 2, 2);
    const frozen = await mcm.deployment('takeover-frozen', 2, 1, 5);
    const leave = (left: Readonly<Record<string, McmMachine>>, set?: typeof pool) =>
      Object.entries(left).map(([name, each]) => mcm.machine(`takeover-${name}`, { ...each, ...(set && { set }) }));
    const failed = await mcm.deployment('takeover-failed', 2, 0);
    const [old, rolling] = await mcm.rollout('takeover-rolling', {
      replicas: 2,
      current: '2',
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      sets: [
        { version: '1', replicas: 1, marks: { annotations: { [annotations.preferNoSchedule]: 'True' } } },
        { version: '2', replicas: 2 },
      ],
    });
    const { running, 'running-too': runningToo, 'preserved-failed': preserved, ...others } = resting;
    await Promise.all([
      ...leave({ running: running!, 'running-too': runningToo! }, pool),
      ...leave({ frozen: running! }, frozen),
      ...leave({ 'preserved-failed': preserved!, failed: replaced['failed']! }, failed),
      ...leave({ rolled: running! }, rolling),
      ...leave({ outdated: replaced['outdated']! }, old),
      ...leave(others),
      ...leave(creating),
      ...leave(deleting),
    ]);
    vmsBefore = await vmNames({ all: true });
    before = await snapshot();
    await millwright.start();
    await millwright.createMachine('takeover-after');
    await millwright.untilPhase(refOf(await machineOf('after')), 'Running');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const machineOf = (name: string) => millwright.control.get(machines, keyOf(name));
  const keyOf = (name: string) => ({ namespace: millwright.namespace, name: `takeover-${name}` });
  const restingNames = [...Object.keys(resting), 'frozen', 'rolled'].map((name) => `takeover-${name}`);

  const isReplacement = (name: string) => /^takeover-((failed|frozen)-5f8b7|rolling-1mcm1)-/.test(name);
  const vmNames = async (options = { all: false }) =>
    (await millwright.cloud.vms(options)).map(({ name }) => name).toSorted();

  type Snapshot = Readonly<Record<string, KubeObject>>;
  /** Machines at rest, their owners and all Nodes, as they are. */
  async function snapshot(): Promise<Snapshot> {
    const { control, namespace } = millwright;
    const read = async (resource: Resource<KubeObject>) =>
      (await control.list(resource, { namespace })).items.map((each) => [
        `${resource.kind} ${each.metadata.name}`,
        each,
      ]);
    const all = await Promise.all([read(machines), read(machineSets), read(machineDeployments)]);
    const ofNodes = (await millwright.nodes()).map((node) => [`Node ${node.metadata.name}`, node]);
    return Object.fromEntries([...all.flat(), ...ofNodes]);
  }

  it('stays as it is where nothing is to be done: no Machine, Node or owner is written, and no workflow of a Machine at rest is started', async () => {
    const { temporal, namespace } = millwright;
    await Promise.all(Object.keys(deleting).map((name) => millwright.untilGone(keyOf(name))));
    const after = await snapshot();

    const isKept = (name: string) => restingNames.includes(name) || /^takeover(-5f8b7)?$/.test(name);
    // An Available machine has no Node: that of its VM is marked as not managed. The frozen deployment thaws. A Node is
    // marked while its deployment rolls out.
    const changed = ['Node takeover-available', 'MachineDeployment takeover-frozen', 'Node takeover-rolled'];
    const kept = Object.entries(before).filter(([name]) => isKept(name.split(' ')[1] ?? '') && !changed.includes(name));
    expect(kept.length).toBe(2 * restingNames.length);
    for (const [name, object] of kept) expect([name, after[name]]).toEqual([name, object]);
    const query = `WorkflowType = 'machine' AND WorkflowId STARTS_WITH '${namespace}/'`;
    // The list may be some seconds behind.
    const started = await until('the workflow of the unhealthy one is listed', async (see) => {
      const names: string[] = [];
      for await (const { workflowId } of temporal.workflow.list({ query }))
        names.push(workflowId.split('/').at(-2) ?? '');
      return see(names).includes('takeover-unknown') ? names : undefined;
    });
    // The machine with the unhealthy Node is watched: it will be replaced one day.
    expect(started.filter((name) => restingNames.includes(name))).toEqual(['takeover-unknown']);
  });

  it('uncordons the Node of a machine that MCM has preserved in Failed when it recovers', async () => {
    const { target } = millwright;
    const { name } = keyOf('preserved-by-set');
    await reportCondition(target, name, 'Ready', 'True');
    await millwright.untilPhase(refOf(await machineOf('preserved-by-set')), 'Running');
    await until('its preservation is over', async (see) => {
      const { currentStatus } = see(await machineOf('preserved-by-set')).status ?? {};
      return currentStatus?.preserveExpiryTime === undefined;
    });
    const { spec } = await target.get(nodes, { name });
    expect([spec?.unschedulable, spec?.taints?.filter(({ key }) => key === taints.preserved.key)]).toEqual([
      undefined,
      [],
    ]);
  });

  it('[mcm 86 partly] thaws what MCM has frozen: label and condition are gone from the set and its deployment, which get all machines', async () => {
    const { control, namespace } = millwright;
    await until('the set that was frozen has all machines', async () => {
      const names = (await millwright.machines()).map(({ metadata }) => metadata.name);
      return names.some((name) => name.startsWith('takeover-frozen-5f8b7-'));
    });
    await until('neither says that it is frozen', async (see) => {
      const set = see(await control.get(machineSets, { namespace, name: 'takeover-frozen-5f8b7' }));
      const deployment = await control.get(machineDeployments, { namespace, name: 'takeover-frozen' });
      const conditions = [...(set.status?.machineSetCondition ?? []), ...(deployment.status?.conditions ?? [])];
      const isLabelled = [set, deployment].some(({ metadata }) => metadata.labels?.['freeze'] !== undefined);
      return !isLabelled && conditions.every(({ type }) => type !== 'Frozen');
    });
  });

  it('[mcm 12 partly] [invariant 1] gets on with each creation: the VM that there is becomes the Node, also one that the Machine does not name', async () => {
    for (const name of Object.keys(creating)) await millwright.untilPhase(refOf(await machineOf(name)), 'Running');
    const missing = Object.entries(creating).flatMap(([name, { needsVm }]) => (needsVm ? [`takeover-${name}`] : []));

    expect((await vmNames({ all: true })).filter((name) => !isReplacement(name))).toEqual(
      [...vmsBefore, ...missing, 'takeover-after'].toSorted(),
    );
  });

  it('[mcm 43 partly] [mcm 63 partly] [invariant 2] loses what MCM was deleting, from whichever step on, failed machines that are not preserved, and those of a rollout, which are replaced', async () => {
    await Promise.all(
      [...Object.keys(deleting), ...Object.keys(replaced)].map((name) => millwright.untilGone(keyOf(name))),
    );
    const replacements = await until('there are others', async () => {
      const found = (await millwright.machines()).filter(({ metadata }) => isReplacement(metadata.name));
      const isDone = found.length === 3 && found.every((each) => phaseOf(each) === 'Running');
      return isDone ? found.map(({ metadata }) => metadata.name) : undefined;
    });
    const inCreation = Object.keys(creating).map((name) => `takeover-${name}`);
    const kept = [...restingNames, ...inCreation, 'takeover-after', ...replacements].toSorted();

    expect(await vmNames()).toEqual(kept);
    expect((await millwright.nodes()).map(({ metadata }) => metadata.name).toSorted()).toEqual(kept);
    expect((await millwright.machines()).map(({ metadata }) => metadata.name).toSorted()).toEqual(kept);
  });

  /** Leaves machines and a deployment in the states that last, of all that Millwright reports. */
  async function leaveUnfinished(): Promise<void> {
    const { cloud, control, target, namespace } = millwright;
    const providerSpec = (kind: string) => ({
      endpoint: cloud.url,
      machineType: 'small',
      region: 'here',
      tags: { cluster: namespace, kind },
    });
    for (const kind of ['full', 'silent']) await millwright.createClass(kind, { providerSpec: providerSpec(kind) });
    await cloud.setFaults(
      { kind: 'capacity', tags: { kind: 'full' } },
      { kind: 'neverJoin', tags: { kind: 'silent' } },
      { kind: 'forbidden', operation: 'delete' },
    );
    const create = (name: string, source: string, spec: object = {}) =>
      millwright.createMachine(`takeover-${name}`, { class: { kind: 'MachineClass', name: source }, ...spec });
    await millwright.untilPhase(await create('refused', 'full'), 'CrashLoopBackOff');
    await millwright.untilPhase(await create('never-joins', 'silent'), 'Pending');
    await millwright.untilPhase(await create('late', 'silent', { creationTimeout: '1s' }), 'Failed');
    const pod = { namespace, name: 'takeover-pod', finalizers: ['test/held'] };
    const nodeName = keyOf('pending').name;
    await target.create(pods, { metadata: pod, spec: { nodeName, containers: [{ name: 'app', image: 'app' }] } });
    for (const name of ['pending', 'new-with-vm']) await control.delete(machines, keyOf(name));
    await control.patch(machineDeployments, { namespace, name: 'takeover' }, mergePatch({ spec: { paused: true } }));
    await until(
      'all of it is reported',
      async () => {
        const drained = (await target.find(pods, pod))?.metadata.deletionTimestamp !== undefined;
        const { status } = await control.get(machineDeployments, { namespace, name: 'takeover' });
        const isPaused = status?.conditions?.some(({ reason }) => reason === 'DeploymentPaused');
        const { description = '' } = (await machineOf('new-with-vm')).status?.lastOperation ?? {};
        return drained && isPaused && description.includes('PermissionDenied');
      },
      { describe: () => millwright.story() },
    );
  }

  it('is read by MCM when it comes back: each field, error and step, and it can lead at once', async () => {
    const { control, namespace, processes } = millwright;
    await leaveUnfinished();
    for (const process of processes) await process.kill('SIGTERM'); // it releases its Leases
    const released = mergePatch({ metadata: { finalizers: null } });
    await millwright.target.patch(pods, { namespace, name: 'takeover-pod' }, released);

    const kinds: Resource<KubeObject>[] = [machines, machineSets, machineDeployments, machineClasses, leases];
    const lists = kinds.map(async (resource) => {
      const { items } = await control.list(resource, { namespace });
      return items.map((item) => ({ ...item, kind: resource.kind }));
    });
    const ofNodes = (await millwright.nodes()).map((node) => ({ ...node, kind: 'Node' }));
    const readings = await readAsMcm([...(await Promise.all(lists)).flat(), ...ofNodes]);

    expect(readings.filter(({ problems }) => problems.length > 0)).toEqual([]);
    const readingOf = (wanted: string, name: string) =>
      readings.find((each) => each.kind === wanted && each.name === name) ?? {};
    const left = {
      refused: { code: 'ResourceExhausted', errorCode: 'ResourceExhausted' },
      late: { errorCode: 'DeadlineExceeded', isFailed: true },
      pending: { step: deletionSteps.drain },
      'new-with-vm': { step: deletionSteps.deleteVm, code: 'PermissionDenied' },
      'preserved-failed': { isFailed: true },
    };
    for (const [name, wanted] of Object.entries(left)) {
      expect(readingOf('Machine', `takeover-${name}`)).toMatchObject({ name: `takeover-${name}`, ...wanted });
    }
    for (const name of ['machine-controller-manager', 'machine-controller']) {
      expect(readingOf('Lease', name)).toEqual({ kind: 'Lease', name, problems: [] }); // nobody holds it
    }
    expect(readingOf('Node', 'takeover-new-without-vm')).toMatchObject({
      template: { metadata: { labels: { pool: 'workers' } } },
    });
  });

  it('is taken over once more, with the workflows of before still open, after MCM has deleted and made machines', async () => {
    const { control, target, cloud } = millwright;
    await cloud.setFaults();
    const { vmsEver } = await cloud.stats();
    const gone = refOf(await machineOf('never-joins'));
    await mcm.remove('takeover-never-joins');
    await mcm.machine('takeover-made-meanwhile', resting['running']!);
    const orders = ['candidate', 'selected', 'selected@another'];
    for (const [i, order] of orders.entries()) {
      const metadata = { annotations: { [names.inPlaceUpdate]: order } };
      await mcm.machine(`takeover-updated-${i}`, { ...resting['running']!, metadata });
    }
    await control.delete(machines, keyOf('late'));

    await millwright.start();
    await millwright.handleOf(refOf(await machineOf('new-with-vm'))).signal('retryNow');
    await Promise.all(['late', 'new-with-vm'].map((name) => millwright.untilGone(keyOf(name))));
    await until('the workflow of the deleted Machine has ended', async (see) => {
      const { status } = see(await millwright.handleOf(gone).describe());
      return status.name === 'COMPLETED';
    });
    expect(phaseOf(await machineOf('made-meanwhile'))).toBe('Running');
    expect((await cloud.stats()).vmsEver).toBe(vmsEver + 1 + orders.length);
    for (const i of orders.keys()) {
      await until('the order of an update that MCM has completed is gone', async () => {
        return (await machineOf(`updated-${i}`)).metadata.annotations?.[names.inPlaceUpdate] === undefined;
      });
      const { metadata, spec } = await target.get(nodes, { name: keyOf(`updated-${i}`).name });
      expect([metadata.labels?.[labels.selectedForUpdate], spec?.unschedulable]).toEqual([undefined, undefined]);
    }
  });
});
