import { beforeEach, describe, expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import { finalizers } from '../api/gardener/names.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import { signingKeySecret } from '../api/names.ts';
import type { KubeObject } from '../api/objects.ts';
import type { KubeClient } from '../kube/client.ts';
import { createStore } from '../kube/store.ts';
import type { Controller } from './controller.ts';
import { createSecretController } from './secrets.ts';
import { indexesOf, type Watches } from './watches.ts';

const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
const ours = finalizers.secret;
let classes: ReturnType<typeof createStore<KubeObject>>;
let secrets: ReturnType<typeof createStore<KubeObject>>;
let written: (readonly string[])[];
let controller: Controller;

beforeEach(() => {
  written = [];
  classes = createStore(indexesOf(gardener, defaults).sources);
  secrets = createStore();
  const control = {
    patch: async (_: unknown, __: unknown, { body }: { body: { metadata: { finalizers: string[] } } }) =>
      void written.push(body.metadata.finalizers),
  };
  controller = createSecretController({
    control: control as unknown as KubeClient,
    watches: { sources: classes.store, secrets: secrets.store } as unknown as Watches,
    dialect: gardener,
    namespace: 'n',
  });
});

const metadata = { namespace: 'n', uid: 'u', resourceVersion: '1' };

function putClass(more: object): MachineClass {
  const machineClass = { metadata: { ...metadata, name: 'small' }, ...more } as MachineClass;
  classes.put(machineClass);
  return machineClass;
}

async function handle(own: readonly string[], more: object = {}): Promise<(readonly string[])[]> {
  secrets.put({ metadata: { ...metadata, name: 'pool', finalizers: own, ...more } } as unknown as KubeObject);
  await controller.handle('pool');
  return written;
}

const of = (name: string, namespace = 'n') => ({ namespace, name });
const deleted = { deletionTimestamp: '2026-08-19T10:00:00Z' };

describe('a Secret', () => {
  it.each([
    ['secretRef', { secretRef: of('pool') }],
    ['credentialsSecretRef', { secretRef: of('other'), credentialsSecretRef: of('pool') }],
  ])('that a class names as %s gets our finalizer and keeps others', async (_, refs) => {
    putClass(refs);

    expect(await handle(['other'])).toEqual([['other', ours]]);
  });

  it.each([
    ['has the finalizer', [ours], {}],
    ['is being deleted without it', ['other'], deleted],
    ['is being deleted with it', [ours], deleted],
  ])('that a class names is left alone where it %s', async (_, own, more) => {
    putClass({ secretRef: of('pool') });

    expect(await handle(own, more)).toEqual([]);
  });

  it.each([
    ['no class', undefined],
    ['a class with the same name in another namespace', { secretRef: of('pool', 'elsewhere') }],
  ])('that %s names loses the finalizer and keeps others', async (_, refs) => {
    if (refs !== undefined) putClass(refs);

    expect(await handle(['other', ours], deleted)).toEqual([['other']]);
  });

  it('is looked at when a class names it no more', () => {
    const previous = putClass({ secretRef: of('pool') });
    const object = putClass({ secretRef: of('other') });

    expect(controller.hears.sources?.({ kind: 'updated', object, previous })).toEqual([
      signingKeySecret,
      'other',
      'pool',
    ]);
  });

  it.each([
    ['gets the finalizer while there is a class', true, [], [[ours]]],
    ['loses it with the last class', false, [ours], [[]]],
  ])('with the key of the signatures %s', async (_, hasClass, own, expected) => {
    if (hasClass) putClass({ secretRef: of('pool') });
    secrets.put({ metadata: { ...metadata, name: signingKeySecret, finalizers: own } } as unknown as KubeObject);
    await controller.handle(signingKeySecret);

    expect(written).toEqual(expected);
  });
});
