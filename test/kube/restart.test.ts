import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Cluster } from '../../deploy/local/cluster.ts';
import type { KubeClient, RequestObservation } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { configMaps } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { startReflector } from '../../kube/reflector.ts';
import { inWords, newNamespace, recordingLogger, testClient } from '../support/kube.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';
import { until } from '../support/until.ts';

describe('a restart of the API server', () => {
  let own: OwnClusters;
  /** Two API servers of one cluster: what the one misses is done through the other. */
  let watched: Cluster;
  let other: KubeClient;
  let namespace: string;
  beforeAll(async () => {
    own = await startOwnClusters(['cluster', 'cluster']);
    const [first, second] = own.clusters as [Cluster, Cluster];
    watched = first;
    other = testClient(loadKubeconfig(second.kubeconfig));
    namespace = await newNamespace(other);
  });
  afterAll(async () => {
    await other?.close();
    await own?.stop();
  });

  const key = (name: string) => ({ namespace, name });
  const create = (name: string) => other.create(configMaps, { metadata: { namespace, name } });

  it('loses no change, and reports nothing where nothing changed', async () => {
    for (const name of ['deleted', 'again', 'changed', 'same']) await create(name);
    const said: string[] = [];
    const requests: RequestObservation[] = [];
    const logger = recordingLogger();
    const client = testClient(loadKubeconfig(watched.kubeconfig), { onRequest: (each) => requests.push(each) });
    const { store, waitForSync, stop } = startReflector({
      ...{ client, resource: configMaps, namespace, logger },
      onEvent(event) {
        said.push(inWords(event));
      },
    });
    await waitForSync();
    await until('it watches', () => requests.some(({ verb }) => verb === 'watch'));
    said.length = 0;

    await watched.apiServer.kill('SIGKILL');
    await until('the server is known to be down', () => !store.reachable);
    await other.delete(configMaps, key('deleted'));
    await other.delete(configMaps, key('again'));
    await create('again');
    await other.patch(configMaps, key('changed'), mergePatch({ data: { a: 'b' } }));
    await create('new');
    await watched.apiServer.restart();
    await until('everything is listed again', (see) => see(said).includes('synced'));

    expect(said.toSorted()).toEqual([
      'added again',
      'added new',
      'deleted again',
      'deleted deleted',
      'synced',
      'updated changed',
    ]);
    expect(said.indexOf('deleted again')).toBe(said.indexOf('added again') - 1);
    expect(store).toMatchObject({ reachable: true, size: 4 });

    said.length = 0;
    await watched.apiServer.restart();
    await create('last');
    await until('the last object is known', (see) => see(said).includes('added last'));

    expect(said.filter((word) => word !== 'synced')).toEqual(['added last']);
    // Each failure was followed by a pause, and a try has three requests that fail and one that does not.
    expect(requests.length).toBeLessThanOrEqual(4 * (logger.lines.length + 1));
    await stop();
    await client.close();
  });
});
