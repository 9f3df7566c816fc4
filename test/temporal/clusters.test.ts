/** What a running process finds out about its own cluster and others, on real servers. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Connection } from '@temporalio/client';
import type { KubeClient } from '../../kube/client.ts';
import { namespaces } from '../../kube/core.ts';
import { StatusError } from '../../kube/errors.ts';
import {
  type ClusterWatch,
  type ClusterWatchOptions,
  findClusterId,
  findMissingProcesses,
  showControllers,
  watchForOtherClusters,
} from '../../temporal/clusters.ts';
import { connectClient } from '../../temporal/connection.ts';
import { measureClock } from '../../temporal/task-queues.ts';
import { type FaultProxy, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { newNamespace, recordingLogger, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

let connection: Connection;
let proxy: FaultProxy;
let control: KubeClient;
let namespace: string;
let watch: ClusterWatch | undefined;

beforeAll(async () => {
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  connection = await connectClient({ address, namespace: 'default', tls: false });
  proxy = await startFaultProxy(testKubeconfig());
  control = testClient(proxy.access);
});
beforeEach(async () => {
  namespace = await newNamespace(control);
});
afterEach(() => {
  watch?.stop();
  proxy.setRule();
});
afterAll(async () => {
  await connection?.close();
  await control?.close();
  await proxy?.close();
});

it('the clock of the server, which is that of this host, is measured by a poll', async () => {
  const aheadMs = await measureClock(connection, 'default', `${namespace}.doctor`);

  expect(Math.abs(aheadMs ?? Number.NaN)).toBeLessThan(2_000);
});

const uidOf = async (name: string) => (await control.get(namespaces, { name })).metadata.uid;
const checkOf = (clusterId?: string) => ({ namespace: 'default', installation: namespace, clusterId });

async function startWatch(options: Partial<ClusterWatchOptions> = {}): Promise<string> {
  const own = await uidOf(namespace);
  const settings = { control, namespace, everyMs: 50, logger: recordingLogger(), ...options };
  watch = watchForOtherClusters(connection, checkOf(own), settings);
  return own;
}

/** Waits until the watch has asked for the namespace so often. Rejects where it has found something. */
async function untilRead(times: number): Promise<void> {
  const before = proxy.seen.length;
  const read = until('it has read the namespace', async () => proxy.seen.length >= before + times);
  await Promise.race([read, watch?.found]);
}

/** As the controllers of namespaces do, which this cluster has not. */
async function deleteNamespace(): Promise<void> {
  await control.delete(namespaces, { name: namespace });
  const { spec: _, ...left } = await control.get(namespaces, { name: namespace });
  const answer = await fetch(`${proxy.server}/api/v1/namespaces/${namespace}/finalize`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...left, spec: { finalizers: [] } }),
  });
  expect(answer.status).toBe(200);
  await until('it is gone', async (see) =>
    see(await control.find(namespaces, { name: namespace })) ? undefined : true,
  );
}

describe('findClusterId', () => {
  /** What it comes to, by a client that repeats nothing. */
  const findAt = async (status: number, reason: string, logger = recordingLogger()) => {
    const find: KubeClient['find'] = async () => {
      throw new StatusError('GET namespaces', status, { reason });
    };
    return [await findClusterId({ ...control, find }, namespace, logger), logger.lines.length];
  };

  it.each([
    [429, 'TooManyRequests'],
    [500, 'InternalError'],
    [503, 'ServiceUnavailable'],
    [401, 'Unauthorized'],
  ])('throws where the API server answers %s, as it may be asked again', async (status, reason) => {
    await expect(findAt(status, reason)).rejects.toThrow(`${status} ${reason}`);
  });

  it('knows none, with a warning, where we may not read the namespace', async () => {
    expect(await findAt(403, 'Forbidden')).toEqual([undefined, 1]);
    expect(await findClusterId(control, namespace, recordingLogger())).toBe(await uidOf(namespace));
  });
});

describe('watchForOtherClusters', () => {
  it('rejects when the namespace was created again, and not while it cannot be read or is gone', async () => {
    const own = await startWatch();
    await untilRead(3);
    const isOwn = ({ pathname }: URL) => pathname.endsWith(`/namespaces/${namespace}`);
    for (const [status, reason] of [
      [403, 'Forbidden'],
      [503, 'ServiceUnavailable'],
    ] as const) {
      proxy.setRule(({ url }) =>
        isOwn(url) ? { kind: 'answer', status, body: statusBody(status, reason) } : undefined,
      );
      await untilRead(3);
    }
    proxy.setRule();
    await deleteNamespace();
    await untilRead(3);

    await control.create(namespaces, { metadata: { name: namespace } });

    await expect(watch?.found).rejects.toThrow(
      `the namespace '${namespace}' was created again: its UID was ${own} and is ${await uidOf(namespace)}`,
    );
  });

  it('checks for others although it cannot poll', async () => {
    // Temporal notes a poll when it begins; its answer may come after the deadline.
    await showControllers(connection, checkOf('00000000-0000-4000-8000-000000000001')).catch(() => undefined);
    await startWatch({ show: () => Promise.reject(new Error('Temporal is busy')) });

    await expect(watch?.found).rejects.toThrow('is served by another cluster');
  });
});

it('Temporal knows the controllers of an installation, also where they may not read the UID of their namespace', async () => {
  const check = checkOf();
  expect(await findMissingProcesses(connection, check)).toEqual(['worker', 'controllers']);
  await showControllers(connection, check).catch(() => undefined); // Temporal notes a poll when it begins
  expect(await findMissingProcesses(connection, check)).toEqual(['worker']);
});
