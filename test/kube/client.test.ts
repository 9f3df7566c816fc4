import { readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { defineResource, type KubeObject } from '../../api/objects.ts';
import { type KubeClient, type RequestObservation } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { configMaps, nodes, podDisruptionBudgets, pods, secrets } from '../../kube/core.ts';
import {
  ConnectionError,
  isAlreadyExists,
  isConflict,
  isInvalid,
  isNotFound,
  isTooManyRequests,
  RateLimitError,
} from '../../kube/errors.ts';
import { applyPatch, jsonPatch, mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { type FaultProxy, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';

let client: KubeClient;
let namespace: string;
let proxy: FaultProxy;
let proxied: KubeClient;
beforeAll(async () => {
  client = testClient();
  namespace = await newNamespace(client);
  proxy = await startFaultProxy(testKubeconfig());
  proxied = testClient(proxy.access);
});
afterAll(async () => {
  await Promise.all([client.close(), proxied.close()]);
  await proxy.close();
});

/** What a promise rejects with. */
async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => {
      throw new Error(`resolved with ${JSON.stringify(value)}`);
    },
    (error: unknown) => error,
  );
}

const newConfigMap = (name: string, data: Record<string, string> = {}) =>
  client.create(configMaps, { metadata: { namespace, name }, data });

describe('verbs', () => {
  it('create, read, change in every way, and delete', async () => {
    const created = await client.create(nodes, { metadata: { generateName: 'kube-test-' } });
    const key = { name: created.metadata.name };
    await client.patch(nodes, key, mergePatch({ metadata: { labels: { merge: 'yes' } } }));
    const label = '/metadata/labels/example.com~1json';
    await client.patch(nodes, key, jsonPatch([{ op: 'add', path: label, value: 'yes' }]));
    const conditions = [{ type: 'Ready', status: 'True' }];
    await client.patch(nodes, key, strategicMergePatch({ status: { conditions } }), { subresource: 'status' });
    const applied = { apiVersion: 'v1', kind: 'Node', metadata: { labels: { apply: 'yes' } } };
    await client.patch(nodes, key, applyPatch(applied, { fieldManager: 'kube-test', force: true }));

    const read = await client.get(nodes, key);
    expect(read.metadata.labels).toEqual({ merge: 'yes', 'example.com/json': 'yes', apply: 'yes' });
    expect(read.status?.conditions).toMatchObject(conditions);
    expect(read.metadata).not.toHaveProperty('managedFields');

    await client.delete(nodes, key, { preconditions: { uid: read.metadata.uid } });
    expect(await client.find(nodes, key)).toBeUndefined();
  });

  it('lists all pages as one state, chosen by labels, with or without more than metadata', async () => {
    const own = await newNamespace(client);
    const names = Array.from({ length: 25 }, (_, index) => `map-${String(index).padStart(2, '0')}`);
    await Promise.all(
      names.map((name, index) =>
        client.create(configMaps, {
          metadata: { namespace: own, name, labels: { half: index % 2 ? 'a' : 'b' } },
          data: { a: 'b' },
        }),
      ),
    );

    const pages = [];
    for await (const page of client.pages(configMaps, { namespace: own, pageSize: 10 })) pages.push(page);
    expect(pages.map((page) => page.items.length)).toEqual([10, 10, 5]);
    expect(new Set(pages.map((page) => page.resourceVersion)).size).toBe(1);
    expect(pages.flatMap((page) => page.items.map((item) => item.metadata.name))).toEqual(names);

    const half = await client.list(configMaps, { namespace: own, labelSelector: 'half=a', metadataOnly: true });
    expect(half.items).toHaveLength(12);
    for (const item of half.items) {
      expect(item).not.toHaveProperty('data');
      expect(item.metadata).not.toHaveProperty('managedFields');
    }
  });

  it('distinguish the errors of the API', async () => {
    await newConfigMap('taken');
    const key = { namespace, name: 'taken' };
    const locked = mergePatch({ metadata: { resourceVersion: '1', labels: { a: 'b' } } });
    const test = jsonPatch([{ op: 'test', path: '/metadata/name', value: 'other' }]);

    expect(isNotFound(await failure(client.get(configMaps, { namespace, name: 'absent' })))).toBe(true);
    expect(isAlreadyExists(await failure(newConfigMap('taken')))).toBe(true);
    expect(isConflict(await failure(client.patch(configMaps, key, locked)))).toBe(true);
    expect(isConflict(await failure(client.delete(configMaps, key, { preconditions: { uid: 'other' } })))).toBe(true);
    expect(isInvalid(await failure(client.patch(configMaps, key, test)))).toBe(true);
    expect(await failure(newConfigMap('taken'))).toMatchObject({
      code: 409,
      message: `POST /api/v1/namespaces/${namespace}/configmaps: 409 AlreadyExists: configmaps "taken" already exists`,
    });
  });

  it('do not take a resource that the server does not serve for an absent object', async () => {
    const unknown = defineResource<KubeObject>({
      group: 'unknown.example.com',
      version: 'v1',
      plural: 'things',
      kind: 'Thing',
      namespaced: true,
    });

    const error = await failure(client.find(unknown, { namespace, name: 'a' }));

    expect(error).toMatchObject({ name: 'StatusError', code: 404 });
    expect(isNotFound(error)).toBe(false);
  });

  it('refuse unknown fields under strict validation', async () => {
    const object = { metadata: { namespace, name: 'strict' }, dta: {} };

    const error = await failure(client.create(configMaps, object, { fieldValidation: 'Strict' }));

    expect(error).toMatchObject({ code: 400, message: expect.stringContaining('unknown field "dta"') });
  });

  it('name the field when a key is not complete, instead of reading the whole collection', async () => {
    expect(await failure(client.get(configMaps, { name: 'a' }))).toMatchObject({
      message: "configmaps 'a': namespace is '': give the namespace of the object",
    });
    expect(await failure(client.delete(secrets, { namespace, name: '' }))).toMatchObject({
      message: "secrets: name is '': give the name of an object",
    });
    expect(await failure(client.get(nodes, { namespace, name: 'a' }))).toMatchObject({
      message: `nodes: namespace is '${namespace}': leave it out, nodes are cluster-scoped`,
    });
    expect(await failure(client.create(configMaps, { metadata: { name: 'a' } }))).toMatchObject({
      message: 'configmaps: metadata.namespace is missing: give the namespace to create it in',
    });
  });

  it('read any path, as JSON or text', async () => {
    expect(await client.getRaw('/readyz')).toBe('ok');
    expect(await client.getRaw('/version')).toMatchObject({ major: '1' });
  });
});

describe('evict', () => {
  const newPod = (name: string) =>
    client.create(pods, {
      metadata: { namespace, name, labels: { app: name } },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    });

  it('evicts a pod', async () => {
    const { metadata } = await newPod('evicted');

    await client.evict({ namespace, name: 'evicted', uid: metadata.uid });

    expect(await client.find(pods, { namespace, name: 'evicted' })).toBeUndefined();
  });

  it('throws the 429 of a PodDisruptionBudget at once', async () => {
    const { metadata } = await newPod('guarded');
    const conditions = [{ type: 'Ready', status: 'True' }];
    const running = mergePatch({ status: { phase: 'Running', conditions } });
    await client.patch(pods, { namespace, name: 'guarded' }, running, { subresource: 'status' });
    await client.create(podDisruptionBudgets, {
      metadata: { namespace, name: 'guard' },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'guarded' } } },
    });
    const before = proxy.seen.length;

    const error = await failure(proxied.evict({ namespace, name: 'guarded', uid: metadata.uid }));

    expect(isTooManyRequests(error)).toBe(true);
    expect(proxy.seen.length - before).toBe(1);
  });
});

describe('connections', () => {
  it('are kept for the next request, and watches do not delay calls', async () => {
    const own = testClient(proxy.access);
    const before = proxy.connections;
    for (let index = 0; index < 20; index += 1) await own.get(nodes, { name: 'absent' }).catch(() => undefined);
    expect(proxy.connections - before).toBeLessThanOrEqual(2);

    const { resourceVersion } = await own.list(configMaps, { namespace });
    const stopping = new AbortController();
    const opened: Promise<void>[] = [];
    const watching = Array.from({ length: 40 }, async () => {
      let onOpen: () => void = () => undefined;
      opened.push(new Promise((resolve) => (onOpen = resolve)));
      for await (const _ of own.watch(configMaps, { namespace, resourceVersion, onOpen }, stopping.signal));
    });
    await Promise.all(opened);
    expect(await own.getRaw('/readyz')).toBe('ok');
    expect(proxy.connections - before).toBeLessThanOrEqual(42);

    stopping.abort();
    await Promise.all(watching);
    await own.close();
  });

  it('are replaced when one of them turns out dead', async () => {
    const ownProxy = await startFaultProxy(testKubeconfig());
    const own = testClient(ownProxy.access);
    await Promise.all(Array.from({ length: 5 }, () => own.getRaw('/readyz')));
    // undici takes a connection again one turn after its answer, and opens another one until then.
    await nextTurn();
    ownProxy.silenceConnections();

    expect(await failure(own.getRaw('/readyz', { timeoutMs: 200 }))).toBeInstanceOf(ConnectionError);
    expect(ownProxy.connections).toBe(5);
    for (let index = 0; index < 5; index += 1) expect(await own.getRaw('/readyz')).toBe('ok');
    await own.close();
    await ownProxy.close();
  });

  it('check the name of the server, or another name that the kubeconfig gives', async () => {
    const access = loadKubeconfig(testKubeconfig());
    const server = access.server.replace('127.0.0.1', 'localhost');
    const credentials = await access.credentials();
    const withTls = (tls: object) =>
      testClient({ server, credentials: async () => ({ ...credentials, tls: { ...credentials.tls, ...tls } }) });
    const [plain, named, insecure, strange] = [
      withTls({}),
      withTls({ servername: 'kubernetes' }),
      withTls({ ca: undefined, rejectUnauthorized: false }),
      withTls({ ca: undefined, servername: 'kubernetes' }),
    ];

    expect(await named.getRaw('/readyz')).toBe('ok');
    expect(await insecure.getRaw('/readyz')).toBe('ok');
    expect(await failure(plain.getRaw('/readyz'))).toMatchObject({ cause: { code: 'ERR_TLS_CERT_ALTNAME_INVALID' } });
    expect(await failure(strange.getRaw('/readyz'))).toBeInstanceOf(ConnectionError);
    await Promise.all([plain, named, insecure, strange].map((each) => each.close()));
  });

  it('show the certificate of the kubeconfig, and another one once the server refuses it', async () => {
    const folder = dirname(testKubeconfig());
    const [cert, key] = await Promise.all(
      ['apiserver.crt', 'apiserver.key'].map((file) => readFile(join(folder, file))),
    );
    const server = createServer({ cert, key, requestCert: true, rejectUnauthorized: false }, (request, response) => {
      const known = (request.socket as TLSSocket).getPeerCertificate().raw !== undefined;
      response.writeHead(known ? 200 : 401).end('ok');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const ca = { rejectUnauthorized: false };
    const certified = testClient({
      server: `https://127.0.0.1:${port}`,
      credentials: async (options) => ({
        headers: {},
        tls: options?.refused && cert && key ? { ...ca, cert, key } : ca,
      }),
    });

    expect(await certified.getRaw('/readyz')).toBe('ok');
    await certified.close();
    server.close();
  });

  it('use other credentials as soon as the server refuses the old ones', async () => {
    const access = loadKubeconfig(testKubeconfig());
    const credentials = await access.credentials();
    const asked: boolean[] = [];
    const rotating = testClient({
      server: access.server,
      credentials: async (options) => {
        asked.push(options?.refused ?? false);
        return asked.length === 1 ? { ...credentials, headers: { authorization: 'Bearer expired' } } : credentials;
      },
    });

    const objects = await Promise.all([1, 2, 3].map(() => rotating.list(configMaps, { namespace })));

    expect(objects).toHaveLength(3);
    expect(asked).toEqual([false, true]);
    await rotating.close();
  });

  it('do not read other credentials repeatedly when none is accepted', async () => {
    const { server, credentials } = loadKubeconfig(testKubeconfig());
    const { tls } = await credentials();
    let asked = 0;
    const refused = testClient({
      server,
      credentials: async () => {
        asked += 1;
        return { headers: { authorization: 'Bearer wrong' }, tls };
      },
    });

    const since = performance.now();
    for (let index = 0; index < 5; index += 1) {
      expect(await failure(refused.find(nodes, { name: 'any' }))).toMatchObject({ code: 401, reason: 'Unauthorized' });
    }

    // Once more for each 10 s that a busy machine has taken.
    expect(asked).toBeGreaterThanOrEqual(2);
    expect(asked).toBeLessThanOrEqual(2 + Math.floor((performance.now() - since) / 10_000));
    await refused.close();
  });
});

describe('repeated requests', () => {
  const attempts = async (rule: Parameters<FaultProxy['setRule']>[0], run: () => Promise<unknown>) => {
    const before = proxy.seen.length;
    proxy.setRule(rule);
    try {
      const outcome = await run().catch((error: unknown) => error);
      return { outcome, seen: proxy.seen.slice(before) };
    } finally {
      proxy.setRule();
    }
  };
  const failTimes = (times: number, fault: ReturnType<NonNullable<Parameters<FaultProxy['setRule']>[0]>>) => {
    let left = times;
    return () => (left-- > 0 ? fault : undefined);
  };
  const busy = {
    kind: 'answer',
    status: 429,
    headers: { 'retry-after': '1' },
    body: statusBody(429, 'TooManyRequests'),
  } as const;
  const create = (name: string, options = {}) => proxied.create(configMaps, { metadata: { namespace, name } }, options);

  it('a write after 429, not before Retry-After is over', async () => {
    const { outcome, seen } = await attempts(failTimes(1, busy), () => create('busy'));

    expect(outcome).toMatchObject({ metadata: { name: 'busy' } });
    expect(seen).toHaveLength(2);
    expect((seen[1]?.atMs ?? 0) - (seen[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(999);
  });

  it('nothing when Retry-After is after the deadline, or with failFast', async () => {
    const lasting = { ...busy, headers: { 'retry-after': '600' } };
    const short = await attempts(failTimes(1, lasting), () => create('short'));
    const fast = await attempts(failTimes(1, lasting), () => create('fast', { failFast: true }));

    for (const { outcome, seen } of [short, fast]) {
      expect(outcome).toMatchObject({ code: 429, retryAfterMs: 600_000 });
      expect(seen).toHaveLength(1);
    }
  });

  it('a read after a lost connection, at most three times', async () => {
    const once = await attempts(failTimes(1, { kind: 'reset' }), () => proxied.getRaw('/readyz'));
    const ever = await attempts(failTimes(100, { kind: 'reset' }), () => proxied.getRaw('/readyz'));

    expect(once.outcome).toBe('ok');
    expect(once.seen).toHaveLength(2);
    expect(ever.outcome).toMatchObject({ name: 'ConnectionError', notSent: false });
    expect(ever.seen).toHaveLength(3);
  });

  it('no write whose answer was lost', async () => {
    const { outcome, seen } = await attempts(failTimes(1, { kind: 'lose-answer' }), () => create('lost'));

    expect(outcome).toMatchObject({ name: 'ConnectionError', notSent: false });
    expect(seen).toHaveLength(1);
    expect(await client.get(configMaps, { namespace, name: 'lost' })).toBeDefined();
  });

  it('a write that never reached the server', async () => {
    const observations: RequestObservation[] = [];
    const own = testClient(proxy.access, { onRequest: (request) => observations.push(request) });
    await proxy.goDown();

    const error = await failure(own.create(configMaps, { metadata: { namespace, name: 'refused' } }));
    expect(error).toMatchObject({ name: 'ConnectionError', notSent: true });
    expect(observations.map(({ verb, resource, status }) => [verb, resource, status])).toEqual(
      Array(3).fill(['create', 'configmaps', 'error']),
    );
    await proxy.comeUp();

    await own.create(configMaps, { metadata: { namespace, name: 'refused' } });
    await own.close();
  });

  it('end with the deadline or with the signal of the caller', async () => {
    const hanging = await attempts(failTimes(1, { kind: 'hang' }), () => proxied.getRaw('/readyz', { timeoutMs: 200 }));
    const reason = new Error('changed my mind');
    const aborting = new AbortController();
    const aborted = await attempts(
      () => {
        aborting.abort(reason);
        return { kind: 'hang' };
      },
      () => proxied.getRaw('/readyz', { signal: aborting.signal }),
    );

    expect(hanging.outcome).toBeInstanceOf(ConnectionError);
    expect(hanging.outcome).toMatchObject({ message: 'GET /readyz: no answer within 200 ms' });
    expect(aborted.outcome).toBe(reason);
  });

  it('wait in the rate limiter, except with failFast; watches do not count', async () => {
    const slow = testClient(undefined, { qps: 1 / 3_600, burst: 2 });
    const { resourceVersion } = await slow.list(configMaps, { namespace });
    await slow.getRaw('/readyz');
    const stopping = new AbortController();
    const onOpen = () => stopping.abort();
    for await (const _ of slow.watch(configMaps, { namespace, resourceVersion, onOpen }, stopping.signal));

    expect(stopping.signal.aborted).toBe(true);
    expect(await failure(slow.getRaw('/readyz', { failFast: true }))).toBeInstanceOf(RateLimitError);
    expect(await failure(slow.getRaw('/readyz', { timeoutMs: 100 }))).toBeInstanceOf(ConnectionError);
    await slow.close();

    const waiting = testClient(undefined, { qps: 2, burst: 1 });
    const since = performance.now();
    await waiting.getRaw('/readyz');
    expect(await waiting.getRaw('/readyz')).toBe('ok');
    expect(performance.now() - since).toBeGreaterThanOrEqual(499);
    await waiting.close();
  });
});

describe('a client that is closed', () => {
  it('reports that it is closed', async () => {
    const closed = testClient();
    await closed.getRaw('/readyz');
    await closed.close();

    expect(await failure(closed.getRaw('/readyz'))).toMatchObject({
      message: 'GET /readyz: the client is closed',
    });
  });
});
