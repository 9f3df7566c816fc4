/** What has no Machine goes from the cloud, and nothing else. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { deleteResource } from '../../activities/providers/simulated/client.ts';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import { events, type Node, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { sweepScheduleId } from '../../temporal/schedules.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, plainSecret, startInstallation } from '../support/installation.ts';
import { startMillwright } from '../support/millwright.ts';
import {
  approve,
  deleteMachine,
  heldSweep,
  makeVm,
  quickSweeps,
  startSweep,
  sweep,
  untilOld,
} from '../support/sweeps.ts';
import { until } from '../support/until.ts';

async function vmNames({ cloud }: Installation): Promise<string[]> {
  return (await cloud.vms()).map(({ name }) => name).toSorted();
}

describe('the sweeps of the Schedule', () => {
  let millwright: Installation;

  afterEach(async () => {
    await millwright?.stop();
  });

  it('[mcm 88] [invariant 4] delete what has no Machine, and spare a VM whose creation nobody has heard of yet', async () => {
    millwright = await startInstallation({ flags: [...quickSweeps, '--machine-safety-orphan-vms-period', '1s'] });
    millwright.recordAs('orphan-sweep');
    const { cloud, temporal, namespace } = millwright;
    const deleted = await millwright.createMachine('tagged');
    await millwright.untilPhase(deleted, 'Running');
    await deleteMachine(millwright, deleted);
    await makeVm(millwright, 'tagged', { uid: deleted.uid });
    await makeVm(millwright, 'untagged');
    await millwright.createMachine('healthy');
    await until('the orphans are gone', async (see) => {
      const present = see(await vmNames(millwright));
      return present.includes('tagged') || present.includes('untagged') ? undefined : true;
    });
    await millwright.untilMachines(1, 'Running');

    // After 15 s the provider gives the call up, and would find the VM by its UID: it cannot list by that.
    await cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create', ms: 30_000, times: 1 });
    const { uid } = await millwright.createMachine('in-creation');
    await until('its VM exists', async (see) => see(await vmNames(millwright)).includes('in-creation'));
    const tags = { [names.machineUid]: uid };
    await cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'list', tags });
    const schedule = temporal.schedule.getHandle(sweepScheduleId(namespace));
    const taken = async () => (await schedule.describe()).info.numActionsTaken;
    const before = await taken();
    await until('three more sweeps have started', async (see) => see(await taken()) >= before + 3);

    const [machine] = (await millwright.machines()).filter(({ metadata }) => metadata.name === 'in-creation');
    expect(machine?.spec?.providerID).toBeUndefined();
    expect(await vmNames(millwright)).toEqual(['healthy', 'in-creation']);
    await cloud.setFaults();
    await millwright.untilMachines(2, 'Running');
    expect(await cloud.stats()).toMatchObject({ vmsEver: 5, vmsNow: 2, deletes: 3 });
  });
});

describe('a sweep after a take-over', () => {
  let millwright: Installation;

  afterEach(async () => {
    await millwright?.stop();
  });

  it('[invariant 4] keeps the VMs of Machines that spell their provider IDs otherwise', async () => {
    millwright = await startInstallation({ isStopped: true, flags: quickSweeps });
    const { control, target, namespace, cloud } = millwright;
    const [mcm, restored] = [`mcm-${namespace}`, `restored-${namespace}`];
    const respell = (id: string) => id.replace('simulated:///here/vm', 'simulated:///Elsewhere/a/VM');
    const spelled = respell(await makeVm(millwright, mcm, { joins: true }));
    const others = respell(
      await makeVm(millwright, restored, { uid: '00000000-0000-4000-8000-000000000003', joins: true }),
    );
    await until('the nodes are there', async (see) => see(await millwright.nodes()).length === 2);
    // As machine-controller-manager leaves it.
    const { name } = await millwright.createMachine(mcm, {
      class: { kind: 'MachineClass', name: 'small' },
      providerID: spelled,
    });
    const metadata = { finalizers: [finalizers.machine], labels: { [labels.node]: name } };
    await control.patch(machines, { namespace, name }, mergePatch({ metadata }));
    const running = { status: { node: name, currentStatus: { phase: 'Running' } } };
    await control.patch(machines, { namespace, name }, mergePatch(running), { subresource: 'status' });
    // As a restore from a backup makes it: another UID. Nothing is made for it, as its class is gone.
    await millwright.createMachine(restored, { class: { kind: 'MachineClass', name: 'gone' }, providerID: others });
    await millwright.start();
    await until(
      'its node is healthy and ours',
      async (see) => see(await target.get(nodes, { name })).metadata.finalizers?.includes(finalizers.node),
      { describe: () => millwright.story() },
    );
    await untilOld(millwright);

    const { code, report } = await sweep(millwright);

    expect(report.groups[0]).toMatchObject({ seen: 5, deleted: { count: 0 }, kept: [{ reason: 'machine', count: 5 }] });
    expect(code).toBe(0);
    expect(await vmNames(millwright)).toEqual([mcm, restored].toSorted());
    expect(await cloud.stats()).toMatchObject({ deletes: 0 });
    expect(phaseOf(await control.get(machines, { namespace, name }))).toBe('Running');
  });
});

describe('[mcm 90] two VMs of one Machine', () => {
  let millwright: Installation;

  afterEach(async () => {
    await millwright?.stop();
  });

  it('[invariant 1] become one: the sweep deletes the surplus one and keeps that of the Machine and its Node', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { control, target, namespace, cloud } = millwright;
    // The client gives the first call up after 15 s, and the second makes another VM before the first takes effect.
    await cloud.setFaults(
      { kind: 'latency', operation: 'create', ms: 45_000, times: 1 },
      { kind: 'ignoreTokens', operation: 'create' },
    );
    const { name, uid } = await millwright.createMachine(`doubled-${namespace}`);
    const [machine] = await millwright.untilMachines(1, 'Running');
    await until('both VMs are there', async (see) => see(await cloud.vms()).length === 2);
    expect((await cloud.vms()).map(({ tags }) => tags[names.machineUid])).toEqual([uid, uid]);
    await untilOld(millwright);
    const surplus = (await cloud.vms()).find(({ id }) => !machine?.spec?.providerID?.endsWith(`/${id}`));

    const { code, report } = await sweep(millwright);

    expect(report.groups[0]).toMatchObject({
      // With each VM its disk, NIC and address, of which all carry the UID of the Machine.
      ...{ seen: 8, kept: [{ reason: 'machine', count: 7 }] },
      deleted: { count: 1, resources: [{ uid, excessOf: name, id: `simulated:///here/${surplus?.id}` }] },
    });
    expect(code).toBe(0);
    const [kept, ...others] = await cloud.vms();
    expect(others).toEqual([]);
    expect(`simulated:///here/${kept?.id}`).toBe(machine?.spec?.providerID);
    expect((await target.get(nodes, { name })).spec?.providerID).toBe(machine?.spec?.providerID);
    expect(phaseOf(await control.get(machines, { namespace, name }))).toBe('Running');
    expect((await sweep(millwright)).report.groups[0]).toMatchObject({ seen: 4, deleted: { count: 0 } });
  });

  it('[invariant 1] become one at once where a creation finds both', async () => {
    millwright = await startInstallation({ isStopped: true });
    const { cloud, namespace } = millwright;
    const { name, uid } = await millwright.createMachine(`found-${namespace}`);
    const first = await makeVm(millwright, name, { uid, joins: true });
    await cloud.setFaults({ kind: 'ignoreTokens' });
    expect(await makeVm(millwright, name, { uid })).not.toBe(first);

    await millwright.start();

    const [machine] = await millwright.untilMachines(1, 'Running');
    expect(machine?.spec?.providerID).toBe(first);
    expect((await cloud.vms()).map(({ id }) => `simulated:///here/${id}`)).toEqual([first]);
    expect(await cloud.stats()).toMatchObject({ creates: 2, deletes: 1 }); // the creations are those of this test
  });

  it('[invariant 4] stay until a person approves while the surplus one has a Ready Node of its own', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { cloud, namespace } = millwright;
    const { uid } = await millwright.createMachine(`named-${namespace}`);
    await millwright.untilMachines(1, 'Running');
    const name = `second-${namespace}`;
    const second = await makeVm(millwright, name, { uid, joins: true });
    const isReady = ({ status }: Node) =>
      status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True');
    await millwright.untilNode({ name }, 'is Ready', isReady);
    await untilOld(millwright);

    const { code, output } = await heldSweep(millwright);

    expect(code).toBe(1);
    expect(output).toContain(`waits for approval: 1 orphan may be healthy (${name}: its Node ${name} is Ready)`);
    expect(output).toContain(`vm ${second}`);
    expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 2 });
  });

  it('[invariant 4] stay while the one that the Machine names is being deleted in the cloud', async () => {
    millwright = await startInstallation({ flags: quickSweeps, cloud: { deleteMs: 600_000 } });
    const { cloud, namespace } = millwright;
    const { name, uid } = await millwright.createMachine(`replaced-${namespace}`);
    await millwright.untilMachines(1, 'Running');
    const [named] = await cloud.vms();
    const other = await makeVm(millwright, name, { uid });
    await deleteResource({ endpoint: cloud.url, token: plainSecret.token }, named!, AbortSignal.timeout(10_000));
    await untilOld(millwright);

    const { code, report } = await sweep(millwright);

    expect(report.groups[0]).toMatchObject({
      ...{ seen: 8, deleted: { count: 0 } },
      kept: [
        { reason: 'machine', count: 7 },
        { reason: 'keeperNotAlive', count: 1, resources: [{ id: other, excessOf: name }] },
      ],
    });
    expect(code).toBe(0);
    expect((await cloud.vms()).map(({ state }) => state).toSorted()).toEqual(['deleting', 'running']);
  });
});

describe('millwright sweep', () => {
  let millwright: Installation;
  let proxy: FaultProxy;
  let dir: string;

  beforeAll(async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-sweep-'));
    await proxy.writeKubeconfig(join(dir, 'kubeconfig'));
    // The command asks once a second what the sweep does, and sees that it waits.
    const flags = [...quickSweeps, '--orphan-confirm-after', '6s'];
    millwright = await startInstallation({ processKubeconfig: join(dir, 'kubeconfig'), flags });
  });
  afterAll(async () => {
    proxy?.setRule();
    await millwright?.stop();
    await proxy?.close();
    await rm(dir, { recursive: true, force: true });
  });

  const resourcesOf = async (uid: string) =>
    (await millwright.cloud.resources()).filter(({ tags }) => tags[names.machineUid] === uid);

  /** Leaves a disk, a NIC and an address in the cloud, as a provider does that deletes VMs alone. Answers them. */
  async function leak(uid: string) {
    const { cloud } = millwright;
    const vm = await makeVm(millwright, 'leaky', { uid });
    await cloud.setFaults({ kind: 'leak', operation: 'delete' });
    const access = { endpoint: cloud.url, token: plainSecret.token };
    const id = vm.replace('simulated:///here/', '');
    await deleteResource(access, { kind: 'vm', id }, AbortSignal.timeout(10_000));
    const left = await until('the VM is gone', async (see) => {
      const found = see(await resourcesOf(uid));
      return found.some(({ kind }) => kind === 'vm') ? undefined : found;
    });
    await cloud.setFaults();
    expect(left.map(({ kind }) => kind)).toEqual(['disk', 'nic', 'ip']);
    return left;
  }

  it('[mcm 88 partly] [invariant 4] reports what it would delete, deletes it, and keeps all that is of a Machine or of others', async () => {
    const { control, namespace } = millwright;
    await millwright.putSecret('wrong', { ...plainSecret, token: 'not-this-one' });
    await millwright.createClass('wrong', { secretRef: { namespace, name: 'wrong' } });
    const deleted = await millwright.createMachine('orphan');
    await millwright.untilPhase(deleted, 'Running');
    await deleteMachine(millwright, deleted);
    const orphan = await makeVm(millwright, 'orphan', { uid: deleted.uid });
    const untagged = await makeVm(millwright, 'untagged-orphan');
    const leaked = await leak('00000000-0000-4000-8000-000000000009');
    const asMcm = { partTags: { cluster: namespace } };
    // Machines as machine-controller-manager leaves them. Nothing is made for them, as their class is gone.
    const spec = { class: { kind: 'MachineClass', name: 'gone' } };
    await millwright.createMachine('mcm-named', { ...spec, providerID: await makeVm(millwright, 'other-name', asMcm) });
    await makeVm(millwright, 'mcm-new');
    await millwright.createMachine('mcm-new', spec);
    await makeVm(millwright, 'foreign', { tags: { cluster: 'another' }, uid: '00000000-0000-4000-8000-000000000002' });
    await makeVm(millwright, 'foreign-untagged', { tags: { cluster: 'another' } });
    await millwright.createMachine('own');
    await until('its VM is there', async (see) => see(await vmNames(millwright)).includes('own'));
    await untilOld(millwright);
    const others = ['foreign', 'foreign-untagged', 'mcm-new', 'other-name', 'own'];

    const dry = await sweep(millwright, '--dry-run');

    expect(await vmNames(millwright)).toEqual([...others, 'orphan', 'untagged-orphan'].toSorted());
    const [small, wrong] = dry.report.groups;
    expect(small).toMatchObject({ sources: ['small'], seen: 17, deleted: { count: 0 } });
    expect(small?.kept.map(({ reason, count }) => [reason, count])).toEqual([
      ['machine', 9], // three VMs, two of them with a disk, a NIC and an address
      ['dryRun', 8],
    ]);
    const doomed = small?.kept[1]?.resources.map(({ id }) => id);
    expect(doomed).toEqual(expect.arrayContaining([orphan, untagged, ...leaked.map(({ id }) => id)]));
    expect(wrong).toMatchObject({ sources: ['wrong'], error: { code: 'Unauthenticated' } });
    expect(dry.code).toBe(1);
    expect(dry.output).toMatch(/waiting to look again at what has no Machine, until \d\d:\d\d:\d\d/);

    const { code, report } = await sweep(millwright);

    expect(await vmNames(millwright)).toEqual(others);
    expect(report.groups[0]).toMatchObject({ deleted: { count: 8 }, failedCount: 0 });
    expect(await resourcesOf(deleted.uid)).toEqual([]);
    expect(await resourcesOf('00000000-0000-4000-8000-000000000009')).toEqual([]);
    expect(report.groups[1]?.error?.code).toBe('Unauthenticated');
    expect(code).toBe(1);
    const reported = await until('the class has Events', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      const found = items.filter(({ reason }) => reason === 'OrphanDeleted');
      return found.length === 5 ? found : undefined; // two VMs, and each part of the one that is gone
    });
    expect(new Set(reported.map(({ regarding }) => regarding.name))).toEqual(new Set(['small']));
    expect(reported.some(({ note }) => note.includes(orphan))).toBe(true);

    await control.delete(machineClasses, { namespace, name: 'wrong' });
    const { code: good, output } = await (async () => {
      const command = startSweep(millwright);
      return { ...(await command.exited), output: command.logs() };
    })();
    expect(output).toMatch(/simulated small +kept +9 +has a Machine/);
    expect(good).toBe(0);
  });

  it('[mcm 8] lets a deleted class go after its last Machine, and not before what is left in its cloud', async () => {
    const { control, namespace, cloud } = millwright;
    const tags = { cluster: `${namespace}-doomed` };
    await millwright.createClass('doomed', { providerSpec: { endpoint: cloud.url, machineType: 'small', tags } });
    const { name } = await millwright.createMachine('last', { class: { kind: 'MachineClass', name: 'doomed' } });
    const key = { namespace, name: 'doomed' };
    await until('the class is protected', async (see) =>
      see(await control.get(machineClasses, key)).metadata.finalizers?.includes(finalizers.machine),
    );
    await until('it has a VM', async (see) => see(await vmNames(millwright)).includes('last'));
    await makeVm(millwright, 'left-behind', { tags });
    await untilOld(millwright);
    await control.delete(machineClasses, key);
    await sweep(millwright);
    const { metadata } = await control.get(machineClasses, key);
    expect(metadata.deletionTimestamp).toBeDefined();
    const reported = await until('an Event says what keeps the class', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.find(({ regarding, reason }) => regarding.uid === metadata.uid && reason === 'SourceInUse');
    });
    expect(reported.note).toBe('cannot be deleted yet: it is used by Machine last');
    expect(await vmNames(millwright)).not.toContain('left-behind');
    await makeVm(millwright, 'left-later', { tags });
    await untilOld(millwright);

    await control.delete(machines, { namespace, name });

    await until('the class is gone', async (see) => see(await control.find(machineClasses, key)) === undefined);
    expect(await control.find(machines, { namespace, name })).toBeUndefined();
    const left = await vmNames(millwright);
    expect([left.includes('last'), left.includes('left-later')]).toEqual([false, false]);
  });

  it('[mcm 89] [invariant 4] [invariant 6] deletes nothing while the API server is out, nor many VMs before a person has named them, nor one that is young', async () => {
    const { control, namespace, processes } = millwright;
    const before = await vmNames(millwright);
    const ids: string[] = [];
    for (const name of ['out-1', 'out-2', 'out-3', 'out-4']) ids.push(await makeVm(millwright, name));
    await untilOld(millwright);
    const withOrphans = await vmNames(millwright);
    await proxy.goDown();

    const command = startSweep(millwright);
    await until('it says what it waits for', async () => /last error Unavailable/.test(command.logs()));
    expect(await vmNames(millwright)).toEqual(withOrphans);
    await proxy.comeUp();

    expect((await command.exited).code).toBe(1);
    expect(command.logs()).toContain('there are 4 orphans');
    expect(await vmNames(millwright)).toEqual(withOrphans);
    await until('an Event says so', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.find(({ reason, type }) => reason === 'OrphansHeld' && type === 'Warning');
    });
    expect((await approve(millwright, ...ids)).code).toBe(0);
    expect(await vmNames(millwright)).toEqual(before);

    await processes[0]?.stop();
    const kubeconfig = join(dir, 'kubeconfig');
    const flags = [...quickSweeps, '--orphan-minimum-age', '1h'];
    processes.push(await startMillwright({ namespace, kubeconfig, isElected: false, flags }));
    await makeVm(millwright, 'young');

    const { code, report } = await sweep(millwright);

    const young = expect.objectContaining({ reason: 'young', count: 1 });
    expect(report.groups[0]).toMatchObject({ kept: expect.arrayContaining([young]) });
    expect(await vmNames(millwright)).toContain('young');
    expect(code).toBe(0);
  });
});
