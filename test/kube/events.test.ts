import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { defineResource, type KubeObject } from '../../api/objects.ts';
import { findServer } from '../../deploy/local/servers.ts';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps, events } from '../../kube/core.ts';
import { createEventRecorder, type EventRecord, type EventRecorder, toMicroTime } from '../../kube/events.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { newNamespace, recordingLogger, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

let direct: KubeClient;
beforeAll(() => {
  direct = testClient();
});
afterAll(() => direct.close());

let namespace: string;
let proxy: FaultProxy;
let client: KubeClient;
let recorder: EventRecorder;
let regarding: EventRecord['regarding'];
beforeEach(async () => {
  namespace = await newNamespace(direct);
  proxy = await startFaultProxy(testKubeconfig());
  client = testClient(proxy.access);
  recorder = createEventRecorder({ client, controller: 'millwright', instance: 'test', logger: recordingLogger() });
  const { metadata } = await direct.create(configMaps, { metadata: { namespace, name: 'a' } });
  regarding = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'a', uid: metadata.uid };
});
afterEach(async () => {
  await client.close();
  await proxy.close();
});

const record = (fields: Partial<EventRecord> = {}) =>
  recorder.record({ regarding, type: 'Normal', reason: 'Created', note: 'made it', action: 'Create', ...fields });
const recorded = async () => (await direct.list(events, { namespace })).items;

/** `flush` gives up after 5 s, which may be too little for a busy machine. */
async function untilRecorded(areThere: (all: Awaited<ReturnType<typeof recorded>>) => boolean): Promise<void> {
  await recorder.flush();
  await until('the Events are there', async (see) => areThere(see(await recorded())));
}

/** Reasons of the Events in the order in which a command of kubectl lists them. */
async function reasonsShownBy(...command: string[]): Promise<string[]> {
  const args = ['--kubeconfig', testKubeconfig(), '-n', namespace, ...command];
  const { stdout } = await promisify(execFile)(await findServer('kubectl'), args);
  return stdout.match(/Reason\d+/g) ?? [];
}

describe('an event', () => {
  it('is what kubectl shows for its object', async () => {
    record({ type: 'Warning' });
    await untilRecorded((all) => all.length === 1);

    expect(await recorded()).toMatchObject([
      {
        regarding,
        type: 'Warning',
        reason: 'Created',
        note: 'made it',
        action: 'Create',
        reportingController: 'millwright',
        reportingInstance: 'test',
      },
    ]);
    // kubectl reads them as events of the core group.
    const core = defineResource<KubeObject & { message?: string }>({
      group: '',
      version: 'v1',
      plural: 'events',
      kind: 'Event',
      namespaced: true,
    });
    const selected = { namespace, fieldSelector: `involvedObject.uid=${regarding.uid}` };
    expect((await direct.list(core, selected)).items).toMatchObject([{ message: 'made it' }]);
  });

  it('comes after earlier ones in `kubectl describe` and `kubectl events`, however close they are', async () => {
    const reasons = Array.from({ length: 20 }, (_, index) => `Reason${index}`);
    for (const reason of reasons) record({ reason });
    await untilRecorded((all) => all.length === 20);

    expect(await reasonsShownBy('describe', 'configmap', 'a')).toEqual(reasons);
    expect(await reasonsShownBy('events', '--for', 'configmap/a')).toEqual(reasons);
  });

  it('of a cluster-scoped object goes to the namespace default', async () => {
    const node = { apiVersion: 'v1', kind: 'Node', name: 'some-node', uid: regarding.uid };
    record({ regarding: node });

    await until('it is there', async (see) => {
      const { items } = see(await direct.list(events, { namespace: 'default', fieldSelector: 'reason=Created' }));
      return items.some((event) => event.regarding.uid === regarding.uid);
    });
  });

  it('has a time with six digits and a note of at most 1024 bytes', async () => {
    record({ note: 'Größe'.repeat(400) });
    await untilRecorded((all) => all.length === 1);

    const [event] = await recorded();
    expect(event?.eventTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(Buffer.byteLength(event?.note ?? '')).toBeLessThanOrEqual(1024);
    expect(event?.note).toMatch(/^(Größe)+[Größe]*$/);
    expect(toMicroTime(new Date(0))).toBe('1970-01-01T00:00:00.000000Z');
  });

  it('that repeats is one Event with a count; another note or reason is another Event', async () => {
    for (const note of ['no quota', 'no quota', 'no image', 'no quota']) {
      record({ note });
      await recorder.flush();
    }
    record({ reason: 'Deleted' });
    await untilRecorded((all) => all.length === 3 && all.some(({ series }) => series?.count === 3));

    const all = await recorded();
    expect(all.map(({ reason, note, series }) => [reason, note, series?.count]).sort()).toEqual([
      ['Created', 'no image', undefined],
      ['Created', 'no quota', 3],
      ['Deleted', 'made it', undefined],
    ]);
  });

  it('is dropped when its object has had 25 already; other objects are not affected', async () => {
    for (let index = 0; index < 40; index += 1) record({ reason: `Reason${index}` });
    record({ regarding: { ...regarding, name: 'b', uid: 'b' } });
    await until('the Event of the other object is there', async (see) =>
      see(await recorded()).some((event) => event.regarding.name === 'b'),
    );

    expect((await recorded()).filter((event) => event.regarding.name === 'a')).toHaveLength(25);
  });

  it('is written once when the answer to the first attempt is lost', async () => {
    let left = 1;
    proxy.setRule(() => (left-- > 0 ? { kind: 'lose-answer' } : undefined));
    record();
    await recorder.flush();
    record();
    await untilRecorded((all) => all.some(({ series }) => series?.count === 2));

    expect(await recorded()).toMatchObject([{ reason: 'Created', series: { count: 2 } }]);
  });

  it('neither waits nor throws when the server is down', async () => {
    await proxy.goDown();
    for (let index = 0; index < 2_000; index += 1) record({ regarding: { ...regarding, uid: `${index}` } });
    await proxy.comeUp();

    await until('an Event is there', async (see) => see(await recorded()).length > 0);
  });
});
