/** Which Machines of a real API server have to be tagged, and what is noted on them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import { machineClasses, machines } from '../api/gardener/resources.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { names } from '../api/names.ts';
import { jsonBytes, maxListBytes } from '../api/payloads.ts';
import { verdictAnnotations } from '../api/verdict.ts';
import { withVmTags } from '../api/vm-tags.ts';
import type { KubeClient } from '../kube/client.ts';
import { secrets } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { newNamespace, patient, testClient } from '../test/support/kube.ts';
import { createSigners } from './signatures.ts';
import { createVmTagsActivities } from './vm-tags.ts';

const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
const tags = { team: 'b' };
let client: KubeClient;
let activities: ReturnType<typeof createVmTagsActivities>;
let namespace: string;
let ref: ObjectRef;

beforeAll(async () => {
  client = patient(testClient());
  const events = { record: () => undefined, flush: async () => undefined };
  activities = createVmTagsActivities({
    control: client,
    events,
    defaults,
    findSigner: createSigners(client),
    installation: 'blue',
  });
});
afterAll(() => client.close());

beforeEach(async () => {
  namespace = await newNamespace(client);
  await client.create(secrets, { metadata: { namespace, name: 'pool' }, stringData: { userData: 'x' } });
  const { metadata } = await client.create(machineClasses, {
    metadata: { namespace, name: 'small' },
    provider: 'simulated',
    secretRef: { namespace, name: 'pool' },
    providerSpec: { region: 'here' },
  });
  ref = { dialect: 'gardener', namespace, name: 'small', uid: metadata.uid };
});

const readSource = () => gardener.source.read((resource, key) => client.find(resource, key), ref, ref.name);

/** Writes a verdict on the class as it is now. */
async function judge(change: { problems?: string[]; version?: string; tags?: undefined } = {}): Promise<void> {
  const { version } = await readSource();
  const annotations = verdictAnnotations({ version, problems: [], tags, ...change });
  await client.patch(machineClasses, ref, mergePatch({ metadata: { annotations } }));
}

interface MachineOptions {
  readonly className?: string;
  readonly providerID?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: string[];
  readonly phase?: string;
}

async function newMachine(name: string, options: MachineOptions = {}): Promise<ObjectRef> {
  const { className = 'small', providerID = `simulated:///here/${name}`, annotations = {}, finalizers } = options;
  const { phase = 'Running' } = options;
  const { metadata } = await client.create(machines, {
    metadata: { namespace, name, annotations, ...(finalizers && { finalizers }) },
    spec: { class: { kind: 'MachineClass', name: className }, ...(providerID && { providerID }) },
  });
  const status = mergePatch({ status: { currentStatus: { phase } } });
  await client.patch(machines, { namespace, name }, status, { subresource: 'status' });
  return { dialect: 'gardener', namespace, name, uid: metadata.uid };
}

const noted = (of: Record<string, string | null>) => ({ annotations: withVmTags(of) });
const notedOn = async (machine: ObjectRef) =>
  (await client.get(machines, machine)).metadata.annotations?.[names.vmTags];

describe('readTagUpdate', () => {
  it('answers the Machines of the class with other tags and those that say nothing, and no others', async () => {
    await newMachine('a-has-them', noted(tags));
    await newMachine('b-other', noted({ team: 'a', old: '1' }));
    await newMachine('c-unknown');
    await newMachine('d-no-vm', { providerID: '' });
    await newMachine('d-not-joined', { ...noted({ team: 'a' }), phase: 'Pending' });
    await newMachine('e-another-class', { className: 'large', ...noted({ team: 'a' }) });
    const deleted = await newMachine('f-deleted', { ...noted({ team: 'a' }), finalizers: ['tests/stay'] });
    await client.delete(machines, deleted);
    await judge();

    const update = await activities.readTagUpdate(ref, '');
    expect(update).toMatchObject({
      tags,
      places: [{ provider: 'simulated', providerSpec: { region: 'here' } }],
      machines: [
        { name: 'b-other', providerID: 'simulated:///here/b-other', place: 0, removedTags: ['old'] },
        { name: 'c-unknown', place: 0 },
      ],
      last: 'c-unknown',
    });
    expect(update?.machines[1]).not.toHaveProperty('removedTags');
    expect(await activities.readTagUpdate(ref, 'b-other')).toMatchObject({ machines: [{ name: 'c-unknown' }] });
    expect(await activities.readTagUpdate(ref, 'c-unknown')).toBeNull();
  });

  it('answers the place where the VM was made, which the class may not describe any more', async () => {
    const place = { provider: 'simulated', providerSpec: { region: 'there' }, credentials: [] };
    const text = JSON.stringify([place]);
    const signature = (await createSigners(client)(namespace)).sign({ namespace, name: 'a' }, names.places, text);
    const annotations = { [names.places]: text, [names.placesSignature]: signature };
    await newMachine('a', { annotations: { ...withVmTags({ team: 'a' }), ...annotations } });
    await newMachine('b', noted({ team: 'a' }));
    await judge();

    expect(await activities.readTagUpdate(ref, '')).toMatchObject({
      places: [place, { providerSpec: { region: 'here' } }],
      machines: [
        { name: 'a', place: 0 },
        { name: 'b', place: 1 },
      ],
    });
  });

  it('answers no more Machines than a payload has room for the places of', async () => {
    const signer = await createSigners(client)(namespace);
    const all = Array.from({ length: 20 }, (_, i) => `m-${String(i).padStart(2, '0')}`);
    for (const name of all) {
      const text = JSON.stringify([
        { provider: 'simulated', providerSpec: { name, text: 'x'.repeat(60_000) }, credentials: [] },
      ]);
      const signature = signer.sign({ namespace, name }, names.places, text);
      const annotations = { [names.places]: text, [names.placesSignature]: signature };
      await newMachine(name, { annotations: { ...withVmTags({ team: 'a' }), ...annotations } });
    }
    await judge();

    const first = await activities.readTagUpdate(ref, '');
    const second = await activities.readTagUpdate(ref, first?.last ?? '');

    expect([first, second].flatMap((update) => update?.machines.map(({ name }) => name))).toEqual(all);
    expect(first?.places.length).toBe(first?.machines.length);
    for (const update of [first, second]) expect(jsonBytes(update)).toBeLessThan(maxListBytes + 10_000);
  });

  it('answers those last that an earlier update may have failed on, and says where nobody knows the place', async () => {
    await newMachine('a', noted({ team: null }));
    await newMachine('b', { annotations: { ...withVmTags({ team: 'a' }), [names.places]: '[' } });
    await judge();

    expect(await activities.readTagUpdate(ref, '')).toMatchObject({
      machines: [{ name: 'b', place: -1, problem: expect.stringContaining(names.places) }, { name: 'a' }],
      last: 'b',
    });
  });

  it('answers no place that the Machine says without a signature, and no class does', async () => {
    const place = { provider: 'simulated', providerSpec: { region: 'there' }, credentials: [] };
    await newMachine('a', { annotations: { ...withVmTags({ team: 'a' }), [names.places]: JSON.stringify([place]) } });
    await judge();

    expect(await activities.readTagUpdate(ref, '')).toMatchObject({
      places: [],
      machines: [{ name: 'a', place: -1, problem: expect.stringContaining('has no valid signature') }],
    });
  });

  it('answers none for a class that was made anew', async () => {
    await newMachine('a', noted({ team: 'a' }));
    await judge();

    expect(await activities.readTagUpdate({ ...ref, uid: 'another' }, '')).toBeNull();
  });

  it.each([
    ['is refused', { problems: ['no'] }],
    ['has a verdict on another version', { version: 'another' }],
    ['is of a provider that changes no tags', { tags: undefined }],
  ])('answers none while the class %s', async (_, change) => {
    await newMachine('a', noted({ team: 'a' }));
    await judge(change);

    expect(await activities.readTagUpdate(ref, '')).toBeNull();
  });
});

describe('noteVmTags', () => {
  const before = '{"old":"1","team":"a"}';
  const seenOf = ({ name }: ObjectRef) => ({ providerID: `simulated:///here/${name}`, noted: before });

  it('says what the VM has for certain', async () => {
    const machine = await newMachine('a', noted({ team: 'a', old: '1' }));
    const uncertain = '{"old":null,"team":null}';
    expect(await activities.noteVmTags(machine, seenOf(machine), tags, false)).toBe(uncertain);
    expect(await notedOn(machine)).toBe(uncertain);

    const seen = { ...seenOf(machine), noted: uncertain };
    expect(await activities.noteVmTags(machine, seen, tags, true)).toBe('{"team":"b"}');
    expect(await notedOn(machine)).toBe('{"team":"b"}');
  });

  it.each([
    ['names another VM', { providerID: 'simulated:///here/another', noted: before }],
    ['says something else', { providerID: 'simulated:///here/a', noted: '{}' }],
    ['says something by now', { providerID: 'simulated:///here/a' }],
  ])('writes nothing on a Machine that %s', async (_, seen) => {
    const machine = await newMachine('a', noted({ team: 'a', old: '1' }));

    expect(await activities.noteVmTags(machine, seen, tags, true)).toBeNull();
    expect(await notedOn(machine)).toBe(before);
  });

  it('writes nothing on another Machine of the same name', async () => {
    const machine = await newMachine('a', noted({ team: 'a', old: '1' }));

    expect(await activities.noteVmTags({ ...machine, uid: 'another' }, seenOf(machine), tags, true)).toBeNull();
    expect(await notedOn(machine)).toBe(before);
  });
});
