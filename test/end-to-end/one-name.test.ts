/** One installation is served by one cluster: a process of another one does not start. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { controllersQueue } from '../../temporal/clusters.ts';
import { listPollers } from '../../temporal/task-queues.ts';
import { newNamespace, testClient } from '../support/kube.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { connectTemporal } from '../support/temporal.ts';
import { until } from '../support/until.ts';

let client: KubeClient;
beforeAll(async () => {
  client = testClient();
});
afterAll(() => client.close());

describe.each(['worker', 'controllers'] as const)('an installation that is served by a running %s', (command) => {
  const running: MillwrightProcess[] = [];
  let installation: string;

  beforeAll(async () => {
    installation = await newNamespace(client);
    running.push(await startMillwright({ namespace: installation, command, isElected: false }));
    const queue = command === 'worker' ? installation : controllersQueue(installation);
    const connection = await connectTemporal();
    // It may be ready a moment before its first poll.
    await until('Temporal knows it', async (see) => {
      return see(await listPollers(connection, 'default', queue, 'workflow')).length > 0;
    }).finally(() => connection.close());
  });
  afterAll(() => Promise.all(running.map((each) => each.stop())));

  it.each(['worker', 'controllers'] as const)('is refused to the %s of another cluster', async (other) => {
    const namespace = await newNamespace(client);

    const refused = startMillwright({ namespace, installation, command: other });

    await expect(refused).rejects.toThrow(
      /installation '.*' in the Temporal namespace .* is served by another cluster/,
    );
  });

  it('is served by a worker of the same cluster, too', async () => {
    running.push(await startMillwright({ namespace: installation, command: 'worker' }));

    const ready = await Promise.all(running.map(async ({ url }) => (await fetch(`${url}/readyz`)).status));
    expect(ready).toEqual([200, 200]);
  });
});
