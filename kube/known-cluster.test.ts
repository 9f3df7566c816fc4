import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import { clusterRecordName } from '../api/names.ts';
import { newNamespace, recordingLogger, testClient, testKubeconfig } from '../test/support/kube.ts';
import type { KubeClient } from './client.ts';
import { loadKubeconfig } from './config.ts';
import { leases, namespaces, nodes } from './core.ts';
import { ConnectionError, RateLimitError, StatusError } from './errors.ts';
import { findOtherCluster, onlyKnownCluster } from './known-cluster.ts';
import { mergePatch } from './patch.ts';

let control: KubeClient;
let other: KubeClient;
let namespace: string;
let logger: ReturnType<typeof recordingLogger>;

beforeAll(() => {
  control = testClient();
  other = testClient(loadKubeconfig(testKubeconfig(2)));
});
beforeEach(async () => {
  namespace = await newNamespace(control);
  logger = recordingLogger();
});
afterAll(() => Promise.all([control.close(), other.close()]));

const record = () => ({ control, namespace, installation: 'pool' });
const find = (target: KubeClient) => onlyKnownCluster(target, record(), logger).find(nodes, { name: 'no-such-node' });
const key = () => ({ namespace, name: clusterRecordName('pool') });

it('answers for the first cluster that the installation has, and for no other one until a person has it forget the first', async () => {
  expect(await findOtherCluster(other, record())).toBeUndefined();
  expect(await find(other)).toBeUndefined();
  expect(await find(other)).toBeUndefined();

  const refused = onlyKnownCluster(control, record(), logger);
  for (const ask of [
    refused.find(nodes, { name: 'a' }),
    refused.delete(nodes, { name: 'a' }),
    refused.getRaw('/version'),
  ]) {
    await expect(ask).rejects.toThrow(ConnectionError);
  }
  const pages = refused.pages(nodes, { labelSelector: 'a' });
  await expect(pages.next()).rejects.toThrow(/^the cluster of the Nodes is another one than before/);
  expect(await findOtherCluster(control, record())).toMatch(
    `kubectl delete lease millwright-pool-target -n ${namespace}`,
  );

  await control.delete(leases, key());
  expect(await find(control)).toBeUndefined();
  await expect(find(other)).rejects.toThrow(ConnectionError);
});

it('sends requests where the check is refused, and says once which rights it lacks', async () => {
  const forbidden = { reason: 'Forbidden', message: 'you may not' };
  const lame: KubeClient = {
    ...control,
    create: async () => {
      throw new StatusError('POST leases', 403, forbidden);
    },
  };
  const target = onlyKnownCluster(other, { ...record(), control: lame }, logger);

  expect(await target.find(nodes, { name: 'no-such-node' })).toBeUndefined();
  expect(await target.find(nodes, { name: 'no-such-node' })).toBeUndefined();
  expect(logger.lines.map(({ message }) => message)).toEqual([
    `cannot check whether the cluster of the Nodes is the same as before: allow get on the namespace kube-system there, and get and create on leases in ${namespace}`,
  ]);
});

it('says nothing of rights while the namespace is being deleted', async () => {
  const details = { causes: [{ reason: 'NamespaceTerminating', message: 'it goes' }] };
  const going: KubeClient = {
    ...control,
    create: async () => {
      throw new StatusError('POST leases', 403, { reason: 'Forbidden', message: 'being terminated', details });
    },
  };
  const target = onlyKnownCluster(other, { ...record(), control: going }, logger);

  expect(await target.find(nodes, { name: 'no-such-node' })).toBeUndefined();
  expect(logger.lines).toEqual([]);
});

it.each([
  ['at the namespace', () => ({ target: refusing(other, namespaces), from: record() })],
  ['at the Lease', () => ({ target: other, from: { ...record(), control: refusing(control, leases) } })],
])('sends requests where a right is missing %s', async (_, setUp) => {
  const { target, from } = setUp();
  expect(await onlyKnownCluster(target, from, logger).find(nodes, { name: 'no-such-node' })).toBeUndefined();
  expect(logger.lines).toHaveLength(1);
});

const failures = [
  ['does not answer', new ConnectionError('away', { cause: 0, notSent: true })],
  ['is busy', new StatusError('GET leases', 429, { reason: 'TooManyRequests' })],
  ['is not asked because of our own rate limit', new RateLimitError(5_000)],
  ['has lost its etcd', new StatusError('GET leases', 500, { message: 'etcdserver: request timed out' })],
] as const;

it.each(failures)('sends nothing before the first check while an API server %s', async (_, error) => {
  expect(await find(control)).toBeUndefined();
  const failing = failingFind(control, error);
  const from = { ...record(), control: failing.client };
  const sent: string[] = [];
  const target: KubeClient = { ...other, getRaw: async (path) => String(sent.push(path)) };
  const another = onlyKnownCluster(target, from, logger);
  const same = onlyKnownCluster({ ...control, getRaw: async () => 'sent' }, from, logger);

  failing.isAway = true;
  for (const client of [another, same]) {
    const asked = client.getRaw('/version');
    await expect(asked).rejects.toThrow(ConnectionError);
    await expect(asked).rejects.toThrow(`whether the cluster of the Nodes is the same as before: ${error.message}`);
  }
  failing.isAway = false;
  await expect(another.getRaw('/version')).rejects.toThrow(/^the cluster of the Nodes is another one than before/);
  expect(await same.getRaw('/version')).toBe('sent');
  expect([sent, logger.lines]).toEqual([[], []]);
});

it.each(failures)('keeps what it knows while an API server %s', async (_, error) => {
  const failing = failingFind(control, error);
  const target = onlyKnownCluster(other, { ...record(), control: failing.client }, logger);
  const ask = () => target.find(nodes, { name: 'no-such-node' });
  expect(await ask()).toBeUndefined();
  failing.isAway = true;
  const laterMs = performance.now() + 60_000;
  const clock = jest.spyOn(performance, 'now').mockReturnValue(laterMs);
  expect(await ask()).toBeUndefined();
  clock.mockRestore();
  expect(failing.failed).toBe(1);
  expect(logger.lines).toEqual([]);
});

it('takes nothing for gone that another cluster says while the last check still counts', async () => {
  const behind = { client: other };
  const through: KubeClient = {
    ...other,
    find: (...args) => behind.client.find(...args),
    list: (...args) => behind.client.list(...args),
    pages: (...args) => behind.client.pages(...args),
    patch: (...args) => behind.client.patch(...args),
    delete: (...args) => behind.client.delete(...args),
  };
  const target = onlyKnownCluster(through, record(), logger);
  const missing = { name: 'no-such-node' };
  const asks = {
    find: () => target.find(nodes, missing),
    list: () => target.list(nodes, { labelSelector: 'no-such-label' }),
    pages: () => target.pages(nodes, { labelSelector: 'no-such-label' }).next(),
    patch: () => target.patch(nodes, missing, mergePatch({})),
    delete: () => target.delete(nodes, missing),
    conflict: () => target.delete(namespaces, { name: namespace }, { preconditions: { uid: 'another' } }),
  };
  for (const [name, ask] of Object.entries(asks)) {
    behind.client = other;
    await checkAnew(target);
    behind.client = control;
    const asked = ask();
    expect([name, await asked.catch(String)]).toEqual([name, expect.stringContaining('is another one than before')]);
    await expect(asked).rejects.toThrow(ConnectionError);
  }
  behind.client = other;
  await checkAnew(target);
  expect(await asks.find()).toBeUndefined();
  await expect(asks.delete()).rejects.toThrow(StatusError);
});

/** Has a client check its cluster, however young its last check is. */
async function checkAnew(target: KubeClient): Promise<void> {
  const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000);
  await target.get(namespaces, { name: 'default' });
  clock.mockRestore();
}

/** A client that fails while it is away. */
function failingFind(client: KubeClient, error: Error) {
  const find: KubeClient['find'] = async (...args) => {
    if (!failing.isAway) return client.find(...args);
    failing.failed++;
    throw error;
  };
  const failing = { client: { ...client, find }, isAway: false, failed: 0 };
  return failing;
}

/** A client that may not read objects of this kind. */
function refusing(client: KubeClient, { kind }: { readonly kind: string }): KubeClient {
  return {
    ...client,
    find: async (resource, ...args) => {
      if (resource.kind === kind) throw new StatusError(`GET ${kind}`, 403, { reason: 'Forbidden' });
      return client.find(resource, ...args);
    },
  };
}
