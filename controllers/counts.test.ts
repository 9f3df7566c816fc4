import { expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import type { KubeObject } from '../api/objects.ts';
import { StatusError } from '../kube/errors.ts';
import type { Patch } from '../kube/patch.ts';
import { createStore } from '../kube/store.ts';
import { createCountsController } from './counts.ts';
import { indexesOf, type Watches } from './watches.ts';

it('are written at the next resync after a conflict that no event follows', async () => {
  const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
  const indexes = indexesOf(gardener, defaults);
  const sets = createStore<KubeObject>(indexes.sets);
  const watches = {
    deployments: createStore<KubeObject>(indexes.deployments).store,
    sets: sets.store,
    machines: createStore<KubeObject>(indexes.machines).store,
  };
  const pool = { name: 'pool', uid: 'pool', resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z' };
  const set = { metadata: pool, spec: { replicas: 0 }, status: { replicas: 1 } };
  sets.put(set);
  const answers = [() => Promise.reject(new StatusError('PATCH /', 409, { reason: 'Conflict' }))];
  const written: object[] = [];
  const patch = async (_resource: unknown, _key: unknown, { body }: Patch) => {
    await answers.shift()?.();
    written.push(body as object);
  };
  const controller = createCountsController({
    control: { patch } as never,
    watches: watches as unknown as Watches,
    dialect: gardener,
  });

  await controller.handle('pool');
  expect(written).toEqual([]);
  await controller.resync?.('pool');
  expect(written).toMatchObject([{ status: { replicas: 0 } }]);
});
