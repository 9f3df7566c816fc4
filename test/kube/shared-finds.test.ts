import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { coalesceReads } from '../../kube/shared-finds.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';

let direct: KubeClient;
let proxy: FaultProxy;
let client: KubeClient;
let namespace: string;

beforeAll(async () => {
  direct = testClient();
  proxy = await startFaultProxy(testKubeconfig());
  client = testClient(proxy.access);
  namespace = await newNamespace(direct);
});
afterAll(async () => {
  await client.close();
  await proxy.close();
  await direct.close();
});

const reads = () => proxy.seen.filter(({ url }) => url.pathname.includes('/configmaps/')).length;

it('reads once for all callers of a moment, and again for later callers', async () => {
  const name = 'shared';
  await direct.create(configMaps, { metadata: { namespace, name }, data: { color: 'red' } });
  const find = coalesceReads(client);
  const before = reads();

  const askOften = () => Array.from({ length: 50 }, () => find(configMaps, { namespace, name }));
  const early = askOften();
  await turn(); // the read of these is sent
  const all = await Promise.all([...early, ...askOften()]);

  expect(all.map((found) => found?.data)).toEqual(Array.from({ length: 100 }, () => ({ color: 'red' })));
  expect(reads() - before).toBe(2);
  await direct.patch(configMaps, { namespace, name }, mergePatch({ data: { color: 'blue' } }));
  expect((await find(configMaps, { namespace, name }))?.data).toEqual({ color: 'blue' });
});

it('gathers callers for as long as it is told', async () => {
  const name = 'gathered';
  await direct.create(configMaps, { metadata: { namespace, name } });
  const find = coalesceReads(client, {}, 300);
  const before = reads();

  const early = find(configMaps, { namespace, name });
  await turn();
  await Promise.all([early, find(configMaps, { namespace, name })]);

  expect(reads() - before).toBe(1);
});

it('returns nothing that was read before the call', async () => {
  const name = 'changing';
  await direct.create(configMaps, { metadata: { namespace, name }, data: { color: 'red' } });
  const find = coalesceReads(client);

  const old = find(configMaps, { namespace, name });
  await direct.patch(configMaps, { namespace, name }, mergePatch({ data: { color: 'blue' } }));
  const young = find(configMaps, { namespace, name });

  expect((await young)?.data).toEqual({ color: 'blue' });
  await old;
});

it('rejects only for the callers that share the read', async () => {
  const name = 'refused';
  const find = coalesceReads(client, { failFast: true });
  proxy.setRule(({ url }) => (url.pathname.endsWith(name) ? { kind: 'reset' } : undefined));

  const refused = [find(configMaps, { namespace, name }), find(configMaps, { namespace, name })];

  expect((await Promise.allSettled(refused)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  proxy.setRule();
  expect(await find(configMaps, { namespace, name })).toBeUndefined();
});
