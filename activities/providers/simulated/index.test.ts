import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { DeleteVmRequest, EnsureVmRequest } from '../../../api/provider.ts';
import { type SimulatedCloud, startSimulatedCloud } from '../../../deploy/local/simulated-cloud/admin.ts';
import type { CallContext, Provider } from '../provider.ts';
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
    class: { namespace: 'garden', name: 'pool', generation: 1 },
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
  });

  it('finds the VM of the Machine when asked again', async () => {
    const request = creation();
    const first = await provider.ensureVm(request, call());

    const again = await provider.ensureVm(request, call());

    expect(again).toEqual(first);
    expect(await vmsOf(request.machine, true)).toHaveLength(1);
  });
});

describe('deleteVm', () => {
  it('answers gone when every VM of the Machine is, and again when there is none', async () => {
    const { machine } = creation();
    await provider.ensureVm(creation(machine), call());

    expect(await provider.deleteVm(deletion(machine), call())).toEqual({ state: 'gone' });
    expect(await provider.deleteVm(deletion(machine), call())).toEqual({ state: 'gone' });
    expect(await vmsOf(machine)).toHaveLength(0);
  });
});
