import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { toMachineSnapshot } from '../../api/gardener/machine/snapshot.ts';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineLimits } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Place } from '../../api/model/source.ts';
import { names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { createSigners } from '../signatures.ts';
import { createMachineActivities, type MachineActivities } from './index.ts';

const defaults: MachineLimits = { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] };

describe('the places of a Machine', () => {
  let client: KubeClient;
  let namespace: string;
  let activities: MachineActivities;

  beforeAll(async () => {
    client = patient(testClient());
    namespace = await newNamespace(client);
    activities = createMachineActivities({
      control: client,
      target: client,
      events: { record: () => undefined, flush: async () => undefined },
      findOutage: async () => undefined,
      findSigner: createSigners(client),
      installation: 'blue',
      logger: { info: () => undefined },
      defaults,
      bootstrapTokenExtraGroups: '',
    });
    await client.create(secrets, { metadata: { namespace, name: 'pool' }, stringData: { userData: 'x' } });
    await client.create(machineClasses, {
      metadata: { namespace, name: 'small' },
      provider: 'example',
      secretRef: { namespace, name: 'pool' },
      providerSpec: { region: 'now' },
    });
  });
  afterAll(() => client.close());

  const placeIn = (region: string, generation = 1): Place => ({
    provider: 'example',
    origin: { kind: 'MachineClass', namespace, name: 'small', generation },
    providerSpec: { region },
    credentials: [{ namespace, name: 'pool' }],
  });

  async function newMachine(
    annotations: Record<string, string> = {},
    held: string[] = [],
  ): Promise<{ machine: Machine; ref: ObjectRef }> {
    const name = `m-${randomBytes(4).toString('hex')}`;
    const machine = await client.create(machines, {
      metadata: { namespace, name, annotations, finalizers: held },
      spec: { class: { kind: 'MachineClass', name: 'small' } },
    });
    return { machine, ref: { dialect: 'gardener', namespace, name, uid: machine.metadata.uid } };
  }

  /** The annotation with these places, as Millwright has signed it on the Machine with this name. */
  async function signed(name: string, places: readonly Place[], annotation: string = names.places) {
    const value = JSON.stringify(places);
    const signature = (await createSigners(client)(namespace)).sign({ namespace, name }, annotation, value);
    return { [names.places]: value, [names.placesSignature]: signature };
  }

  async function annotate(ref: ObjectRef, annotations: object): Promise<void> {
    await client.patch(machines, ref, mergePatch({ metadata: { annotations } }));
  }

  async function placesOf(ref: ObjectRef) {
    const { places, problem } = (await activities.readPlaces(ref, 'small')) ?? {};
    return { regions: places?.map(({ providerSpec }) => (providerSpec as { region: string }).region), problem };
  }

  it('go on with the finalizer, in one write', async () => {
    const { machine, ref } = await newMachine();
    await activities.begin(ref, toMachineSnapshot(machine, defaults), false);

    const { metadata } = await client.get(machines, ref);
    expect(metadata.finalizers).toEqual([finalizers.machine]);
    expect(JSON.parse(metadata.annotations?.[names.places] ?? '')).toEqual([placeIn('now')]);
    expect((await activities.readPlaces(ref, 'small'))?.places).toEqual([placeIn('now')]);
  });

  it('need not say what they were read from', async () => {
    const { origin: _, ...place } = placeIn('a');
    const { ref } = await newMachine();
    await annotate(ref, await signed(ref.name, [{ ...place, origin: 'lost' } as unknown as Place]));
    expect((await activities.readPlaces(ref, 'small'))?.places).toEqual([place]);
  });

  it('grow by another one; one that is known becomes the last, also in a later generation', async () => {
    const { ref } = await newMachine();
    for (const place of [placeIn('a'), placeIn('b'), placeIn('a', 7)]) await activities.rememberPlace(ref, place, true);
    expect(await placesOf(ref)).toEqual({ regions: ['b', 'a'] });
  });

  it('[invariant 2 partly] are kept where the Machine names a VM, whatever a restored workflow knows', async () => {
    const { ref } = await newMachine();
    await activities.rememberPlace(ref, placeIn('a'), false);
    await client.patch(machines, ref, mergePatch({ spec: { providerID: 'simulated:///a/vm' } }));
    const after = await activities.rememberPlace(ref, placeIn('b'), false);
    expect(await placesOf(ref)).toEqual({ regions: ['a', 'b'] });
    expect(after).toMatchObject({ providerID: 'simulated:///a/vm' });
  });

  it('are one where nothing was made in another', async () => {
    const { ref } = await newMachine();
    for (const region of ['a', 'b']) await activities.rememberPlace(ref, placeIn(region), false);
    expect(await placesOf(ref)).toEqual({ regions: ['b'] });
  });

  it('are that of the class as it is now where a Machine says nothing', async () => {
    const { ref } = await newMachine();
    expect(await placesOf(ref)).toEqual({ regions: ['now'] });
  });

  it('are none where nothing was asked of any cloud, whatever has become of the class', async () => {
    const { ref } = await newMachine({ [names.places]: '[]' });
    expect(await activities.readPlaces(ref, 'missing')).toMatchObject({ places: [] });
    expect((await activities.readPlaces(ref, 'missing'))?.problem).toBeUndefined();

    await client.patch(machines, ref, mergePatch({ spec: { providerID: 'example:///by-hand/vm-1' } }));
    expect(await placesOf(ref)).toEqual({ regions: ['now'] });
  });

  it.each([
    ['says nothing of them', {}, false, true],
    ['says nothing of them until its creation goes on here', {}, true, true],
    ['was begun here', { [names.places]: '[]' }, true, undefined],
  ])('may have a VM without UID tag if the Machine is deleted and %s', async (_, annotations, isGoneOn, expected) => {
    const { ref } = await newMachine(annotations as Record<string, string>, ['test/held']);
    if (isGoneOn) for (const region of ['a', 'b']) await activities.rememberPlace(ref, placeIn(region), true);
    expect(await activities.readPlaces(ref, 'small')).not.toHaveProperty('mayBeUntagged');
    await client.delete(machines, ref);
    expect((await activities.readPlaces(ref, 'small'))?.mayBeUntagged).toBe(expected);

    await client.patch(machines, ref, mergePatch({ spec: { providerID: 'simulated:///a/vm' } }));
    expect(await activities.readPlaces(ref, 'small')).not.toHaveProperty('mayBeUntagged');
    await client.patch(machines, ref, mergePatch({ metadata: { finalizers: null } }));
  });

  it('stay as they are where the finalizer goes on again', async () => {
    const { ref } = await newMachine();
    await activities.rememberPlace(ref, placeIn('a'), true);
    await activities.addFinalizer(ref, toMachineSnapshot(await client.get(machines, ref), defaults));
    expect(await placesOf(ref)).toEqual({ regions: ['a'] });
  });

  it('have the present generation where the class still describes them', async () => {
    const { ref } = await newMachine();
    const now = { ...placeIn('now', 0) };
    await activities.rememberPlace(ref, now, true);
    const { places, reading } = (await activities.readPlaces(ref, 'small')) ?? {};
    expect(places).toEqual([reading?.cloud]);
    expect(places?.[0]?.origin?.generation).toBeGreaterThan(0);
  });

  it('are kept beside the names of Nodes that go with the Machine', async () => {
    const { ref } = await newMachine();
    for (const nodeNames of [['one'], ['two', 'one']]) await activities.rememberNodes(ref, nodeNames);
    expect(await activities.readPlaces(ref, 'small')).toMatchObject({ nodeNames: ['one', 'two'] });
  });

  it.each([
    ['are those of its class now', 'now'],
    ['are those of another class now', 'other'],
  ])('count without a signature while they %s', async (_, region) => {
    if (region === 'other') {
      await client.create(machineClasses, {
        metadata: { namespace, name: 'other' },
        provider: 'example',
        secretRef: { namespace, name: 'pool' },
        providerSpec: { region },
      });
    }
    const { ref } = await newMachine({ [names.places]: JSON.stringify([placeIn(region)]) });
    expect(await placesOf(ref)).toEqual({ regions: [region] });
  });

  it.each([
    ['no signature', async () => ({ [names.places]: JSON.stringify([placeIn('a')]) })],
    ['one place that no class says', async () => ({ [names.places]: JSON.stringify([placeIn('now'), placeIn('a')]) })],
    [
      'a Secret that the class does not name',
      async () => ({
        [names.places]: JSON.stringify([
          { ...placeIn('now'), credentials: [{ namespace: 'kube-system', name: 'pool' }] },
        ]),
      }),
    ],
    ['the signature of another value', async (name: string) => edited(name)],
    ['the signature of another Machine', async () => signed('another', [placeIn('a')])],
    ['the signature of another annotation', async (name: string) => signed(name, [placeIn('a')], names.nodes)],
  ])('do not count with %s: nothing is asked anywhere, and the problem has the fix', async (_, annotations) => {
    const { ref } = await newMachine();
    await annotate(ref, await annotations(ref.name));
    const { regions, problem } = await placesOf(ref);
    expect(regions).toEqual([]);
    expect(problem).toMatch(
      new RegExp(
        `^annotation ${names.places} .* has no valid signature, and no MachineClass says the same\\. ` +
          'If the MachineClass was changed, restore it as it was, .* If somebody has edited the annotation, put it back',
      ),
    );
    expect(problem).toContain(`millwright retry ${ref.name} -n ${namespace} --installation blue`);
    expect(await activities.rememberPlace(ref, placeIn('b'), true)).toEqual({ placeProblem: problem });
  });

  const edited = async (name: string) => ({
    ...(await signed(name, [placeIn('a')])),
    [names.places]: JSON.stringify([placeIn('b')]),
  });

  it('are signed where they are noted again', async () => {
    const { ref } = await newMachine({ [names.places]: JSON.stringify([placeIn('now')]) });
    await activities.rememberPlace(ref, placeIn('now', 7), true);
    const { annotations } = (await client.get(machines, ref)).metadata;
    expect(annotations).toMatchObject(await signed(ref.name, [placeIn('now')]));
    expect(annotations).not.toHaveProperty([names.begunElsewhere]);
  });

  it('do not fit with their signature into the most that an object takes', async () => {
    const note = 'x'.repeat(256 * 1024 - JSON.stringify([placeIn('a')]).length - 200);
    const { ref } = await newMachine({ note });
    await activities.rememberPlace(ref, placeIn('a'), false);
    const { ref: full } = await newMachine({ note: `${note}${'x'.repeat(150)}` });
    expect(await activities.rememberPlace(full, placeIn('a'), false)).toMatchObject({
      placeProblem: expect.stringContaining('bytes of annotations'),
    });
  });

  it('leave out the names of Nodes that are not signed', async () => {
    const { ref } = await newMachine();
    await activities.rememberNodes(ref, ['one']);
    await annotate(ref, { [names.nodes]: 'one,two' });
    expect(await activities.readPlaces(ref, 'small')).not.toHaveProperty('nodeNames');
    await activities.rememberNodes(ref, ['three']);
    expect(await activities.readPlaces(ref, 'small')).toMatchObject({ nodeNames: ['three'] });
  });

  it('leave out the names of Nodes that were signed for an earlier Machine of the same name', async () => {
    const { ref } = await newMachine();
    await activities.rememberNodes(ref, ['one']);
    const { metadata, spec } = await client.get(machines, ref);
    await client.delete(machines, ref);
    const { name, annotations = {} } = metadata;
    const { metadata: next } = await client.create(machines, { metadata: { namespace, name, annotations }, spec });
    expect(await activities.readPlaces({ ...ref, uid: next.uid }, 'small')).not.toHaveProperty('nodeNames');
  });

  it.each([
    ['no JSON', 'oops', / is not valid \(/],
    ['no provider', '[{"class":{}}]', / is not valid at 0\.provider \(/],
  ])('are a problem that says what to do where the annotation holds %s', async (_, text, problem) => {
    const { ref } = await newMachine({ [names.places]: text });
    const found = await placesOf(ref);
    expect(found).toEqual({ regions: [], problem: expect.stringMatching(problem) });
    expect(found.problem).toContain('Correct it, or remove it');
  });

  it('are nobody’s where the Machine is gone', async () => {
    const { ref } = await newMachine();
    const other = { ...ref, uid: 'another' };
    expect(await activities.readPlaces(other, 'small')).toBeNull();
    expect(await activities.rememberPlace(other, placeIn('a'), true)).toBeNull();
  });
});
