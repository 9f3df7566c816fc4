import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { newNamespace, recordingLogger, testClient, testKubeconfig } from '../test/support/kube.ts';
import type { KubeClient } from './client.ts';
import { loadKubeconfig } from './config.ts';
import { leases, nodes } from './core.ts';
import { ConnectionError, StatusError } from './errors.ts';
import { clusterRecordName, findOtherCluster, onlyKnownCluster } from './known-cluster.ts';

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

it('keeps what it knows while an API server does not answer', async () => {
  const away: KubeClient = {
    ...control,
    find: () => Promise.reject(new ConnectionError('away', { cause: 0, notSent: true })),
  };
  expect(await find(other)).toBeUndefined();
  const target = onlyKnownCluster(other, { ...record(), control: away }, logger);
  expect(await target.find(nodes, { name: 'no-such-node' })).toBeUndefined();
  expect(logger.lines).toEqual([]);
});
