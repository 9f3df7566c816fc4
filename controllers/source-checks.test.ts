import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { gardener } from '../api/gardener/index.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import { names } from '../api/names.ts';
import type { KubeObject } from '../api/objects.ts';
import { createStore } from '../kube/store.ts';
import type { Controller } from './controller.ts';
import { createSourceCheckController } from './source-checks.ts';
import { indexesOf, type Watches } from './watches.ts';

const resyncMs = 60_000;
const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
const firstVersion = 'class-uid.1/pool-uid.1';

let classes: ReturnType<typeof createStore<KubeObject>>;
let secrets: ReturnType<typeof createStore<KubeObject>>;
let machines: ReturnType<typeof createStore<KubeObject>>;
/** Ids of the checks that were started. */
let started: string[];
/** Whether each of them signs places. */
let signing: boolean[];
let isDown: boolean;
let controller: Controller;
let writes: number;

beforeEach(() => {
  jest.useFakeTimers();
  [started, signing, isDown, writes] = [[], [], false, 0];
  classes = createStore(indexesOf(gardener, defaults).sources);
  secrets = createStore();
  machines = createStore(indexesOf(gardener, defaults).machines);
  const workflow = {
    start: async (_: string, { workflowId, args }: { workflowId: string; args: readonly unknown[] }) => {
      if (isDown) throw new Error('no answer');
      signing.push(args[1] === true);
      started.push(workflowId);
    },
  };
  controller = createSourceCheckController({
    watches: { sources: classes.store, secrets: secrets.store, machines: machines.store } as unknown as Watches,
    dialect: gardener,
    installation: { client: { workflow } as unknown as Client, name: 'i' },
    namespace: 'n',
    defaults,
    resyncMs,
  });
  putSecret('1');
  putClass();
});
afterEach(() => {
  jest.useRealTimers();
});

/** A write of the class: those that change only its metadata leave the generation as it is. */
function putClass(change: object = {}, annotation?: string): void {
  writes += 1;
  const annotations = annotation === undefined ? {} : { [names.verdict]: annotation };
  const metadata = { namespace: 'n', name: 'small', uid: 'class-uid', generation: 1, annotations, ...change };
  const secretRef = { namespace: 'n', name: 'pool' };
  const machineClass = { provider: 'simulated', providerSpec: { size: 's' }, secretRef };
  classes.put({ metadata: { ...metadata, resourceVersion: `${writes}` }, ...machineClass } as unknown as MachineClass);
}

function putSecret(resourceVersion: string): void {
  secrets.put({ metadata: { namespace: 'n', name: 'pool', uid: 'pool-uid', resourceVersion } } as KubeObject);
}

const verdict = (version: string, problems: string[] = []) => JSON.stringify({ version, problems });
const idOf = (version: string) => `i/source-check/n/small/${version}`;

async function resync(times: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    jest.advanceTimersByTime(resyncMs);
    await controller.resync?.('small');
  }
}

describe('a source', () => {
  it('is checked once for each version of it and its Secrets', async () => {
    await controller.handle('small');
    await controller.handle('small');
    putClass({ finalizers: ['ours'] });
    await controller.handle('small');
    putClass({ generation: 2 });
    await controller.handle('small');
    putSecret('2');
    await controller.handle('small');

    expect(started).toEqual([firstVersion, 'class-uid.2/pool-uid.1', 'class-uid.2/pool-uid.2'].map(idOf));
  });

  it('[invariant 9 partly] is not checked while its verdict accepts this version', async () => {
    putClass({}, verdict(firstVersion));
    await controller.handle('small');
    await resync(20);

    expect(started).toEqual([]);
  });

  it.each([
    ['is about another version', verdict('class-uid.0/pool-uid.1')],
    ['is no JSON', '{'],
    ['has no problems in it', JSON.stringify({ version: firstVersion })],
    ['is a refusal', verdict(firstVersion, ['providerSpec.size is huge'])],
  ])('is checked after a start of the controllers if its verdict %s', async (_, annotation) => {
    putClass({}, annotation);
    await controller.handle('small');

    expect(started).toEqual([idOf(firstVersion)]);
  });

  it.each([
    ['has no verdict', undefined],
    ['is refused', verdict(firstVersion, ['providerSpec.size is huge'])],
  ])('is checked again by resyncs with growing pauses while it %s', async (_, annotation) => {
    await controller.handle('small');
    putClass({}, annotation);
    const counts: number[] = [];
    for (let time = 0; time < 12; time++) {
      await resync(1);
      counts.push(started.length);
    }

    expect(counts).toEqual([1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4]);
  });

  it('is checked by the next attempt where Temporal did not answer', async () => {
    isDown = true;
    await expect(controller.handle('small')).rejects.toThrow('no answer');
    isDown = false;
    await controller.handle('small');

    expect(started).toEqual([idOf(firstVersion)]);
  });

  it('is not checked while it is being deleted', async () => {
    putClass({ deletionTimestamp: '2026-08-19T10:00:00Z' });
    await controller.handle('small');
    await resync(3);

    expect(started).toEqual([]);
  });

  describe('whose Machines say where their VMs are', () => {
    const place = {
      provider: 'simulated',
      providerSpec: { size: 's' },
      credentials: [{ namespace: 'n', name: 'pool' }],
    };

    function putMachine(
      places: readonly object[],
      signature?: string,
      { spec = {}, phase = '' }: { spec?: object; phase?: string } = {},
    ): void {
      writes += 1;
      const annotations = {
        [names.places]: JSON.stringify(places),
        ...(signature !== undefined && { [names.placesSignature]: signature }),
      };
      machines.put({
        metadata: { namespace: 'n', name: 'm', uid: 'm', resourceVersion: `${writes}`, annotations },
        spec: { class: { kind: 'MachineClass', name: 'small' }, ...spec },
        status: { currentStatus: { phase } },
      } as unknown as KubeObject);
    }

    beforeEach(() => putClass({}, verdict(firstVersion)));

    it('has them signed once, and again by resyncs until they are', async () => {
      putMachine([place]);
      await controller.handle('small');
      await controller.handle('small');
      expect([started, signing]).toEqual([[idOf(firstVersion)], [true]]);

      await resync(2);
      expect(signing).toEqual([true, true]);
      putMachine([place], 'signed');
      await controller.handle('small');
      await resync(5);
      expect(signing).toEqual([true, true]);
    });

    it('has the tags of their VMs updated while they cannot be signed', async () => {
      putClass({}, JSON.stringify({ version: firstVersion, problems: [], tags: { team: 'b' } }));
      putMachine([place], undefined, { spec: { providerID: 'simulated:///here/1' }, phase: 'Running' });
      await controller.handle('small');
      await controller.handle('small');
      expect(started).toEqual([idOf(firstVersion), 'i/tag-update/n/small']);
    });

    it.each([
      ['with a signature', 'x', {}],
      ['elsewhere', undefined, { providerSpec: { size: 'l' } }],
    ])('%s is not checked for that', async (_, signature, change) => {
      putMachine([{ ...place, ...change }], signature);
      await controller.handle('small');
      await resync(5);

      expect(started).toEqual([]);
    });
  });

  describe('whose VMs', () => {
    const accepted = { version: firstVersion, problems: [] as string[], tags: { team: 'b' } };
    const putVerdict = (change: object = {}) => putClass({}, JSON.stringify({ ...accepted, ...change }));
    const updateId = 'i/tag-update/n/small';

    /** Puts a Machine of the class into the store. */
    function putMachine(
      vmTags?: string,
      { name = 'm', providerID = 'simulated:///here/1', deletionTimestamp = '' } = {},
    ) {
      writes += 1;
      const annotations = vmTags === undefined ? {} : { [names.vmTags]: vmTags };
      const deleting = deletionTimestamp && { deletionTimestamp };
      const metadata = {
        namespace: 'n',
        name,
        uid: `uid-of-${name}`,
        resourceVersion: `${writes}`,
        annotations,
        ...deleting,
      };
      const spec = { class: { kind: 'MachineClass', name: 'small' }, providerID };
      const machine = { metadata, spec, status: { currentStatus: { phase: 'Running' } } };
      machines.put(machine as unknown as KubeObject);
    }

    it('have other tags has them updated once, and again by resyncs until they are', async () => {
      putMachine('{"team":"a"}');
      putVerdict();
      await controller.handle('small');
      await controller.handle('small');
      expect(started).toEqual([updateId]);

      await resync(2);
      expect(started).toHaveLength(2);
      putMachine('{"team":"b"}');
      await controller.handle('small');
      await resync(3);
      expect(started).toHaveLength(2);
    });

    it('say nothing of their tags has that noted, also of those that come later', async () => {
      putVerdict();
      for (const name of ['first', 'second']) {
        putMachine(undefined, { name });
        await controller.handle('small');
        putMachine('{"team":"b"}', { name });
        await controller.handle('small');
      }
      expect(started).toEqual([updateId, updateId]);
    });

    it('keep their tags while it is refused', async () => {
      putMachine('{"team":"a"}');
      putVerdict({ problems: ['no'] });
      await controller.handle('small');

      expect(started).toEqual([idOf(firstVersion)]);
    });

    it.each([
      ['do not exist yet', { providerID: '' }, {}],
      ['are being deleted', { deletionTimestamp: '2026-08-19T10:00:00Z' }, {}],
      ['have tags that the provider does not change', {}, { tags: undefined }],
    ])('%s are left alone', async (_, machine, verdictChange) => {
      putMachine('{"team":"a"}', machine);
      putVerdict(verdictChange);
      await controller.handle('small');

      expect(started).toEqual([]);
    });

    it('are looked at when a Machine changes', () => {
      putMachine();
      const [object] = machines.store.list();
      if (object === undefined) throw new Error('there is no Machine');

      expect(controller.hears.machines?.({ kind: 'added', object })).toEqual(['small']);
    });
  });

  it('is looked at when one of its Secrets changes', () => {
    const [pool] = secrets.store.list();
    if (pool === undefined) throw new Error('there is no Secret');
    const other = { ...pool, metadata: { ...pool.metadata, name: 'other' } };
    const keysOf = (object: KubeObject) => controller.hears.secrets?.({ kind: 'added', object });

    expect([keysOf(pool), keysOf(other)]).toEqual([['small'], []]);
  });
});
