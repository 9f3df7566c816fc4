import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { toMachineSnapshot } from '../../api/gardener/machine/snapshot.ts';
import { annotations, labels, taints } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { cordoners, names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes, volumeAttachments } from '../../kube/core.ts';
import type { EventRecord } from '../../kube/events.ts';
import { mergePatch } from '../../kube/patch.ts';
import { createDrainedNode } from '../../test/support/drained-node.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { refOf } from '../../test/support/refs.ts';
import { createSigners } from '../signatures.ts';
import { createMachineActivities } from './index.ts';

const defaults = {
  creationSeconds: 60,
  drainSeconds: 60,
  maxEvictRetries: 1,
  preserveSeconds: 7200,
  nodeConditions: [],
};
const at = '2030-01-01T00:00:00.000Z';
const expiry = '2030-01-01T02:00:00Z';
const { preserve: key, lastAppliedNodePreserveValue: noted, scaleDownDisabled, scaleDownDisabledByMcm } = annotations;

describe('what a preservation writes', () => {
  let client: KubeClient;
  let namespace: string;
  const events: EventRecord[] = [];
  beforeAll(async () => {
    client = patient(testClient());
    namespace = await newNamespace(client);
  });
  afterAll(() => client.close());

  const activitiesOf = (kube: KubeClient) =>
    createMachineActivities({
      control: kube,
      target: kube,
      events: { record: (event) => events.push(event), flush: async () => undefined },
      findOutage: async () => undefined,
      findSigner: createSigners(kube),
      installation: 'blue',
      logger: { info: () => undefined },
      defaults,
      bootstrapTokenExtraGroups: '',
    });

  /** A Machine of this phase, with a Node of the same name. */
  async function newMachine(phase: string, ofMachine: object = {}, ofNode: object = {}, providerID = 'test:///vm') {
    const name = `kept-${randomBytes(4).toString('hex')}`;
    await client.create(machines, {
      metadata: { namespace, name, labels: { [labels.node]: name }, annotations: ofMachine as Record<string, string> },
      spec: { class: { kind: 'MachineClass', name: 'small' }, providerID },
    });
    await client.create(nodes, {
      metadata: { name, labels: { [labels.machineName]: name }, annotations: ofNode as Record<string, string> },
      spec: { providerID: 'test:///vm' },
    });
    const status = mergePatch({ status: { currentStatus: { phase, lastUpdateTime: '2029-01-01T00:00:00Z' } } });
    return refOf(await client.patch(machines, { namespace, name }, status, { subresource: 'status' }));
  }

  async function seen(ref: ObjectRef) {
    const machine: Machine = await client.get(machines, ref);
    const { metadata, spec, status }: Node = await client.get(nodes, { name: ref.name });
    const condition = status?.conditions?.find(({ type }) => type === 'Preserved');
    return {
      ofMachine: machine.metadata.annotations ?? {},
      status: machine.status?.currentStatus,
      ofNode: metadata.annotations ?? {},
      isCordoned: spec?.unschedulable === true,
      isTainted: spec?.taints?.some((taint) => taint.key === taints.preserved.key) === true,
      condition: condition && [condition.status, condition.message],
    };
  }

  const kept = {
    ofMachine: { [noted]: 'when-failed' },
    status: { phase: 'Failed', lastUpdateTime: '2030-01-01T00:00:00Z', preserveExpiryTime: expiry },
    ofNode: {
      [key]: 'when-failed',
      [scaleDownDisabled]: 'true',
      [scaleDownDisabledByMcm]: 'true',
      [names.cordonedBy]: cordoners.preservation,
    },
    isCordoned: true,
    isTainted: false,
  };

  it('is all there after a failure, then the Node is drained, and that is shown', async () => {
    const { maintain } = activitiesOf(client);
    const ref = await newMachine('Failed', { [key]: 'now' }, { [key]: 'when-failed' });
    expect(await maintain(ref, at)).toMatchObject({ maintenance: 'drain', machine: { preservedUntil: expiry } });
    expect(await seen(ref)).toEqual({ ...kept, condition: undefined });
    expect(events.filter(({ regarding }) => regarding.name === ref.name)).toMatchObject([
      {
        reason: 'Preserved',
        note: `The Machine is preserved until ${expiry}: the annotation of the Node says "when-failed"`,
      },
    ]);

    const message = 'Unavailable: nobody answers';
    expect(await maintain(ref, at, { purpose: 'preservation', isDrained: false, message })).toMatchObject({
      maintenance: 'drain',
    });
    expect((await seen(ref)).condition).toEqual([
      'False',
      `Preserved node could not be drained. Machine preserved until ${expiry}.`,
    ]);
    expect(await maintain(ref, at, { purpose: 'preservation', isDrained: true })).not.toHaveProperty('maintenance');
    expect((await seen(ref)).condition).toEqual([
      'True',
      `Preserved node drained successfully. Machine preserved until ${expiry}.`,
    ]);
    const reasons = events.filter(({ regarding }) => regarding.name === ref.name).map(({ reason }) => reason);
    expect(reasons).toEqual(['Preserved', 'FailedDrain', 'PreservedDrained']);
    const before = (await client.get(nodes, { name: ref.name })).metadata.resourceVersion;
    await maintain(ref, at);
    expect((await client.get(nodes, { name: ref.name })).metadata.resourceVersion).toBe(before);
  });

  it('is complete after the next step, at whichever write a step was lost', async () => {
    for (const isAnswered of [false, true]) {
      for (let writes = 1; ; writes++) {
        const ref = await newMachine('Failed', { [key]: 'false' }, { [key]: 'when-failed' });
        const wasLost = await preserveUntilLost(ref, at, writes, isAnswered);
        await activitiesOf(client).maintain(ref, at);
        expect(await seen(ref)).toEqual({ ...kept, condition: undefined });
        await activitiesOf(client).maintain(ref, at, { purpose: 'preservation', isDrained: true });

        const wasLostAtEnd = await preserveUntilLost(ref, expiry, writes, isAnswered);
        await activitiesOf(client).maintain(ref, expiry);
        expect(await seen(ref)).toMatchObject({
          isCordoned: false,
          condition: ['False', 'Preservation stopped.'],
        });
        const { ofMachine, ofNode, status } = await seen(ref);
        const over = { [names.preservedUntil]: expiry };
        expect([ofMachine, ofNode, status?.preserveExpiryTime]).toEqual([over, {}, undefined]);
        if (!wasLost && !wasLostAtEnd) break;
        expect(writes).toBeLessThan(9);
      }
    }
  });

  /** A step whose write of this number fails, or has its effect and no answer. Answers whether there was one. */
  async function preserveUntilLost(
    ref: ObjectRef,
    time: string,
    number: number,
    isAnswered: boolean,
  ): Promise<boolean> {
    let writes = 0;
    const patch: KubeClient['patch'] = async (...args) => {
      writes += 1;
      if (writes === number && !isAnswered) throw new Error('lost');
      const answer = await client.patch(...args);
      if (writes === number) throw new Error('lost');
      return answer;
    };
    await activitiesOf({ ...client, patch })
      .maintain(ref, time)
      .catch(() => undefined);
    return writes >= number;
  }

  it('is written once, and what is left is said, where the API server does not keep it', async () => {
    const ref = await newMachine('Failed', { [key]: 'now' }, {});
    let writes = 0;
    const patch: KubeClient['patch'] = async (resource, at, { body, ...rest }, options) => {
      writes += 1;
      const { spec: _, ...kept } = body as { spec?: object };
      return client.patch(resource, at, { ...rest, body: kept }, options);
    };

    expect(await activitiesOf({ ...client, patch }).maintain(ref, at)).toMatchObject({ maintenance: 'write' });
    expect((await seen(ref)).isCordoned).toBe(false);
    expect(writes).toBeLessThanOrEqual(4);
  });

  it('leaves the Node of another VM alone', async () => {
    const ref = await newMachine('Failed', { [key]: 'now' }, { [key]: 'false' }, 'test:///other');
    expect(await activitiesOf(client).maintain(ref, at)).toMatchObject({ node: { state: 'absent' } });
    const { ofMachine, ofNode, isCordoned, status } = await seen(ref);
    expect([ofMachine, ofNode, isCordoned, status?.preserveExpiryTime]).toEqual([
      { [key]: 'now' },
      { [key]: 'false' },
      false,
      expiry,
    ]);
  });

  it('is noted on a Machine before that fails, so that its owner does not replace it', async () => {
    const ref = await newMachine('Unknown', {}, { [key]: 'when-failed' });
    let phaseOfNote: string | undefined;
    const patch: KubeClient['patch'] = async (...args) => {
      const answer = await client.patch(...args);
      const { metadata, status } = answer as Machine;
      if (metadata.annotations?.[noted] !== undefined) phaseOfNote ??= status?.currentStatus?.phase;
      return answer;
    };
    const known = toMachineSnapshot(await client.get(machines, ref), defaults);
    await activitiesOf({ ...client, patch }).writeStatus(ref, known, { stage: 'failed', stageSince: at });
    expect(phaseOfNote).toBe('Unknown');
    expect(await seen(ref)).toMatchObject({ ofMachine: { [noted]: 'when-failed' }, status: { phase: 'Failed' } });
  });

  it('ends with the deletion of the Machine', async () => {
    const ref = await newMachine('Failed', { [key]: 'now' });
    await activitiesOf(client).maintain(ref, at);
    const known = toMachineSnapshot(await client.get(machines, ref), defaults);
    await activitiesOf(client).writeStatus(ref, known, { stage: 'deleting' });
    expect((await seen(ref)).status?.preserveExpiryTime).toBeUndefined();
    expect(await activitiesOf(client).maintain(ref, at)).not.toHaveProperty('maintenance');
  });
});

describe('the drain of a preserved machine', () => {
  const client = patient(testClient());
  afterAll(() => client.close());

  it('deletes pods and no VolumeAttachments, and neither cordons the Node nor says that it is being deleted', async () => {
    const node = await createDrainedNode(client);
    const { nodeName: name } = node;
    await node.newPod('a');
    const source = { persistentVolumeName: 'a' };
    await client.create(volumeAttachments, { metadata: { name }, spec: { attacher: 'a', nodeName: name, source } });
    await node.start({ purpose: 'preservation', force: true }).ended;
    expect(await node.stateOf('a')).toBe('gone');
    expect(await client.find(volumeAttachments, { name })).toBeDefined();
    const { spec, status } = await client.get(nodes, { name });
    expect([spec?.unschedulable, status?.conditions ?? []]).toEqual([undefined, []]);
    await client.delete(volumeAttachments, { name });
    await node.stop();
  });

  it('is not over while the cluster does not answer, also past its deadline', async () => {
    const node = await createDrainedNode(client);
    const deaf = { ...client, list: () => Promise.reject(new Error('no answer')) };
    const { ended } = node.start({ purpose: 'preservation', deadline: new Date(0).toISOString() }, { target: deaf });
    await expect(ended).rejects.toThrow('no answer');
    await node.stop();
  });
});
