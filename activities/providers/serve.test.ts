import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  ActivityExecutionFailedError,
  ApplicationFailure,
  CancelledFailure,
  Client,
  type Connection,
} from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { DeleteVmRequest, EnsureVmRequest, ProviderActivities } from '../../api/provider.ts';
import { type SimulatedCloud, startSimulatedCloud } from '../../deploy/local/simulated-cloud/admin.ts';
import { inActivity } from '../../test/support/in-activity.ts';
import { connectTemporal } from '../../test/support/temporal.ts';
import { until } from '../../test/support/until.ts';
import { boundary } from '../boundary.ts';
import { hideSecret } from './kit/masks.ts';
import { createVmActivities } from './serve.ts';
import { createSimulatedProvider } from './simulated/index.ts';

const canary = 'canary-2b9d';
/** Of accounts that tests may have throttled: nobody else shares their rates. */
const slowTokens = ['slow-1', 'slow-2'];
const taskQueue = `vms-${randomUUID()}`;
let dir: string;
let cloud: SimulatedCloud;
let worker: Worker;
let running: Promise<void>;
let connection: Connection;
let native: NativeConnection;
let client: Client;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'vms-'));
  cloud = await startSimulatedCloud({ dir, bootMs: 0, deleteMs: 600_000, tokens: [canary, ...slowTokens] });
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
  native = await NativeConnection.connect({ address });
  connection = await connectTemporal(address);
  client = new Client({ connection });
  const secrets: Record<string, Record<string, string>> = {
    cloud: { token: canary },
    old: { token: `${canary}-old` },
    slow1: { token: 'slow-1' },
    slow2: { token: 'slow-2' },
    node: { userData: canary },
  };
  const provider = createSimulatedProvider({
    readSecret: async ({ name }) => {
      hideSecret(secrets[name] ?? {});
      return secrets[name];
    },
  });
  worker = await Worker.create({
    connection: native,
    taskQueue,
    activities: createVmActivities(provider),
    interceptors: { activity: [boundary] },
  });
  running = worker.run();
});

afterAll(async () => {
  worker?.shutdown();
  await running;
  await connection?.close();
  await native?.close();
  await cloud?.stop();
  await rm(dir, { recursive: true, force: true });
});

afterEach(() => cloud.setFaults());

function creation(overrides: Partial<EnsureVmRequest> = {}): EnsureVmRequest {
  const uid = randomUUID();
  return {
    origin: { kind: 'MachineClass', namespace: 'garden', name: 'pool', generation: 1 },
    providerSpec: { endpoint: cloud.url, machineType: 'small', tags: { cluster: 'test' } },
    credentials: [{ namespace: 'garden', name: 'cloud' }],
    machine: { uid, namespace: 'garden', name: `machine-${uid}` },
    userData: { namespace: 'garden', name: 'node', key: 'userData' },
    token: `${uid}-1`,
    outcomeUnknown: false,
    ...overrides,
  };
}

function start<N extends 'ensureVm' | 'deleteVm'>(
  activity: N,
  request: Parameters<ProviderActivities[N]>[0],
  heartbeatTimeout: '1s' | '4s' | '10s' | '1m' = '10s',
) {
  return client.activity.start<Awaited<ReturnType<ProviderActivities[N]>>>(activity, {
    id: randomUUID(),
    taskQueue,
    args: [request],
    startToCloseTimeout: '1m',
    scheduleToCloseTimeout: '2m',
    heartbeatTimeout,
    retry: { initialInterval: '100ms' },
  });
}

/** The cause of an activity's failure, as a workflow would see it. */
async function failureOf(result: Promise<unknown>): Promise<Error | undefined> {
  const error = await result.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ActivityExecutionFailedError)) throw new Error(`the activity did not fail: ${String(error)}`);
  return error.cause;
}

async function vmsOf({ machine }: { machine: EnsureVmRequest['machine'] }) {
  return (await cloud.vms({ all: true })).filter(({ name }) => name === machine.name);
}

describe('cloud activities on a Temporal server', () => {
  it('[invariant 1] retry a create whose answer was lost, and the Machine has one VM', async () => {
    await cloud.setFaults(
      { kind: 'lostAnswer', effect: 'done', operation: 'create', times: 1 },
      { kind: 'ignoreTokens' },
    );
    const request = creation();

    const handle = await start('ensureVm', request);

    expect(await handle.result()).toMatchObject({ state: 'running', nodeName: request.machine.name });
    expect(await handle.describe()).toMatchObject({ attempt: 2 });
    expect(await vmsOf(request)).toHaveLength(1);
  });

  it('fail at once with code, cloud code and request id when only a person can help', async () => {
    await cloud.setFaults({ kind: 'quota' });

    const handle = await start('ensureVm', creation());

    const failure = await failureOf(handle.result());
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect(failure).toMatchObject({
      type: 'ResourceExhausted',
      nonRetryable: true,
      details: [{ cloudCode: 'QuotaExceeded', requestId: expect.any(String) }],
    });
    expect(await handle.describe()).toMatchObject({ attempt: 1 });
  });

  it('wait as long as a throttling cloud asks for', async () => {
    await cloud.setFaults({ kind: 'throttle', retryAfterSeconds: 8 });

    const handle = await start('ensureVm', creation({ credentials: [{ namespace: 'garden', name: 'slow1' }] }));

    const { currentRetryIntervalMs } = await until('it waits for the next attempt', async () => {
      const seen = await handle.describe();
      return seen.nextAttemptScheduleTime !== undefined && seen;
    });
    expect(currentRetryIntervalMs).toBe(8_000);
    await handle.terminate('seen');
  });

  it('tell the caller at once when the cloud asks for longer than that should stay hidden', async () => {
    await cloud.setFaults({ kind: 'throttle', retryAfterSeconds: 60 });

    const handle = await start('ensureVm', creation({ credentials: [{ namespace: 'garden', name: 'slow2' }] }));

    expect(await failureOf(handle.result())).toMatchObject({
      type: 'Unavailable',
      details: [{ retryAfterMs: 60_000 }],
    });
    expect(await handle.describe()).toMatchObject({ attempt: 1 });
  });

  it('refuse a request that breaks the contract, and name the field', async () => {
    const handle = await start('ensureVm', { ...creation(), token: '' });

    expect(await failureOf(handle.result())).toMatchObject({
      type: 'InvalidArgument',
      message: expect.stringContaining('request.token is "": '),
    });
  });

  it('send no heartbeat when they end before one is due', async () => {
    const handle = await start('ensureVm', creation(), '1m');
    await handle.result();

    expect((await handle.describe()).totalHeartbeatCount ?? 0).toBe(0);
  });

  it('are cancelled while the cloud does not answer', async () => {
    await cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create' });
    const request = creation();
    const handle = await start('ensureVm', request, '4s');
    await until('the VM exists', async (see) => see(await vmsOf(request)).length === 1);

    await handle.cancel('the Machine is to go');

    expect(await failureOf(handle.result())).toBeInstanceOf(CancelledFailure);
    const pending = (await cloud.calls()).filter(({ outcome }) => outcome === 'pending');
    expect(pending).toHaveLength(1);
  });

  it('say in their heartbeats what they wait for', async () => {
    const request = creation();
    await (await start('ensureVm', request)).result();
    const { machine, origin, providerSpec, credentials } = request;
    const deletion: DeleteVmRequest = {
      machine,
      ...(origin && { origin }),
      providerSpec,
      credentials,
      outcomeUnknown: false,
    };

    const handle = await start('deleteVm', deletion, '1s');

    // The first one may come before there is anything to say.
    const details = async () => (await (await handle.describe()).getHeartbeatDetails()) ?? undefined;
    expect(await until('a heartbeat says something', details)).toEqual({ vmsLeft: 1, partsLeft: 3 });
    await handle.cancel('seen');
    await expect(handle.result()).rejects.toThrow();
  });

  it('[invariant 8 partly] show no secret in a failure', async () => {
    const handle = await start('ensureVm', creation({ credentials: [{ namespace: 'garden', name: 'old' }] }));

    const failure = await failureOf(handle.result());

    expect(failure).toMatchObject({
      type: 'Unauthenticated',
      message:
        'the cloud answered 401: Unauthorized: the token (hidden) is not accepted (credentials of Secret garden/old)',
    });
    expect(JSON.stringify([failure?.message, failure?.stack, failure])).not.toContain(canary);
  });
});

it('[invariant 8 partly] answers hide secrets in their texts for people, and in nothing else', async () => {
  const secretOf = async <T>(answer: T) => {
    hideSecret({ token: canary, region: 'here' });
    return answer;
  };
  const vm = { state: 'failed' as const, providerID: 'fake:///here/1', addresses: [], message: `no ${canary}` };
  const activities = createVmActivities({
    plainKeys: ['region'],
    ensureVm: () => secretOf(vm),
    deleteVm: () => secretOf({ state: 'gone' as const, nodeNames: [] }),
    listVms: () => secretOf({ items: [] }),
    validateClass: () => secretOf({ problems: [`token is ${canary}`, 'not here'], listScope: canary }),
    volumeIds: () => secretOf({ ids: {} }),
    listInterruptions: () => secretOf({ items: [{ providerID: vm.providerID, reason: canary }] }),
  });
  const { machine: _m, userData: _u, token: _t, outcomeUnknown: _o, ...scope } = creation();

  const answers = await inActivity({ attempt: 1 }, async () => [
    await activities.ensureVm(creation()),
    await activities.validateClass(scope),
    await activities.listInterruptions?.(scope),
  ]);

  expect(answers).toEqual([
    { ...vm, message: 'no (hidden)' },
    { problems: ['token is (hidden)', 'not here'], listScope: canary },
    { items: [{ providerID: vm.providerID, reason: '(hidden)' }] },
  ]);
});

it('listVms leaves out the tags where the request needs none', async () => {
  const item = { kind: 'vm' as const, id: 'fake:///here/1', name: 'a', createdAt: '2026-01-02T03:04:05Z' };
  const page = { items: [{ ...item, tags: { cluster: 'one' } }], nextPage: '2' };
  const activities = createVmActivities({
    ensureVm: () => Promise.reject(new Error('not asked')),
    deleteVm: () => Promise.reject(new Error('not asked')),
    listVms: async () => page,
    validateClass: async () => ({ problems: [] }),
    volumeIds: async () => ({ ids: {} }),
  });
  const scope = { providerSpec: {}, credentials: [] };

  const answers = await inActivity({ attempt: 1 }, async () => [
    await activities.listVms(scope),
    await activities.listVms({ ...scope, withoutTags: true }),
  ]);

  expect(answers).toEqual([page, { items: [item], nextPage: '2' }]);
});
