import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Cluster } from '../../deploy/local/cluster.ts';
import type { RequestObservation } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { configMaps } from '../../kube/core.ts';
import { startReflector } from '../../kube/reflector.ts';
import { inWords, recordingLogger, testClient } from '../support/kube.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';
import { until } from '../support/until.ts';

let own: OwnClusters;
beforeAll(async () => {
  own = await startOwnClusters(['one', 'two']);
});
afterAll(() => own?.stop());

/** A client and a reflector of the ConfigMaps in namespace `default` of one cluster, and what they met. */
function connect(kubeconfig: string) {
  const requests: RequestObservation[] = [];
  const said: string[] = [];
  const client = testClient(loadKubeconfig(kubeconfig), { onRequest: (request) => requests.push(request) });
  const reflector = startReflector({
    client,
    resource: configMaps,
    namespace: 'default',
    onEvent: (event) => {
      said.push(inWords(event));
    },
    logger: recordingLogger(),
  });
  const create = (name: string) => client.create(configMaps, { metadata: { namespace: 'default', name } });
  return { client, reflector, create, requests, said };
}

it('reflects two clusters, and continues with one while the other is down', async () => {
  const [first, second] = own.clusters as [Cluster, Cluster];
  const [one, two] = [connect(first.kubeconfig), connect(second.kubeconfig)];
  await Promise.all([one.reflector.waitForSync(), two.reflector.waitForSync()]);
  await Promise.all([one.create('a'), two.create('b')]);
  await until('both have two events', (see) =>
    see([one, two].map(({ said }) => said)).every((said) => said.length === 2),
  );
  expect([one.said, two.said]).toEqual([
    ['synced', 'added a'],
    ['synced', 'added b'],
  ]);

  await second.apiServer.kill('SIGKILL');
  await until('the second cluster is known to be down', () => !two.reflector.store.reachable);
  await one.create('c');
  await until('the first one goes on', (see) => see(one.said).includes('added c'));
  expect(one.reflector.store).toMatchObject({ reachable: true, size: 2 });
  expect(one.requests.filter(({ verb }) => verb === 'watch')).toHaveLength(1);
  expect(two.reflector.store).toMatchObject({ synced: true, size: 1 });

  await second.apiServer.restart();
  await until('the second cluster is back', () => two.reflector.store.reachable);
  await two.create('d');
  await until('it goes on, too', (see) => see(two.said).includes('added d'));
  expect(two.said.filter((word) => word !== 'synced')).toEqual(['added b', 'added d']);
  expect(one.said).toEqual(['synced', 'added a', 'added c']);

  await Promise.all([one, two].map(({ reflector }) => reflector.stop()));
  await Promise.all([one, two].map(({ client }) => client.close()));
});
