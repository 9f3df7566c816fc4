/** What the provider asks of Azure Resource Manager, and what the answers become. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { DeleteVmRequest, EnsureVmRequest } from '../../../api/provider.ts';
import {
  azureCreation,
  azureScope,
  credentials,
  ownershipTags,
  properties,
  uid,
  uidTag,
} from '../../../test/support/azure.ts';
import { hurried } from '../../../test/support/hurried.ts';
import { inActivity } from '../../../test/support/in-activity.ts';
import {
  type ArmAnswer,
  type ArmAnswers,
  type RecordingArm,
  startRecordingArm,
} from '../../../test/support/recording-arm.ts';
import { refusal } from '../../../test/support/refusal.ts';
import { createMask } from '../kit/masks.ts';
import { createProvider } from '../kit/provider.ts';
import type { CallContext, Provider, ProviderDeps } from '../provider.ts';
import { azureCloud } from './index.ts';

const tags = { ...ownershipTags, ...uidTag };
const group = '/subscriptions/sub-1/resourceGroups/machines/providers';
const vmId = `${group}/Microsoft.Compute/virtualMachines/workers-1`;

let arm: RecordingArm;
let provider: Provider;
let secrets: Record<string, Record<string, string>>;

beforeAll(async () => {
  arm = await startRecordingArm();
  Object.assign(process.env, { AZURE_RESOURCE_MANAGER_ENDPOINT: arm.url, AZURE_AUTHORITY_HOST: arm.url });
});
afterAll(async () => {
  delete process.env['AZURE_RESOURCE_MANAGER_ENDPOINT'];
  delete process.env['AZURE_AUTHORITY_HOST'];
  await arm?.stop();
});
beforeEach(() => {
  secrets = { cloud: { ...credentials }, node: { userData: '#!/bin/sh' } };
  provider = makeProvider();
});

function makeProvider(deps: Partial<ProviderDeps> = {}): Provider {
  return createProvider(hurried(azureCloud, 100), { readSecret: async ({ name }) => secrets[name], ...deps });
}

function call(overrides: Partial<CallContext> = {}): CallContext {
  return { attempt: 1, signal: new AbortController().signal, heartbeat: () => {}, ...overrides };
}

function deletion(changes: Partial<DeleteVmRequest> = {}): DeleteVmRequest {
  const { providerSpec, credentials: refs, machine } = azureCreation();
  return { providerSpec, credentials: refs, machine, outcomeUnknown: false, ...changes };
}

/** A VM as ARM shows it. */
function vm({
  state = 'Succeeded',
  power = 'running',
  own = tags as object,
  name = 'workers-1',
  statuses = [] as object[],
} = {}): ArmAnswer {
  const instanceView = { statuses: [...statuses, ...(power === '' ? [] : [{ code: `PowerState/${power}` }])] };
  return {
    body: {
      id: vmId,
      name,
      location: 'westeurope',
      tags: own,
      properties: { provisioningState: state, timeCreated: '2026-01-01T00:00:00Z', instanceView },
    },
  };
}

function nic({ name = 'workers-1-nic', own = tags as object, of = '', state = 'Succeeded' } = {}) {
  const ipConfigurations = [{ name: 'ipconfig', properties: { privateIPAddress: '10.0.0.4' } }];
  return {
    id: `${group}/Microsoft.Network/networkInterfaces/${name}`,
    name,
    tags: own,
    properties: { provisioningState: state, ipConfigurations, ...(of && { virtualMachine: { id: of } }) },
  };
}

function disk(name: string, { own = tags as object, of = '' } = {}) {
  const id = `${group}/Microsoft.Compute/disks/${name}`;
  return {
    id,
    name,
    tags: own,
    ...(of && { managedBy: of }),
    properties: { timeCreated: '2026-01-01T00:00:00Z', provisioningState: 'Succeeded' },
  };
}

const list = (...value: object[]): ArmAnswer => ({ body: { value } });

/** A cloud in which what is deleted is gone. */
function withDeletions(answers: Readonly<Record<string, ArmAnswer>>): ArmAnswers {
  const gone = new Set<string>();
  return Object.fromEntries([
    ...Object.entries(answers).map(([name, answer]) => [
      name,
      () => {
        const [, path = ''] = name.split(' ');
        if (gone.has(path)) return { status: 404, code: 'ResourceNotFound' };
        const { value } = (answer.body ?? {}) as { value?: { name: string }[] };
        return value === undefined ? answer : list(...value.filter((each) => !gone.has(`${path}/${each.name}`)));
      },
    ]),
    ...Object.entries(answers).flatMap(([name, { body }]) => {
      const [, path = ''] = name.split(' ');
      const { value } = (body ?? {}) as { value?: { name: string }[] };
      const paths = value === undefined ? [path] : value.map((each) => `${path}/${each.name}`);
      return paths.map((each) => [
        `DELETE ${each}`,
        () => {
          gone.add(each);
          return { status: 202 };
        },
      ]);
    }),
  ]);
}

const deleted = () => arm.requests('DELETE ').map(({ name }) => name.replace('DELETE ', ''));

describe('ensureVm', () => {
  const ensure = (changes: Partial<EnsureVmRequest> = {}) =>
    provider.ensureVm({ ...azureCreation(), ...changes }, call());

  it('answers the VM that has the name and the UID tag, and makes none', async () => {
    arm.answer({ 'GET virtualMachines/workers-1': vm(), 'GET networkInterfaces/workers-1-nic': { body: nic() } });

    expect(await ensure()).toEqual({
      state: 'running',
      providerID: 'azure:///westeurope/workers-1',
      nodeName: 'workers-1',
      addresses: [{ type: 'InternalIP', address: '10.0.0.4' }],
      tags: ownershipTags,
    });
    expect(arm.names()).toEqual(['GET virtualMachines/workers-1', 'GET networkInterfaces/workers-1-nic']);
  });

  it.each([
    ['Creating', '', 'creating'],
    ['Updating', '', 'running'],
    ['Succeeded', 'starting', 'running'],
    ['Succeeded', 'deallocated', 'failed'],
    ['Succeeded', 'stopped', 'failed'],
    ['Failed', 'running', 'running'],
    ['Failed', '', 'failed'],
  ])('answers a VM that is %s %s as %s', async (state, power, expected) => {
    arm.answer({ 'GET virtualMachines/workers-1': vm({ state, power }) });
    expect(await ensure()).toMatchObject({ state: expected });
  });

  it('asks as often as docs/providers/azure.md says, and says where the operation can be asked for', async () => {
    arm.answer({});

    expect(await ensure()).toMatchObject({
      state: 'creating',
      providerID: 'azure:///westeurope/workers-1',
      nodeName: 'workers-1',
      lastKnownState: expect.stringContaining('/operations/op-1'),
    });
    expect(arm.names().toSorted()).toEqual(
      [
        ...['GET virtualMachines/workers-1', 'GET networkInterfaces', 'GET disks', 'GET publicIPAddresses'],
        ...['GET virtualNetworks/net/subnets/nodes', 'GET networkInterfaces/workers-1-nic'],
        ...['PUT networkInterfaces/workers-1-nic', 'PUT virtualMachines/workers-1'],
      ].toSorted(),
    );
  });

  it('[invariant 1] asks Azure to make no VM in the place of another', async () => {
    arm.answer({});
    await ensure();
    expect(arm.requests('PUT virtualMachines').map(({ headers }) => headers['if-none-match'])).toEqual(['*']);
  });

  it('[invariant 2] leaves a VM alone that has the name and is that of another Machine', async () => {
    const own = { ...tags, 'millwright.dev-machine-uid': 'other' };
    arm.answer({
      'GET virtualMachines/workers-1': vm({ own }),
      'PUT virtualMachines/workers-1': { status: 412, code: 'PreconditionFailed' },
    });

    expect(await refusal(ensure())).toMatchObject({ code: 'AlreadyExists' });
    expect(deleted()).toEqual([]);
  });

  it('[invariant 2] leaves a NIC alone that has the name and is that of another Machine', async () => {
    const own = { ...tags, 'millwright.dev-machine-uid': 'other' };
    arm.answer({ 'GET networkInterfaces/workers-1-nic': { body: nic({ own }) } });

    const { code, message } = await refusal(ensure());

    expect(code).toBe('AlreadyExists');
    expect(message).toContain('the nic workers-1-nic exists in the resource group machines');
    expect(arm.requests('PUT ')).toEqual([]);
  });

  it('takes the VM of an earlier call that Azure has made meanwhile', async () => {
    let looks = 0;
    arm.answer({
      'GET virtualMachines/workers-1': () =>
        looks++ === 0 ? { status: 404, code: 'ResourceNotFound' } : vm({ state: 'Creating' }),
      'PUT virtualMachines/workers-1': { status: 412, code: 'PreconditionFailed' },
    });

    expect(await ensure()).toMatchObject({ state: 'creating', providerID: 'azure:///westeurope/workers-1' });
  });

  it('takes over the VM and the NIC that machine-controller-manager has made', async () => {
    arm.answer({ 'GET virtualMachines/workers-1': vm({ own: ownershipTags }) });
    expect(await ensure({ outcomeUnknown: true })).toMatchObject({ state: 'running' });
    expect(arm.requests('PUT ')).toEqual([]);

    arm.answer({ 'GET networkInterfaces/workers-1-nic': { body: nic({ own: ownershipTags }) } });
    expect(await ensure()).toMatchObject({ state: 'creating' });
    expect(arm.requests('PUT networkInterfaces').map(({ body }) => body)).toMatchObject([{ tags }]);
  });

  it('waits for the NIC to be made, and does not go on where that fails', async () => {
    const states = ['Updating', 'Succeeded'];
    const updating = { ...nic(), properties: { provisioningState: 'Updating' } };
    arm.answer({
      'GET networkInterfaces/workers-1-nic': () =>
        arm.requests('PUT networkInterfaces').length === 0
          ? { status: 404, code: 'ResourceNotFound' }
          : { body: nic({ state: states.shift() ?? '' }) },
      'PUT networkInterfaces/workers-1-nic': { status: 201, body: updating },
    });
    expect(await ensure()).toMatchObject({ state: 'creating' });

    arm.answer({ 'PUT networkInterfaces/workers-1-nic': { status: 201, body: nic({ state: 'Failed' }) } });
    expect(await refusal(ensure())).toMatchObject({ code: 'Aborted' });
    expect(arm.requests('PUT virtualMachines')).toEqual([]);
  });

  it('says which subnet does not exist', async () => {
    arm.answer({ 'GET virtualNetworks/net/subnets/nodes': { status: 404, code: 'ResourceNotFound' } });

    expect(await refusal(ensure())).toMatchObject({
      code: 'InvalidArgument',
      message:
        'providerSpec.subnetInfo is {"vnetName":"net","subnetName":"nodes"}: give a subnet that exists in the resource group machines, which is providerSpec.resourceGroup',
    });
    expect(arm.requests('PUT ')).toEqual([]);
  });

  it('sends no user data that is too long', async () => {
    secrets['node'] = { userData: 'x'.repeat(65_536) };
    arm.answer({});

    expect((await refusal(ensure())).message).toBe('the user data has 65536 bytes: Azure takes 65535 at most');
    expect(arm.requests('PUT ')).toEqual([]);
  });

  it('refuses a Machine whose name is too long for Azure, and deletes it', async () => {
    const machine = { ...azureCreation().machine, name: 'x'.repeat(65) };
    arm.answer({});
    const message = 'the name of the Machine has 65 characters: Azure takes 64 at most';
    expect(await refusal(ensure({ machine }))).toMatchObject({ code: 'InvalidArgument', message });
    expect(await provider.deleteVm(deletion({ machine }), call())).toMatchObject({ state: 'gone' });
    expect(arm.requests('PUT ')).toEqual([]);
  });

  describe('of a VM that Azure has accepted', () => {
    const operation = (answer: ArmAnswer): ArmAnswers => ({ 'GET locations/l/operations/op-1': answer });
    const known = () => ({
      providerID: 'azure:///westeurope/workers-1',
      lastKnownState: `${arm.url}/subscriptions/sub-1/providers/Microsoft.Compute/locations/l/operations/op-1?api-version=1`,
    });
    const failed = (code: string, message = 'sold out') =>
      operation({ body: { status: 'Failed', error: { code, message } } });

    it.each([
      ['ZonalAllocationFailed', 'sold out', 'ResourceExhausted'],
      ['OperationNotAllowed', 'exceeding approved Total Regional Cores quota', 'ResourceExhausted'],
      ['ImageNotFound', 'no', 'Internal'],
    ])('[mcm 109 partly] keeps the code %s of its operation, and deletes it', async (cloudCode, message, code) => {
      arm.answer({
        ...failed(cloudCode, message),
        ...withDeletions({
          'GET virtualMachines/workers-1': vm({ state: 'Failed', power: '' }),
          'GET networkInterfaces': list(nic()),
        }),
      });

      expect(await refusal(ensure(known()))).toMatchObject({ code, message: expect.stringContaining(cloudCode) });
      expect(deleted()).toEqual(['virtualMachines/workers-1', 'networkInterfaces/workers-1-nic']);
    });

    it('has failed where its operation has for a reason that another VM need not meet', async () => {
      arm.answer({
        ...failed('Smoke', 'it burns'),
        'GET virtualMachines/workers-1': vm({ state: 'Failed', power: '' }),
      });
      expect(await ensure(known())).toMatchObject({
        state: 'failed',
        message: expect.stringContaining('Smoke: it burns'),
      });
      expect(deleted()).toEqual([]);
    });

    it('goes on while its operation does, and when Azure has forgotten that', async () => {
      for (const answer of [{ body: { status: 'InProgress' } }, { status: 404, code: 'NotFound' }]) {
        arm.answer({ ...operation(answer), 'GET virtualMachines/workers-1': vm({ state: 'Creating', power: '' }) });
        expect(await ensure(known())).toMatchObject({ state: 'creating', ...known() });
      }
    });

    it('does not get the failure of an operation that ended before it was made', async () => {
      const error = { code: 'SkuNotAvailable', message: 'sold out' };
      for (const state of ['Creating', 'Failed']) {
        arm.answer({
          ...operation({ body: { status: 'Failed', endTime: '2025-12-31T23:59:59.9Z', error } }),
          'GET virtualMachines/workers-1': vm({ state, power: '' }),
        });
        expect(await ensure(known())).toMatchObject({ state: state === 'Failed' ? 'failed' : 'creating' });
        expect(deleted()).toEqual([]);
      }
    });

    it('does not get the failure of an operation that ended long ago where only its NIC is there', async () => {
      const error = { code: 'SkuNotAvailable', message: 'sold out' };
      const endTime = new Date(Date.now() - 600_000).toISOString();
      arm.answer({
        ...operation({ body: { status: 'Failed', endTime, error } }),
        'GET networkInterfaces': list(nic()),
      });
      expect(await ensure(known())).toMatchObject({ state: 'creating' });
    });

    it('keeps the code that its instance view has, where its operation was lost', async () => {
      const statuses = [{ code: 'ProvisioningState/failed/AllocationFailed', message: 'sold out' }];
      arm.answer(withDeletions({ 'GET virtualMachines/workers-1': vm({ state: 'Failed', power: '', statuses }) }));
      expect(await refusal(ensure())).toMatchObject({ code: 'ResourceExhausted', cloudCode: 'AllocationFailed' });
    });

    it('sends its token nowhere else, whatever the state of the Machine says', async () => {
      for (const lastKnownState of ['https://example.com/operations/op-1', 'of MCM']) {
        arm.answer({ 'GET virtualMachines/workers-1': vm({ state: 'Creating', power: '' }) });
        expect(await ensure({ ...known(), lastKnownState })).toMatchObject({ state: 'creating' });
        expect(arm.names()).toEqual(['GET virtualMachines/workers-1']);
      }
    });
  });
});

describe('deleteVm', () => {
  it('deletes the VM, and what has outlived it with the UID tag', async () => {
    arm.answer(
      withDeletions({
        'GET virtualMachines/workers-1': vm(),
        'GET networkInterfaces': list(
          nic(),
          nic({ name: 'other-nic', own: { ...tags, 'millwright.dev-machine-uid': 'other' } }),
        ),
        'GET disks': list(disk('workers-1-os-disk'), disk('pvc-1', { own: ownershipTags })),
        'GET publicIPAddresses': list({ id: 'x', name: 'workers-1-ip', tags }),
      }),
    );

    expect(await provider.deleteVm(deletion(), call())).toEqual({ state: 'gone', nodeNames: ['workers-1'] });
    expect(deleted()[0]).toBe('virtualMachines/workers-1');
    expect(deleted().slice(1).toSorted()).toEqual([
      'disks/workers-1-os-disk',
      'networkInterfaces/workers-1-nic',
      'publicIPAddresses/workers-1-ip',
    ]);
  });

  it('deletes a VM of another name with the UID tag, and no VM without it that uses a disk', async () => {
    const users = `${group}/Microsoft.Compute/virtualMachines`;
    arm.answer(
      withDeletions({
        'GET virtualMachines/copy': vm({ name: 'copy' }),
        'GET virtualMachines/other': vm({ name: 'other', own: ownershipTags }),
        'GET networkInterfaces': list(nic({ name: 'copy-nic', of: `${users}/copy` })),
        'GET disks': list(disk('workers-1-0-data-disk', { of: `${users}/other` })),
      }),
    );

    await provider.deleteVm(deletion(), call());

    expect(deleted()).toEqual(['virtualMachines/copy', 'networkInterfaces/copy-nic', 'disks/workers-1-0-data-disk']);
  });

  it('takes no VM of its resource group for one of another group that has the same name', async () => {
    const holder = `${group.replace('machines', 'others')}/Microsoft.Compute/virtualMachines/other`;
    arm.answer({
      'GET virtualMachines/other': vm({ name: 'other', own: {} }),
      'GET networkInterfaces': list(nic({ of: holder })),
      'GET disks': list(),
      'GET publicIPAddresses': list(),
      'DELETE networkInterfaces/workers-1-nic': { status: 400, code: 'NicInUse' },
    });

    await expect(provider.deleteVm(deletion(), call())).rejects.toMatchObject({ cloudCode: 'NicInUse' });
  });

  it('asks as often as docs/providers/azure.md says', async () => {
    arm.answer(withDeletions({ 'GET virtualMachines/workers-1': vm({ power: '', state: 'Updating' }) }));

    await provider.deleteVm(deletion(), call());

    const names = arm.names();
    expect(names.slice(0, 4)).toEqual([
      'GET virtualMachines/workers-1',
      'GET networkInterfaces/workers-1-nic',
      'DELETE virtualMachines/workers-1',
      'GET virtualMachines/workers-1',
    ]);
    expect(names.slice(4).toSorted()).toEqual(['GET disks', 'GET networkInterfaces', 'GET publicIPAddresses']);
  });

  it.each(['NicInUse', 'NicReservedForAnotherVm', 'OperationNotAllowed'])(
    'is tried again where a part is still in use: %s',
    async (code) => {
      arm.answer({
        'GET networkInterfaces': list(nic()),
        'DELETE networkInterfaces/workers-1-nic': { code, message: 'it is attached to a VM' },
      });
      expect(await refusal(provider.deleteVm(deletion(), call()))).toMatchObject({ code: 'Aborted' });
    },
  );

  it('finds nothing where the resource group is gone', async () => {
    const gone = { status: 404, code: 'ResourceGroupNotFound' };
    arm.answer(
      Object.fromEntries(
        ['virtualMachines/workers-1', 'networkInterfaces', 'disks', 'publicIPAddresses'].map((path) => [
          `GET ${path}`,
          gone,
        ]),
      ),
    );
    expect(await provider.deleteVm(deletion(), call())).toMatchObject({ state: 'gone' });
  });

  it('deletes a VM of machine-controller-manager by its provider ID, with its parts, and no disk of a pod', async () => {
    arm.answer(
      withDeletions({
        'GET virtualMachines/workers-1': vm({ own: ownershipTags }),
        'GET networkInterfaces': list(nic({ own: ownershipTags })),
        'GET disks': list(
          disk('workers-1-os-disk', { own: ownershipTags }),
          disk('workers-1-data-0-data-disk', { own: ownershipTags }),
          disk('pvc-1', { own: ownershipTags }),
          disk('workers-1-1-data-disk', { own: ownershipTags, of: `${group}/Microsoft.Compute/virtualMachines/other` }),
          disk('workers-1-pvc', { own: ownershipTags }),
        ),
      }),
    );

    await provider.deleteVm(deletion({ providerID: 'azure:///westeurope/Workers-1' }), call());

    expect(deleted().toSorted()).toEqual([
      ...['disks/workers-1-data-0-data-disk', 'disks/workers-1-os-disk'],
      ...['networkInterfaces/workers-1-nic', 'virtualMachines/workers-1'],
    ]);
  });

  it('leaves what another Machine of the same name makes after the VM is gone', async () => {
    const others = { ...ownershipTags, 'millwright.dev-machine-uid': 'other' };
    arm.answer({
      'GET networkInterfaces': list(nic({ own: others })),
      'GET disks': list(disk('workers-1-0-data-disk', { own: others })),
    });

    const request = deletion({ providerID: 'azure:///westeurope/workers-1' });
    expect(await provider.deleteVm(request, call())).toMatchObject({ state: 'gone' });
    expect(deleted()).toEqual([]);
  });

  it('deletes nothing by its name, and answers what has it where another system has begun the creation', async () => {
    arm.answer({
      'GET virtualMachines/workers-1': vm({ own: ownershipTags }),
      'GET networkInterfaces': list(nic({ own: ownershipTags })),
    });
    expect(await provider.deleteVm(deletion(), call())).toMatchObject({ state: 'gone' });
    expect(await provider.deleteVm(deletion({ mayBeUntagged: true }), call())).toMatchObject({
      untaggedVm: { providerID: 'azure:///westeurope/workers-1', nodeName: 'workers-1' },
    });
    expect(deleted()).toEqual([]);
  });

  it('deletes one NIC or disk by its ID, if it is in the resource group of the class', async () => {
    const machine = { ...deletion().machine, uid: 'none' };
    for (const id of [nic().id, nic().id.toLowerCase()]) {
      arm.answer({ 'GET networkInterfaces/workers-1-nic': { body: nic() }, [`GET ${nic().id}`]: {} });
      await provider.deleteVm(deletion({ machine, only: { kind: 'nic', id, uid } }), call());
      expect(deleted()).toEqual(['networkInterfaces/workers-1-nic']);
    }
    arm.answer({});
    const foreign = nic().id.replace('machines', 'others');
    expect(
      await provider.deleteVm(deletion({ machine, only: { kind: 'nic', id: foreign, uid } }), call()),
    ).toMatchObject({ state: 'gone' });
    expect(arm.names()).toEqual([]);
  });
});

describe('listVms', () => {
  it('[mcm 107 partly] lists VMs, NICs, disks and addresses with both ownership tags, page by page, and no disks of pods', async () => {
    const next = `${arm.url}${group}/Microsoft.Compute/disks?api-version=1&$skiptoken=two`;
    arm.answer({
      'GET virtualMachines': list((vm().body ?? {}) as object, { ...(vm().body as object), tags: { other: '1' } }),
      'GET networkInterfaces': list(nic()),
      'GET disks': ({ query }) =>
        query.get('$skiptoken') === 'two'
          ? list(disk('pvc-1', { own: ownershipTags }), disk('left-os-disk'))
          : { body: { value: [disk('workers-1-os-disk')], nextLink: next } },
    });

    const found: unknown[] = [];
    let page: string | undefined;
    do {
      const answer = await provider.listVms({ ...azureScope(), ...(page !== undefined && { page }) }, call());
      found.push(...answer.items.map(({ kind, name, uid: own, alive }) => [kind, name, own, alive]));
      page = answer.nextPage;
    } while (page !== undefined);

    expect(found).toEqual([
      ['vm', 'workers-1', uid, true],
      ['nic', 'workers-1-nic', uid, undefined],
      ['disk', 'workers-1-os-disk', uid, undefined],
      ['disk', 'left-os-disk', uid, undefined],
    ]);
  });

  /** Kinds and ages of what is listed, by the clock of Temporal, which is two hours ahead. */
  async function agesOf(kind: 'vm' | 'nic' | 'disk'): Promise<[string, number][]> {
    const nowMs = Date.now() + 7_200_000;
    const list = () => provider.listVms({ ...azureScope(), page: `${kind}:` }, call());
    const { items } = await inActivity({ currentAttemptScheduledTimestampMs: nowMs }, list);
    return items.map((item) => [item.kind, nowMs - Date.parse(item.createdAt)]);
  }

  it('takes a VM and a disk for new where Azure does not say when they were made', async () => {
    const [{ body }, { properties, ...made }] = [vm(), disk('workers-1-os-disk')];
    const { timeCreated: _, ...ofDisk } = properties;
    const ofVm = { ...(body as object), properties: { provisioningState: 'Succeeded' } };
    arm.answer({ 'GET virtualMachines': list(ofVm), 'GET disks': list({ ...made, properties: ofDisk }) });

    for (const kind of ['vm', 'disk'] as const) {
      const [[found, ageMs] = []] = await agesOf(kind);
      expect(found).toBe(kind);
      expect(ageMs).toBeLessThanOrEqual(0);
    }
  });

  it('makes no VM younger by its NIC, of which Azure does not say when it was made', async () => {
    arm.answer({ 'GET networkInterfaces': list(nic({ of: vmId })) });

    const [[, ageMs] = []] = await agesOf('nic');
    expect(ageMs).toBeGreaterThan(Date.now() - Date.parse('2026-01-01T00:00:00Z'));
  });

  it('follows no link to another host', async () => {
    arm.answer({});
    const listing = provider.listVms({ ...azureScope(), page: 'disk:https://example.com/disks' }, call());
    expect((await refusal(listing)).message).toBe(`a link leads to https://example.com and not to ${arm.url}`);
  });
});

describe('updateVm', () => {
  it('sets and removes tags of all that belongs to the Machine, and keeps the UID and those of others', async () => {
    const own = { ...tags, old: '1', theirs: '1' };
    arm.answer({
      'GET virtualMachines/workers-1': vm({ own }),
      'GET networkInterfaces': list(nic({ own })),
      'GET disks': list(disk('workers-1-os-disk', { own })),
    });
    const { machine, providerSpec, credentials: refs } = azureCreation();

    await provider.updateVm?.(
      { providerSpec, credentials: refs, machine, tags: { ...ownershipTags, team: 'a' }, removedTags: ['old'] },
      call(),
    );

    const wanted = { tags: { ...tags, theirs: '1', team: 'a' } };
    expect(arm.requests('PATCH ').map(({ name, body }) => [name, body])).toEqual([
      ['PATCH virtualMachines/workers-1', wanted],
      ['PATCH networkInterfaces/workers-1-nic', wanted],
      ['PATCH disks/workers-1-os-disk', wanted],
    ]);
  });
});

describe('images of the marketplace', () => {
  const image = 'locations/westeurope/publishers/acme/artifacttypes/vmimage/offers/node/skus/stable/versions';
  const agreement = 'offerTypes/virtualmachine/publishers/acme/offers/node/plans/stable/agreements/current';
  const plan = { name: 'stable', publisher: 'acme', product: 'node' };
  const ofUrn = (version = '1.0.0', more: object = {}) =>
    azureCreation({
      storageProfile: { ...properties.storageProfile, imageReference: { urn: `acme:node:stable:${version}`, ...more } },
    });
  const answers: ArmAnswers = {
    [`GET ${image}/1.0.0`]: { body: { name: '1.0.0', location: 'westeurope', properties: { plan } } },
    [`GET ${image}`]: { body: [{ name: '1.0.0', location: 'westeurope' }] },
    [`GET ${agreement}`]: { body: { id: 'a', properties: { plan: 'stable', accepted: false, signature: 's' } } },
  };

  it.each(['1.0.0', 'latest'])('get their plan and its terms accepted once, version %s', async (version) => {
    arm.answer(answers);

    await provider.ensureVm(ofUrn(version), call());
    await provider.ensureVm(ofUrn(version), call());

    expect(arm.requests('PUT virtualMachines').map(({ body }) => body)).toMatchObject([{ plan }, { plan }]);
    expect(arm.requests(`PUT ${agreement}`).map(({ body }) => body)).toMatchObject([
      { properties: { plan: 'stable', accepted: true, signature: 's' } },
    ]);
  });

  it('are not accepted where the class says so, or that was done', async () => {
    arm.answer(answers);
    await provider.ensureVm(ofUrn('1.0.0', { skipMarketplaceAgreement: true }), call());
    expect(arm.requests(`GET ${agreement}`)).toEqual([]);

    arm.answer({ ...answers, [`GET ${agreement}`]: { body: { properties: { accepted: true } } } });
    await provider.ensureVm(ofUrn(), call());
    expect(arm.requests(`PUT ${agreement}`)).toEqual([]);
  });

  it('that do not exist are refused with the field', async () => {
    arm.answer({});
    expect(await refusal(provider.ensureVm(ofUrn(), call()))).toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining(
        'imageReference.urn is "acme:node:stable:1.0.0": give an image that exists in westeurope',
      ),
    });
  });
});

describe('a refusal of Azure', () => {
  it.each([
    [
      'The value Standard_D4s_v5 provided for the VM size is not valid.',
      'properties.hardwareProfile.vmSize is "Standard_D4s_v5"',
    ],
    ["The zone(s) '2' is not supported for resource type.", 'properties.zone is 2'],
    ['Resource workers-1-nic is in another region than its subnet.', 'location is "westeurope"'],
  ])('names the field of the class that it complains of: %s', async (message, field) => {
    arm.answer({ 'PUT virtualMachines/workers-1': { status: 400, code: 'InvalidParameter', message } });

    expect((await refusal(provider.ensureVm(azureCreation(), call()))).message).toContain(`(providerSpec.${field})`);
  });

  it('[mcm 109 partly] for want of room says of what and where, though the NIC is kept for the VM', async () => {
    arm.answer({
      'PUT virtualMachines/workers-1': { status: 409, code: 'SkuNotAvailable', message: 'sold out' },
      'GET networkInterfaces': () => (arm.requests('PUT networkInterfaces').length > 0 ? list(nic()) : list()),
      'DELETE networkInterfaces/workers-1-nic': { code: 'NicReservedForAnotherVm' },
    });

    expect(await refusal(provider.ensureVm(azureCreation(), call()))).toMatchObject({
      code: 'ResourceExhausted',
      cloudCode: 'SkuNotAvailable',
      message: 'the cloud answered 409: SkuNotAvailable: sold out (asked for Standard_D4s_v5 in westeurope, zone 2)',
      nothingMade: false,
    });
    expect(deleted()).toEqual(['networkInterfaces/workers-1-nic']);
  });

  /** The rate of a provider that lists VMs, which are answered so. */
  async function rateAfter(answers: ArmAnswers) {
    const states: (() => object)[] = [];
    arm.answer(answers);
    const watched = makeProvider({ onRequestRate: (_, rate) => states.push(() => rate.state) });
    const { items } = await watched.listVms(azureScope(), call());
    return { items, state: states[0]?.() };
  }

  it('for too many requests slows all down, and is sent again after the pause that Azure asks for', async () => {
    const tooMany = { status: 429, code: 'OperationNotAllowed', message: 'too many', headers: { 'retry-after': '1' } };
    const answers = [tooMany, list(vm().body as object)];

    const { items, state } = await rateAfter({ 'GET virtualMachines': () => answers.shift() ?? {} });

    expect(items).toHaveLength(1);
    expect(state).toMatchObject({ throttled: 1 });
  });

  it('is foreseen: where few requests are left, all are slowed down before', async () => {
    const headers = {
      'x-ms-ratelimit-remaining-subscription-reads': '25',
      'x-ms-ratelimit-remaining-resource': 'Microsoft.Compute/GetVMResource;0',
    };

    const { state } = await rateAfter({ 'GET virtualMachines': { ...list(), headers } });

    // 25 of 250 are two fifths of the quarter from which on requests are slowed down.
    expect(state).toMatchObject({ perSecond: expect.closeTo(8, 0), throttled: 0 });
  });
});

describe('credentials', () => {
  const listing = () => provider.listVms(azureScope(), call());

  it('are exchanged for a token, which is used again', async () => {
    arm.answer({});
    await listing();
    await listing();

    expect(arm.grants()).toMatchObject([
      {
        tenant: 'tenant-1',
        client_id: 'app-1',
        client_secret: 'secret-1',
        scope: expect.stringContaining('https://management.azure.com/.default'),
      },
    ]);
    expect(arm.requests().map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-1']);
  });

  it('[invariant 8 partly] are exchanged for a token that an error which quotes it hides', async () => {
    arm.answer({
      'GET virtualMachines': ({ headers }) => ({ code: 'InvalidParameter', message: String(headers.authorization) }),
    });

    const message = await inActivity({}, async () => createMask()((await refusal(listing())).message));

    expect(message).toBe('the cloud answered 400: InvalidParameter: Bearer (hidden)');
  });

  it('may have the older names of machine-controller-manager, and be of another cloud', async () => {
    const {
      clientID: azureClientId,
      clientSecret: azureClientSecret,
      subscriptionID: azureSubscriptionId,
      tenantID: azureTenantId,
    } = credentials;
    secrets['cloud'] = { azureClientId, azureClientSecret, azureSubscriptionId, azureTenantId };
    arm.answer({});
    await provider.listVms(azureScope({ cloudConfiguration: { name: 'AzureChina' } }), call());
    expect(arm.grants()).toMatchObject([
      { client_id: 'app-1', scope: expect.stringContaining('https://management.chinacloudapi.cn/.default') },
    ]);
  });

  it('that are missing are refused with the keys to add', async () => {
    arm.answer({});
    secrets['cloud'] = { clientID: 'a', tenantID: 't' };
    expect((await refusal(listing())).message).toBe(
      'no Secret has subscriptionID, clientSecret or workloadIdentityTokenFile: add what is missing to one (looked in: garden/cloud)',
    );
    secrets['cloud'] = { ...credentials, workloadIdentityTokenFile: '/token' };
    expect((await refusal(listing())).message).toContain('both clientSecret and workloadIdentityTokenFile: remove one');
    expect(arm.names()).toEqual([]);
  });

  it('that Entra ID refuses are Unauthenticated, with its reason', async () => {
    const body = {
      error: 'invalid_client',
      error_description: 'AADSTS7000215: Invalid client secret provided.',
      error_codes: [7000215],
    };
    arm.answer({ token: { status: 401, body } });
    expect(await refusal(listing())).toMatchObject({
      code: 'Unauthenticated',
      message: expect.stringContaining('AADSTS7000215'),
    });
  });

  it.each([
    'root:x db_password=hunter2',
    '{"error":"invalid_client"}',
    '{"message":"hunter2"}',
    '{"error":{"message":"hunter2"}}',
  ])('are refused without a word of the answer %s, which is not in the format of Entra ID', async (text) => {
    arm.answer({ token: { status: 401, text, headers: { 'content-type': 'text/plain' } } });

    const { code, message } = await refusal(listing());

    expect([code, message]).toEqual([
      'Unauthenticated',
      expect.stringContaining('(credentials of Secret garden/cloud)'),
    ]);
    expect(message).not.toMatch(/hunter2|Headers/);
  });

  it('of a tenant that does not exist are Unauthenticated, with the Secret that has them', async () => {
    secrets['cloud'] = { ...credentials, tenantID: 'no-tenant' };
    arm.answer({ tenant: { status: 400, body: { error: 'invalid_tenant', error_description: 'AADSTS90002' } } });
    expect(await refusal(listing())).toMatchObject({
      code: 'Unauthenticated',
      message: 'Entra ID knows no tenant no-tenant: correct tenantID (credentials of Secret garden/cloud)',
    });
  });

  it('cannot be judged while Entra ID does not answer', async () => {
    secrets['cloud'] = { ...credentials, tenantID: 'tenant-2' };
    arm.answer({ tenant: { status: 503, body: {} } });
    expect(await refusal(listing())).toMatchObject({
      code: 'Unavailable',
      message: `Entra ID at ${arm.url} does not answer`,
    });
    process.env['AZURE_AUTHORITY_HOST'] = 'https://127.0.0.1:1';
    try {
      secrets['cloud'] = { ...credentials, tenantID: 'tenant-3' };
      expect(await refusal(listing())).toMatchObject({ code: 'Unavailable' });
    } finally {
      process.env['AZURE_AUTHORITY_HOST'] = arm.url;
    }
  });

  it.each([
    ['is busy', 503, { error: 'temporarily_unavailable', error_description: 'AADSTS90033: A transient error.' }],
    ['throttles', 429, { error: 'too_many', error_description: 'later' }],
    ['is behind a proxy that fails', 502, undefined],
  ])('are not judged while Entra ID %s', async (_, status, body) => {
    arm.answer({ token: { status, body } });
    expect(await refusal(listing())).toMatchObject({ code: 'Unavailable' });
  });

  describe('of a workload', () => {
    let dir: string;
    const { clientSecret: _, ...others } = credentials;
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'azure-token-'));
    });
    beforeEach(() => {
      provider = makeProvider({ tokenFolder: dir });
    });
    afterAll(() => rm(dir, { recursive: true }));

    it('are the token in the file', async () => {
      const workloadIdentityTokenFile = join(dir, 'token');
      await writeFile(workloadIdentityTokenFile, 'a-token');
      secrets['cloud'] = { ...others, workloadIdentityTokenFile };
      arm.answer({});
      await listing();
      expect(arm.grants()).toMatchObject([{ client_id: 'app-1', client_assertion: 'a-token' }]);
    });

    it('whose file is missing are refused with the path', async () => {
      const workloadIdentityTokenFile = join(dir, 'missing');
      secrets['cloud'] = { ...others, workloadIdentityTokenFile };
      arm.answer({});
      expect(await refusal(listing())).toMatchObject({
        code: 'Unauthenticated',
        message: expect.stringContaining(
          `the token file ${workloadIdentityTokenFile} cannot be read (ENOENT): mount it into the worker`,
        ),
      });
    });
  });

  it('of the workload identity of the worker itself are refused before anything is sent', async () => {
    const { clientSecret: _, ...others } = credentials;
    secrets['cloud'] = { ...others, workloadIdentityTokenFile: '/var/run/secrets/azure/tokens/azure-identity-token' };
    arm.answer({});

    expect(await refusal(listing())).toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining('name a file below /var/run/secrets/gardener.cloud'),
    });
    expect([...arm.grants(), ...arm.names()]).toEqual([]);
  });

  it('of the environment are used where that is allowed, no Secret has any, and the subscription is named', async () => {
    const env = { AZURE_CLIENT_ID: 'app-env', AZURE_TENANT_ID: 'tenant-1', AZURE_CLIENT_SECRET: 'env' };
    Object.assign(process.env, env);
    try {
      secrets['cloud'] = {};
      arm.answer({});
      expect((await refusal(listing())).code).toBe('InvalidArgument');
      provider = makeProvider({ defaultCredentials: true });
      expect((await refusal(listing())).message).toContain('AZURE_SUBSCRIPTION_ID');
      process.env['AZURE_SUBSCRIPTION_ID'] = 'sub-1';
      await listing();
      expect(arm.grants()).toMatchObject([{ client_id: 'app-env', client_secret: 'env' }]);
    } finally {
      for (const key of [...Object.keys(env), 'AZURE_SUBSCRIPTION_ID']) delete process.env[key];
    }
  });
});

describe('volumeIds', () => {
  it('are those of in-tree and CSI volumes', async () => {
    const id = `${group}/Microsoft.Compute/disks/pvc-1`;
    const volumes = [
      { name: 'csi', spec: { csi: { driver: 'disk.csi.azure.com', volumeHandle: id } } },
      { name: 'in-tree', spec: { azureDisk: { diskName: 'pvc-1', diskURI: id } } },
      { name: 'other', spec: { csi: { driver: 'file.csi.azure.com', volumeHandle: 'x' } } },
    ];
    expect(await provider.volumeIds({ volumes }, call())).toEqual({ ids: { csi: id, 'in-tree': id } });
  });
});
