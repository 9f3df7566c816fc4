/** What is written on a class of a real API server. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import { machineClasses } from '../api/gardener/resources.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { names } from '../api/names.ts';
import { verdictOf } from '../api/verdict.ts';
import type { KubeClient } from '../kube/client.ts';
import { secrets } from '../kube/core.ts';
import type { EventRecord } from '../kube/events.ts';
import { mergePatch } from '../kube/patch.ts';
import { newNamespace, patient, testClient } from '../test/support/kube.ts';
import { createVerdictActivities } from './verdict.ts';

const recorded: EventRecord[] = [];
const events = { record: (event: EventRecord) => recorded.push(event), flush: async () => undefined };
let client: KubeClient;
let writeVerdict: ReturnType<typeof createVerdictActivities>['writeVerdict'];
let ref: ObjectRef;

beforeAll(async () => {
  client = patient(testClient());
  ({ writeVerdict } = createVerdictActivities({ control: client, events }));
});
afterAll(() => client.close());

beforeEach(async () => {
  recorded.length = 0;
  const namespace = await newNamespace(client);
  await client.create(secrets, { metadata: { namespace, name: 'pool' }, stringData: { userData: 'x' } });
  const { metadata } = await client.create(machineClasses, {
    metadata: { namespace, name: 'small', annotations: { other: 'stays' } },
    provider: 'simulated',
    secretRef: { namespace, name: 'pool' },
    providerSpec: { size: 'huge' },
  });
  ref = { dialect: 'gardener', namespace, name: 'small', uid: metadata.uid };
});

const read = () => gardener.source.read((resource, key) => client.find(resource, key), ref, ref.name);
const findClass = () => client.get(machineClasses, ref);

async function judge(...problems: string[]): Promise<void> {
  await writeVerdict(ref, { version: (await read()).version, problems });
}

describe('writeVerdict', () => {
  it('writes a refusal on the class, which stays of its version, with an Event that has all problems', async () => {
    const { version } = await read();
    await judge('size is huge', 'token is missing');

    const { metadata } = await findClass();
    expect(verdictOf({ metadata })).toEqual({ version, problems: ['size is huge', 'token is missing'] });
    expect(metadata.annotations).toMatchObject({ other: 'stays', [names.accepted]: 'false' });
    expect(await read()).toMatchObject({ version, refusal: 'MachineClass "small": size is huge; token is missing' });
    expect(recorded).toMatchObject([
      {
        regarding: { kind: 'MachineClass', name: 'small', uid: ref.uid },
        type: 'Warning',
        reason: 'SourceRefused',
        note: 'no VM can be made from it: size is huge; token is missing',
      },
    ]);
  });

  it('[invariant 9 partly] writes nothing twice', async () => {
    await judge('size is huge');
    const { metadata } = await findClass();
    await judge('size is huge');

    expect((await findClass()).metadata.resourceVersion).toBe(metadata.resourceVersion);
    expect(recorded).toHaveLength(1);
  });

  it('records that a class is accepted only after a refusal', async () => {
    await judge();
    expect(recorded).toEqual([]);
    await judge('size is huge');
    await judge();

    expect(recorded.map(({ type, reason }) => [type, reason])).toEqual([
      ['Warning', 'SourceRefused'],
      ['Normal', 'SourceAccepted'],
    ]);
    expect(await read()).not.toHaveProperty('refusal');
    expect((await findClass()).metadata.annotations).toMatchObject({ [names.accepted]: 'true' });
  });

  it('replaces what somebody has written by hand', async () => {
    await client.patch(machineClasses, ref, mergePatch({ metadata: { annotations: { [names.verdict]: '["mine"]' } } }));
    await judge('size is huge');

    expect(verdictOf(await findClass())).toMatchObject({ problems: ['size is huge'] });
  });

  it.each<[string, () => Promise<unknown>]>([
    ['class', () => client.patch(machineClasses, ref, mergePatch({ providerSpec: { size: 'small' } }))],
    ['Secret', () => client.delete(secrets, { ...ref, name: 'pool' })],
  ])('writes nothing about a %s that was changed meanwhile', async (_, change) => {
    const { version } = await read();
    await change();
    await writeVerdict(ref, { version, problems: ['size is huge'] });

    expect([verdictOf(await findClass()), recorded]).toEqual([undefined, []]);
  });

  it('writes nothing about a class that is gone or was made again', async () => {
    const { version } = await read();
    await writeVerdict({ ...ref, uid: 'another' }, { version, problems: ['size is huge'] });
    expect(verdictOf(await findClass())).toBeUndefined();

    await client.delete(machineClasses, ref);
    await writeVerdict(ref, { version, problems: ['size is huge'] });
    expect(recorded).toEqual([]);
  });
});
