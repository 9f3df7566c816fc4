/** Drains of pods with volumes. The test is the kubelet, the attach/detach controller and the scheduler. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { defineResource, type KubeObject } from '../../../api/objects.ts';
import type { KubeClient } from '../../../kube/client.ts';
import {
  csiNodes,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  podDisruptionBudgets,
  pods,
  volumeAttachments,
} from '../../../kube/core.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { createDrainedNode, type Drain, type DrainedNode } from '../../../test/support/drained-node.ts';
import { testClient } from '../../../test/support/kube.ts';
import { until } from '../../../test/support/until.ts';

const priorityClasses = defineResource<KubeObject & { value: number }>({
  group: 'scheduling.k8s.io',
  version: 'v1',
  plural: 'priorityclasses',
  kind: 'PriorityClass',
  namespaced: false,
});

let client: KubeClient;
let drained: DrainedNode;
/** Node to which volumes go, and CSI driver, of the test alone. */
let otherNode: string;
let driver: string;

beforeAll(() => {
  client = testClient();
});

beforeEach(async () => {
  drained = await createDrainedNode(client);
  otherNode = `other-${drained.nodeName}`;
  driver = `${drained.namespace}.example.com`;
  await client.create(nodes, { metadata: { name: otherNode } });
});

afterEach(async () => {
  await drained.stop();
  const { items } = await client.list(volumeAttachments, { labelSelector: `test=${drained.namespace}` });
  for (const { metadata } of items) await client.delete(volumeAttachments, metadata);
});

afterAll(() => client.close());

/** Lets the other node have volumes of the driver. @param count limit of the driver; without it there is none */
async function newRoom(count?: number): Promise<void> {
  const allocatable = count === undefined ? {} : { allocatable: { count } };
  const spec = { drivers: [{ name: driver, nodeID: otherNode, ...allocatable }] };
  await client.create(csiNodes, { metadata: { name: otherNode }, spec });
}

const volumeOf = (claim: string) => `${drained.namespace}-${claim}`;
const attachmentOf = (claim: string, node: string) => `${volumeOf(claim)}-on-${node}`;

/** A claim with a volume that is attached to the drained node, as a VolumeAttachment says unless told otherwise. */
async function newVolume(claim: string, hasAttachment = true, source?: object): Promise<void> {
  const { namespace, nodeName } = drained;
  const accessModes = ['ReadWriteOnce'];
  const csi = { driver, volumeHandle: `disk-${claim}`, volumeAttributes: { password: 'canary' } };
  const capacity = { storage: '1Gi' };
  await client.create(persistentVolumes, {
    metadata: { name: volumeOf(claim) },
    spec: { accessModes, capacity, ...(source ?? { csi }), mountOptions: ['password=canary'] },
  });
  await client.create(persistentVolumeClaims, {
    metadata: { namespace, name: claim },
    spec: { accessModes, resources: { requests: capacity }, volumeName: volumeOf(claim), storageClassName: '' },
  });
  if (hasAttachment) await attach(claim, nodeName);
}

async function attach(claim: string, nodeName: string): Promise<void> {
  const metadata = { name: attachmentOf(claim, nodeName), labels: { test: drained.namespace } };
  const spec = { attacher: driver, nodeName, source: { persistentVolumeName: volumeOf(claim) } };
  await client.create(volumeAttachments, { metadata, spec });
  const status = mergePatch({ status: { attached: true } });
  await client.patch(volumeAttachments, metadata, status, { subresource: 'status' });
}

const detach = (claim: string) => client.delete(volumeAttachments, { name: attachmentOf(claim, drained.nodeName) });

/** A pod that uses the claims, and ends within a second. */
async function newPod(name: string, claims: readonly string[], spec: object = {}, labels = {}): Promise<void> {
  const volumes = claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
  await drained.newPod(name, { labels }, { volumes, terminationGracePeriodSeconds: 1, ...spec });
}

/** All volumes of the test are the cloud's, unless told otherwise. */
function start(claims: readonly string[], policy: object = {}): Drain {
  const volumeIds = Object.fromEntries(claims.map((claim) => [volumeOf(claim), `disk-${claim}`]));
  return drained.start({}, { volumeIds, policy });
}

const untilWaitingFor = ({ beats }: Drain, text: string) =>
  until(`it waits for ${text}`, (see) => see(beats.at(-1))?.waitingFor.includes(text) === true);
const isDetaching = (claim: string) => `volume ${volumeOf(claim)}: to be detached`;
const isReattaching = (claim: string) => `volume ${volumeOf(claim)}: to be attached to another node`;

async function move(claim: string): Promise<void> {
  await detach(claim);
  await attach(claim, otherNode);
}

describe('pods with volumes', () => {
  it('leave together where other nodes have room, and the drain waits until their volumes are attached there', async () => {
    await newRoom(2);
    for (const claim of ['a', 'b']) {
      await newVolume(claim);
      await newPod(`pod-${claim}`, [claim]);
    }
    const drain = start(['a', 'b']);
    for (const pod of ['pod-a', 'pod-b']) await drained.untilTerminating(pod);
    for (const pod of ['pod-a', 'pod-b']) await drained.finish(pod);
    await untilWaitingFor(drain, isDetaching('a'));
    await detach('a');
    await untilWaitingFor(drain, isReattaching('a'));
    await attach('a', otherNode);
    await until('it waits for one volume', (see) => see(drain.beats.at(-1))?.waitingFor.length === 1);
    await untilWaitingFor(drain, isDetaching('b'));
    await move('b');
    await drain.ended;
    expect(drain.outcomes.map(({ kind }) => kind)).toEqual(['unknownVolumes', 'drained']);
  });

  it('leave together also where their volumes were made for a former plugin of Kubernetes, which a CSI driver attaches', async () => {
    driver = 'pd.csi.storage.gke.io';
    await newRoom(2);
    for (const claim of ['a', 'b']) {
      await newVolume(claim, true, { gcePersistentDisk: { pdName: `disk-${claim}` } });
      await newPod(`pod-${claim}`, [claim]);
    }
    const drain = start(['a', 'b'], { detachMs: 600_000 });
    for (const pod of ['pod-a', 'pod-b']) await drained.untilTerminating(pod);
    for (const claim of ['a', 'b']) {
      await drained.finish(`pod-${claim}`);
      await move(claim);
    }
    await drain.ended;
  });

  it('sends what the provider needs to recognise a volume, and nothing that may be confidential', async () => {
    await newVolume('a');
    await newPod('pod', ['a']);
    const { outcomes } = start(['a']);
    await until('it has come back', () => outcomes.length > 0);
    expect(outcomes[0]).toMatchObject({
      volumes: [{ name: volumeOf('a'), spec: { csi: { driver, volumeHandle: 'disk-a' } } }],
    });
    expect(JSON.stringify(outcomes)).not.toContain('canary');
  });

  it('leave one by one where there is room for one', async () => {
    await newRoom(1);
    for (const claim of ['a', 'b']) {
      await newVolume(claim);
      await newPod(`pod-${claim}`, [claim]);
    }
    await drained.newPod('free');
    const drain = start(['a', 'b']);
    await drained.untilTerminating('pod-a');
    await drained.untilTerminating('free');
    for (const pod of ['pod-a', 'free']) await drained.finish(pod);
    await untilWaitingFor(drain, isDetaching('a'));
    expect(await drained.stateOf('pod-b')).toBe('running');
    await move('a'); // the other node is full now, and nothing moves
    await drained.untilTerminating('pod-b');
    await drained.finish('pod-b');
    await detach('b');
    await attach('b', otherNode);
    await drain.ended;
  });

  it('[mcm 51] leave one by one in the order of priority when that is asked for, each after the volume of the last is attached elsewhere', async () => {
    await newRoom();
    const priorityClassName = `${drained.namespace}-high`;
    await client.create(priorityClasses, { metadata: { name: priorityClassName }, value: 1_000 });
    for (const claim of ['a', 'b']) await newVolume(claim);
    await newPod('a-low', ['a']);
    // The API server's admission hears of a new class a little later.
    await until('a pod may have the class', () => newPod('b-high', ['b'], { priorityClassName }).then(() => true));
    const drain = start(['a', 'b'], { isSerial: true });
    await drained.untilTerminating('b-high');
    await drained.finish('b-high');
    await untilWaitingFor(drain, isDetaching('b'));
    await detach('b');
    await untilWaitingFor(drain, isReattaching('b'));
    expect(await drained.stateOf('a-low')).toBe('running');
    await attach('b', otherNode);
    await drained.untilTerminating('a-low');
    await drained.finish('a-low');
    await move('a');
    await drain.ended;
    await client.delete(priorityClasses, { name: priorityClassName });
  });

  it('[mcm 51 partly] are not waited for longer than their grace period and the two timeouts', async () => {
    await newRoom();
    for (const claim of ['stays', 'goes']) await newVolume(claim);
    await newPod('pod', ['stays', 'goes']);
    const drain = start(['stays', 'goes'], { detachMs: 100, reattachMs: 100 });
    await drained.untilTerminating('pod');
    await drained.finish('pod');
    await detach('goes');
    await drain.ended; // one is never detached, the other is attached nowhere
    expect(await client.find(volumeAttachments, { name: attachmentOf('stays', drained.nodeName) })).toBeDefined();
  });

  it('[mcm 52] are not waited for when the provider does not know their volumes, or several pods share one', async () => {
    await newRoom();
    for (const claim of ['foreign', 'shared']) await newVolume(claim);
    await newPod('of-foreign', ['foreign']);
    for (const pod of ['first', 'second']) await newPod(pod, ['shared']);
    const drain = start(['shared']);
    for (const pod of ['of-foreign', 'first']) await drained.untilTerminating(pod);
    expect(await drained.stateOf('second')).toBe('running');
    await drained.finish('first');
    await drained.untilTerminating('second'); // those that share it leave one after the other
    for (const pod of ['of-foreign', 'second']) await drained.finish(pod);
    await drain.ended;
    for (const claim of ['foreign', 'shared'])
      expect(await client.find(volumeAttachments, { name: attachmentOf(claim, drained.nodeName) })).toBeDefined();
  });

  /** What the kubelet reports and the attach/detach controller goes by. */
  const setAttached = (...ids: string[]) => {
    const volumesAttached = ids.map((id) => ({ name: `kubernetes.io/csi/${driver}^${id}`, devicePath: '' }));
    const status = mergePatch({ status: { volumesAttached } });
    return client.patch(nodes, { name: drained.nodeName }, status, { subresource: 'status' });
  };

  it('are waited for by a drain that begins when they have gone', async () => {
    await newVolume('a');
    await setAttached('disk-a');
    const drain = start(['a']);
    await untilWaitingFor(drain, isDetaching('a'));
    await move('a');
    await drain.ended;
  });

  it('are waited for by the ID of their volume in the status of the Node where there is no VolumeAttachment', async () => {
    await newVolume('a', false);
    await setAttached('disk-a');
    await newPod('pod', ['a']);
    const drain = start(['a'], { reattachMs: 100 });
    await drained.untilTerminating('pod');
    await drained.finish('pod');
    await untilWaitingFor(drain, isDetaching('a'));
    await setAttached('another-disk-a');
    await drain.ended;
    expect(drain.beats.some(({ waitingFor }) => waitingFor.includes(isReattaching('a')))).toBe(true);
  });

  it('are waited for by the next call also when the Node does not report them any more, but is still attached', async () => {
    await newVolume('a');
    const drain = drained.start({ volumes: { [volumeOf('a')]: { id: 'disk-a' } } });
    await untilWaitingFor(drain, isDetaching('a'));
    await move('a');
    await drain.ended;
  });

  it('are waited for when a pod has the same claim twice, and when a pod that has finished has it, too', async () => {
    await newRoom();
    for (const claim of ['twice', 'done']) await newVolume(claim);
    const volumes = ['x', 'y'].map((name) => ({ name, persistentVolumeClaim: { claimName: 'twice' } }));
    await newPod('of-twice', [], { volumes });
    for (const pod of ['finished', 'running']) await newPod(pod, ['done']);
    const finished = { namespace: drained.namespace, name: 'finished' };
    await client.patch(pods, finished, mergePatch({ status: { phase: 'Succeeded' } }), { subresource: 'status' });
    const drain = start(['twice', 'done']);
    await until('the finished pod is gone', async (see) => see(await drained.stateOf('finished')) === 'gone'); // no kubelet has to end it
    for (const pod of ['of-twice', 'running']) await drained.untilTerminating(pod);
    for (const pod of ['of-twice', 'running']) await drained.finish(pod);
    for (const claim of ['twice', 'done']) await untilWaitingFor(drain, isDetaching(claim));
    for (const claim of ['twice', 'done']) await move(claim);
    await drain.ended;
  });

  it('keep no others while it is not known where volumes are', async () => {
    await newVolume('a');
    await newPod('pod', ['a']);
    await drained.newPod('free');
    const target: KubeClient = {
      ...client,
      // biome-ignore lint/correctness/useYield: it fails at once
      async *pages(resource, ...rest) {
        if (resource.plural === 'csinodes') throw new Error('forbidden');
        yield* client.pages(resource, ...rest);
      },
    };
    const drain = drained.start({}, { target });
    await drained.untilTerminating('free');
    await untilWaitingFor(drain, 'the watches of VolumeAttachments, CSINodes and Nodes to begin');
    expect(await drained.stateOf('pod')).toBe('running');
    drain.cancel.abort();
    await expect(drain.ended).rejects.toThrow();
  });

  it('hold no drain that a budget blocks, which finds them again', async () => {
    await newRoom();
    await drained.newBudget('guarded', 0);
    await newVolume('a');
    await newPod('pod', ['a'], {}, { app: 'guarded' });
    const drain = start(['a']);
    await until(
      'it was blocked twice',
      (see) => see(drain.outcomes).filter(({ kind }) => kind === 'blocked').length > 1,
    );
    await client.delete(podDisruptionBudgets, { namespace: drained.namespace, name: 'guarded' });
    await drained.untilTerminating('pod');
    await drained.finish('pod');
    await untilWaitingFor(drain, isDetaching('a'));
    await move('a');
    await drain.ended;
  });
});
