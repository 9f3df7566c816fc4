/** What is signed on Machines of a real API server. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { machineClasses, machines } from '../api/gardener/resources.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { names } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { StatusError } from '../kube/errors.ts';
import { newNamespace, patient, testClient } from '../test/support/kube.ts';
import { createSigningActivities } from './sign-places.ts';
import { createSigners } from './signatures.ts';

let client: KubeClient;
let namespace: string;
let ref: ObjectRef;

beforeAll(() => {
  client = patient(testClient());
});
afterAll(() => client.close());

beforeEach(async () => {
  namespace = await newNamespace(client);
  await newClass('other');
  ref = { dialect: 'gardener', namespace, name: 'small', uid: await newClass('small') };
});

async function newClass(name: string): Promise<string> {
  const { metadata } = await client.create(machineClasses, {
    metadata: { namespace, name },
    provider: 'simulated',
    secretRef: { namespace, name: 'pool' },
    providerSpec: { region: name },
  });
  return metadata.uid;
}

const placeIn = (region: string) => ({
  provider: 'simulated',
  providerSpec: { region },
  credentials: [{ namespace, name: 'pool' }],
});

async function newMachine(name: string, annotations: Record<string, string>, className = 'small'): Promise<void> {
  const spec = { class: { kind: 'MachineClass', name: className } };
  await client.create(machines, { metadata: { namespace, name, annotations }, spec });
}

/** Names of the Machines with a signature that is valid. */
async function validOf(): Promise<string[]> {
  const signer = await createSigners(client)(namespace);
  const { items } = await client.list(machines, { namespace });
  return items.flatMap(({ metadata: { name, annotations = {} } }) => {
    const given = [annotations[names.places] ?? '', annotations[names.placesSignature]] as const;
    return signer.isSigned({ namespace, name }, names.places, ...given) ? [name] : [];
  });
}

describe('signPlaces', () => {
  it('signs what sources say on the Machines of the class, once', async () => {
    const saying = (...regions: string[]) => ({ [names.places]: JSON.stringify(regions.map(placeIn)) });
    await newMachine('a', saying('small'));
    await newMachine('b', saying('other', 'small'));
    await newMachine('elsewhere', saying('elsewhere'));
    await newMachine('partly', saying('small', 'elsewhere'));
    await newMachine('new', {});
    await newMachine('of-other', saying('small'), 'other');
    await newMachine('forged', { ...saying('small'), [names.placesSignature]: 'forged' });
    const { signPlaces } = createSigningActivities({
      control: client,
      findSigner: createSigners(client),
      installation: 'blue',
    });

    await signPlaces(ref);
    expect((await validOf()).toSorted()).toEqual(['a', 'b']);
    const versions = async () => (await client.list(machines, { namespace })).items.map(({ metadata }) => metadata);
    const before = await versions();
    await signPlaces(ref);
    expect(await versions()).toEqual(before);
  });

  it('signs the others if the API server refuses one, which the failure names', async () => {
    for (const name of ['a', 'b']) await newMachine(name, { [names.places]: JSON.stringify([placeIn('small')]) });
    const patch: KubeClient['patch'] = async (resource, key, ...rest) => {
      if (key.name === 'a') throw new StatusError('PATCH', 422, { reason: 'Invalid' });
      return client.patch(resource, key, ...rest);
    };
    const { signPlaces } = createSigningActivities({
      control: { ...client, patch },
      findSigner: createSigners(client),
      installation: 'blue',
    });

    const message = 'the API server refuses the signature of 1 of the Machines, first of a: ';
    await expect(signPlaces(ref)).rejects.toMatchObject({ code: 'FailedPrecondition' });
    await expect(signPlaces(ref)).rejects.toThrow(message);
    expect(await validOf()).toEqual(['b']);
  });
});
