import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { type ConfigMap, configMaps } from '../../kube/core.ts';
import { isConflict } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { update } from '../../kube/update.ts';
import { newNamespace, testClient } from '../support/kube.ts';

let client: KubeClient;
let namespace: string;

beforeAll(async () => {
  client = testClient();
  namespace = await newNamespace(client);
});

afterAll(() => client.close());

async function newConfigMap(): Promise<{ namespace: string; name: string; uid: string }> {
  const { metadata } = await client.create(configMaps, {
    metadata: { namespace, generateName: 'm-' },
    data: { n: '0' },
  });
  return { namespace, name: metadata.name, uid: metadata.uid };
}

const addOne = ({ data }: ConfigMap) => ({ data: { n: String(Number(data?.['n']) + 1) } });

describe('update', () => {
  it('loses no change of concurrent writers', async () => {
    const key = await newConfigMap();
    await Promise.all([1, 2, 3, 4].map(() => update(client, configMaps, key, addOne)));
    expect(await client.get(configMaps, key)).toMatchObject({ data: { n: '4' } });
  });

  it('writes nothing when there is nothing to do', async () => {
    const key = await newConfigMap();
    const before = await client.get(configMaps, key);
    expect(await update(client, configMaps, key, () => undefined)).toEqual(before);
    expect(await client.get(configMaps, key)).toEqual(before);
  });

  it('does not touch another object of the same name', async () => {
    const key = await newConfigMap();
    expect(await update(client, configMaps, { ...key, uid: 'other' }, addOne)).toBeUndefined();
    expect(await client.get(configMaps, key)).toMatchObject({ data: { n: '0' } });
  });

  it('returns undefined for an object that is gone, also between reading and writing', async () => {
    const key = await newConfigMap();
    const going = { ...client, patch: after(client.patch, () => client.delete(configMaps, key)) };
    expect(await update(going, configMaps, key, addOne)).toBeUndefined();
    expect(await update(client, configMaps, key, addOne)).toBeUndefined();
  });

  it('throws the 409 after five conflicts', async () => {
    const key = await newConfigMap();
    let others = 0;
    const disturb = async () => {
      others += 1;
      await client.patch(configMaps, key, mergePatch({ data: { others: String(others) } }));
    };
    const disturbed = { ...client, patch: after(client.patch, disturb) };
    const refusal = await update(disturbed, configMaps, key, addOne).catch((error: unknown) => error);
    expect(isConflict(refusal)).toBe(true);
    expect(others).toBe(5);
  });
});

/** Patches after something else has happened. */
function after(patch: KubeClient['patch'], happen: () => Promise<void>): KubeClient['patch'] {
  return async (...args) => {
    await happen();
    return patch(...args);
  };
}
