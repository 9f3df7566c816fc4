/** Machines in Azure: the provider Azure against deploy/local/azure-cloud, where Microsoft's own codec serves. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { type AzureCloud, startAzureCloud } from '../../deploy/local/azure-cloud/admin.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { quickSweeps, sweep } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const uidTag = names.machineUid.replace('/', '-');

describe('machines in Azure', () => {
  let dir: string;
  let cloud: AzureCloud;
  let millwright: Installation;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'azure-'));
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    const timing = { bootMs: 200, joinMs: 100, deleteMs: 300, changeMs: 50, nicReservationMs: 500 };
    cloud = await startAzureCloud({ dir, kubeconfig, ...timing });
    Object.assign(process.env, cloud.env); // of the process that is started
    millwright = await startInstallation({
      alone: 'it serves another provider, and is killed',
      flags: ['--providers', 'azure,simulated', ...quickSweeps],
    });
    await millwright.putSecret('azure', { ...cloud.credentials, userData: '#!/bin/sh\nexec kubelet --canary-77ab' });
    await createClass('azure');
  }, 400_000); // where the cloud has to be built
  afterEach(() => cloud.setFaults());
  afterAll(async () => {
    for (const name of Object.keys(cloud?.env ?? {})) delete process.env[name];
    await millwright?.stop();
    await cloud?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function createClass(name: string, changes: object = {}): Promise<void> {
    const { namespace } = millwright;
    await millwright.createClass(name, {
      provider: 'Azure',
      secretRef: { namespace, name: 'azure' },
      providerSpec: cloud.providerSpec(changes),
    });
  }

  const createMachine = (name: string, className = 'azure') =>
    millwright.createMachine(name, { class: { kind: 'MachineClass', name: className } });

  interface Tagged {
    readonly name?: string | undefined;
    readonly tags?: Readonly<Record<string, string>> | undefined;
  }
  const ownerOf = ({ tags = {} }: Tagged) => tags[uidTag];

  const vmsOf = async ({ uid }: ObjectRef) => (await cloud.vms()).filter((vm) => ownerOf(vm) === uid);

  /** NICs and disks of these Machines. */
  async function partsOf(refs: readonly { readonly uid: string }[]): Promise<string[]> {
    const uids = refs.map(({ uid }) => uid);
    const parts: Tagged[] = [...(await cloud.interfaces()), ...(await cloud.disks())];
    return parts
      .filter((part) => uids.includes(ownerOf(part) ?? ''))
      .map(({ name = '' }) => name)
      .toSorted();
  }

  const creationsOf = async (name: string) =>
    (await cloud.calls()).filter(
      ({ method, path }) => method === 'PUT' && path.split('?')[0]?.endsWith(`/virtualMachines/${name}`),
    );

  it('[mcm 106 partly] are 4, are all replaced by a rollout, and are none, and leave nothing', async () => {
    const { control, namespace } = millwright;
    const template = {
      metadata: { labels: { name: 'pool' } },
      spec: { class: { kind: 'MachineClass', name: 'azure' } },
    };
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 2, maxUnavailable: 0 } };
    await millwright.createDeployment('pool', 4, { template, strategy });
    const first = await millwright.untilMachines(4, 'Running', 180_000);

    const made = await cloud.vms();
    expect(made).toHaveLength(4);
    for (const machine of first) {
      const { uid, name, labels } = machine.metadata;
      const vm = made.find((each) => ownerOf(each) === uid);
      expect(vm?.name).toBe(name);
      expect(vm?.storageProfile?.osDisk).toMatchObject({ name: `${name}-os-disk`, deleteOption: 'Delete' });
      expect(vm?.networkProfile?.networkInterfaces).toMatchObject([{ deleteOption: 'Delete' }]);
      expect(machine.spec?.providerID).toBe(`azure:///${cloud.seeds.location}/${name}`);
      expect(labels?.['node']).toBe(name);
    }
    expect(await partsOf(first.map(({ metadata }) => metadata))).toEqual(
      first.flatMap(({ metadata: { name } }) => [`${name}-nic`, `${name}-os-disk`]).toSorted(),
    );

    const key = { namespace, name: 'pool' };
    const rolled = mergePatch({ spec: { template: { metadata: { annotations: { 'example.com/image': '2' } } } } });
    await control.patch(machineDeployments, key, rolled);
    const second = await millwright.untilReplaced(first, 240_000);
    expect(await cloud.vms()).toHaveLength(4);

    await control.delete(machineDeployments, key);
    await millwright.untilMachines(0, '', 180_000);
    expect([...(await cloud.vms()), ...(await cloud.interfaces()), ...(await cloud.disks())]).toEqual([]);
    expect(await millwright.nodesOf([...first, ...second])).toEqual([]);
  }, 600_000);

  it('[mcm 107] of machines that are gone: a leaked NIC and a leaked disk are swept, and those of others are not', async () => {
    const { direct, seeds } = cloud;
    const { tags } = cloud.providerSpec();
    const { location, resourceGroup } = seeds;
    const orphaned = { ...tags, [uidTag]: 'of-nobody' };
    const ofOthers = { 'kubernetes.io-cluster-other': '1', 'kubernetes.io-role-node': '1', [uidTag]: 'of-others' };
    const makeDisk = (name: string, own: Record<string, string>) =>
      direct.compute.disks.createOrUpdate(resourceGroup, name, {
        ...{ location, tags: own, diskSizeGB: 1, creationData: { createOption: 'Empty' } },
      });
    const subnet = { id: await subnetId() };
    const ipConfigurations = [{ name: 'ipconfig', subnet }];
    const makeNic = (name: string, own: Record<string, string>) =>
      direct.network.networkInterfaces.createOrUpdate(resourceGroup, name, { location, tags: own, ipConfigurations });
    await Promise.all([
      direct.network.publicIPAddresses.createOrUpdate(resourceGroup, 'gone-ip', { location, tags: orphaned }),
      makeDisk('gone-os-disk', orphaned),
      makeNic('gone-nic', orphaned),
      makeDisk('theirs-os-disk', ofOthers),
      makeDisk('pvc-of-a-pod', tags),
    ]);

    const namesOf = async () => {
      const [nics, disks, addresses] = await Promise.all([cloud.interfaces(), cloud.disks(), cloud.addresses()]);
      return [...nics, ...disks, ...addresses].map(({ name }) => name);
    };
    await until('the sweep has deleted them', async () => {
      await sweep(millwright);
      return (await namesOf()).every((name) => !name?.startsWith('gone'));
    });

    expect((await namesOf()).toSorted()).toEqual(['pvc-of-a-pod', 'theirs-os-disk']);
    for (const name of await namesOf()) await direct.compute.disks.delete(resourceGroup, name ?? '');
  });

  const properties = () => cloud.providerSpec().properties;

  /** ID of a resource that is there from the start. */
  const idOf = (part: string) => cloud.seeds.references.find((id) => id.includes(part)) ?? '';

  it('[mcm 106 partly] may name an image with terms, an identity, reserved capacity, and sets', async () => {
    const { zone: _, ...zoneless } = properties();
    const { storageProfile } = zoneless;
    const withImage = (imageReference: object) => ({ storageProfile: { ...storageProfile, imageReference } });
    await createClass('of-set', {
      properties: {
        ...{ ...zoneless, ...withImage({ urn: 'kinvolk:flatcar-container-linux:stable:4081.2.0' }) },
        ...{ availabilitySet: { id: idOf('/availabilitysets/') }, identityID: idOf('/userassignedidentities/') },
      },
    });
    await createClass('of-scale-set', {
      properties: {
        ...{ ...zoneless, ...withImage({ id: idOf('microsoft.compute/images/') }), priority: 'Spot' },
        virtualMachineScaleSet: { id: idOf('/virtualmachinescalesets/') },
      },
    });
    await createClass('reserved', {
      properties: {
        ...properties(),
        capacityReservation: { capacityReservationGroupID: idOf('/capacityreservationgroups/') },
      },
    });
    const refs = await Promise.all(['of-set', 'of-scale-set', 'reserved'].map((name) => createMachine(name, name)));
    for (const ref of refs) await millwright.untilPhase(ref, 'Running');

    const made = new Map((await cloud.vms()).map((vm) => [vm.name, vm]));
    expect(made.get('of-set')).toMatchObject({ plan: { name: 'stable' }, identity: { type: 'UserAssigned' } });
    expect(made.get('of-scale-set')).toMatchObject({ priority: 'Spot', evictionPolicy: 'Delete' });
    await Promise.all(refs.map((ref) => millwright.remove(ref)));
  });

  async function subnetId(): Promise<string> {
    const { resourceGroup, vnetName, subnetName } = cloud.seeds;
    const { id = '' } = await cloud.direct.network.subnets.get(resourceGroup, vnetName, subnetName);
    return id;
  }

  it('[mcm 109 partly] [mcm 106 partly] wait for capacity, leave nothing, and are made when there is some', async () => {
    await cloud.setFaults({ kind: 'capacity', code: 'SkuNotAvailable' });
    const ref = await createMachine('full');

    expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain('SkuNotAvailable');
    const left = async () => [...(await vmsOf(ref)), ...(await partsOf([ref]))];
    await until('nothing is left', async () => (await left()).length === 0);

    await cloud.setFaults();
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilPhase(ref, 'Running');
    expect(await vmsOf(ref)).toHaveLength(1);
    await millwright.remove(ref);
    expect(await partsOf([ref])).toEqual([]);
  });

  it('[mcm 109 partly] wait for quota, and name it', async () => {
    await cloud.setFaults({ kind: 'quota' });
    const ref = await createMachine('no-quota');

    expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain('Cores quota');
    await millwright.remove(ref);
    expect(await partsOf([ref])).toEqual([]);
  });

  it('are made while Azure throttles, with fewer requests before it does', async () => {
    await cloud.setFaults({ kind: 'rateLimit', of: 'reads', size: 40, perSecond: 4 });
    const before = (await cloud.calls()).length;
    const refs = await Promise.all(['slow-1', 'slow-2', 'slow-3', 'slow-4'].map((name) => createMachine(name)));
    for (const ref of refs) await millwright.untilPhase(ref, 'Running');

    const statuses = (await cloud.calls()).slice(before).map(({ outcome }) => String(outcome));
    expect(statuses.filter((status) => status === '429').length).toBeLessThan(3);
    await cloud.setFaults({ kind: 'throttle', times: 3 });
    await Promise.all(refs.map((ref) => millwright.remove(ref)));
  });

  it('[invariant 1] have one VM when the process is killed while the operation goes on, and it is asked for afterwards', async () => {
    await cloud.setFaults(
      { kind: 'slowOperation', ms: 8_000 },
      { kind: 'failedOperation', code: 'AllocationFailed', message: 'no room any more' },
    );
    const ref = await createMachine('killed-vm');
    await until('Azure has accepted it', async () => {
      const { status } = await millwright.control.get(machines, ref);
      return status?.lastKnownState?.includes('/operations/');
    });

    await millwright.processes.at(-1)?.kill('SIGKILL');
    await cloud.setFaults();
    await millwright.start();

    expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain('AllocationFailed: no room any more');
    expect(await creationsOf('killed-vm')).toHaveLength(1);
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilPhase(ref, 'Running');
    expect(await vmsOf(ref)).toHaveLength(1);
    await millwright.remove(ref);
  });

  it('[mcm 106] [mcm 58 partly] [mcm 109 partly] have a NIC and disks that go with them, and leave none, even when Azure does or their creation fails for want of capacity', async () => {
    const disk = { storageAccountType: 'Premium_LRS', diskSizeGB: 5 };
    const dataDisks = [
      { ...disk, name: 'logs', lun: 0 },
      { ...disk, lun: 1, imageRef: { id: idOf('/galleries/') } },
    ];
    await createClass('disks', {
      properties: { ...properties(), storageProfile: { ...properties().storageProfile, dataDisks } },
    });
    await cloud.setFaults(
      { kind: 'capacity', code: 'ZonalAllocationFailed' },
      { kind: 'leftover', parts: ['nic', 'osDisk', 'dataDisks'] },
    );
    const ref = await createMachine('leaver', 'disks');
    expect(await millwright.untilRefused(ref, 'ResourceExhausted')).toContain('ZonalAllocationFailed');
    await until('nothing is left of the creation', async () => (await partsOf([ref])).length === 0);

    await cloud.setFaults({ kind: 'leftover', parts: ['nic', 'osDisk', 'dataDisks'] });
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilPhase(ref, 'Running');
    expect(await partsOf([ref])).toEqual([
      ...['leaver-1-data-disk', 'leaver-logs-0-data-disk', 'leaver-nic', 'leaver-os-disk'],
    ]);
    const deleteOption = 'Delete';
    expect(await vmsOf(ref)).toMatchObject([
      {
        name: 'leaver',
        networkProfile: { networkInterfaces: [{ deleteOption }] },
        storageProfile: { osDisk: { deleteOption }, dataDisks: [{ deleteOption }, { deleteOption }] },
      },
    ]);

    await millwright.remove(ref);
    expect(await vmsOf(ref)).toEqual([]);
    expect(await partsOf([ref])).toEqual([]);
  });

  it('get the tags that their class has now, and lose those that it has no more, and are not replaced', async () => {
    const { control, namespace } = millwright;
    const { tags } = cloud.providerSpec();
    await createClass('tagged', { tags: { ...tags, team: 'a', old: '1' } });
    const ref = await createMachine('tagged-vm', 'tagged');
    await millwright.untilPhase(ref, 'Running');
    const found = async () =>
      [...(await cloud.vms()), ...(await cloud.interfaces()), ...(await cloud.disks())]
        .filter((each) => ownerOf(each) === ref.uid)
        .map(({ tags: own }) => [own?.['team'], own?.['old']]);
    expect(await found()).toEqual([1, 2, 3].map(() => ['a', '1']));

    const edited = { metadata: { annotations: null }, providerSpec: { tags: { old: null, team: 'b' } } };
    await control.patch(machineClasses, { namespace, name: 'tagged' }, mergePatch(edited));

    const wanted = [1, 2, 3].map(() => ['b', undefined]);
    await until('everything has the new tags', async () => isDeepStrictEqual(await found(), wanted), {
      describe: () => millwright.story(),
    });
    await millwright.remove(ref);
  });

  it('[mcm 12 partly] take over a VM that machine-controller-manager has made, and go with it', async () => {
    await cloud.makeVm('from-mcm', cloud.providerSpec().tags);
    const vmId = async () => (await cloud.vms()).find(({ name }) => name === 'from-mcm')?.vmId;
    const before = await vmId();
    // MCM makes the Machine first. Here the Node is older, so it needs the label that MCM gives it.
    const name = 'from-mcm';
    await until('its Node is there', () => millwright.target.find(nodes, { name }));
    const label = { metadata: { labels: { [labels.machineName]: name } } };
    await millwright.target.patch(nodes, { name }, mergePatch(label));

    // As MCM leaves a Machine when it is killed: the finalizer is on, and the Machine names no VM.
    const { control, namespace } = millwright;
    const { metadata } = await control.create(machines, {
      metadata: { namespace, name: 'from-mcm', finalizers: [finalizers.machine] },
      spec: { class: { kind: 'MachineClass', name: 'azure' } },
    });
    const ref: ObjectRef = { dialect: 'gardener', namespace, name: 'from-mcm', uid: metadata.uid };
    await millwright.untilPhase(ref, 'Running');

    expect(await vmId()).toBe(before);
    await millwright.remove(ref);
    expect(await vmId()).toBeUndefined();
  });

  it('need no more rights than docs/providers/azure-role.json gives', async () => {
    const file = new URL('../../docs/providers/azure-role.json', import.meta.url);
    const { Actions: allowed }: { Actions: string[] } = JSON.parse(await readFile(file, 'utf8'));
    const isAllowed = new Set(allowed.map((action) => action.toLowerCase()));

    const calls = (await cloud.calls()).filter(({ service }) => service === 'arm');
    const called = new Set(calls.flatMap(({ action, linkedActions }) => [action, ...linkedActions]));

    expect([...called].filter((action) => !isAllowed.has(action.toLowerCase()))).toEqual([]);
    const wasCalled = new Set([...called].map((action) => action.toLowerCase()));
    // Of classes that name such a resource; a public address is deleted only by the sweep.
    expect(allowed.filter((action) => !wasCalled.has(action.toLowerCase()))).toEqual([]);
  });
});
