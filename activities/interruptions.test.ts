/** What is found in a real API server. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { machineClasses, machines } from '../api/gardener/resources.ts';
import { verdictAnnotations } from '../api/verdict.ts';
import type { KubeClient } from '../kube/client.ts';
import { mergePatch } from '../kube/patch.ts';
import { newNamespace, patient, testClient } from '../test/support/kube.ts';
import { createInterruptionActivities, type InterruptionActivities } from './interruptions.ts';

let client: KubeClient;
let activities: InterruptionActivities;
let of: { readonly dialect: string; readonly namespace: string };

beforeAll(async () => {
  client = patient(testClient());
  const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 1, nodeConditions: [] };
  activities = createInterruptionActivities({ control: client, defaults });
});
afterAll(() => client.close());
beforeEach(async () => {
  of = { dialect: 'gardener', namespace: await newNamespace(client) };
});

async function createClass(
  name: string,
  interruptionScope?: string,
  { provider = 'aws', ...changes }: { provider?: string; credentialsSecretRef?: object } = {},
): Promise<void> {
  const verdict = { version: 'of old', problems: [], ...(interruptionScope !== undefined && { interruptionScope }) };
  await client.create(machineClasses, {
    metadata: { namespace: of.namespace, name, annotations: { ...verdictAnnotations(verdict) } },
    ...{ provider, secretRef: { namespace: of.namespace, name: 'pool' }, providerSpec: { name }, ...changes },
  });
}

describe('listInterruptible', () => {
  it('answers one place for each scope of a provider, without classes whose VMs are not taken away or that cannot be used', async () => {
    await createClass('a', 'one');
    await createClass('b', 'one', { provider: 'AWS' });
    await createClass('c', 'two');
    await createClass('d', 'one', { provider: 'other' });
    await createClass('e');
    await createClass('f', 'three', { credentialsSecretRef: { namespace: 'elsewhere', name: 'cloud' } });

    const { places, next } = await activities.listInterruptible(of);
    expect(next).toBeUndefined();
    expect(places.map(({ providerSpec }) => providerSpec)).toEqual([{ name: 'a' }, { name: 'c' }, { name: 'd' }]);
    expect(places[0]).toEqual({
      provider: 'aws',
      origin: { kind: 'MachineClass', namespace: of.namespace, name: 'a', generation: 1 },
      providerSpec: { name: 'a' },
      credentials: [{ namespace: of.namespace, name: 'pool' }],
    });
  });
});

describe('findInterrupted', () => {
  async function createMachine(name: string, phase: string, providerID: string): Promise<string> {
    const key = { namespace: of.namespace, name };
    const spec = { class: { kind: 'MachineClass', name: 'a' }, providerID };
    const { metadata } = await client.create(machines, { metadata: { ...key, finalizers: ['example.com/x'] }, spec });
    const patch = mergePatch({ status: { currentStatus: { phase } } });
    await client.patch(machines, key, patch, { subresource: 'status' });
    return metadata.uid;
  }

  it('answers the Machines that may have a Node whose VMs these are, wherever their provider IDs say they are', async () => {
    const running = await createMachine('running', 'Running', 'aws:///eu-west-1/i-1');
    const unhealthy = await createMachine('unhealthy', 'Unknown', 'aws:///eu-west-1/i-2');
    const joining = await createMachine('joining', 'Pending', 'aws:///eu-west-1/i-3');
    await createMachine('failed', 'Failed', 'aws:///eu-west-1/i-4');
    await createMachine('untouched', 'Running', 'aws:///eu-west-1/i-6');
    await createMachine('deleted', 'Running', 'aws:///eu-west-1/i-5');
    await client.delete(machines, { namespace: of.namespace, name: 'deleted' });

    const ids = [1, 2, 3, 4, 5, 7].map((number) => `aws:///eu-west-1a/i-${number}`);
    const interruptions = ids.map((providerID) => ({ providerID, reason: 'soon' }));
    expect(await activities.findInterrupted(of, interruptions)).toEqual([
      { name: 'joining', uid: joining, providerID: ids[2], reason: 'soon' },
      { name: 'running', uid: running, providerID: ids[0], reason: 'soon' },
      { name: 'unhealthy', uid: unhealthy, providerID: ids[1], reason: 'soon' },
    ]);
    const left = mergePatch({ metadata: { finalizers: null } });
    await client.patch(machines, { namespace: of.namespace, name: 'deleted' }, left);
  });
});
