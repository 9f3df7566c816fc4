import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { newNamespace, testClient, testKubeconfig } from '../kube/setup.ts';
import { installCrds } from '../support/crds.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';

describe('an installation', () => {
  const running: MillwrightProcess[] = [];
  let client: KubeClient;
  let namespace: string;

  beforeAll(async () => {
    await installCrds(testKubeconfig());
    client = testClient();
    namespace = await newNamespace(client);
  });
  afterAll(async () => {
    await Promise.all(running.map((each) => each.stop()));
    await client.close();
  });

  it.each(['controllers', 'worker'] as const)('is refused to %s of another cluster', async (command) => {
    running.push(await startMillwright({ namespace, command: 'worker' }));
    const another = await newNamespace(client);

    const refused = startMillwright({ namespace: another, installation: namespace, command });

    await expect(refused).rejects.toThrow(
      /installation '.*' in the Temporal namespace .* is served for another cluster/,
    );
  });

  it('has any number of workers of one cluster', async () => {
    running.push(await startMillwright({ namespace, command: 'worker' }));
    running.push(await startMillwright({ namespace, command: 'worker' }));
  });
});
