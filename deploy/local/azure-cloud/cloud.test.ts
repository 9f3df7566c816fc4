import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ComputeManagementClient, type VirtualMachine } from '@azure/arm-compute';
import { type NetworkInterface, NetworkManagementClient } from '@azure/arm-network';
import type { TokenCredential } from '@azure/core-auth';
import { ClientAssertionCredential, ClientSecretCredential, ManagedIdentityCredential } from '@azure/identity';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Agent, request } from 'undici';
import { z } from 'zod';
import { until } from '../../../test/support/until.ts';
import { type AzureCloud, startAzureCloud } from './admin.ts';

const group = 'machines';
const scope = 'https://management.azure.com/.default';
const fast = { updateIntervalInMs: 20 };

let dir: string;
let cloud: AzureCloud;
let compute: ComputeManagementClient;
let network: NetworkManagementClient;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'azure-cloud-'));
  cloud = await startAzureCloud({
    ...{ dir, bootMs: 100, deleteMs: 100, changeMs: 20, nicReservationMs: 5_000, pageSize: 3, retryAfterSeconds: 0 },
  });
  ({ compute, network } = clientsWith(secretCredential()));
}, 900_000); // where the program has to be built

afterAll(async () => {
  await cloud?.stop();
  await rm(dir, { recursive: true, force: true });
});

afterEach(async () => {
  await cloud.setFaults();
  await cloud.reset();
});

function clientsWith(credential: TokenCredential) {
  const { subscriptionId, ca } = cloud.seeds;
  const options = { endpoint: cloud.url, tlsOptions: { ca }, retryOptions: { maxRetries: 0 } };
  return {
    compute: new ComputeManagementClient(credential, subscriptionId, options),
    network: new NetworkManagementClient(credential, subscriptionId, options),
  };
}

function identityOptions() {
  return {
    authorityHost: cloud.url,
    disableInstanceDiscovery: true,
    tlsOptions: { ca: cloud.seeds.ca },
    retryOptions: { maxRetries: 0 },
  };
}

function secretCredential(changes: Partial<AzureCloud['credentials']> = {}) {
  const { tenantID, clientID, clientSecret } = { ...cloud.credentials, ...changes };
  return new ClientSecretCredential(tenantID, clientID, clientSecret, identityOptions());
}

function idOf(kind: string, name: string): string {
  return `/subscriptions/${cloud.seeds.subscriptionId}/resourceGroups/${group}/providers/${kind}/${name}`;
}

function makeNic(name: string, more: Partial<NetworkInterface> = {}, publicIPAddress?: { id: string }) {
  const subnet = { id: idOf('Microsoft.Network/virtualNetworks', 'nodes/subnets/nodes') };
  return network.networkInterfaces
    .createOrUpdate(
      group,
      name,
      {
        location: 'westeurope',
        ipConfigurations: [{ name: name, subnet, ...(publicIPAddress && { publicIPAddress }) }],
        ...more,
      },
      fast,
    )
    .pollUntilDone();
}

/** What a provider sends for a machine. */
function order(name: string, more: Partial<VirtualMachine> = {}): VirtualMachine {
  return {
    location: 'westeurope',
    zones: ['1'],
    tags: { 'kubernetes.io-cluster-test': '1' },
    hardwareProfile: { vmSize: 'Standard_D2s_v5' },
    storageProfile: {
      imageReference: {
        publisher: 'Canonical',
        offer: 'ubuntu-24_04-lts',
        sku: 'server',
        version: '24.04.202501010',
      },
      osDisk: { name: `${name}-os-disk`, createOption: 'FromImage', deleteOption: 'Delete', diskSizeGB: 50 },
      dataDisks: [
        { lun: 0, name: `${name}-0-data-disk`, createOption: 'Empty', diskSizeGB: 10, deleteOption: 'Delete' },
      ],
    },
    osProfile: {
      computerName: name,
      adminUsername: 'core',
      customData: Buffer.from('#!/bin/sh').toString('base64'),
      linuxConfiguration: {
        disablePasswordAuthentication: true,
        ssh: { publicKeys: [{ path: '/home/core/.ssh/authorized_keys', keyData: 'ssh-rsa AAAA' }] },
      },
    },
    networkProfile: {
      networkInterfaces: [{ id: idOf('Microsoft.Network/networkInterfaces', `${name}-nic`), deleteOption: 'Delete' }],
    },
    ...more,
  };
}

function startVm(name: string, more: Partial<VirtualMachine> = {}) {
  return compute.virtualMachines.createOrUpdate(group, name, order(name, more), fast);
}

async function makeVm(name: string) {
  await makeNic(`${name}-nic`);
  return startVm(name);
}

function removeVm(name: string) {
  return compute.virtualMachines.delete(group, name, fast);
}

async function namesOf(items: PromiseLike<readonly { readonly name?: string | undefined }[]>) {
  return (await items).map(({ name }) => name);
}

const Refused = z.object({
  code: z.string().optional(),
  statusCode: z.number().optional(),
  message: z.string(),
  response: z.object({ headers: z.custom<{ get(name: string): string | undefined }>() }).optional(),
});

/** What is thrown. */
async function refusalOf(call: PromiseLike<unknown>) {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  return Refused.parse(error);
}

/** The operation that the last request for a VM has started, as a client polls it. */
async function operationsOf(name: string) {
  return (await cloud.calls()).filter(({ path }) => path.includes(`/virtualMachines/${name}?`));
}

describe('identity', () => {
  it('gives tokens for a secret, an assertion and a managed identity, and takes no other', async () => {
    const assertion = new ClientAssertionCredential(
      cloud.credentials.tenantID,
      cloud.credentials.clientID,
      async () => 'header.payload.signature',
      identityOptions(),
    );
    process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST = cloud.adminUrl;
    const managed = new ManagedIdentityCredential();
    for (const credential of [secretCredential(), assertion, managed]) {
      expect((await credential.getToken(scope))?.expiresOnTimestamp).toBeGreaterThan(Date.now());
      await clientsWith(credential).compute.virtualMachines.list(group).next();
    }
    delete process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST;

    await expect(secretCredential({ clientSecret: 'wrong' }).getToken(scope)).rejects.toThrow(/AADSTS7000215/);
    await expect(secretCredential({ clientID: randomUUID() }).getToken(scope)).rejects.toThrow(/AADSTS700016/);
    await expect(secretCredential({ tenantID: randomUUID() }).getToken(scope)).rejects.toThrow(
      /endpoints_resolution_error/,
    );
    const wrong = { getToken: async () => ({ token: 'wrong', expiresOnTimestamp: Date.now() + 600_000 }) };
    expect(await refusalOf(clientsWith(wrong).compute.virtualMachines.get(group, 'any'))).toMatchObject({
      statusCode: 401,
      code: 'InvalidAuthenticationToken',
    });
  });
});

describe('virtual machines', () => {
  it('come with disks and go with all that has the delete option', async () => {
    const address = { location: 'westeurope', sku: { name: 'Standard' }, deleteOption: 'Delete' };
    await network.publicIPAddresses.createOrUpdate(group, 'vm-ip', address, fast).pollUntilDone();
    await makeNic('vm-nic', {}, { id: idOf('Microsoft.Network/publicIPAddresses', 'vm-ip') });
    const made = await compute.virtualMachines.createOrUpdate(group, 'vm', order('vm'), fast).pollUntilDone();
    expect(made).toMatchObject({
      provisioningState: 'Succeeded',
      zones: ['1'],
      osProfile: { computerName: 'vm' },
      networkProfile: { networkInterfaces: [{ deleteOption: 'Delete' }] },
    });
    expect(made.osProfile?.customData).toBeUndefined();
    const { instanceView } = await compute.virtualMachines.get(group, 'vm', { expand: 'instanceView' });
    expect(instanceView?.statuses?.map(({ code }) => code)).toEqual([
      'ProvisioningState/succeeded',
      'PowerState/running',
    ]);
    const disk = await compute.disks.get(group, 'vm-os-disk');
    expect(disk).toMatchObject({ diskState: 'Attached', managedBy: made.id, tags: made.tags, diskSizeGB: 50 });
    const nic = await network.networkInterfaces.get(group, 'vm-nic');
    expect(nic.virtualMachine?.id).toBe(made.id);

    expect(await refusalOf(network.networkInterfaces.delete(group, 'vm-nic', fast))).toMatchObject({
      statusCode: 400,
      code: 'NicInUse',
    });
    expect(await refusalOf(compute.disks.delete(group, 'vm-os-disk', fast))).toMatchObject({
      statusCode: 409,
      code: 'OperationNotAllowed',
    });
    expect(await refusalOf(network.publicIPAddresses.delete(group, 'vm-ip', fast))).toMatchObject({
      code: 'PublicIPAddressCannotBeDeleted',
    });
    await removeVm('vm');
    expect(await refusalOf(compute.virtualMachines.get(group, 'vm'))).toMatchObject({
      statusCode: 404,
      code: 'ResourceNotFound',
    });
    const left = [await cloud.vms(), await cloud.disks(), await cloud.interfaces(), await cloud.addresses()].flat();
    expect(left).toEqual([]);
    await removeVm('vm'); // of what there is not is no error
  });

  it('are made once of a name, and keep what cannot be changed', async () => {
    await makeVm('vm');
    expect((await startVm('vm')).vmId).toBe((await compute.virtualMachines.get(group, 'vm')).vmId);
    const osProfile = { ...order('vm').osProfile, customData: Buffer.from('other').toString('base64') };
    const changed = compute.virtualMachines.createOrUpdate(group, 'vm', order('vm', { osProfile }), fast);
    expect(await refusalOf(changed.pollUntilDone())).toMatchObject({
      statusCode: 409,
      code: 'PropertyChangeNotAllowed',
    });
    const nic = idOf('Microsoft.Network/networkInterfaces', 'vm-nic');
    const networkProfile = { networkInterfaces: [{ id: nic, deleteOption: 'Detach' }] };
    const updated = await compute.virtualMachines
      .update(group, 'vm', { tags: { new: '1' }, networkProfile }, fast)
      .pollUntilDone();
    expect(updated.tags).toEqual({ new: '1' });
    await removeVm('vm');
    expect(await namesOf(cloud.interfaces())).toEqual(['vm-nic']);
    expect(await cloud.disks()).toEqual([]);
  });

  it('are refused when something that they name is not there', async () => {
    await makeNic('vm-nic');
    const tries: [Partial<VirtualMachine>, number, string][] = [
      [{ hardwareProfile: { vmSize: 'Standard_None' } }, 400, 'InvalidParameter'],
      [{ zones: ['9'] }, 400, 'InvalidAvailabilityZone'],
      [{ availabilitySet: { id: idOf('Microsoft.Compute/availabilitySets', 'none') }, zones: [] }, 404, 'NotFound'],
      [
        { networkProfile: { networkInterfaces: [{ id: idOf('Microsoft.Network/networkInterfaces', 'none') }] } },
        404,
        'NotFound',
      ],
      [withImage({ id: idOf('Microsoft.Compute/images', 'none') }), 404, 'GalleryImageNotFound'],
    ];
    for (const [changes, statusCode, code] of tries) {
      const vm = compute.virtualMachines.createOrUpdate(group, 'vm', order('vm', changes), fast);
      expect(await refusalOf(vm.pollUntilDone())).toMatchObject({ statusCode, code });
    }
    expect(await refusalOf(compute.virtualMachines.get('none', 'vm'))).toMatchObject({ code: 'ResourceGroupNotFound' });
  });

  it('of a marketplace image need its plan and accepted terms', async () => {
    const flatcar = { publisher: 'kinvolk', offer: 'flatcar-container-linux-free', sku: 'stable', version: '4081.2.0' };
    const image = await compute.virtualMachineImages.get(
      'westeurope',
      flatcar.publisher,
      flatcar.offer,
      flatcar.sku,
      flatcar.version,
    );
    expect(image.plan).toEqual({ name: 'stable', product: flatcar.offer, publisher: flatcar.publisher });
    await makeNic('vm-nic');
    const make = (more: Partial<VirtualMachine>) =>
      compute.virtualMachines
        .createOrUpdate(group, 'vm', order('vm', { ...withImage(flatcar), ...more }), fast)
        .pollUntilDone();
    expect(await refusalOf(make({}))).toMatchObject({ code: 'VMMarketplaceInvalidInput' });
    const { plan } = image;
    expect(await refusalOf(make({ ...(plan && { plan }) }))).toMatchObject({
      code: 'MarketplacePurchaseEligibilityFailed',
    });
    await acceptTerms('kinvolk', flatcar.offer, 'stable');
    expect((await make({ ...(plan && { plan }) })).plan).toEqual(plan);
  });

  it('and what is made for them are listed in pages', async () => {
    await Promise.all(['a', 'b', 'c', 'd'].map(makeVm));
    const pages: number[] = [];
    for await (const page of compute.virtualMachines.list(group).byPage()) pages.push(page.length);
    expect(pages).toEqual([3, 1]);
    const names: (string | undefined)[] = [];
    for await (const { name } of network.networkInterfaces.list(group)) names.push(name);
    expect(names).toEqual(['a-nic', 'b-nic', 'c-nic', 'd-nic']);
    expect(await namesOf(cloud.vms())).toEqual(['a', 'b', 'c', 'd']);
  });
});

function withImage(imageReference: object): Partial<VirtualMachine> {
  return { storageProfile: { ...order('vm').storageProfile, imageReference } };
}

/** As a client that has no package for it. */
async function acceptTerms(publisher: string, offer: string, plan: string) {
  const { subscriptionId } = cloud.seeds;
  const path =
    `/subscriptions/${subscriptionId}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/` +
    `${publisher}/offers/${offer}/plans/${plan}/agreements/current?api-version=2021-01-01`;
  const terms = await sendArm('GET', path);
  await sendArm('PUT', path, { ...terms, properties: { ...terms.properties, accepted: true } });
}

async function sendArm(method: 'GET' | 'PUT', path: string, body?: object) {
  const token = await secretCredential().getToken(scope);
  const answer = await request(cloud.url + path, {
    method,
    headers: { authorization: `Bearer ${token.token}`, 'content-type': 'application/json' },
    dispatcher: new Agent({ connect: { ca: cloud.seeds.ca } }),
    ...(body && { body: JSON.stringify(body) }),
  });
  return z.looseObject({ properties: z.looseObject({}) }).parse(await answer.body.json());
}

describe('faults', () => {
  it('refuse a VM at once for want of capacity or quota, and keep its NIC for it', async () => {
    await cloud.setFaults({ kind: 'capacity' });
    // It is kept for 5 s. Where that is over before the deletion, the NIC goes, and all begins again.
    await until('the NIC is kept', async (see) => {
      expect(await refusalOf(makeVm('vm'))).toMatchObject({ statusCode: 409, code: 'SkuNotAvailable' });
      const { statusCode, code } = see(await refusalOf(network.networkInterfaces.delete(group, 'vm-nic', fast)));
      return statusCode === 400 && code === 'NicReservedForAnotherVm';
    });
    await cloud.setFaults({ kind: 'quota', limit: 1 });
    const quota = await refusalOf(
      compute.virtualMachines.createOrUpdate(group, 'vm', order('vm'), fast).pollUntilDone(),
    );
    expect(quota).toMatchObject({ statusCode: 409, code: 'OperationNotAllowed' });
    expect(quota.message).toContain(
      'Current Limit: 1, Current Usage: 0, Additional Required: 2, (Minimum) New Limit Required: 2',
    );
    expect(await cloud.vms()).toEqual([]);
    await until('the NIC is free', () =>
      network.networkInterfaces.delete(group, 'vm-nic', fast).then(
        () => true,
        () => false,
      ),
    );
    expect(await cloud.interfaces()).toEqual([]);
  });

  it('let an operation fail later, and leave a VM that has failed', async () => {
    await cloud.setFaults({ kind: 'capacity', code: 'ZonalAllocationFailed' });
    const { message } = await refusalOf(makeVm('vm'));
    expect(message).toContain('ZonalAllocationFailed');
    expect(await compute.virtualMachines.get(group, 'vm')).toMatchObject({ provisioningState: 'Failed' });
    const calls = await cloud.calls();
    const polls = calls.filter(({ action }) => action === 'Microsoft.Compute/locations/operations/read');
    expect(polls.at(-1)).toMatchObject({ outcome: 200 });
    expect((await operationsOf('vm')).find(({ method }) => method === 'PUT')).toMatchObject({
      action: 'Microsoft.Compute/virtualMachines/write',
      linkedActions: ['Microsoft.Network/networkInterfaces/join/action'],
      outcome: 201,
      effect: true,
    });
    await removeVm('vm');
    expect([...(await cloud.vms()), ...(await cloud.disks()), ...(await cloud.interfaces())]).toEqual([]);
  });

  it('let parts outlive a VM, hide what is new, and hold an operation up', async () => {
    await cloud.setFaults(
      { kind: 'leftover', parts: ['nic', 'osDisk'] },
      { kind: 'invisible', ms: 60_000, actions: ['Microsoft.Compute/virtualMachines/write'] },
      { kind: 'slowOperation', ms: 60_000, times: 1 },
    );
    await makeNic('vm-nic');
    const poller = startVm('vm');
    await poller.submitted();
    await poller.poll();
    expect(poller.isDone).toBe(false);
    expect(await compute.virtualMachines.get(group, 'vm')).toMatchObject({ provisioningState: 'Creating' });
    expect((await compute.virtualMachines.list(group).next()).done).toBe(true);
    expect(await namesOf(cloud.vms())).toEqual(['vm']);
    await removeVm('vm');
    expect([...(await namesOf(cloud.interfaces())), ...(await namesOf(cloud.disks()))]).toEqual([
      'vm-nic',
      'vm-os-disk',
    ]);
  });

  it('throttle, after answers that say how much is left', async () => {
    await cloud.setFaults({ kind: 'rateLimit', of: 'reads', size: 3, perSecond: 0 });
    const left: (string | undefined)[] = [];
    const onResponse = ({ headers }: { headers: { get(name: string): string | undefined } }) =>
      left.push(headers.get('x-ms-ratelimit-remaining-subscription-reads'));
    for (let n = 0; n < 3; n += 1) {
      await compute.virtualMachines.get(group, 'none', { onResponse }).catch(() => undefined);
    }
    expect(left).toEqual(['2', '1', '0']);
    const empty = await refusalOf(compute.virtualMachines.get(group, 'none'));
    expect(empty).toMatchObject({ statusCode: 429, code: 'SubscriptionRequestsThrottled' });
    expect(empty.response?.headers.get('retry-after')).toBe('60');
    await cloud.setFaults({ kind: 'throttle', retryAfterSeconds: 7 });
    const busy = await refusalOf(compute.virtualMachines.get(group, 'none'));
    expect(busy).toMatchObject({ statusCode: 429, code: 'OperationNotAllowed' });
    expect(busy.response?.headers.get('retry-after')).toBe('7');
  });

  it('refuse rights, let tokens expire and lose answers', async () => {
    const write = 'Microsoft.Compute/disks/write';
    const make = () =>
      compute.disks
        .createOrUpdate(
          group,
          'disk',
          { location: 'westeurope', diskSizeGB: 1, creationData: { createOption: 'Empty' } },
          fast,
        )
        .pollUntilDone();
    await cloud.setFaults({ kind: 'unauthorized', actions: [write] });
    const refused = await refusalOf(make());
    expect(refused).toMatchObject({ statusCode: 403, code: 'AuthorizationFailed' });
    expect(refused.message).toContain(`perform action '${write}' over scope`);
    await cloud.setFaults({ kind: 'expired' });
    expect(await refusalOf(compute.disks.get(group, 'disk'))).toMatchObject({
      statusCode: 401,
      code: 'ExpiredAuthenticationToken',
    });
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'done', actions: [write] });
    await expect(make()).rejects.toThrow(/socket|ECONNRESET/);
    expect(await namesOf(cloud.disks())).toEqual(['disk']);
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'none', actions: ['Microsoft.Compute/disks/delete'] });
    await expect(compute.disks.delete(group, 'disk', fast)).rejects.toThrow(/socket|ECONNRESET/);
    expect(await namesOf(cloud.disks())).toEqual(['disk']);
  });
});
