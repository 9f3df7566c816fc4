import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { signingKeySecret } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { namespaces, secrets } from '../kube/core.ts';
import { newNamespace, patient, testClient } from '../test/support/kube.ts';
import { createSigners } from './signatures.ts';

let client: KubeClient;
let namespace: string;

beforeAll(() => {
  client = patient(testClient());
});
afterAll(() => client.close());
beforeEach(async () => {
  namespace = await newNamespace(client);
});

const machine = () => ({ namespace, name: 'one' });

describe('a signature', () => {
  it('that one process has made counts in another: of two that make a key at once, both use one', async () => {
    const [a, b] = await Promise.all([createSigners(client)(namespace), createSigners(client)(namespace)]);
    const signature = a.sign(machine(), 'places', '[]');

    expect(signature).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(b.isSigned(machine(), 'places', '[]', signature)).toBe(true);
    expect((await createSigners(client)(namespace)).isSigned(machine(), 'places', '[]', signature)).toBe(true);
  });

  it.each([
    ['another Machine', { name: 'two' }, 'places', '[]'],
    ['a Machine of another namespace', { namespace: 'default' }, 'places', '[]'],
    ['another annotation', {}, 'nodes', '[]'],
    ['another value', {}, 'places', '[1]'],
  ])('does not count for %s', async (_, change, annotation, value) => {
    const signer = await createSigners(client)(namespace);
    const signature = signer.sign(machine(), 'places', '[]');

    expect(signer.isSigned({ ...machine(), ...change }, annotation, value, signature)).toBe(false);
  });

  it.each([undefined, '', 'oops'])('does not count where it is %j', async (signature) => {
    const signer = await createSigners(client)(namespace);

    expect(signer.isSigned(machine(), 'places', '[]', signature)).toBe(false);
  });

  it('does not count with another key', async () => {
    const signature = (await createSigners(client)(namespace)).sign(machine(), 'places', '[]');
    await client.delete(secrets, { namespace, name: signingKeySecret });
    const other = await createSigners(client)(namespace);

    expect(other.isSigned(machine(), 'places', '[]', signature)).toBe(false);
  });
});

describe('a key', () => {
  it('is read once for many Machines', async () => {
    let reads = 0;
    const find: KubeClient['find'] = (...given) => {
      reads += 1;
      return client.find(...given);
    };
    const findSigner = createSigners({ ...client, find });
    const [first, second] = await Promise.all([findSigner(namespace), findSigner(namespace)]);

    expect(await findSigner(namespace)).toBe(first);
    expect([second, reads]).toEqual([first, 1]);
  });

  it.each([{ other: 'x' }, { key: '' }])('is put into a Secret that has %j', async (stringData) => {
    await client.create(secrets, { metadata: { namespace, name: signingKeySecret }, stringData });
    const signature = (await createSigners(client)(namespace)).sign(machine(), 'places', '[]');

    const other = await createSigners(client)(namespace);
    expect(other.isSigned(machine(), 'places', '[]', signature)).toBe(true);
  });

  it('that a Secret does not keep is an error, and is looked for again', async () => {
    const create: KubeClient['create'] = async (resource, object, options) => {
      const { data: _, ...rest } = object as { data?: object };
      return client.create(resource, rest as typeof object, options);
    };
    const message = `Secret "${namespace}/${signingKeySecret}" has no key \`key\`: it is filled again`;
    const findSigner = createSigners({ ...client, create });
    await expect(findSigner(namespace)).rejects.toMatchObject({ code: 'Unavailable', message });

    expect((await findSigner(namespace)).sign(machine(), 'places', '[]')).not.toBe('');
  });

  it('cannot be stored in a namespace that is being deleted, and is that of the process', async () => {
    await client.delete(namespaces, { name: namespace });
    const signer = await createSigners(client)(namespace);
    const signature = signer.sign(machine(), 'places', '[]');

    expect(signer.isSigned(machine(), 'places', '[]', signature)).toBe(true);
    expect(await client.find(secrets, { namespace, name: signingKeySecret })).toBeUndefined();
  });
});
