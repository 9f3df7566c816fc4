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
    const { ref } = await newMachine({ [names.places]: JSON.stringify([{ ...place, origin: 'lost' }]) });
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
