/** What would cost many VMs, or is judged by Machines that are not as they were, waits for a person. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import { names as ownNames } from '../../api/names.ts';
import { root } from '../../deploy/generators/root.ts';
import type { KubeClient } from '../../kube/client.ts';
import { events, namespaces, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { findLastSweep } from '../../temporal/past-sweeps.ts';
import { sweepIdFor } from '../../temporal/schedules.ts';
import { type FaultProxy, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { fromSetup, type Installation, plainSecret, startInstallation } from '../support/installation.ts';
import { startMillwright, startProcess } from '../support/millwright.ts';
import { approve, heldSweep, makeVm, quickSweeps, startSweep, sweep, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const { machineUid: uidTag } = ownNames;
/** Who runs the commands of the tests. */
const person = `${userInfo().username}@${hostname()}`;
let millwright: Installation;

afterEach(async () => {
  await millwright?.stop();
});

async function vmIds({ cloud }: Installation): Promise<string[]> {
  return (await cloud.vms()).map(({ id, region }) => `simulated:///${region}/${id}`).toSorted();
}

/** What a sweep and an approval know of other sweeps is a list of Temporal, which may be behind. Not of dry runs. */
async function untilListed(status: 'Running' | 'Completed', count: number): Promise<void> {
  const { namespace, temporal } = millwright;
  const query = `WorkflowId = '${sweepIdFor(namespace, 'now')}' AND ExecutionStatus = '${status}'`;
  await until(`${count} sweeps are listed as ${status}`, async (see) => {
    return see(await temporal.workflow.count(query)).count === count;
  });
}

/** Ids of all VMs, disks, NICs and addresses, as a sweep lists them. */
async function resourceIds({ cloud }: Installation): Promise<string[]> {
  const resources = await cloud.resources();
  return resources.map(({ kind, id }) => (kind === 'vm' ? `simulated:///here/${id}` : id)).toSorted();
}

/** Takes Machines away behind everybody's back, as a restore from a backup does. @param name of the only one */
async function loseMachines({ control, machines: list, namespace }: Installation, name?: string): Promise<void> {
  const found = (await list()).filter(({ metadata }) => name === undefined || metadata.name === name);
  for (const { metadata } of found) {
    const key = { namespace, name: metadata.name };
    // The workflow puts the finalizer back: a Machine that has it again would be deleted with its VM.
    await until('it is deleted without its finalizer', async (see) => {
      const { metadata } = see(await control.patch(machines, key, mergePatch({ metadata: { finalizers: null } })));
      const { uid, resourceVersion } = metadata;
      await control.delete(machines, key, { preconditions: { uid, resourceVersion } });
      return true;
    });
  }
}

/** The Machine of docs/how-to/orphan-sweep.md. @param values by placeholder */
function documented(values: Readonly<Record<string, string | undefined>>): Parameters<KubeClient['create']>[1] {
  const page = readFileSync(`${root}docs/how-to/orphan-sweep.md`, 'utf8');
  const [, manifest = ''] = /^```yaml\n([^]*?)^```/m.exec(page) ?? [];
  return parse(manifest.replaceAll(/<([a-zA-Z ]+)>/g, (_, name: string) => values[name] ?? ''));
}

describe('many orphans', () => {
  it('[mcm 89 partly] [invariant 4] stay until a person has named them, in every sweep until that', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { namespace, temporal, cloud, control } = millwright;
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c', 'd']) ids.push(await makeVm(millwright, name));
    await untilOld(millwright);

    const dry = await heldSweep(millwright, '--dry-run');
    expect(dry).toMatchObject({
      code: 0,
      output: expect.stringContaining('would wait for approval: there are 4 orphans'),
    });

    const { code, output } = await heldSweep(millwright);
    expect(code).toBe(1);
    for (const id of ids) expect(output).toContain(`vm ${id}`);
    const advice = /To delete them: millwright sweep approve -n .* -- (.*)/;
    expect(advice.exec(output)?.[1]?.split(' ').toSorted()).toEqual(ids.toSorted());
    const query = `MillwrightInstallation = '${namespace}' AND MillwrightBlockedOn = 'Brake'`;
    await until('Temporal lists it', async (see) => see(await temporal.workflow.count(query)).count === 1);
    expect(await cloud.stats()).toMatchObject({ deletes: 0 });
    const stuck = await millwright.command('stuck');
    expect(stuck).toMatchObject({
      code: 0,
      output: expect.stringContaining('waits for approval: there are 4 orphans'),
    });
    expect(advice.exec(stuck.output)?.[1]?.split(' ').toSorted()).toEqual(ids.toSorted());
    const { output: checked } = await millwright.command('doctor');
    expect(checked).toContain('1 sweep waits for approval');
    const address = ['--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')];
    // A shell gets nothing where a server does not answer within 1.5 s.
    await until('a shell completes the ids', async (see) => {
      const completing = startProcess(['__complete', 'sweep', 'approve', '-n', namespace, ...address, 'simulated:']);
      await completing.exited;
      return see(completing.logs().trim().split('\n').toSorted()).join() === ids.toSorted().join();
    });
    const [reported, ...more] = await until('an Event says so', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      const found = items.filter(({ reason }) => reason === 'OrphansHeld');
      return found.length > 0 ? found : undefined;
    });
    expect(more).toEqual([]);
    expect(reported).toMatchObject({ type: 'Warning', regarding: { kind: 'MachineClass', name: 'small' } });
    expect(reported?.note).toContain(`delete 4 orphans here: millwright stuck -n ${namespace} has the command`);
    expect(reported?.note).toContain('there are 4 orphans, but only 3 may be deleted without approval');

    for await (const { workflowId } of temporal.workflow.list({ query })) {
      expect(await millwright.command('replay', workflowId)).toMatchObject({ code: 0 });
    }

    const wrong = await approve(millwright, ids[0]!, 'simulated:///here/another');
    expect(wrong).toMatchObject({ code: 1, report: undefined });
    expect(wrong.output).toContain('no waiting sweep lists simulated:///here/another');
    expect(await vmIds(millwright)).toEqual(ids.toSorted());

    const { code: approved, report } = await approve(millwright, ids[0]!, 'b', ids[2]!);
    expect(approved).toBe(0);
    expect(report?.groups[0]).toMatchObject({ deleted: { count: 3 }, kept: [{ reason: 'notApproved', count: 1 }] });
    expect(report?.approvedBy).toBe(person);
    const approval = await until('an Event says who has approved', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.find(({ reason }) => reason === 'OrphansApproved');
    });
    expect(approval.note).toBe(`the deletion of 3 orphans was approved by ${person}`);
    expect(await vmIds(millwright)).toEqual([ids[3]]);

    await untilListed('Completed', 1);
    const next = await heldSweep(millwright);
    expect(next).toMatchObject({ code: 1, output: expect.stringContaining('some orphans of the sweep of') });
    expect(await vmIds(millwright)).toEqual([ids[3]]);
    await untilListed('Running', 1);
    expect((await approve(millwright, ids[3]!)).code).toBe(0);
    expect(await vmIds(millwright)).toEqual([]);
    await untilListed('Completed', 2);
    const last = await findLastSweep({ client: temporal, name: namespace });
    const lately = expect.closeTo(Date.now(), -5);
    expect(last).toEqual({ unlisted: [], startedMs: lately, completedMs: lately });
    await makeVm(millwright, 'e');
    await untilOld(millwright);
    expect((await sweep(millwright)).report.groups[0]).toMatchObject({ deleted: { count: 1 } });
  });
});

describe('a VM whose tags of the class a person has taken away', () => {
  it('[invariant 4] stays, and what belongs to it waits for a person', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { namespace } = millwright;
    await makeVm(millwright, 'kept', { uid: 'lost', tags: {}, partTags: { cluster: namespace } });
    await untilOld(millwright);
    const before = await resourceIds(millwright);
    const [vm] = await millwright.cloud.vms();

    const { code, output } = await heldSweep(millwright);
    expect([code, output]).toEqual([1, expect.stringContaining(`/${vm?.id} has it`)]);
    await untilListed('Running', 1);
    const named = before.find((id) => output.includes(` ${id} kept `))!;
    expect((await approve(millwright, named)).report?.groups[0]?.failedCount).toBeGreaterThan(0);

    expect(await resourceIds(millwright)).toEqual(before);
  });
});

describe('Machines that are missing', () => {
  it('[mcm 89 partly] [invariant 4] cost no VM when they were lost, and none when they are restored under other UIDs', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { cloud, namespace } = millwright;
    for (const name of ['a', 'b', 'c']) await millwright.createMachine(`${name}-${namespace}`);
    const owners = await millwright.untilMachines(3, 'Running');
    await untilOld(millwright);
    expect((await sweep(millwright)).report).toMatchObject({ machines: { count: 3 }, unanswered: [] });
    await untilListed('Completed', 1);
    const before = await resourceIds(millwright);
    await loseMachines(millwright);

    // A dry run is nothing to compare with.
    const dry = await heldSweep(millwright, '--dry-run');
    expect(dry).toMatchObject({
      code: 0,
      output: expect.stringContaining('would wait for approval: there are 0 Machines'),
    });
    const { code, output } = await heldSweep(millwright);
    expect(code).toBe(1);
    expect(output).toMatch(
      /waits for approval: there are 0 Machines, but a sweep read 3 at .*, and only 0 were deleted/,
    );
    expect(await resourceIds(millwright)).toEqual(before);

    // Of a class that is gone, so that nothing is made for them.
    for (const { metadata, spec } of owners) {
      const providerID = spec?.providerID?.replace('///here', '///there');
      await millwright.createMachine(metadata.name, { class: { kind: 'MachineClass', name: 'gone' }, providerID });
    }
    await untilListed('Running', 1);
    const { report } = await approve(millwright, ...(await vmIds(millwright))); // with them goes what carries their UIDs
    expect(report?.groups[0]).toMatchObject({ deleted: { count: 0 }, failedCount: 0 });
    expect(await resourceIds(millwright)).toEqual(before);
    expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 3 });
  });

  it('[mcm 89 partly] [invariant 4] are known one by one: the VM of a lost one is held, and no other orphan', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { cloud, namespace, temporal } = millwright;
    const names = ['lost', 'deleted', 'kept'].map((name) => `${name}-${namespace}`);
    for (const name of names) await millwright.createMachine(name);
    await millwright.untilMachines(3, 'Running');
    const [lost, deleted] = names;
    const uids = (await cloud.vms()).flatMap(({ name, tags }) => (name === deleted ? tags[uidTag]! : []));
    await millwright.remove({ namespace, name: deleted! });
    const healthy = await vmIds(millwright);
    // As if a create call had come so late that the Machine was gone.
    const late = await makeVm(millwright, deleted!, { uid: uids[0]! });
    await loseMachines(millwright, lost);
    const ended = `MillwrightInstallation = '${namespace}' AND WorkflowType = 'machine' AND ExecutionStatus = 'Completed'`;
    await until('their workflows have ended', async (see) => see(await temporal.workflow.count(ended)).count === 2);
    await untilOld(millwright);

    const { code, output } = await heldSweep(millwright);

    expect(code).toBe(1);
    expect(output).toContain(`waits for approval: 1 orphan may be healthy (${lost}: its Node ${lost} is Ready, `);
    expect(output).toMatch(
      /Temporal does not say that Millwright deleted its Machine: it was gone in the phase Running/,
    );
    expect(output).toContain('1 deleted; the others wait for approval');
    expect(output).not.toContain(late);
    expect(await vmIds(millwright)).toEqual(healthy);
  });

  it('[mcm 89 partly] [invariant 4] have their VMs and Nodes again when they are created as the documentation says', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { cloud, control, namespace } = millwright;
    const name = `again-${namespace}`;
    const ref = await millwright.createMachine(name);
    const { spec } = await millwright.untilPhase(ref, 'Running');
    await loseMachines(millwright, name);
    await untilOld(millwright);
    expect((await heldSweep(millwright)).output).toContain(
      `1 orphan may be healthy (${name}: its Node ${name} is Ready`,
    );

    const values = { namespace, machine: name, class: 'small', 'provider ID': spec?.providerID };
    await control.create(machines, documented(values));

    const { metadata } = await millwright.untilPhase({ namespace, name }, 'Running');
    expect([metadata.labels?.node, metadata.uid === ref.uid]).toEqual([name, false]);
    const { report } = await approve(millwright, ...(await vmIds(millwright)));
    expect(report?.groups[0]).toMatchObject({ deleted: { count: 0 }, failedCount: 0 });
    await millwright.remove({ namespace, name });
    expect(await cloud.stats()).toMatchObject({ vmsEver: 1, vmsNow: 0 });
    expect(await millwright.nodes()).toEqual([]);
  });

  it('[mcm 89 partly] [invariant 4] cost no VM when the Machines of another namespace are asked', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { control, cloud, namespace, processes } = millwright;
    for (const name of ['a', 'b', 'c', 'd']) await millwright.createMachine(`${name}-${namespace}`);
    await millwright.untilMachines(4, 'Running');
    const wrong = { ...millwright, namespace: `wrong-${namespace}` };
    await control.create(namespaces, { metadata: { name: wrong.namespace } });
    const { provider, secretRef, providerSpec } = await control.get(machineClasses, { namespace, name: 'small' });
    await control.create(machineClasses, {
      ...{ metadata: { namespace: wrong.namespace, name: 'small' }, provider, providerSpec },
      secretRef: { ...secretRef, namespace: wrong.namespace },
    });
    await control.create(secrets, { metadata: { namespace: wrong.namespace, name: 'pool' }, stringData: plainSecret });
    processes.push(await startMillwright({ namespace: wrong.namespace, isElected: false, flags: quickSweeps }));
    await untilOld(millwright);

    const { code, output } = await heldSweep(wrong);

    expect(code).toBe(1);
    expect(output).toContain('there are 4 orphans');
    expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 4 });
  });

  it('[mcm 89 partly] hold no sweep when they were deleted through Millwright', async () => {
    millwright = await startInstallation({ flags: quickSweeps });
    const { cloud, control, namespace, temporal } = millwright;
    const refs = [];
    for (const name of ['a', 'b', 'c', 'd']) refs.push(await millwright.createMachine(`${name}-${namespace}`));
    await millwright.untilMachines(4, 'Running');
    await untilOld(millwright);
    await sweep(millwright);
    for (const ref of refs.slice(1)) await control.delete(machines, ref);
    await millwright.untilMachines(1, 'Running');
    const ended = `MillwrightInstallation = '${namespace}' AND WorkflowType = 'machine' AND ExecutionStatus = 'Completed' AND MillwrightPhase = 'Terminating'`;
    await until('their workflows have ended', async (see) => see(await temporal.workflow.count(ended)).count === 3);
    const orphan = await makeVm(millwright, 'orphan');
    await untilOld(millwright);

    const { code, report } = await sweep(millwright);

    expect(code).toBe(0);
    expect(report).toMatchObject({ machines: { count: 1 }, unanswered: [] });
    expect(report.groups[0]?.deleted.resources.map(({ id }) => id)).toEqual([orphan]);
    expect(await cloud.stats()).toMatchObject({ vmsNow: 1 });
  });
});

describe('an API server that cannot say which Machines there are', () => {
  let proxy: FaultProxy;
  let dir: string;

  afterEach(async () => {
    await proxy?.close();
    await rm(dir, { recursive: true, force: true });
  });

  it('[mcm 89 partly] [invariant 4] [invariant 6] has a sweep wait, and delete nothing of a Machine when it is back', async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-brake-'));
    await proxy.writeKubeconfig(join(dir, 'kubeconfig'));
    millwright = await startInstallation({ flags: quickSweeps, processKubeconfig: join(dir, 'kubeconfig') });
    const { cloud, namespace } = millwright;
    for (const name of ['a', 'b', 'c', 'd']) await millwright.createMachine(`${name}-${namespace}`);
    await millwright.untilMachines(4, 'Running');
    await untilOld(millwright);
    let refused = 0;
    proxy.setRule(({ url, isWatch }) => {
      if (isWatch || !url.pathname.endsWith('/machines')) return undefined;
      refused += 1;
      return { kind: 'answer', status: 503, body: statusBody(503, 'ServiceUnavailable') };
    });

    const command = startSweep(millwright);
    await until('it says what it waits for', async () => /last error Unavailable/.test(command.logs()));
    expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 4 });
    proxy.setRule();

    expect((await command.exited).code).toBe(0);
    expect(refused).toBeGreaterThan(0);
    expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 4 });
  });
});
