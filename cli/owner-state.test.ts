import { afterAll, expect, it } from '@jest/globals';
import { machineDeployments, machines } from '../api/gardener/resources.ts';
import { newNamespace, testClient } from '../test/support/kube.ts';
import { spec } from '../test/support/live-owners.ts';
import { until } from '../test/support/until.ts';
import { watchOwned } from './owner-state.ts';

const client = testClient();
afterAll(() => client.close());

it('asks the API server for nothing once it watches, and knows what changes', async () => {
  const namespace = await newNamespace(client);
  for (const name of ['pool', 'other'])
    await client.create(machineDeployments, { metadata: { namespace, name }, spec });
  let asked = 0;
  const owned = watchOwned(
    {
      ...client,
      async list(resource, query) {
        asked += 1;
        return client.list(resource, query);
      },
    },
    namespace,
  );
  const readWithoutAsking = async () => {
    const before = asked;
    const found = await owned.read();
    return asked === before ? found : undefined;
  };
  const { deployments } = await until('all is watched', readWithoutAsking);
  await client.create(machines, { metadata: { namespace, name: 'new' }, spec: spec.template.spec });
  await client.delete(machineDeployments, { namespace, name: 'pool' });
  const { machines: found } = await until('the changes are seen', async (see) => {
    const now = see(await readWithoutAsking());
    return now?.deployments.length === 1 && now.machines.length === 1 ? now : undefined;
  });
  await owned.stop();

  expect(deployments.map(({ metadata }) => metadata.name).toSorted()).toEqual(['other', 'pool']);
  expect(found.map(({ metadata }) => metadata.name)).toEqual(['new']);
});
