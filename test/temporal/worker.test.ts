/** The workers against a real Temporal server and a real API server. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { drainTaskQueue, names, providerTaskQueue } from '../../api/names.ts';
import { workflowId } from '../../api/workflow-id.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/core.ts';
import { describeWorkflow } from '../../temporal/describe.ts';
import { type Workers } from '../../temporal/pausable-workers.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { startWorkers, type WorkersOptions } from '../../temporal/worker.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { startWorkflow } from '../../temporal/workflows.ts';
import type { MachineDescription } from '../../workflows/machine/messages.ts';
import { refreshSignal, retryNowSignal } from '../../workflows/messages.ts';
import { type FaultProxy, type SeenRequest, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { newNamespace, recordingLogger, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

let proxy: FaultProxy;
let direct: KubeClient;
let control: KubeClient;
let connection: NativeConnection;
let client: Client;
let namespace: string;
let workers: Workers | undefined;
const logger = recordingLogger();

beforeAll(async () => {
  proxy = await startFaultProxy(testKubeconfig());
  direct = testClient();
  control = testClient(proxy.access);
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  connection = await connectWorkers({ address, namespace: 'default', tls: false }, logger);
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
});

afterEach(async () => {
  proxy.setRule();
  await workers?.stop();
  workers = undefined;
});

afterAll(async () => {
  await connection.close();
  await control.close();
  await direct.close();
  await proxy.close();
});

it('they use a connection that replaces theirs, also one that came while they started or that comes while they stop', async () => {
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  const open = () => connectWorkers({ address, namespace: 'default', tls: false }, logger);
  const [first, second, third] = await Promise.all([open(), open(), open()]);
  let newest = first;
  let replaceWith: (next: NativeConnection) => void = () => undefined;
  const started = await start({
    live: {
      newest() {
        const before = newest;
        newest = second;
        return before;
      },
      onReplace(listener) {
        replaceWith = listener;
        return () => undefined;
      },
    },
  });
  await first.close(); // throws while a worker uses it

  const stopped = started.stop();
  replaceWith(third);
  await second.close();
  await stopped;
  replaceWith(connection);
  await third.close();
});

/** Workers of a new installation, in a new namespace. */
async function start(options: Partial<WorkersOptions> = {}): Promise<Workers> {
  namespace = await newNamespace(direct);
  workers = await startWorkers({
    connection,
    namespace: 'default',
    installation: namespace,
    control,
    machineNamespace: namespace,
    target: control,
    defaults: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] },
    maxCachedWorkflows: 2_000,
    ...{ mostReplacing: { count: 1 }, outagePercent: 55 },
    volumes: { detachMs: 1_000, reattachMs: 1_000, isSerial: false },
    drainStuckAfterMs: 600_000,
    bootstrapTokenExtraGroups: '',
    sweep: {
      ...{ confirmAfterSeconds: 120, minimumAgeSeconds: 600 },
      ...{ brakeCount: 3, brakeRate: 10, approvalSeconds: 86_400 },
    },
    onFailedRun: () => undefined,
    providers: ['simulated'],
    refusal: () => undefined,
    logger,
    ...options,
  });
  return workers;
}

async function createMachine(): Promise<ObjectRef> {
  const spec = { class: { kind: 'MachineClass', name: 'missing' } };
  const { metadata } = await direct.create(machines, { metadata: { namespace, name: 'one' }, spec });
  const ref: ObjectRef = { dialect: 'gardener', namespace, name: 'one', uid: metadata.uid };
  await startWorkflow({ client, name: namespace }, 'Machine', ref);
  return ref;
}

async function descriptionOf(ref: ObjectRef): Promise<MachineDescription | undefined> {
  const answer = await describeWorkflow<MachineDescription>(client, workflowId(namespace, 'Machine', ref));
  return answer.state === 'open' ? answer.description : undefined;
}

describe('startWorkers', () => {
  it('runs workflows and their local activities, and is ready then', async () => {
    const { missing } = await start();
    const ref = await createMachine();

    await until(
      'the machine is refused',
      async (see) => see(await descriptionOf(ref))?.lastError?.code === 'InvalidArgument',
    );

    expect(missing()).toEqual([]);
  });

  it('translates the errors of local activities as well', async () => {
    await start();
    const status = { ...statusBody(403, 'Forbidden', 'machines is forbidden'), status: 403 };
    proxy.setRule(({ url }) =>
      url.pathname.endsWith(`/${namespace}/machines/one`) ? { kind: 'answer', status: 403, body: status } : undefined,
    );

    await createMachine();

    const failure = { isLocal: true, activityType: 'observeMachine', err: { type: 'PermissionDenied' } };
    await until('the failure is logged', () => {
      expect(logger.lines).toContainEqual({
        level: 'warn',
        message: 'Activity failed',
        fields: expect.objectContaining({ ...failure, err: expect.objectContaining(failure.err) }),
      });
      return true;
    });
  });

  it('starts no activity that is refused, and reports why', async () => {
    await start({ refusal: () => 'somebody else holds a Lease' });
    const before = proxy.seen.length;
    const ref = await createMachine();

    const refused = { code: 'Unavailable', message: 'somebody else holds a Lease' };
    await until('the machine says so', async () => {
      expect((await descriptionOf(ref))?.lastError).toMatchObject(refused);
      return true;
    });

    expect(proxy.seen.slice(before)).toEqual([]);
  });

  it('receives a deletion, and holds no workflow task, while an API server asks for a long pause', async () => {
    await start();
    const isWrite = ({ method, url }: SeenRequest) =>
      method === 'PATCH' && url.pathname.endsWith(`/${namespace}/machines/one/status`);
    const body = statusBody(503, 'ServiceUnavailable');
    const headers = { 'retry-after': '30' };
    proxy.setRule((request) => (isWrite(request) ? { kind: 'answer', status: 503, headers, body } : undefined));
    const ref = await createMachine();
    const handle = client.workflow.getHandle(workflowId(namespace, 'Machine', ref));
    await until('the status is being written', () => proxy.seen.some(isWrite));
    await until('it holds no workflow task', async () => (await handle.describe()).raw.pendingWorkflowTask == null);

    await direct.delete(machines, ref);
    const before = proxy.seen.length;
    await handle.signal(refreshSignal);
    const isRead = ({ method, url }: SeenRequest) => method === 'GET' && url.pathname.endsWith('/machines/one');
    await until('the Machine is being read', () => proxy.seen.slice(before).some(isRead));
    proxy.setRule();
    await handle.signal(retryNowSignal);

    await until('the workflow has ended', async (see) => see((await handle.describe()).status.name) === 'COMPLETED');
    expect(await direct.find(machines, ref)).toBeUndefined();
  });

  it('lets running activities end, writes the Events and stops polling when it is stopped', async () => {
    const { stop, missing } = await start();
    const ref = await createMachine();
    await until(
      'a step has failed',
      async (see) => see(await descriptionOf(ref))?.lastError?.code === 'InvalidArgument',
    );

    await stop();

    workers = undefined;
    const events = (await direct.getRaw(`/apis/events.k8s.io/v1/namespaces/${namespace}/events`)) as {
      items: unknown[];
    };
    expect(events.items).toContainEqual(
      expect.objectContaining({
        type: 'Warning',
        regarding: expect.objectContaining({ kind: 'Machine', name: 'one' }),
      }),
    );
    const queues = [namespace, drainTaskQueue(namespace), providerTaskQueue(namespace, 'simulated')];
    expect(missing()).toEqual(queues.map((queue) => `worker of ${queue}`));
  });

  it('polls the queue of each provider with its activities, which read Secrets through the control cluster', async () => {
    await start();
    await direct.create(secrets, { metadata: { namespace, name: 'account' }, stringData: { token: 'any' } });
    const request = {
      version: 1,
      origin: { kind: 'MachineClass', namespace, name: 'small', generation: 1 },
      providerSpec: {
        endpoint: 'http://127.0.0.1:1',
        machineType: 'small',
        region: 'here',
        tags: { [names.machineUid]: 'x' },
      },
      credentials: [{ namespace, name: 'account' }],
    };

    const verdict = await client.activity.execute('validateClass', {
      id: `${namespace}-validate`,
      taskQueue: providerTaskQueue(namespace, 'simulated'),
      args: [request],
      startToCloseTimeout: '10 seconds',
    });

    expect(verdict).toMatchObject({ problems: [] });
  });

  it('gives providers no Secret of another namespace', async () => {
    await start();
    const credentials = [{ namespace: 'kube-system', name: 'account' }];
    const failure = await client.activity
      .execute('validateClass', {
        id: `${namespace}-validate`,
        taskQueue: providerTaskQueue(namespace, 'simulated'),
        args: [{ providerSpec: { endpoint: 'http://127.0.0.1:1', machineType: 'small', region: 'here' }, credentials }],
        startToCloseTimeout: '10 seconds',
      })
      .catch((error: Error) => error.cause);

    const message = `Secret "kube-system/account" is not in the namespace "${namespace}" of the Machines: move it there, and correct what names it`;
    expect(failure).toMatchObject({ type: 'InvalidArgument', message });
  });

  it('refuses a cloud call for another cluster, and accepts one without a cluster', async () => {
    await start({ clusterId: 'mine' });
    const validate = (cluster?: string) =>
      client.activity.execute('validateClass', {
        id: `${namespace}-validate-${cluster}`,
        taskQueue: providerTaskQueue(namespace, 'simulated'),
        args: [
          {
            cluster,
            origin: { kind: 'MachineClass', namespace, name: 'small', generation: 1 },
            providerSpec: {},
            credentials: [],
          },
        ],
        startToCloseTimeout: '1 minute',
        retry: { maximumAttempts: 1 },
      });

    await expect(validate('another')).rejects.toMatchObject({
      cause: { type: 'Unavailable', message: expect.stringContaining('namespace UID mine'), nonRetryable: false },
    });
    await expect(validate('mine')).resolves.toBeDefined();
    await expect(validate()).resolves.toBeDefined();
  });

  it('leaves no worker running when one is refused, so that all can be started on the same connection', async () => {
    await expect(start({ providers: ['simulated', 'simulated'] })).rejects.toThrow('overlapping worker task types');

    await start({ installation: namespace });

    expect(workers?.missing()).toEqual([]);
  });

  it('names the known providers when it is asked for another', async () => {
    await expect(start({ providers: ['none'] })).rejects.toThrow(
      "provider 'none' is not known: there are aws, azure, openstack, simulated",
    );
  });
});
