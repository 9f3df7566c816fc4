import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { CloudResource, type DeleteVmRequest, type EnsureVmRequest } from '../../../api/provider.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { type SimulatedCloud, startSimulatedCloud } from '../../../deploy/local/simulated-cloud/admin.ts';
import type { CallRecord } from '../../../deploy/local/simulated-cloud/state.ts';
import { refusal } from '../../../test/support/refusal.ts';
import { until } from '../../../test/support/until.ts';
import type { CallContext, Provider } from '../provider.ts';
import { createVm, deleteResource, listPage } from './client.ts';
import { createSimulatedProvider } from './index.ts';

let cloud: SimulatedCloud;
let dir: string;
let provider: Provider;
let secrets: Record<string, Record<string, string>>;
let number = 0;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'simulated-provider-'));
  cloud = await startSimulatedCloud({ dir, bootMs: 0, deleteMs: 100 });
});

afterAll(async () => {
  await cloud?.stop();
  await rm(dir, { recursive: true, force: true });
});

beforeEach(async () => {
  secrets = { 'garden/cloud': { token: 'letmein\n' }, 'garden/node': { userData: '#!/bin/sh\necho joining' } };
  provider = createSimulatedProvider({
    readSecret: async ({ namespace, name }) => secrets[`${namespace}/${name}`],
  });
});

afterEach(() => cloud.setFaults());

function call(overrides: Partial<CallContext> = {}): CallContext {
  return { attempt: 1, signal: new AbortController().signal, heartbeat: () => {}, ...overrides };
}

function scope(spec: object = {}) {
  return {
    origin: { kind: 'MachineClass', namespace: 'garden', name: 'pool', generation: 1 },
    providerSpec: { endpoint: cloud.url, machineType: 'small', tags: { 'kubernetes.io/cluster/test': '1' }, ...spec },
    credentials: [{ namespace: 'garden', name: 'cloud' }],
  };
}

function newMachine() {
  number += 1;
  return { uid: `uid-${number}`, namespace: 'garden', name: `machine-${number}` };
}

function creation(machine = newMachine(), overrides: Partial<EnsureVmRequest> = {}): EnsureVmRequest {
  return {
    ...scope(),
    machine,
    userData: { namespace: 'garden', name: 'node', key: 'userData' },
    token: `${machine.uid}-1`,
    outcomeUnknown: false,
    ...overrides,
  };
}

function deletion(machine: DeleteVmRequest['machine'], overrides: Partial<DeleteVmRequest> = {}): DeleteVmRequest {
  return { ...scope(), machine, outcomeUnknown: false, ...overrides };
}

async function vmsOf({ uid }: { uid: string }, all = false) {
  const vms = await cloud.vms({ all });
  return vms.filter(({ tags, state }) => tags['millwright.dev/machine-uid'] === uid && (all || state === 'running'));
}

/** Kinds of the resources that exist with the UID tag of a Machine. */
async function kindsOf({ uid }: { uid: string }): Promise<string[]> {
  return (await cloud.resources()).flatMap(({ kind, tags }) =>
    tags['millwright.dev/machine-uid'] === uid ? [kind] : [],
  );
}

const access = () => ({ endpoint: cloud.url, token: 'letmein' });
const partsOf = async (vm: string) => (await listPage(access(), { vm }, AbortSignal.timeout(10_000))).items;

/** Makes a VM with tags of choice, for its parts as well if `partTags` is given. Answers its id. */
async function makeVm(name: string, own: Record<string, string>, partTags?: Record<string, string>): Promise<string> {
  const body = { token: name, name, region: 'local', machineType: 'small', userData: 'x' } as const;
  const node = { labels: {}, taints: [] };
  const { id } = await createVm(access(), { ...body, tags: own, partTags, node }, AbortSignal.timeout(10_000));
  return id;
}

/** Waits for a call of this operation that the cloud has not answered yet. */
async function untilPending(operation: CallRecord['operation']): Promise<void> {
  await until(`a call of ${operation} has no answer yet`, async (see) =>
    see(await cloud.calls()).some((record) => record.operation === operation && record.outcome === 'pending'),
  );
}

describe('ensureVm', () => {
  it('creates a VM with the user data, tags and name of the Machine', async () => {
    const request = creation();

    const vm = await provider.ensureVm(request, call());

    const [made] = await vmsOf(request.machine);
    expect(vm).toMatchObject({ state: 'running', nodeName: request.machine.name, lastKnownState: made?.id });
    expect(vm.providerID).toBe(`simulated:///local/${made?.id}`);
    expect(made).toMatchObject({
      userData: '#!/bin/sh\necho joining',
      name: request.machine.name,
      machineType: 'small',
    });
    expect(made?.tags).toEqual({
      'kubernetes.io/cluster/test': '1',
      'millwright.dev/machine-uid': request.machine.uid,
    });
    expect(await kindsOf(request.machine)).toEqual(['vm', 'disk', 'nic', 'ip']);
  });

  it('finds the VM of the Machine when asked again', async () => {
    const request = creation();
    const first = await provider.ensureVm(request, call());

    const again = await provider.ensureVm(request, call());

    expect(again).toEqual(first);
    expect(await vmsOf(request.machine, true)).toHaveLength(1);
  });

  for (const effect of ['done', 'none'] as const) {
    it(`[invariant 1] has one VM when the answer of the create was lost with its effect ${effect}`, async () => {
      await cloud.setFaults({ kind: 'lostAnswer', effect, operation: 'create', times: 1 });
      const request = creation();

      const { code, message } = await refusal(provider.ensureVm(request, call()));
      const vm = await provider.ensureVm(request, call({ attempt: 2 }));

      expect({ code, message }).toEqual({
        code: 'Unavailable',
        message: `the cloud at ${cloud.url} cannot be reached (UND_ERR_SOCKET)`,
      });
      expect((await vmsOf(request.machine, true)).map(({ id }) => id)).toEqual([vm.lastKnownState]);
    });
  }

  it('[invariant 1] finds a VM that is listed late instead of making another, though the cloud ignores tokens', async () => {
    await cloud.setFaults(
      { kind: 'invisible', ms: 1000 },
      { kind: 'ignoreTokens' },
      { kind: 'lostAnswer', effect: 'done', operation: 'create', times: 1 },
    );
    const request = creation();
    await refusal(provider.ensureVm(request, call()));

    await provider.ensureVm(request, call({ attempt: 2 }));

    expect(await vmsOf(request.machine, true)).toHaveLength(1);
  });

  it('[invariant 1] finds a VM that it has answered with before and that is not listed yet', async () => {
    await cloud.setFaults({ kind: 'invisible', ms: 1000 }, { kind: 'ignoreTokens' });
    const request = creation();
    const { lastKnownState } = await provider.ensureVm(request, call());

    const again = await provider.ensureVm({ ...request, lastKnownState, outcomeUnknown: true }, call());

    expect(again.lastKnownState).toBe(lastKnownState);
    expect(await vmsOf(request.machine, true)).toHaveLength(1);
  });

  it('[mcm 90 partly] [invariant 1] keeps the oldest VM and deletes the others', async () => {
    await cloud.setFaults({ kind: 'ignoreTokens' }, { kind: 'latency', operation: 'create', ms: 200, p99Ms: 400 });
    const request = creation();
    await Promise.all([1, 2, 3].map(() => provider.ensureVm(request, call())));
    // In the order of the provider: two may have been made in the same millisecond.
    const [oldest, ...surplus] = (await vmsOf(request.machine)).toSorted(
      (a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt) || (a.id < b.id ? -1 : 1),
    );

    const vm = await provider.ensureVm(request, call());

    expect(surplus).toHaveLength(2);
    expect(vm.lastKnownState).toBe(oldest?.id);
    expect((await vmsOf(request.machine)).map(({ id }) => id)).toEqual([oldest?.id]);
  });

  it('keeps the VM that the Machine names, though another of its UID is older', async () => {
    await cloud.setFaults({ kind: 'ignoreTokens' }, { kind: 'latency', operation: 'create', ms: 200, p99Ms: 400 });
    const request = creation();
    await Promise.all([1, 2].map(() => provider.ensureVm(request, call())));
    const [, younger] = await vmsOf(request.machine);
    const providerID = `simulated:///elsewhere/${younger?.id.toUpperCase()}`;

    expect(await provider.ensureVm({ ...request, providerID }, call())).toMatchObject({ lastKnownState: younger?.id });
    expect((await vmsOf(request.machine)).map(({ id }) => id)).toEqual([younger?.id]);
  });

  it('[invariant 1] makes no VM while the Machine names one, though that has no UID tag', async () => {
    const request = creation();
    const id = await makeVm(request.machine.name, { 'kubernetes.io/cluster/test': '1' });

    const vm = await provider.ensureVm({ ...request, providerID: `simulated:///elsewhere/${id}` }, call());

    expect(vm).toMatchObject({ lastKnownState: id });
    expect(await vmsOf(request.machine, true)).toHaveLength(0);
  });

  it('answers failed for a VM that somebody has deleted in the cloud, as the token stands for it', async () => {
    await cloud.setFaults({ kind: 'vanish', afterMs: 0 });
    const request = creation();
    await provider.ensureVm(request, call());

    const vm = await provider.ensureVm(request, call({ attempt: 2 }));

    expect(vm).toMatchObject({ state: 'failed', message: `the VM ${vm.lastKnownState} was deleted in the cloud` });
  });

  it('answers creating until the VM has booted', async () => {
    const slow = await startSimulatedCloud({ dir: join(dir, 'slow'), bootMs: 600_000 });
    try {
      const request = creation(newMachine(), { providerSpec: { ...scope().providerSpec, endpoint: slow.url } });
      expect(await provider.ensureVm(request, call())).toMatchObject({ state: 'creating' });
    } finally {
      await slow.stop();
    }
  });

  const refusals = [
    [{ kind: 'outage', how: 'disconnect' }, { code: 'Unavailable' }],
    [
      { kind: 'outage', how: 'unavailable' },
      { code: 'Unavailable', cloudCode: 'ServiceUnavailable' },
    ],
    [{ kind: 'capacity' }, { code: 'ResourceExhausted', cloudCode: 'InsufficientCapacity' }],
    [{ kind: 'quota' }, { code: 'ResourceExhausted', cloudCode: 'QuotaExceeded' }],
  ] as const;
  for (const [fault, expected] of refusals) {
    it(`fails with ${expected.code} on ${Object.values(fault).join(' ')} and succeeds when it is over`, async () => {
      await cloud.setFaults(fault);
      const request = creation();

      expect(await refusal(provider.ensureVm(request, call()))).toMatchObject(expected);

      await cloud.setFaults();
      await provider.ensureVm(request, call());
      expect(await vmsOf(request.machine, true)).toHaveLength(1);
    });
  }

  it('sends a throttled request again when the cloud wants it', async () => {
    await cloud.setFaults({ kind: 'throttle', retryAfterSeconds: 1, operation: 'create', times: 2 });
    const request = creation();

    expect(await provider.ensureVm(request, call())).toMatchObject({ state: 'running' });

    const creates = (await cloud.calls()).filter(({ token }) => token === request.token);
    expect(creates.map(({ outcome }) => outcome)).toEqual([429, 429, 201]);
  });

  it('fails when the cloud throttles for long, and leaves it alone for so long, whichever machine asks', async () => {
    await cloud.setFaults({ kind: 'throttle', retryAfterSeconds: 9 });

    const { calls } = await cloud.stats();
    const first = await refusal(provider.ensureVm(creation(), call()));
    const second = await refusal(provider.ensureVm(creation(), call()));

    expect(first).toMatchObject({ code: 'Unavailable', cloudCode: 'Throttled', retryAfterMs: 9000 });
    expect(second.code).toBe('Unavailable');
    expect(second.retryAfterMs).toBeGreaterThan(4000);
    expect((await cloud.stats()).calls).toBe(calls + 1);
  });

  it('[invariant 2] leaves nothing of a creation that failed half-way', async () => {
    await cloud.setFaults({ kind: 'leak', parts: ['nic', 'disk'], operation: 'create', times: 1 });
    const request = creation();

    expect(await refusal(provider.ensureVm(request, call()))).toMatchObject({ code: 'ResourceExhausted' });

    expect(await kindsOf(request.machine)).toEqual([]);
  });

  it('[invariant 2] deletes what a creation that failed half-way has left before it creates again', async () => {
    await cloud.setFaults(
      { kind: 'leak', parts: ['nic'], operation: 'create', times: 1 },
      { kind: 'outage', how: 'unavailable', operation: 'delete' },
    );
    const request = creation();
    expect(await refusal(provider.ensureVm(request, call()))).toMatchObject({ code: 'ResourceExhausted' });
    expect(await kindsOf(request.machine)).toEqual(['nic']);

    await cloud.setFaults();
    await provider.ensureVm(request, call());

    expect(await kindsOf(request.machine)).toEqual(['vm', 'disk', 'nic', 'ip']);
  });

  it('names the request that the cloud has refused', async () => {
    await cloud.setFaults({ kind: 'capacity' });

    const { requestId } = await refusal(provider.ensureVm(creation(), call()));

    expect((await cloud.calls()).find(({ id }) => id === requestId)).toMatchObject({
      operation: 'create',
      outcome: 409,
    });
  });

  it('fails with Unauthenticated when the cloud does not accept the token', async () => {
    secrets['garden/cloud'] = { token: 'guess' };

    const error = await refusal(provider.ensureVm(creation(), call()));

    expect(error).toMatchObject({ code: 'Unauthenticated', cloudCode: 'Unauthorized' });
  });

  it('takes the token of the later Secret', async () => {
    secrets['garden/old'] = { token: 'guess' };
    const credentials = ['old', 'none', 'cloud'].map((name) => ({ namespace: 'garden', name }));

    expect(await provider.ensureVm(creation(newMachine(), { credentials }), call())).toMatchObject({
      state: 'running',
    });
  });

  it('asks the cloud nothing while the class or its credentials are not valid', async () => {
    const before = await cloud.stats();
    const huge = creation(newMachine(), scope({ machineType: 'huge', region: undefined, gpu: true }));
    const noToken = creation(newMachine(), { credentials: [{ namespace: 'garden', name: 'node' }] });

    const errors = [await refusal(provider.ensureVm(huge, call())), await refusal(provider.ensureVm(noToken, call()))];

    expect(errors.map(({ code, message }) => [code, message])).toEqual([
      [
        'InvalidArgument',
        'providerSpec.machineType is "huge": use one of small, medium, large; providerSpec.gpu is not known: remove it',
      ],
      ['InvalidArgument', 'no Secret has the key token: add it to one (looked in: garden/node)'],
    ]);
    expect(await cloud.stats()).toEqual(before);
  });

  it('creates nothing without user data', async () => {
    const { creates } = await cloud.stats();
    const noSecret = creation(newMachine(), { userData: { namespace: 'garden', name: 'none', key: 'userData' } });
    const noKey = creation(newMachine(), { userData: { namespace: 'garden', name: 'node', key: 'cloudConfig' } });

    const errors = [
      await refusal(provider.ensureVm(noSecret, call())),
      await refusal(provider.ensureVm(noKey, call())),
    ];

    expect(errors.map(({ code, message }) => [code, message])).toEqual([
      ['InvalidArgument', 'Secret garden/none with the user data does not exist: create it'],
      ['InvalidArgument', 'Secret garden/node with the user data has no key cloudConfig: add it'],
    ]);
    expect(await cloud.stats()).toMatchObject({ creates });
  });

  it('finds the VM of the Machine when its user data has been removed since', async () => {
    const request = creation();
    await provider.ensureVm(request, call());
    delete secrets['garden/node'];

    expect(await provider.ensureVm(request, call())).toMatchObject({ state: 'running' });
  });

  it('ends at once when it is cancelled while the create hangs, and deleteVm then removes the VM', async () => {
    await cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create' });
    const request = creation();
    const cancel = new AbortController();
    const creating = provider.ensureVm(request, call({ signal: cancel.signal }));
    await untilPending('create');

    cancel.abort();
    await expect(creating).rejects.toThrow(expect.objectContaining({ name: 'AbortError' }));

    expect(await provider.deleteVm(deletion(request.machine, { outcomeUnknown: true }), call())).toEqual({
      state: 'gone',
      nodeNames: [request.machine.name],
    });
    expect(await vmsOf(request.machine, true)).toMatchObject([{ state: 'terminated' }]);
  });

  it('ends at once when it is cancelled while it waits for a VM to appear', async () => {
    const cancel = new AbortController();
    const creating = provider.ensureVm(creation(), call({ attempt: 2, signal: cancel.signal }));

    cancel.abort();

    await expect(creating).rejects.toThrow(expect.objectContaining({ name: 'AbortError' }));
  });

  it('gets its answer when the fault that holds it is taken away', async () => {
    await cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create' });
    const creating = provider.ensureVm(creation(), call());
    await untilPending('create');

    await cloud.setFaults();

    expect(await creating).toMatchObject({ state: 'running' });
  });
});

describe('deleteVm', () => {
  it('answers gone when every VM of the Machine is, and again when there is none', async () => {
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());

    expect(await provider.deleteVm(deletion(machine), call())).toMatchObject({ state: 'gone' });
    expect(await provider.deleteVm(deletion(machine), call())).toMatchObject({ state: 'gone' });
    expect(await vmsOf(machine)).toHaveLength(0);
  });

  it('deletes every VM of the Machine and no other', async () => {
    await cloud.setFaults({ kind: 'ignoreTokens' }, { kind: 'latency', operation: 'create', ms: 200, p99Ms: 400 });
    const request = creation();
    const other = creation();
    await Promise.all([request, request, other].map((one) => provider.ensureVm(one, call())));
    expect(await vmsOf(request.machine)).toHaveLength(2);

    await provider.deleteVm(deletion(request.machine), call());

    expect(await kindsOf(request.machine)).toEqual([]);
    expect(await vmsOf(other.machine)).toHaveLength(1);
  });

  it('[invariant 2] deletes the disk, NIC and address that outlive their VM', async () => {
    await cloud.setFaults({ kind: 'leak', operation: 'delete' });
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());
    const beats: unknown[] = [];
    const context = call({ heartbeat: (details) => beats.push(details) });

    expect(await provider.deleteVm(deletion(machine), context)).toMatchObject({ state: 'gone' });

    expect(await kindsOf(machine)).toEqual([]);
    expect(beats).toContainEqual({ vmsLeft: 0, partsLeft: 3 }); // they did outlive it
  });

  it('[invariant 2] deletes what a creation that failed half-way has left', async () => {
    await cloud.setFaults(
      { kind: 'leak', parts: ['nic'], operation: 'create', times: 1 },
      { kind: 'outage', how: 'unavailable', operation: 'delete' },
    );
    const { machine } = creation();
    expect(await refusal(provider.ensureVm(creation(machine), call()))).toMatchObject({ code: 'ResourceExhausted' });
    expect(await kindsOf(machine)).toEqual(['nic']);
    await cloud.setFaults();

    expect(await provider.deleteVm(deletion(machine), call())).toEqual({ state: 'gone', nodeNames: [] });

    expect(await kindsOf(machine)).toEqual([]);
  });

  it('[invariant 2] waits for a VM that is not listed yet before it answers gone', async () => {
    await cloud.setFaults({ kind: 'invisible', ms: 1000 });
    const request = creation();
    await provider.ensureVm(request, call());

    const unknown = deletion(request.machine, { outcomeUnknown: true });
    expect(await provider.deleteVm(unknown, call())).toMatchObject({ state: 'gone' });

    expect(await vmsOf(request.machine, true)).toMatchObject([{ state: 'terminated' }]);
  });

  it('[invariant 2] deletes the VM that the Machine names and its parts, though they have no UID tag', async () => {
    const machine = newMachine();
    const id = await makeVm(machine.name, { 'kubernetes.io/cluster/test': '1' });
    const named = deletion(machine, { providerID: `simulated:///elsewhere/${id.toUpperCase()}` });

    expect(await partsOf(id)).toHaveLength(4);
    await cloud.setFaults({ kind: 'leak', operation: 'delete' });

    expect(await provider.deleteVm(named, call())).toEqual({ state: 'gone', nodeNames: [machine.name] });
    expect(await partsOf(id)).toEqual([]);
  });

  it('deletes nothing by the provider ID of another cloud', async () => {
    const machine = newMachine();
    const id = await makeVm(machine.name, { 'kubernetes.io/cluster/test': '1' });

    const foreign = deletion(machine, { providerID: `another:///local/${id}` });
    expect(await provider.deleteVm(foreign, call())).toEqual({ state: 'gone', nodeNames: [] });
    expect((await cloud.vms()).map((vm) => vm.id)).toContain(id);
  });

  it('deletes no VM before its caller knows the name of its Node', async () => {
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());

    const first = await provider.deleteVm(deletion(machine, { nodeNames: [] }), call());
    expect(first).toEqual({ state: 'deleting', nodeNames: [machine.name] });
    expect(await vmsOf(machine)).toHaveLength(1);

    const second = await provider.deleteVm(deletion(machine, { nodeNames: first.nodeNames }), call());
    expect(second).toMatchObject({ state: 'gone' });
    expect(await vmsOf(machine)).toHaveLength(0);
  });

  it('goes on after answers of delete calls were lost', async () => {
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());
    await cloud.setFaults({ kind: 'lostAnswer', effect: 'done', operation: 'delete', times: 1 });

    expect(await refusal(provider.deleteVm(deletion(machine), call()))).toMatchObject({ code: 'Unavailable' });
    expect(await provider.deleteVm(deletion(machine), call({ attempt: 2 }))).toMatchObject({ state: 'gone' });
  });

  it('needs of the class no more than what reaches the cloud', async () => {
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());

    const request = deletion(machine, scope({ machineType: 'withdrawn', tags: undefined }));

    expect(await provider.deleteVm(request, call())).toMatchObject({ state: 'gone' });
    expect(await vmsOf(machine)).toHaveLength(0);
  });

  it('says how many VMs are left while it waits', async () => {
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());
    const beats: unknown[] = [];

    await provider.deleteVm(deletion(machine), call({ heartbeat: (details) => beats.push(details) }));

    expect(beats).toContainEqual({ vmsLeft: 1, partsLeft: 3 });
  });
});

describe('deleteVm for a sweep', () => {
  const tags = { 'kubernetes.io/cluster/untagged': '1' };
  const request = (vm: string, uid?: string) => {
    const only = { kind: 'vm' as const, id: `simulated:///local/${vm}`, ...(uid !== undefined && { uid }) };
    return deletion({ uid: 'none', namespace: 'garden', name: 'old' }, { ...scope({ tags }), only });
  };
  const untilGone = (what: DeleteVmRequest) =>
    until(
      'the provider says that it is gone',
      async (see) => see(await provider.deleteVm(what, call())).state === 'gone',
    );

  it.each([
    ['without a UID tag', undefined],
    ['with this UID tag', 'uid-of-two'],
  ])('deletes the one %s alone, and asked again says that it is gone', async (_, uid) => {
    const own = { ...tags, ...(uid !== undefined && { 'millwright.dev/machine-uid': uid }) };
    const [id, other] = [await makeVm(`only-1-${uid}`, own), await makeVm(`only-2-${uid}`, own)];

    expect(await provider.deleteVm(request(id, uid), call())).toEqual({
      state: 'deleting',
      nodeNames: [`only-1-${uid}`],
    });
    await untilGone(request(id, uid));

    const left = await cloud.vms();
    expect([left.some((vm) => vm.id === id), left.some((vm) => vm.id === other)]).toEqual([false, true]);
  });

  it('deletes what outlives the VM as well, and a disk by itself', async () => {
    await cloud.setFaults({ kind: 'leak', parts: ['disk', 'nic'], operation: 'delete' });
    const [own, uid] = [{ ...tags, 'millwright.dev/machine-uid': 'uid-of-leaky' }, 'uid-of-leaky'];
    const [vm, other] = [await makeVm('only-6', own, own), await makeVm('only-7', own, own)];
    await deleteResource(access(), { kind: 'vm', id: other }, AbortSignal.timeout(10_000));
    await until('the VM is gone', async (see) => see(await partsOf(other)).every(({ kind }) => kind !== 'vm'));
    const disk = (await partsOf(other)).find(({ kind }) => kind === 'disk')?.id ?? '';

    await untilGone(request(vm, uid));
    const only = { kind: 'disk' as const, id: disk, uid };
    await untilGone({ ...request(other), only });

    expect(await partsOf(vm)).toEqual([]);
    expect((await partsOf(other)).map(({ kind }) => kind)).toEqual(['nic']);
  });

  it('[invariant 4] leaves alone what has another UID, or not the tags of the class', async () => {
    const owned = await makeVm('only-3', { ...tags, 'millwright.dev/machine-uid': 'uid-of-a-machine' });
    const untagged = await makeVm('only-4', tags);
    const foreign = await makeVm('only-5', { 'kubernetes.io/cluster/another': '1' });

    for (const asked of [request(owned), request(owned, 'another'), request(untagged, 'another'), request(foreign)]) {
      const { code } = await refusal(provider.deleteVm(asked, call()));
      expect(code).toBe('FailedPrecondition');
    }
    const [disk] = (await partsOf(untagged)).filter(({ kind }) => kind === 'disk');
    const only = { kind: 'disk' as const, id: disk!.id };
    const { code, message } = await refusal(provider.deleteVm({ ...request(untagged), only }, call()));
    expect({ code, message }).toEqual({
      code: 'FailedPrecondition',
      message: `the disk ${disk?.id} was changed: it must have the tags of its class and no UID tag`,
    });
    const left = (await cloud.resources()).map(({ id }) => id);
    expect(left).toEqual(expect.arrayContaining([owned, untagged, foreign, disk?.id]));
  });
});

describe('listVms', () => {
  it('lists page by page what carries the tags of the class', async () => {
    const tags = { 'kubernetes.io/cluster/pages': '1' };
    const requests = Array.from({ length: 120 }, () => creation(newMachine(), scope({ tags })));
    await Promise.all(requests.map((request) => provider.ensureVm(request, call())));

    const pages = [await provider.listVms(scope({ tags }), call())];
    while (pages.at(-1)?.nextPage !== undefined) {
      pages.push(await provider.listVms({ ...scope({ tags }), page: pages.at(-1)?.nextPage }, call()));
    }

    expect(pages.length).toBeGreaterThan(1);
    const items = pages.flatMap((page) => page.items);
    expect(items).toHaveLength(4 * requests.length);
    expect(new Set(items.map(({ uid }) => uid))).toEqual(new Set(requests.map(({ machine }) => machine.uid)));
    expect(items[0]).toMatchObject({
      kind: 'vm',
      id: expect.stringMatching(/^simulated:\/\/\/local\/vm-/),
      alive: true,
    });
    expect(items.slice(0, 4).map(({ kind }) => kind)).toEqual(['vm', 'disk', 'nic', 'ip']);
    expect(items[1]).toMatchObject({ id: expect.stringMatching(/^disk-/), uid: items[0]?.uid });
    expect(vmOf(items[1]?.attachedTo ?? '')).toBe(vmOf(items[0]?.id ?? ''));
    expect(items.every((item) => CloudResource.safeParse(item).success)).toBe(true);
  });
});

describe('listInterruptions', () => {
  it('lists VMs that are about to be taken away, which a class with spot allows, until they are gone', async () => {
    const { providerID, lastKnownState: id = '' } = await provider.ensureVm(creation(), call());
    await provider.ensureVm(creation(), call());
    expect(await provider.listInterruptions?.(scope(), call())).toEqual({ items: [] });

    await cloud.interruptVm(id, 600_000);

    const taken = { items: [{ providerID, reason: 'interrupted' }] };
    expect(await provider.listInterruptions?.(scope(), call())).toEqual(taken);
    await cloud.interruptVm(id, 0);
    await until('the VM is gone', async (see) => see(await cloud.vms()).every((vm) => vm.id !== id));
    expect(await provider.listInterruptions?.(scope(), call())).toEqual({ items: [] });
    expect(await provider.validateClass(scope({ spot: true }), call())).toHaveProperty('interruptible', true);
    expect(await provider.validateClass(scope(), call())).not.toHaveProperty('interruptible');
  });
});

describe('validateClass', () => {
  it('finds nothing wrong with a class that works', async () => {
    expect(await provider.validateClass(scope(), call())).toMatchObject({ problems: [] });
  });

  it('says which classes list the same, and no secret', async () => {
    const listScope = async (spec: object, secret = 'cloud') => {
      const credentials = [
        { namespace: 'garden', name: 'node' },
        { namespace: 'garden', name: secret },
      ];
      return (await provider.validateClass({ ...scope(spec), credentials }, call())).listScope;
    };
    secrets['garden/other'] = { token: 'letmein' };
    const tags = { a: '1', b: '2' };
    const same = await listScope({ tags });

    expect(await listScope({ tags: { b: '2', a: '1' }, machineType: 'large', region: 'there' })).toBe(same);
    expect(same).not.toContain('letmein');
    const others = [await listScope({ tags: { a: '1' } }), await listScope({ tags }, 'other')];
    expect(new Set([same, ...others]).size).toBe(3);
    expect(await listScope({ tags, machineType: 'nameless' })).toBe(same);
    expect(await listScope({ tags: {} })).toBeUndefined();
  });

  it('names field, value and fix of every problem', async () => {
    const spec = scope({
      endpoint: 'ftp://cloud',
      tags: {},
      machineType: undefined,
      taints: [{ key: 'a', effect: 'No' }],
    });

    const { problems } = await provider.validateClass({ ...spec, credentials: [] }, call());

    expect(problems).toEqual([
      'providerSpec.endpoint is "ftp://cloud": give an http or https URL',
      'providerSpec.machineType is missing: use one of small, medium, large',
      'providerSpec.tags is {}: give at least one tag, by which the VMs are found again',
      'providerSpec.taints.0.effect is "No": use NoSchedule, PreferNoSchedule or NoExecute',
      'no Secret has the key token: add it to one (looked in: none)',
    ]);
  });
});

describe('volumeIds', () => {
  it('knows the volumes of its own driver only', async () => {
    const volumes = [
      { name: 'ours', spec: { csi: { driver: 'csi.simulated.millwright.dev', volumeHandle: 'volume-1' } } },
      { name: 'theirs', spec: { csi: { driver: 'ebs.csi.aws.com', volumeHandle: 'vol-1' } } },
      { name: 'local', spec: { local: { path: '/mnt' } } },
    ];

    expect(await provider.volumeIds({ volumes }, call())).toEqual({ ids: { ours: 'volume-1' } });
  });
});
