import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { type ConfigMap, configMaps } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, type ReflectorObserver, type ReflectorOptions, startReflector } from '../../kube/reflector.ts';
import type { Store } from '../../kube/store.ts';
import { type Fault, type FaultProxy, type SeenRequest, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { inWords, newNamespace, recordingLogger, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

/** Talks to the server directly; the reflectors go through the proxy. */
let direct: KubeClient;
beforeAll(() => {
  direct = testClient();
});
afterAll(() => direct.close());

let namespace: string;
let proxy: FaultProxy;
let client: KubeClient;
let logger: ReturnType<typeof recordingLogger>;
let said: string[];
let reflectors: Reflector<ConfigMap>[];
let closing: { close(): Promise<void> }[];
beforeEach(async () => {
  namespace = await newNamespace(direct);
  proxy = await startFaultProxy(testKubeconfig());
  client = testClient(proxy.access);
  logger = recordingLogger();
  said = [];
  reflectors = [];
  closing = [client, proxy];
});
afterEach(async () => {
  jest.restoreAllMocks();
  await Promise.all(reflectors.map((reflector) => reflector.stop()));
  await Promise.all(closing.map((each) => each.close()));
});

/** Reflects the ConfigMaps of the namespace of this test through the proxy and writes down what happens. */
function reflect(options: Partial<ReflectorOptions<ConfigMap>> = {}): Reflector<ConfigMap> {
  const onEvent: ReflectorOptions<ConfigMap>['onEvent'] = (event) => {
    said.push(inWords(event));
  };
  const reflector = startReflector({ client, resource: configMaps, namespace, onEvent, logger, ...options });
  reflectors.push(reflector);
  return reflector;
}

/** A client that gives a watch up after 2 s of silence: a busy machine may be silent for as long. */
function impatientClient(): KubeClient {
  const impatient = testClient(proxy.access, { watchIdleTimeoutMs: 2_000 });
  closing.push(impatient);
  return impatient;
}

const key = (name: string) => ({ namespace, name });
const create = (name: string, data: Record<string, string> = {}) =>
  direct.create(configMaps, { metadata: { namespace, name, labels: { color: data.color ?? 'none' } }, data });
const change = (name: string, data: Record<string, string>) =>
  direct.patch(configMaps, key(name), mergePatch({ data, metadata: { labels: { color: data.color ?? 'none' } } }));
const remove = (name: string) => direct.delete(configMaps, key(name));

const watches = () => proxy.seen.filter((request) => request.isWatch);
const lists = () => proxy.seen.filter(({ url, isWatch }) => !isWatch && url.searchParams.get('limit') === '500');
const untilWatches = (count: number) => until(`${count} watches were started`, (see) => see(watches().length) >= count);
const untilKnown = (store: Store<ConfigMap>, count: number) =>
  until(`${count} objects are known`, (see) => see(store.size) === count);
const untilSaid = (word: string) => until(`it has said: ${word}`, (see) => see(said).includes(word));
const untilReachable = (store: Store<ConfigMap>, isReachable: boolean) =>
  until(`the server is known to be ${isReachable ? 'up' : 'down'}`, () => store.reachable === isReachable);
const gone: Fault = { kind: 'answer', status: 410, body: statusBody(410, 'Expired') };

/** A rule for a number of requests of a kind. */
function times(count: number, applies: (request: SeenRequest) => boolean, fault: Fault) {
  let left = count;
  return (request: SeenRequest) => (applies(request) && left-- > 0 ? fault : undefined);
}

const isWatch = (request: SeenRequest) => request.isWatch;
const watchError = (code: number, reason: string): Fault => ({
  kind: 'answer',
  status: 200,
  body: `${JSON.stringify({ type: 'ERROR', object: statusBody(code, reason) })}\n`,
});

describe('a reflector', () => {
  it('holds what the server holds, and finds it by index', async () => {
    await create('a', { color: 'red' });
    await create('b', { color: 'blue' });
    const { store, waitForSync } = reflect({ indexes: { color: ({ data }) => (data?.color ? [data.color] : []) } });
    expect(store).toMatchObject({ synced: false, reachable: false, size: 0 });

    await waitForSync();
    expect(store).toMatchObject({ synced: true, reachable: true, size: 2 });
    expect(said).toEqual(['added a', 'added b', 'synced']);
    await create('c', { color: 'blue' });
    await change('a', { color: 'blue' });
    await remove('b');
    await until('three more events were heard', (see) => see(said).length === 6);

    expect(said.slice(3)).toEqual(['added c', 'updated a', 'deleted b']);
    expect(store.byIndex('color', 'red')).toEqual([]);
    expect(new Set(store.byIndex('color', 'blue'))).toEqual(new Set([store.get(key('a')), store.get(key('c'))]));
    expect(store.get(key('a'))?.data).toEqual({ color: 'blue' });
    expect(store.get(key('a'))?.metadata).not.toHaveProperty('managedFields');
  });

  it('follows a selection, as metadata or slimmed', async () => {
    await create('a', { color: 'red', secret: 'canary' });
    await create('b', { color: 'blue' });
    const metadata = reflect({ labelSelector: 'color=red', metadataOnly: true });
    const slim = reflect({ transform: ({ data: _data, ...rest }) => rest });
    await Promise.all([metadata.waitForSync(), slim.waitForSync()]);
    await change('b', { color: 'red', secret: 'canary' });
    await until(
      'both know the change',
      () => metadata.store.size === 2 && slim.store.get(key('b'))?.metadata.labels?.color === 'red',
    );

    expect(JSON.stringify([metadata.store.list(), slim.store.list()])).not.toContain('canary');
    expect(slim.store.size).toBe(2);
  });

  it('lists in pages, and starts again when they expire', async () => {
    const names = Array.from({ length: 501 }, (_, index) => `map-${index}`);
    await Promise.all(names.map((name) => create(name)));
    const continued = ({ url }: SeenRequest) => url.searchParams.has('continue');
    proxy.setRule(times(1, continued, gone));

    const { store, waitForSync } = reflect();
    await waitForSync();

    expect(store.size).toBe(501);
    expect(lists().map(continued)).toEqual([false, true, false, true]);
    expect(said.filter((word) => word.startsWith('added'))).toHaveLength(501);
  });

  it('is not disturbed by handlers that throw', async () => {
    const seen: string[] = [];
    const failing = reflect({
      onEvent: (event) => {
        seen.push(inWords(event));
        throw new Error('handler');
      },
    });
    const rejecting = reflect({ onEvent: async () => Promise.reject(new Error('handler')) });
    await Promise.all([failing.waitForSync(), rejecting.waitForSync()]);
    await create('a');
    for (const each of [failing, rejecting]) await untilKnown(each.store, 1);

    expect(seen).toEqual(['synced', 'added a']);
    expect(watches()).toHaveLength(2);
    expect(logger.lines.filter(({ level }) => level === 'error')).toHaveLength(4);
  });
});

it('says to its observer what each list and each watch has brought', async () => {
  await Promise.all(['a', 'b'].map((name) => create(name)));
  const heard: string[] = [];
  const versions: string[] = [];
  const observer: ReflectorObserver = {
    onHeard: () => void heard.push('heard'),
    onKnown: (version) => void versions.push(version),
    onListed: ({ items }) => void heard.push(`list of ${items}`),
    onWatchEnded: ({ items }) => void heard.push(`watch of ${items}`),
  };
  const bookmark = { type: 'BOOKMARK', object: { kind: 'ConfigMap', metadata: { resourceVersion: '123456789' } } };
  const added = {
    type: 'ADDED',
    object: { metadata: { name: 'c', namespace, uid: 'c', resourceVersion: '123456790' } },
  };
  const body = [bookmark, added].map((event) => `${JSON.stringify(event)}\n`).join('');
  proxy.setRule(times(1, ({ isWatch }) => isWatch, { kind: 'answer', status: 200, body }));

  reflect({ observer });
  await until('the watch has ended', (see) => see(heard).includes('watch of 1'));

  expect(heard.slice(0, 6)).toEqual(['heard', 'list of 2', 'heard', 'heard', 'heard', 'watch of 1']); // opened, and two events
  expect(versions.slice(1, 3)).toEqual(['123456789', '123456790']);
});

describe('a reflector on a broken connection', () => {
  it('continues after a reset without listing again', async () => {
    const { store, waitForSync } = reflect();
    await waitForSync();
    await untilWatches(1);
    proxy.resetConnections();
    await create('a');
    await untilKnown(store, 1);

    expect(said).toEqual(['synced', 'added a']);
    expect(lists()).toHaveLength(1);
  });

  it('reports what was deleted and created again meanwhile', async () => {
    for (const name of ['deleted', 'again', 'changed', 'same']) await create(name);
    const { store, waitForSync } = reflect();
    await waitForSync();
    await untilWatches(1);
    await proxy.goDown();
    await untilReachable(store, false);
    said.length = 0;

    await remove('deleted');
    await remove('again');
    await create('again');
    await change('changed', { a: 'b' });
    await create('new');
    proxy.setRule(times(1, isWatch, gone));
    await proxy.comeUp();
    await untilSaid('synced');

    expect([...said].sort()).toEqual([
      'added again',
      'added new',
      'deleted again',
      'deleted deleted',
      'synced',
      'updated changed',
    ]);
    expect(said.indexOf('deleted again')).toBe(said.indexOf('added again') - 1);
    expect(store.reachable).toBe(true);
    expect(
      store
        .list()
        .map(({ metadata }) => metadata.name)
        .sort(),
    ).toEqual(['again', 'changed', 'new', 'same']);
  });

  it('reports that the server cannot be reached, and keeps its store', async () => {
    await create('a');
    const { store, waitForSync } = reflect();
    await waitForSync();
    await untilWatches(1);

    await proxy.goDown();
    await untilReachable(store, false);
    expect(store).toMatchObject({ synced: true, size: 1 });
    await proxy.comeUp();

    await untilReachable(store, true);
    expect(said).toEqual(['added a', 'synced']);
  });

  it('detects a connection that died silently', async () => {
    const { store, waitForSync } = reflect({ client: impatientClient() });
    await waitForSync();
    await untilWatches(1);
    proxy.silenceConnections();
    await create('a');
    await untilKnown(store, 1);

    expect(said).toContain('added a');
  });

  it('understands lists and events that arrive in small pieces', async () => {
    const text = 'Größe ✓ 機械';
    await create('listed', { text });
    proxy.setRule(() => ({ kind: 'drip', bytes: 7, pauseMs: 0 }));
    const { store, waitForSync } = reflect();
    await waitForSync();
    await untilWatches(1);
    await create('watched', { text });
    await untilKnown(store, 2);

    expect(store.list().map(({ data }) => data)).toEqual([{ text }, { text }]);
  });

  it('keeps a watch that is slow but not silent', async () => {
    proxy.setRule((request) => (request.isWatch ? { kind: 'drip', bytes: 64, pauseMs: 50 } : undefined));
    const impatient = impatientClient();
    let made: Promise<unknown> | undefined;
    const { store, waitForSync } = reflect({
      client: {
        ...impatient,
        // They are there before the watch begins: it is not silent while the server makes them.
        async *watch(resource, ...rest) {
          made ??= create('large', { text: 'x'.repeat(64 * 60) }).then(() => create('next'));
          await made;
          yield* impatient.watch(resource, ...rest);
        },
      },
    });
    await waitForSync();
    // Takes 3 s, and after 2 s of silence a watch is given up here.
    await untilKnown(store, 2);

    expect(watches()).toHaveLength(1);
  });

  for (const { title, fault } of [
    { title: 'the HTTP status 410', fault: gone },
    { title: 'an ERROR event with 410', fault: watchError(410, 'Expired') },
  ]) {
    it(`lists again after ${title}`, async () => {
      proxy.setRule(times(1, isWatch, fault));
      const { store, waitForSync } = reflect();
      await waitForSync();
      await untilWatches(2);
      await create('a');
      await untilKnown(store, 1);

      expect(said).toEqual(['synced', 'synced', 'added a']);
      expect(lists()).toHaveLength(2);
    });
  }

  it('lists again when the server was restored to a state before the watch, and reports it', async () => {
    const { waitForSync } = reflect();
    await waitForSync();
    await untilWatches(1);
    const probe = ({ url }: SeenRequest) => url.searchParams.get('limit') === '1';
    const restored = { kind: 'ConfigMapList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items: [] };
    proxy.setRule(times(1, probe, { kind: 'answer', status: 200, body: restored }));
    proxy.resetConnections();

    await untilSaid('restored');
    expect(said).toEqual(['synced', 'restored']);
  });

  it('detects that the server was restored even where it is ahead of the watch again', async () => {
    await create('a');
    const old = await direct.get(configMaps, key('a'));
    await change('a', { a: 'b' });
    const { waitForSync } = reflect();
    await waitForSync();
    await untilWatches(1);
    const later = await change('a', { a: 'c' });
    await untilSaid('updated a');
    const list = { kind: 'ConfigMapList', apiVersion: 'v1', items: [old] };
    const metadata = { resourceVersion: `${later.metadata.resourceVersion}0` };
    const isList = (request: SeenRequest) => !request.isWatch && request.url.searchParams.get('limit') === '500';
    proxy.setRule((request) => {
      if (isList(request)) return { kind: 'answer', status: 200, body: { ...list, metadata } };
      return request.isWatch ? gone : undefined;
    });
    proxy.resetConnections();

    await untilSaid('restored');
    expect(said).toEqual(['added a', 'synced', 'updated a', 'updated a', 'restored']);
  });

  it('lists again when the server was away for as long as it takes to restore it', async () => {
    const { waitForSync, store } = reflect();
    await waitForSync();
    await untilWatches(1);
    await proxy.goDown();
    await untilReachable(store, false);
    const now = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 10_000);
    await proxy.comeUp();
    await untilWatches(2);

    expect(lists()).toHaveLength(2);
    expect(said).toEqual(['synced', 'synced']);
  });

  it.each([
    { title: 'lists again when its first watch got a 503 and then there was silence', code: 503, expected: 2 },
    { title: 'does not list again when its first watch got a 403 and then there was silence', code: 403, expected: 1 },
  ])('$title', async ({ code, expected }) => {
    const now = performance.now.bind(performance);
    const refused: Fault = { kind: 'answer', status: code, body: statusBody(code, 'Refused') };
    const refuseOnce = times(1, isWatch, refused);
    proxy.setRule((request) => {
      if (isWatch(request)) jest.spyOn(performance, 'now').mockImplementation(() => now() + 10_000);
      return refuseOnce(request);
    });
    reflect();
    await untilWatches(2);

    expect(lists()).toHaveLength(expected);
  });

  it('waits as long as Retry-After asks', async () => {
    const busy = statusBody(429, 'TooManyRequests');
    proxy.setRule(times(1, isWatch, { kind: 'answer', status: 429, headers: { 'retry-after': '2' }, body: busy }));
    reflect();
    await untilWatches(2);

    const [refused, accepted] = watches();
    expect((accepted?.atMs ?? 0) - (refused?.atMs ?? 0)).toBeGreaterThanOrEqual(1_999);
  });
});

describe('a reflector that makes no progress', () => {
  const endings: { title: string; fault: Fault }[] = [
    { title: 'end at once', fault: { kind: 'answer', status: 200, body: '' } },
    { title: 'are reset', fault: { kind: 'reset' } },
    { title: 'are always expired', fault: gone },
    { title: 'fail with 500', fault: { kind: 'answer', status: 500, body: statusBody(500, 'InternalError') } },
    { title: 'report an error', fault: watchError(500, 'InternalError') },
    { title: 'are refused with 401', fault: { kind: 'answer', status: 401, body: statusBody(401, 'Unauthorized') } },
    { title: 'answer nonsense', fault: { kind: 'answer', status: 200, body: '<html>\n' } },
  ];
  it('slows down, however its watches end', async () => {
    const proxies = await Promise.all(endings.map(() => startFaultProxy(testKubeconfig())));
    closing.push(...proxies);
    const clients = proxies.map((each) => testClient(each.access));
    closing.push(...clients);
    for (const [index, { fault }] of endings.entries()) {
      proxies[index]?.setRule((request) => (request.isWatch ? fault : undefined));
    }
    for (const each of clients) reflect({ client: each });

    await until('each has watched three times', () => proxies.every(({ seen }) => seen.filter(isWatch).length >= 3));

    for (const { seen } of proxies) {
      const starts = seen.filter(isWatch).map(({ atMs }) => atMs);
      // A watch that meets a 401 may be sent once more at once, with fresh credentials.
      const spread = (starts.at(-1) ?? 0) - (starts[0] ?? 0);
      expect(spread).toBeGreaterThanOrEqual(599);
      expect(seen.length).toBeLessThanOrEqual(4 * starts.length);
    }
  });

  it('slows down when each watch brings an event and breaks', async () => {
    await create('a');
    const event = { type: 'MODIFIED', object: await direct.get(configMaps, key('a')) };
    const body = `${JSON.stringify(event)}\n${JSON.stringify({ type: 'ERROR', object: statusBody(410, 'Expired') })}\n`;
    proxy.setRule((request) => (request.isWatch ? { kind: 'answer', status: 200, body } : undefined));
    reflect();

    await untilWatches(4);

    const starts = watches().map(({ atMs }) => atMs);
    for (const [index, start] of starts.slice(1).entries()) {
      expect(start - (starts[index] ?? 0)).toBeGreaterThanOrEqual(599);
    }
  });
});

describe('stopping a reflector', () => {
  const moments: { title: string; rule: (request: SeenRequest) => Fault | undefined; reached: () => boolean }[] = [
    { title: 'before its first request', rule: () => undefined, reached: () => true },
    { title: 'while it lists', rule: () => ({ kind: 'hang' }), reached: () => lists().length === 1 },
    {
      title: 'while a watch begins',
      rule: (request) => (request.isWatch ? { kind: 'hang' } : undefined),
      reached: () => watches().length === 1,
    },
    { title: 'while it watches', rule: () => undefined, reached: () => watches().length === 1 },
    {
      title: 'while it pauses',
      rule: (request) => (request.isWatch ? { kind: 'reset' } : undefined),
      reached: () => logger.lines.some(({ message }) => message.startsWith('watching failed')),
    },
  ];
  for (const { title, rule, reached } of moments) {
    it(`${title} ends it without another event or request`, async () => {
      proxy.setRule(rule);
      const reflector = reflect();
      await until('the moment has come', reached);

      await reflector.stop();
      const [events, requests] = [said.length, proxy.seen.length];
      proxy.setRule();
      await create('a');
      await create('b');

      expect([said.length, proxy.seen.length]).toEqual([events, requests]);
      expect(logger.lines.filter(({ level }) => level === 'error')).toEqual([]);
      await reflector.stop();
    });
  }

  it('from its own handler lets no further event come', async () => {
    await create('a');
    await create('b');
    const seen: string[] = [];
    const reflector = reflect({
      onEvent: (event) => {
        seen.push(inWords(event));
        void reflector.stop();
      },
    });

    await expect(reflector.waitForSync()).rejects.toThrow('was stopped before its first list was in');
    expect(seen).toEqual(['added a']);
  });

  it('ends the wait for the first list', async () => {
    proxy.setRule(() => ({ kind: 'hang' }));
    const reflector = reflect();
    const waiting = reflector.waitForSync();
    const ended = expect(waiting).rejects.toThrow('the reflector of configmaps was stopped');
    await reflector.stop();
    await ended;
  });
});
