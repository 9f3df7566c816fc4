import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineClasses } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { createSourceActivities } from './source.ts';

let client: KubeClient;
let namespace: string;
let ref: ObjectRef;
let readSource: ReturnType<typeof createSourceActivities>['readSource'];

beforeAll(async () => {
  client = patient(testClient());
  namespace = await newNamespace(client);
  ref = { dialect: 'gardener', namespace, name: 'machine', uid: 'uid' };
  ({ readSource } = createSourceActivities({ control: client }));
});

afterAll(() => client.close());

let made = 0;
async function newSecret(data: Record<string, string>): Promise<string> {
  made += 1;
  await client.create(secrets, { metadata: { namespace, name: `secret-${made}` }, stringData: data });
  return `secret-${made}`;
}

async function newClass(fields: object): Promise<string> {
  made += 1;
  const metadata = { namespace, name: `class-${made}` };
  const providerSpec = { size: 'small' };
  await client.create(machineClasses, { metadata, provider: 'simulated', providerSpec, ...fields });
  return metadata.name;
}

function named(name: string) {
  return { name, namespace };
}

describe('readSource', () => {
  it('reads what a cloud needs to know, with references to Secrets and without what is in them', async () => {
    const secret = await newSecret({ userData: 'canary', token: 'canary' });
    const name = await newClass({ secretRef: named(secret) });
    const reading = await readSource(ref, name);
    expect(reading).toEqual({
      version: expect.any(String),
      cloud: {
        provider: 'simulated',
        origin: { kind: 'MachineClass', namespace, name, generation: 1 },
        providerSpec: { size: 'small' },
        credentials: [{ namespace, name: secret }],
      },
      userData: { namespace, name: secret, key: 'userData', personal: false },
    });
    const text = JSON.stringify(reading);
    expect(text).not.toContain('canary');
    expect(text).not.toContain(Buffer.from('canary').toString('base64'));
  });

  it.each(['a <<BOOTSTRAP_TOKEN>> b', '<<MACHINE_NAME>>', '%3C%3CBOOTSTRAP_TOKEN%3E%3E', 'x%3C%3CMACHINE_NAME%3E%3E'])(
    '[mcm 18 partly] takes user data %p as personal',
    async (userData) => {
      const name = await newClass({ secretRef: named(await newSecret({ userData })) });
      expect((await readSource(ref, name)).userData?.personal).toBe(true);
    },
  );

  it('[mcm 6 partly] takes user data and credentials from credentialsSecretRef before secretRef', async () => {
    const first = await newSecret({ userData: 'first' });
    const second = await newSecret({ userData: 'second <<MACHINE_NAME>>' });
    const third = await newSecret({ token: 'x' });
    const both = await newClass({ secretRef: named(first), credentialsSecretRef: named(second) });
    expect(await readSource(ref, both)).toMatchObject({
      cloud: { credentials: [{ name: first }, { name: second }] },
      userData: { name: second, personal: true },
    });
    const one = await newClass({ secretRef: named(first), credentialsSecretRef: named(third) });
    expect(await readSource(ref, one)).toMatchObject({ userData: { name: first, personal: false } });
  });

  it('takes a reference without a namespace as one to that of the class', async () => {
    const secret = await newSecret({ userData: 'x' });
    const name = await newClass({ secretRef: { name: secret } });
    expect(await readSource(ref, name)).toMatchObject({ userData: { namespace, name: secret } });
  });

  it('needs no more than a key userData, however little is in it', async () => {
    const name = await newClass({ secretRef: named(await newSecret({ userData: '' })) });
    expect(await readSource(ref, name)).not.toHaveProperty('problem');
  });

  it('skips a missing Secret when another one has the user data, as its keys may not be needed', async () => {
    const secretRef = named(await newSecret({ userData: 'x' }));
    const name = await newClass({ secretRef, credentialsSecretRef: named('missing') });
    expect(await readSource(ref, name)).not.toHaveProperty('problem');
  });
});

describe('a reading that others share', () => {
  it('is of the version that a watcher has seen, and never of an earlier one', async () => {
    const name = await newClass({ secretRef: named(await newSecret({ userData: 'x' })) });
    let reads = 0;
    const control: KubeClient = Object.create(client, {
      find: {
        value: (...args: Parameters<KubeClient['find']>) => {
          reads++;
          return client.find(...args);
        },
      },
    });
    const activities = createSourceActivities({ control });
    const { version } = await readSource(ref, name);
    const first = await activities.readSource(ref, name, version);
    const ofOneReading = reads;
    expect(await activities.readSource(ref, name, version)).toEqual(first);
    expect(reads).toBe(ofOneReading);

    await client.patch(machineClasses, { namespace, name }, mergePatch({ providerSpec: { size: 'large' } }));
    const unseen = await activities.readSource(ref, name);
    expect(unseen.cloud?.providerSpec).toEqual({ size: 'large' });
    await client.patch(machineClasses, { namespace, name }, mergePatch({ providerSpec: { size: 'huge' } }));
    const seen = await readSource(ref, name);
    expect(await activities.readSource(ref, name, seen.version)).toEqual(seen);
  });
});

describe('a class that no VM can be made from', () => {
  it('does not exist', async () => {
    const { problem, cloud } = await readSource(ref, 'missing');
    expect(problem).toBe(
      `MachineClass "missing" does not exist in namespace "${namespace}": create it, or correct spec.class.name`,
    );
    expect(cloud).toBeUndefined();
  });

  const capacity = { cpu: '1', gpu: '0', memory: '1Gi' };
  const template = { capacity, instanceType: 't', region: 'r', zone: 'z' };
  it.each<[string, object, string]>([
    ['names no provider', { provider: '' }, 'provider is empty: set it to the name of a provider'],
    [
      'has too large a providerSpec',
      { providerSpec: { text: 'x'.repeat(70_000) } },
      'providerSpec has 70011 bytes as JSON, and 65536 is the most: shorten it',
    ],
    [
      '[mcm 5 partly] lacks cpu',
      { nodeTemplate: { ...template, capacity: { gpu: 0, memory: 1 } } },
      'nodeTemplate.capacity lacks cpu: add',
    ],
    [
      '[mcm 5 partly] lacks gpu',
      { nodeTemplate: { ...template, capacity: { cpu: 1, memory: 1 } } },
      'nodeTemplate.capacity lacks gpu: add',
    ],
    [
      '[mcm 5 partly] lacks memory',
      { nodeTemplate: { ...template, capacity: { gpu: 0, cpu: 1 } } },
      'nodeTemplate.capacity lacks memory: add',
    ],
    [
      '[mcm 5 partly] lacks all three',
      { nodeTemplate: { ...template, capacity: {} } },
      'nodeTemplate.capacity lacks cpu and gpu and memory: add',
    ],
    [
      '[mcm 5 partly] has no instance type',
      { nodeTemplate: { ...template, instanceType: '' } },
      'nodeTemplate.instanceType is empty: set it',
    ],
    [
      '[mcm 5 partly] has no region',
      { nodeTemplate: { ...template, region: '' } },
      'nodeTemplate.region is empty: set it',
    ],
    ['[mcm 5 partly] has no zone', { nodeTemplate: { ...template, zone: '' } }, 'nodeTemplate.zone is empty: set it'],
  ])('%s', async (_, fields, problem) => {
    const name = await newClass({ secretRef: named(await newSecret({ userData: 'x' })), ...fields });
    const reading = await readSource(ref, name);
    expect(reading.problem).toContain(`MachineClass "${name}": ${problem}`);
  });

  it('[mcm 5 partly] can be corrected', async () => {
    const name = await newClass({
      secretRef: named(await newSecret({ userData: 'x' })),
      nodeTemplate: { ...template, capacity: {} },
    });
    const before = await readSource(ref, name);
    await client.patch(machineClasses, { namespace, name }, mergePatch({ nodeTemplate: { capacity } }));
    const after = await readSource(ref, name);
    expect(before).toHaveProperty('problem');
    expect(after).not.toHaveProperty('problem');
    expect(after.version).not.toBe(before.version);
  });

  it('refers to no Secret', async () => {
    const name = await newClass({});
    expect((await readSource(ref, name)).problem).toBe(
      `MachineClass "${name}": secretRef is not set: name a Secret with the key userData`,
    );
  });

  it('refers to a Secret that does not exist', async () => {
    const name = await newClass({ secretRef: named('missing') });
    expect((await readSource(ref, name)).problem).toBe(
      `MachineClass "${name}": Secret "${namespace}/missing" does not exist: create it`,
    );
  });

  it('[mcm 18 partly] refers to a Secret without user data', async () => {
    const secret = await newSecret({ token: 'canary' });
    const name = await newClass({ secretRef: named(secret) });
    const reading = await readSource(ref, name);
    expect(reading.problem).toBe(
      `MachineClass "${name}": Secret "${namespace}/${secret}" has no key userData: add the user data of its machines`,
    );
    expect(reading.cloud).toBeDefined(); // its machines can still be deleted
  });

  it.each([
    ['secretRef', 'credentialsSecretRef'],
    ['credentialsSecretRef', 'secretRef'],
  ])(
    'names a Secret of another namespace in %s, also where that of %s has all that is needed',
    async (field, other) => {
      const foreign = await newNamespace(client);
      await client.create(secrets, { metadata: { namespace: foreign, name: 'cloud' }, stringData: { userData: 'x' } });
      const own = named(await newSecret({ userData: 'x', token: 'x' }));
      const name = await newClass({ [field]: { namespace: foreign, name: 'cloud' }, [other]: own });

      const reading = await readSource(ref, name);

      const fix = `copy the Secret "cloud" to the namespace "${namespace}" of the class, and name that`;
      expect(reading.problem).toBe(`MachineClass "${name}": ${field}.namespace is "${foreign}": ${fix}`);
      expect(reading.cloud).toBeUndefined(); // its VMs would be looked for in the account of the other Secret
    },
  );
});

describe('a verdict on a class', () => {
  it('counts at once for what is read after a check', async () => {
    const name = await newClass({ secretRef: named(await newSecret({ userData: 'x' })) });
    const { version } = await readSource(ref, name);
    await annotate(name, JSON.stringify({ version, problems: ['size is small'] }));

    expect(await readSource(ref, name, version)).toHaveProperty('refusal');
  });

  async function annotate(name: string, annotation: string): Promise<void> {
    const patch = mergePatch({ metadata: { annotations: { [names.verdict]: annotation } } });
    await client.patch(machineClasses, { namespace, name }, patch);
  }

  it('refuses the version that it is about, until the class or its Secret is changed', async () => {
    const secret = await newSecret({ userData: 'x' });
    const name = await newClass({ secretRef: named(secret) });
    const { version } = await readSource(ref, name);
    await annotate(name, JSON.stringify({ version, problems: ['size is small', 'token is missing'] }));
    const refused = await readSource(ref, name);

    expect(refused).toMatchObject({ version, refusal: `MachineClass "${name}": size is small; token is missing` });
    expect(refused).not.toHaveProperty('problem');
    expect(refused.cloud).toBeDefined(); // its machines can still be deleted

    await client.patch(secrets, named(secret), mergePatch({ stringData: { token: 'x' } }));
    expect(await readSource(ref, name, version)).not.toHaveProperty('refusal');
  });

  it.each([
    ['accepts the class', (version: string) => JSON.stringify({ version, problems: [] })],
    ['is no JSON', () => 'refused'],
    ['is of another form', (version: string) => JSON.stringify({ version, problems: 'all' })],
  ])('refuses nothing if it %s', async (_, annotation) => {
    const name = await newClass({ secretRef: named(await newSecret({ userData: 'x' })) });
    await annotate(name, annotation((await readSource(ref, name)).version));

    expect(await readSource(ref, name)).not.toHaveProperty('refusal');
  });
});

describe('the version of a reading', () => {
  it('changes with the class and with each of its Secrets, and with nothing else', async () => {
    const [first, second] = [await newSecret({ userData: 'x' }), await newSecret({ token: 'x' })];
    const name = await newClass({ secretRef: named(first), credentialsSecretRef: named(second) });
    const versions = [(await readSource(ref, name)).version];
    const step = async (change: () => Promise<unknown>) => {
      await change();
      versions.push((await readSource(ref, name)).version);
    };
    await step(() =>
      client.patch(machineClasses, { namespace, name }, mergePatch({ providerSpec: { size: 'large' } })),
    );
    await step(() => client.patch(secrets, named(first), mergePatch({ stringData: { userData: 'y' } })));
    await step(() => client.patch(secrets, named(second), mergePatch({ stringData: { token: 'y' } })));
    await step(() => client.delete(secrets, named(second)));
    await step(() => client.create(secrets, { metadata: named(second), stringData: { token: 'y' } }));
    await step(() => client.delete(machineClasses, { namespace, name }));
    expect(new Set(versions).size).toBe(versions.length);

    const quiet = versions.length;
    await step(() => newSecret({ userData: 'other' }));
    expect(versions[quiet]).toBe(versions[quiet - 1]);
  });
});
