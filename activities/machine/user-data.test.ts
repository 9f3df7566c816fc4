import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import { names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Secret, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { createUserDataActivities } from './user-data.ts';

type Source = NonNullable<SourceSnapshot['userData']>;
const tokens = 'kube-system';
const extraGroups = 'system:bootstrappers:worker,system:bootstrappers:other';
let client: KubeClient;
let namespace: string;
let activities: ReturnType<typeof createUserDataActivities>;

beforeAll(async () => {
  client = patient(testClient());
  namespace = await newNamespace(client);
  activities = createUserDataActivities({ control: client, target: client, bootstrapTokenExtraGroups: extraGroups });
});

afterAll(() => client.close());

let made = 0;
async function newMachine(): Promise<ObjectRef> {
  made += 1;
  const name = `m-${made}`;
  const { metadata } = await client.create(machines, { metadata: { namespace, name } });
  return { dialect: 'gardener', namespace, name, uid: metadata.uid };
}

async function newSource(userData: string): Promise<Source> {
  made += 1;
  const name = `source-${made}`;
  await client.create(secrets, { metadata: { namespace, name }, stringData: { userData } });
  return { namespace, name, key: 'userData', personal: true };
}

async function rendered(place: { namespace: string; name: string; key: string }): Promise<string> {
  return decoded(await client.get(secrets, place), place.key);
}

function decoded({ data }: Secret, key: string): string {
  return Buffer.from(data?.[key] ?? '', 'base64').toString();
}

async function tokensOf({ uid }: ObjectRef): Promise<Secret[]> {
  const { items } = await client.list(secrets, { namespace: tokens, labelSelector: `${names.machineUid}=${uid}` });
  return items;
}

const validUntil = '2030-01-02T03:04:05.000Z';

async function ensure(ref: ObjectRef, source: Source, until = validUntil): Promise<string> {
  return rendered(await activities.ensureUserData(ref, source, until));
}

const tokenPattern = /^[a-z0-9]{6}\.[a-z0-9]{16}$/;

describe('the bootstrap token', () => {
  it('[mcm 16 partly] [mcm 17 partly] is in the target cluster before there can be a VM, and says what kube-apiserver has to know', async () => {
    const ref = await newMachine();
    const text = await ensure(ref, await newSource('<<BOOTSTRAP_TOKEN>>'));
    expect(text).toMatch(tokenPattern);
    const [id = '', secret] = text.split('.');

    const [token, ...others] = await tokensOf(ref);
    expect(others).toEqual([]);
    if (token === undefined) throw new Error('there is no token');
    expect(token.type).toBe('bootstrap.kubernetes.io/token');
    expect(token.metadata.name).toBe(`bootstrap-token-${id}`);
    expect(decoded(token, 'token-id')).toBe(id);
    expect(decoded(token, 'token-secret')).toBe(secret);
    expect(decoded(token, 'auth-extra-groups')).toBe(extraGroups);
    expect(decoded(token, 'usage-bootstrap-authentication')).toBe('true');
    expect(decoded(token, 'usage-bootstrap-signing')).toBe('true');
    expect(decoded(token, 'description')).toContain(`${namespace}/${ref.name}`);
    expect(decoded(token, 'expiration')).toBe(validUntil);
  });

  it('[mcm 17 partly] has no groups when none are configured', async () => {
    const ref = await newMachine();
    const bare = createUserDataActivities({ control: client, target: client, bootstrapTokenExtraGroups: '' });
    await bare.ensureUserData(ref, await newSource('<<BOOTSTRAP_TOKEN>>'), validUntil);
    const [token] = await tokensOf(ref);
    expect(token?.data).not.toHaveProperty('auth-extra-groups');
  });

  it('[mcm 16 partly] is another one for each machine, and stays the same for one', async () => {
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');
    const [first, second] = [await newMachine(), await newMachine()];
    const token = await ensure(first, source);
    expect(await ensure(second, source)).not.toBe(token);
    expect(await ensure(first, source)).toBe(token);
    expect(await tokensOf(first)).toHaveLength(1);
  });

  it('[mcm 16 partly] is never that of another machine, also when the ids collide', async () => {
    const ref = await newMachine();
    const taken = `bootstrap-token-${firstTokenId(ref.uid)}`;
    const foreign = { metadata: { namespace: tokens, name: taken }, stringData: { 'token-secret': 'foreign' } };
    await client.create(secrets, foreign);

    const text = await ensure(ref, await newSource('<<BOOTSTRAP_TOKEN>>'));
    expect(text).toMatch(tokenPattern);
    expect(text).not.toContain(firstTokenId(ref.uid));
    expect(await tokensOf(ref)).toHaveLength(1);

    await activities.removeUserData(ref);
    expect(await tokensOf(ref)).toEqual([]);
    expect(decoded(await client.get(secrets, foreign.metadata), 'token-secret')).toBe('foreign');
  });

  it('[invariant 6 partly] lives on where it would expire too soon, so that a VM that was made with it can still join', async () => {
    const ref = await newMachine();
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');
    const expiresAt = async () => decoded((await tokensOf(ref))[0]!, 'expiration');
    const [sooner, later] = ['2030-01-02T03:04:05.000Z', '2030-01-02T03:14:05.000Z'];
    const text = await ensure(ref, source, sooner);

    expect(await ensure(ref, source, later)).toBe(text);
    expect(await expiresAt()).toBe(later);
    expect(await ensure(ref, source, sooner)).toBe(text);
    expect(await expiresAt()).toBe(later);
  });

  it('[invariant 6 partly] is another one when the token cleaner has removed it, and the user data has that one', async () => {
    const ref = await newMachine();
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');
    const before = await ensure(ref, source);
    for (const { metadata } of await tokensOf(ref)) await client.delete(secrets, metadata);

    const text = await ensure(ref, source);

    expect(text).not.toBe(before);
    const [token] = await tokensOf(ref);
    expect(text).toBe(`${decoded(token!, 'token-id')}.${decoded(token!, 'token-secret')}`);
  });

  it('is made once and deleted again where the API server does not keep whose it is', async () => {
    const made: string[] = [];
    const target: KubeClient = {
      ...client,
      create: (resource, object, options) => {
        made.push('name' in object.metadata ? (object.metadata.name ?? '') : '');
        return client.create(resource, { ...object, metadata: { ...object.metadata, labels: {} } }, options);
      },
    };
    const forgetful = createUserDataActivities({ control: client, target, bootstrapTokenExtraGroups: '' });
    const ref = await newMachine();
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');

    await expect(forgetful.ensureUserData(ref, source, validUntil)).rejects.toThrow(
      `does not keep the label ${names.machineUid} of Secret "${tokens}/bootstrap-token-`,
    );
    expect(made).toHaveLength(1);
    expect(await client.find(secrets, { namespace: tokens, name: made[0] ?? '' })).toBeUndefined();
  });

  it('[invariant 8 partly] is nowhere in what a Secret says about itself', async () => {
    const ref = await newMachine();
    const place = await activities.ensureUserData(ref, await newSource('<<BOOTSTRAP_TOKEN>>'), validUntil);
    const [, secret] = (await rendered(place)).split('.');
    const about = [...(await tokensOf(ref)), await client.get(secrets, place)].map(({ metadata }) => metadata);
    for (const metadata of about) expect(JSON.stringify({ ...metadata, managedFields: [] })).not.toContain(secret);
  });

  it('is not made where nobody asks for one', async () => {
    const ref = await newMachine();
    expect(await ensure(ref, await newSource('I am <<MACHINE_NAME>>'))).toBe(`I am ${ref.name}`);
    expect(await tokensOf(ref)).toEqual([]);
  });

  it('[mcm 16 partly] goes with the user data after the join or with the machine, and only that of this machine', async () => {
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');
    const [first, second] = [await newMachine(), await newMachine()];
    const place = await activities.ensureUserData(first, source, validUntil);
    await activities.ensureUserData(second, source, validUntil);
    expect(await activities.removeUserData(first)).toBe(true);
    expect(await client.find(secrets, place)).toBeUndefined();
    expect(await tokensOf(first)).toEqual([]);
    expect(await tokensOf(second)).toHaveLength(1);
    expect(await client.find(secrets, source)).toBeDefined();
    expect(await activities.removeUserData(first)).toBe(true);
  });
});

/** The id that the machine with this UID asks for first. */
function firstTokenId(uid: string): string {
  const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz';
  const digest = createHash('sha256').update(`${uid}/0`).digest();
  return Array.from(digest.subarray(0, 6), (byte) => alphabet[byte % alphabet.length]).join('');
}

describe('[mcm 18] rendered user data', () => {
  it('has both placeholders replaced in all occurrences', async () => {
    const ref = await newMachine();
    const text = await ensure(
      ref,
      await newSource('<<MACHINE_NAME>> <<BOOTSTRAP_TOKEN>>\n<<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>> $& $1 %20'),
    );
    const [, token] = text.split(/\s/);
    expect(token).toMatch(tokenPattern);
    expect(text).toBe(`${ref.name} ${token}\n${token} ${ref.name} $& $1 %20`);
  });

  it('has both placeholders replaced where they are URL-encoded', async () => {
    const ref = await newMachine();
    const source =
      '%3C%3CMACHINE_NAME%3E%3E,%3C%3CBOOTSTRAP_TOKEN%3E%3E,%3C%3CBOOTSTRAP_TOKEN%3E%3E,%3C%3CMACHINE_NAME%3E%3E';
    const parts = (await ensure(ref, await newSource(source))).split(',');
    expect(parts[1]).toMatch(tokenPattern);
    expect(parts).toEqual([ref.name, parts[1], parts[1], ref.name]);
  });

  it('leaves the URL-encoded form where the plain one is there, for each placeholder by itself', async () => {
    const ref = await newMachine();
    const source = '<<MACHINE_NAME>> %3C%3CMACHINE_NAME%3E%3E %3C%3CBOOTSTRAP_TOKEN%3E%3E';
    const parts = (await ensure(ref, await newSource(source))).split(' ');
    expect(parts).toEqual([ref.name, '%3C%3CMACHINE_NAME%3E%3E', expect.stringMatching(tokenPattern)]);
  });

  it('is a Secret of the machine, which goes with it', async () => {
    const ref = await newMachine();
    const place = await activities.ensureUserData(ref, await newSource('<<MACHINE_NAME>>'), validUntil);
    const { metadata } = await client.get(secrets, place);
    expect(metadata.labels).toEqual({ [names.machineUid]: ref.uid });
    expect(metadata.ownerReferences).toMatchObject([{ kind: 'Machine', name: ref.name, uid: ref.uid }]);
  });

  it('creates nothing new when it is asked for again, also at the same time', async () => {
    const ref = await newMachine();
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');
    const places = await Promise.all([1, 2, 3].map(() => activities.ensureUserData(ref, source, validUntil)));
    const first = await client.get(secrets, places[0] ?? source);
    const token = decoded(first, 'userData');
    for (const place of places) expect(await rendered(place)).toBe(token);
    await activities.ensureUserData(ref, source, validUntil);
    expect(await client.get(secrets, first.metadata)).toEqual(first);
    expect(await tokensOf(ref)).toHaveLength(1);
  });

  it('is rendered again when its source was changed, with the same token', async () => {
    const ref = await newMachine();
    const source = await newSource('one <<BOOTSTRAP_TOKEN>>');
    const [, token] = (await ensure(ref, source)).split(' ');
    await client.patch(secrets, source, mergePatch({ stringData: { userData: 'two <<BOOTSTRAP_TOKEN>>' } }));
    expect(await ensure(ref, source)).toBe(`two ${token}`);
    const other = await newSource('three <<MACHINE_NAME>>');
    expect(await ensure(ref, other)).toBe(`three ${ref.name}`);
  });

  it('is not made from a Secret that has lost its user data', async () => {
    const ref = await newMachine();
    const source = await newSource('<<MACHINE_NAME>>');
    await client.patch(secrets, source, mergePatch({ data: { userData: null, other: '' } }));
    await expect(activities.ensureUserData(ref, source, validUntil)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: `Secret "${namespace}/${source.name}" has no key userData: add the user data of its machines`,
    });
  });

  it('is another one for a machine that was made again under its name', async () => {
    const ref = await newMachine();
    const twin: ObjectRef = { ...ref, uid: randomUUID() };
    const source = await newSource('<<BOOTSTRAP_TOKEN>>');
    expect(await ensure(twin, source)).not.toBe(await ensure(ref, source));
  });
});
