import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { registerDialect } from '../../api/dialects.ts';
import { gardener } from '../../api/gardener/index.ts';
import { toMachineSnapshot } from '../../api/gardener/machine/snapshot.ts';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineLimits, MachineReport, MachineSnapshot } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { cordoners, names } from '../../api/names.ts';
import { toNodeView, toNodeViewOf } from '../../api/node.ts';
import { verdictAnnotations } from '../../api/verdict.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes, secrets } from '../../kube/core.ts';
import { StatusError } from '../../kube/errors.ts';
import type { EventRecord } from '../../kube/events.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, patient, testClient } from '../../test/support/kube.ts';
import { createSigners } from '../signatures.ts';
import { createMachineActivities, type MachineActivities } from './index.ts';

const defaults: MachineLimits = {
  clockSkewSeconds: 300, // Nodes of these tests are older than their Machines
  creationSeconds: 1200,
  drainSeconds: 7200,
  maxEvictRetries: 360,
  nodeConditions: ['DiskPressure'],
};
const suffix = randomBytes(4).toString('hex');
const events: EventRecord[] = [];
const lines: object[] = [];
let client: KubeClient;
let namespace: string;
let activities: MachineActivities;

beforeAll(async () => {
  client = patient(testClient());
  namespace = await newNamespace(client);
  activities = createActivities(client);
  await client.create(secrets, { metadata: { namespace, name: 'pool' }, stringData: { userData: 'x' } });
  await client.create(machineClasses, {
    metadata: { namespace, name: 'small' },
    provider: 'simulated',
    secretRef: { namespace, name: 'pool' },
    providerSpec: {},
  });
});

afterAll(() => client.close());

function createActivities(control: KubeClient, target = client): MachineActivities {
  return createMachineActivities({
    control,
    target,
    events: { record: (event) => events.push(event), flush: async () => undefined },
    findOutage: async () => undefined,
    findSigner: createSigners(control),
    installation: 'blue',
    logger: { info: (fields) => void lines.push(fields) },
    defaults,
    bootstrapTokenExtraGroups: '',
  });
}

/** Of a Node that has to be read. */
const unseen = { state: 'unknown' } as const;

let made = 0;
function newName(): string {
  made += 1;
  return `m-${suffix}-${made}`;
}

function refOf({ metadata }: Machine): ObjectRef {
  return { dialect: 'gardener', namespace, name: metadata.name, uid: metadata.uid };
}

async function newMachine(change: { labels?: Record<string, string>; finalizers?: string[] } = {}): Promise<Machine> {
  return client.create(machines, {
    metadata: { namespace, name: newName(), ...change },
    spec: { class: { kind: 'MachineClass', name: 'small' } },
  });
}

async function newNode(
  change: { labels?: Record<string, string>; finalizers?: string[] },
  conditions?: object[],
): Promise<Node> {
  const { metadata } = await client.create(nodes, { metadata: { name: `node-${newName()}`, ...change } });
  return setConditions(metadata.name, conditions);
}

async function setConditions(name: string, conditions: object[] = []): Promise<Node> {
  return client.patch(nodes, { name }, mergePatch({ status: { conditions } }), { subresource: 'status' });
}

const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: '2026-08-19T10:00:00Z' };

async function get(ref: ObjectRef): Promise<Machine> {
  return client.get(machines, ref);
}

const snapshotOf = (machine: Machine): MachineSnapshot => toMachineSnapshot(machine, defaults);
/** The same as a workflow says it whose cloud has named the VM and the Node. */
function claimOf(machine: Machine) {
  const { nodeName, providerID, ...snapshot } = snapshotOf(machine);
  const named = { ...(providerID !== undefined && { providerID }), ...(nodeName !== undefined && { nodeName }) };
  return { ...snapshot, ...named, namedByCloud: named };
}
const seenOf = async (ref: ObjectRef) => snapshotOf(await get(ref));

/** A client whose every write comes after something else has happened, once. */
function disturbed(happen: () => Promise<unknown>): KubeClient {
  let isDone = false;
  return {
    ...client,
    patch: async (...args) => {
      if (!isDone) {
        isDone = true;
        await happen();
      }
      return client.patch(...args);
    },
  };
}

describe('noteLostMachine', () => {
  it('notes the time on the class, and names the Machine and its VM in an Event and in the log', async () => {
    const { metadata } = await client.create(machineClasses, {
      ...{ metadata: { namespace, name: `class-${newName()}` }, provider: 'simulated', providerSpec: {} },
    });
    const ref = { dialect: 'gardener', namespace, name: newName(), uid: 'gone' };
    await activities.noteLostMachine(ref, metadata.name, { providerID: 'x:///vm-1' });

    const { metadata: noted } = await client.get(machineClasses, { namespace, name: metadata.name });
    expect(Date.parse(noted.annotations?.[names.lostMachine] ?? '')).toBeCloseTo(Date.now(), -5);
    expect(lines).toContainEqual({ namespace, machine: ref.name, source: metadata.name, providerID: 'x:///vm-1' });
    const recorded = events.filter(({ regarding }) => regarding.uid === metadata.uid);
    expect(recorded).toMatchObject([{ type: 'Warning', reason: 'MachineLost', regarding: { kind: 'MachineClass' } }]);
    expect(recorded[0]?.note).toBe(
      `Machine ${ref.name} has disappeared although its deletion was not finished, and its VM x:///vm-1 may still be there: ` +
        `the next sweep looks for it, and \`millwright sweep -n ${namespace} --installation blue\` at once`,
    );
  });

  it('records no Event without what was lost, and none for a class that is gone', async () => {
    const before = events.length;
    const ref = { dialect: 'gardener', namespace, name: newName(), uid: 'gone' };
    expect(await activities.noteLostMachine(ref, 'small')).toBe(false);
    expect(await activities.noteLostMachine(ref, 'gone', {})).toBe(true);

    expect(events).toHaveLength(before);
  });
});

describe('observeMachine', () => {
  it('reads the Machine and its Node', async () => {
    const node = await newNode({}, [ready]);
    const machine = await newMachine({ labels: { [labels.node]: node.metadata.name } });
    expect(await activities.observeMachine(refOf(machine))).toEqual({
      machine: snapshotOf(machine),
      node: {
        state: 'present',
        uid: node.metadata.uid,
        resourceVersion: node.metadata.resourceVersion,
        name: node.metadata.name,
        deleting: false,
        managed: false,
        conditions: { Ready: 'True' },
        startingUp: false,
        isUnnamed: true,
      },
    });
  });

  it('finds the Node by provider ID where the dialect matches so', async () => {
    const dialect = 'by-provider-id';
    registerDialect({ ...gardener, name: dialect, policy: { ...gardener.policy, nodeMatch: 'providerID' } });
    const { metadata } = await client.create(nodes, {
      metadata: { name: `node-${newName()}` },
      spec: { providerID: `simulated:///zone-1/${suffix}` },
    });
    const providerID = `simulated:///region/${suffix.toUpperCase()}`;
    const machine = await client.create(machines, { metadata: { namespace, name: newName() }, spec: { providerID } });
    const ref = refOf(machine);

    expect(await activities.observeMachine({ ...ref, dialect })).toMatchObject({ node: { name: metadata.name } });
    expect(await activities.observeMachine(ref)).toMatchObject({ node: { state: 'absent' } });
  });

  it('says that there is no Node', async () => {
    const nameless = await newMachine();
    const nodeless = await newMachine({ labels: { [labels.node]: 'no-such-node' } });
    for (const machine of [nameless, nodeless]) {
      expect(await activities.observeMachine(refOf(machine))).toMatchObject({ node: { state: 'absent' } });
    }
  });
});

describe('begin', () => {
  const placesIn = (machine: Machine) => machine.metadata.annotations?.[names.places];

  it('reads the source and puts our finalizer beside those of others, with the place, in one write', async () => {
    const machine = await newMachine({ finalizers: ['example.com/other'] });
    const begun = await activities.begin(refOf(machine), snapshotOf(machine), false);
    expect(begun).toMatchObject({ reading: { cloud: { provider: 'simulated' } }, machine: { managed: true } });
    const after = await get(refOf(machine));
    expect(after.metadata.finalizers).toEqual(['example.com/other', finalizers.machine]);
    expect(JSON.parse(placesIn(after) ?? '')).toEqual([begun?.reading.cloud]);
    expect(after.metadata.annotations?.[names.firstUid]).toBe(machine.metadata.uid);
    const notBeforeMs = Date.parse(machine.metadata.creationTimestamp) - 300_000;
    expect(begun?.machine?.nodeNotBefore).toBe(new Date(notBeforeMs).toISOString());
  });

  it.each([
    ['its class does not exist', { class: { kind: 'MachineClass', name: 'missing' } }],
    ['it names a class of another kind', { class: { kind: 'AWSMachineClass', name: 'small' } }],
  ])('says why no VM can be made and records that there is none: %s', async (_, spec) => {
    const metadata = { namespace, name: newName() };
    const machine = await client.create(machines, { metadata, spec });
    const begun = await activities.begin(refOf(machine), snapshotOf(machine), false);
    expect(begun).toMatchObject({ reading: { problem: expect.any(String) }, machine: { managed: true } });
    expect(placesIn(await get(refOf(machine)))).toBe('[]');
  });

  it('records that there is no VM where its class is refused', async () => {
    const key = { namespace, name: newName() };
    const usable = { provider: 'simulated', secretRef: { namespace, name: 'pool' }, providerSpec: {} };
    await client.create(machineClasses, { metadata: key, ...usable });
    const spec = { class: { kind: 'MachineClass', name: key.name } };
    const machine = await client.create(machines, { metadata: { namespace, name: newName() }, spec });
    const { version, problem } = await activities.readSource(refOf(machine), key.name);
    const annotations = verdictAnnotations({ version, problems: ['size is missing'] });
    await client.patch(machineClasses, key, mergePatch({ metadata: { annotations } }));
    const begun = await activities.begin(refOf(machine), snapshotOf(machine), false);
    expect(problem).toBeUndefined();
    expect(begun).toMatchObject({ reading: { refusal: `MachineClass "${key.name}": size is missing` } });
    expect(placesIn(await get(refOf(machine)))).toBe('[]');
  });

  it('writes nothing on a Machine that is not as it was seen', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    const changed = await client.patch(machines, ref, mergePatch({ metadata: { labels: { pool: 'b' } } }));
    expect(await activities.begin(ref, snapshotOf(machine), false)).toMatchObject({ machine: null });
    expect(await get(ref)).toEqual(changed);
  });

  it('says that the place does not fit into the annotations, and does not begin', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    const large = { annotations: { large: 'x'.repeat(262_100) } };
    await client.patch(machines, ref, mergePatch({ metadata: large }));
    const problem = expect.stringMatching(
      /^with millwright\.dev\/places, .* would have 26\d{4} bytes .* 262144 is the most/,
    );

    expect(await activities.begin(ref, await seenOf(ref), false)).toEqual({
      reading: expect.objectContaining({ problem }),
    });
    expect((await get(ref)).metadata).not.toHaveProperty('finalizers');
    const place = { provider: 'simulated', providerSpec: {}, credentials: [] };
    expect(await activities.rememberPlace(ref, place, false)).toEqual({ placeProblem: problem });
    expect(placesIn(await get(ref))).toBeUndefined();
  });

  it('reads the source alone where the finalizer is on', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const begun = await activities.begin(refOf(machine), snapshotOf(machine), false);
    expect(begun).toEqual({ reading: expect.objectContaining({ cloud: expect.anything() }) });
    expect(await get(refOf(machine))).toEqual(machine);
  });

  it('keeps the recorded places of a Machine that may have a VM', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    await client.patch(machines, ref, mergePatch({ metadata: { annotations: { [names.places]: '[1]' } } }));
    await activities.begin(ref, await seenOf(ref), true);
    expect(placesIn(await get(ref))).toBe('[1]');
  });
});

describe('addFinalizer', () => {
  it('[mcm 7 partly] [invariant 3 partly] adds ours beside those of others', async () => {
    const machine = await newMachine({ finalizers: ['example.com/other'] });
    const after = await activities.addFinalizer(refOf(machine), snapshotOf(machine));
    expect(after).toMatchObject({ managed: true, finalizers: ['example.com/other', finalizers.machine] });
    expect((await get(refOf(machine))).metadata.finalizers).toEqual(['example.com/other', finalizers.machine]);
  });

  it('keeps a finalizer that somebody puts there at the same moment', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    const added = mergePatch({ metadata: { finalizers: ['example.com/late'] } });
    const late = createActivities(disturbed(() => client.patch(machines, ref, added)));
    expect(await late.addFinalizer(ref, snapshotOf(machine))).toMatchObject({ managed: true });
    expect((await get(ref)).metadata.finalizers).toEqual(['example.com/late', finalizers.machine]);
  });

  it('adds none to a Machine that somebody deletes at the same moment', async () => {
    const machine = await newMachine({ finalizers: ['example.com/other'] });
    const ref = refOf(machine);
    const late = createActivities(disturbed(() => client.delete(machines, ref)));
    expect(await late.addFinalizer(ref, snapshotOf(machine))).toMatchObject({ managed: false });
    expect((await get(ref)).metadata.finalizers).toEqual(['example.com/other']);
  });

  it('writes nothing when it is there', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const seen = snapshotOf(machine);
    expect(await activities.addFinalizer(refOf(machine), seen)).toBe(seen);
    expect((await get(refOf(machine))).metadata.resourceVersion).toBe(machine.metadata.resourceVersion);
  });
});

describe('storeIdentity', () => {
  it('[mcm 14 partly] stores provider ID, node name and priority in one write', async () => {
    const machine = await newMachine({ labels: { pool: 'a' } });
    const ref = refOf(machine);
    const identity = { providerID: 'simulated://1', nodeName: 'node-1' };
    const after = await activities.storeIdentity(ref, snapshotOf(machine), identity);
    expect(after).toMatchObject({ providerID: 'simulated://1', nodeName: 'node-1' });
    expect(await get(ref)).toMatchObject({
      metadata: { labels: { pool: 'a', node: 'node-1' }, annotations: { [annotations.priority]: '3' } },
      spec: { providerID: 'simulated://1', class: { name: 'small' } },
    });
  });

  it('[invariant 2 partly] replaces no provider ID that was not seen, and any that was', async () => {
    const machine = await newMachine();
    const [ref, seen] = [refOf(machine), snapshotOf(machine)];
    const first = await activities.storeIdentity(ref, seen, { providerID: 'simulated:///here/1' });
    expect(await activities.storeIdentity(ref, seen, { providerID: 'simulated:///there/2' })).toEqual(first);
    expect((await get(ref)).spec?.providerID).toBe('simulated:///here/1');

    const after = await activities.storeIdentity(ref, first!, { providerID: 'simulated:///there/2' });
    expect(after?.providerID).toBe('simulated:///there/2');
  });

  it('is not stopped by a change of something else since the Machine was seen', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    await client.patch(machines, ref, mergePatch({ metadata: { labels: { pool: 'b' } } }));
    const after = await activities.storeIdentity(ref, snapshotOf(machine), { providerID: 'simulated:///here/1' });
    expect(after?.providerID).toBe('simulated:///here/1');
  });

  it.each([
    ['as it was seen', false],
    ['that was changed meanwhile', true],
  ])(
    'notes the tags of the VM with its identity, on a Machine %s, until that VM is forgotten',
    async (_, isChanged) => {
      const machine = await newMachine();
      const ref = refOf(machine);
      if (isChanged) await client.patch(machines, ref, mergePatch({ metadata: { labels: { pool: 'b' } } }));
      const identity = { providerID: 'simulated:///here/1' };
      await activities.storeIdentity(ref, snapshotOf(machine), identity, undefined, { team: 'a' });
      expect((await get(ref)).metadata.annotations).toMatchObject({
        [names.vmTags]: '{"team":"a"}',
        [annotations.priority]: '3',
      });

      await activities.forgetVm(ref, 1);
      expect((await get(ref)).metadata.annotations).not.toHaveProperty([names.vmTags]);
    },
  );

  it('then reports what it is given, in the same step', async () => {
    const machine = await newMachine();
    const [ref, seen] = [refOf(machine), snapshotOf(machine)];
    const report: MachineReport = { stage: 'joining', event: { reason: 'VmCreated' } };
    const after = await activities.storeIdentity(ref, seen, { providerID: 'simulated:///here/1' }, report);
    expect(after).toMatchObject({ providerID: 'simulated:///here/1', phase: 'Pending' });
    expect(await seenOf(ref)).toEqual(after);

    // Again, as after an answer that was lost.
    expect(await activities.storeIdentity(ref, seen, { providerID: 'simulated:///here/1' }, report)).toEqual(after);
    expect(events.filter(({ regarding }) => regarding.uid === ref.uid)).toHaveLength(1);
  });

  it('reports nothing of a VM that it did not store, and nothing on a Machine that is deleted meanwhile', async () => {
    const report: MachineReport = { stage: 'joining', event: { reason: 'VmCreated' } };
    const named = refOf(await newMachine());
    const seen = await seenOf(named);
    const first = await activities.storeIdentity(named, seen, { providerID: 'simulated:///here/1' });
    expect(await activities.storeIdentity(named, seen, { providerID: 'simulated:///there/2' }, report)).toEqual(first);

    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const deleted = refOf(machine);
    await client.delete(machines, deleted);
    const after = await activities.storeIdentity(deleted, snapshotOf(machine), { providerID: 'a:///b/1' }, report);
    expect(after).toMatchObject({ providerID: 'a:///b/1', phase: '', deletingSince: expect.any(String) });
    expect(events.filter(({ regarding }) => [named.uid, deleted.uid].includes(regarding.uid))).toEqual([]);
  });

  it('keeps a priority and a node name that are there', async () => {
    const machine = await newMachine({ labels: { [labels.node]: 'node-1' } });
    const ref = refOf(machine);
    await client.patch(machines, ref, mergePatch({ metadata: { annotations: { [annotations.priority]: '1' } } }));
    await activities.storeIdentity(ref, await seenOf(ref), { providerID: 'simulated://1' });
    expect(await get(ref)).toMatchObject({
      metadata: { labels: { node: 'node-1' }, annotations: { [annotations.priority]: '1' } },
    });
  });
});

describe('writeStatus', () => {
  it('[mcm 20 partly] writes phase and operation, with an Event', async () => {
    const ref = refOf(await newMachine());
    const change: MachineReport = {
      stage: 'joining',
      stageSince: '2026-08-19T10:00:00.5Z',
      step: { kind: 'create', state: 'processing' },
      isTimed: true,
      lastKnownState: 'state',
      event: { reason: 'VmCreated' },
    };
    expect(await activities.writeStatus(ref, await seenOf(ref), change)).toMatchObject({
      phase: 'Pending',
      lastKnownState: 'state',
    });
    expect((await get(ref)).status).toMatchObject({
      currentStatus: { phase: 'Pending', timeoutActive: true, lastUpdateTime: '2026-08-19T10:00:00Z' },
      lastOperation: { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
      lastKnownState: 'state',
    });
    expect(events.filter(({ regarding }) => regarding.uid === ref.uid)).toEqual([
      {
        type: 'Normal',
        reason: 'VmCreated',
        action: 'VmCreated',
        note: 'Creating machine on cloud provider',
        regarding: {
          apiVersion: 'machine.sapcloud.io/v1alpha1',
          kind: 'Machine',
          namespace,
          name: ref.name,
          uid: ref.uid,
        },
      },
    ]);
  });

  it('takes the error code away with the next operation and leaves alone what a change leaves out', async () => {
    const ref = refOf(await newMachine());
    await activities.writeStatus(ref, await seenOf(ref), {
      stage: 'creating',
      stageSince: '2026-08-19T10:00:00Z',
      step: { kind: 'create', state: 'failed', message: 'no', code: 'ResourceExhausted' },
    });
    expect((await get(ref)).status?.lastOperation).toMatchObject({ errorCode: 'ResourceExhausted' });
    const seen = await seenOf(ref);
    const preserveExpiryTime = '2030-01-01T00:00:00Z';
    const byOthers = mergePatch({ status: { currentStatus: { preserveExpiryTime } } });
    await client.patch(machines, ref, byOthers, { subresource: 'status' });

    const step = { kind: 'create', state: 'processing' } as const;
    // Its version is out of date by now.
    await activities.writeStatus(ref, seen, { stage: 'creating', step });
    const { status } = await get(ref);
    expect(status?.lastOperation).not.toHaveProperty('errorCode');
    expect(status?.currentStatus).toMatchObject({ lastUpdateTime: '2026-08-19T10:00:00Z', preserveExpiryTime });
  });

  it('leaves a phase alone that somebody else has written in the same stage', async () => {
    const ref = refOf(await newMachine());
    const phaseOf = (phase: string) => mergePatch({ status: { currentStatus: { phase } } });
    await client.patch(machines, ref, phaseOf('InPlaceUpdating'), { subresource: 'status' });
    const seen = await seenOf(ref);
    await client.patch(machines, ref, phaseOf('InPlaceUpdateSuccessful'), { subresource: 'status' });

    await activities.writeStatus(ref, seen, { stage: 'updating' });
    expect((await get(ref)).status?.currentStatus?.phase).toBe('InPlaceUpdateSuccessful');
  });

  it('leaves a Machine alone that is in another stage than was seen, or is deleted and was not', async () => {
    const ref = refOf(await newMachine());
    const seen = await seenOf(ref);
    await activities.writeStatus(ref, seen, { stage: 'running' });
    const late: MachineReport = { stage: 'joining', event: { reason: 'VmFailed' } };

    expect(await activities.writeStatus(ref, seen, late)).toMatchObject({ phase: 'Running' });

    const running = await seenOf(ref);
    await client.patch(machines, ref, mergePatch({ metadata: { finalizers: ['test/keep'] } }));
    await client.delete(machines, ref);
    expect(await activities.writeStatus(ref, running, late)).toMatchObject({ phase: 'Running' });
    expect((await get(ref)).status?.currentStatus?.phase).toBe('Running');
    expect(events.filter(({ regarding }) => regarding.uid === ref.uid)).toEqual([]);
    await client.patch(machines, ref, mergePatch({ metadata: { finalizers: null } }));
  });
});

describe('syncNode', () => {
  const running: MachineReport = {
    stage: 'running',
    stageSince: '2026-08-19T10:00:00Z',
    step: { kind: 'join', state: 'successful' },
  };

  async function pair(
    conditions: object[],
    nodeMetadata: { labels?: Record<string, string>; finalizers?: string[] } = {},
  ) {
    const node = await newNode(nodeMetadata, conditions);
    const machine = await newMachine({ labels: { [labels.node]: node.metadata.name } });
    return { node, machine, ref: refOf(machine), seen: claimOf(machine) };
  }

  it('[mcm 21 partly] [mcm 38] marks the node, copies its conditions and makes the Machine Running', async () => {
    const { node, ref, seen } = await pair([ready], { labels: { zone: 'a' }, finalizers: ['example.com/other'] });
    const after = await activities.syncNode(ref, seen, running, unseen);
    expect(after).toMatchObject({
      machine: { phase: 'Running', conditions: { Ready: 'True' } },
      node: { state: 'present', managed: true },
    });
    const { metadata } = await client.get(nodes, node.metadata);
    expect(metadata.labels).toMatchObject({ zone: 'a', [labels.machineName]: ref.name });
    expect(metadata.finalizers).toEqual(expect.arrayContaining(['example.com/other', finalizers.node]));
    expect((await get(ref)).status).toMatchObject({ conditions: [ready], lastOperation: { state: 'Successful' } });
  });

  it('takes no node that another Machine of its VM has marked, also where that happens at the same moment', async () => {
    const providerID = 'cloud:///ours';
    const { node, ref, seen, machine } = await pair([ready]);
    const byOther = { labels: { [labels.machineName]: machine.metadata.name }, finalizers: [finalizers.node] };
    const copy = await newMachine({ labels: { [labels.node]: node.metadata.name } });
    for (const { metadata } of [machine, copy])
      await client.patch(machines, metadata, mergePatch({ spec: { providerID } }));
    await client.patch(nodes, node.metadata, mergePatch({ spec: { providerID } }));
    const late = createActivities(
      client,
      disturbed(() => client.patch(nodes, node.metadata, mergePatch({ metadata: byOther }))),
    );
    const notOwn = `node ${node.metadata.name} is that of Machine ${namespace}/${ref.name}, which names the same VM`;
    const ofCopy = { ...claimOf(await get(refOf(copy))), providerID };

    expect(await late.syncNode(refOf(copy), ofCopy, running, unseen)).toMatchObject({
      node: { state: 'absent', notOwn },
    });
    expect((await client.get(nodes, node.metadata)).metadata.labels).toEqual(byOther.labels);
    expect(await activities.syncNode(ref, { ...seen, providerID }, running, unseen)).toMatchObject({
      node: { state: 'present', managed: true },
    });
  });

  it('marks a node that is as it was seen without reading it', async () => {
    const { node, ref, seen } = await pair([ready]);
    const target: KubeClient = Object.create(client, { find: { value: () => Promise.reject(new Error('a read')) } });
    const seenNode = toNodeView(gardener.marks, { node, facts: { isUnnamed: true } }, ref);
    expect(await createActivities(client, target).syncNode(ref, seen, running, seenNode)).toMatchObject({
      machine: { phase: 'Running' },
      node: { state: 'present', managed: true },
    });
  });

  const { scaleDownDisabled, scaleDownDisabledByMcm } = annotations;
  const kept = { [scaleDownDisabled]: 'true', [scaleDownDisabledByMcm]: 'true' };
  const byTemplate = { nodeTemplate: { metadata: { annotations: { [scaleDownDisabled]: 'true' } } } };
  it.each([
    ['as it joins', true, {}, kept],
    [
      'beside what the template of its machine says',
      true,
      { nodeTemplate: { metadata: { labels: { a: 'b' } } } },
      kept,
    ],
    ['unless the template says so', true, byTemplate, { [scaleDownDisabled]: 'true' }],
    ['only where its machine was made in a rollout', false, {}, {}],
  ])('[mcm 75 partly] keeps the autoscaler away from a node, %s', async (_name, isOfRollout, spec, expected) => {
    const node = await newNode({}, [ready]);
    const { metadata } = await newMachine({ labels: { [labels.node]: node.metadata.name } });
    const annotations = isOfRollout ? { [names.createdInRollout]: 'true' } : {};
    const machine = await client.patch(machines, metadata, mergePatch({ metadata: { annotations }, spec }));
    const seenNode = toNodeViewOf(gardener, { node }, machine);

    await activities.syncNode(refOf(machine), claimOf(machine), running, seenNode);

    const has = (await client.get(nodes, node.metadata)).metadata.annotations ?? {};
    const keys: string[] = [scaleDownDisabled, scaleDownDisabledByMcm];
    expect(Object.fromEntries(Object.entries(has).filter(([key]) => keys.includes(key)))).toEqual(expected);
  });

  it('reads a node that was changed since it was seen, and marks none of another VM', async () => {
    const { node, seen, ref } = await pair([ready]);
    const seenNode = toNodeView(gardener.marks, { node }, ref);
    await client.patch(nodes, node.metadata, mergePatch({ spec: { providerID: 'simulated:///here/another' } }));
    const after = await activities.syncNode(ref, { ...seen, providerID: 'simulated:///here/own' }, running, seenNode);
    expect(after).toMatchObject({ machine: { phase: '' }, node: { state: 'absent' } });
    expect((await client.get(nodes, node.metadata)).metadata.finalizers).toBeUndefined();
  });

  it('adds the finalizer once, however often it is called', async () => {
    const { node, ref, seen } = await pair([ready]);
    await activities.syncNode(ref, seen, running, unseen);
    await activities.syncNode(ref, seen, running, unseen);
    expect((await client.get(nodes, node.metadata)).metadata.finalizers).toEqual([finalizers.node]);
  });

  it('[mcm 31 partly] refuses Running while the node says otherwise by now, and copies its conditions all the same', async () => {
    const { ref, seen } = await pair([{ ...ready, status: 'False' }]);
    const after = await activities.syncNode(ref, seen, running, unseen);
    expect(after).toMatchObject({ machine: { phase: '', conditions: { Ready: 'False' } } });
    expect((await get(ref)).status).not.toHaveProperty('lastOperation');
  });

  it('refuses Unknown for a node that is healthy by now', async () => {
    const { ref, seen } = await pair([ready]);
    const { machine } = (await activities.syncNode(ref, seen, running, unseen)) ?? {};
    if (machine === undefined) throw new Error('the Machine is gone');
    const after = await activities.syncNode(
      ref,
      machine,
      { stage: 'unhealthy', stageSince: '2026-08-19T11:00:00Z' },
      unseen,
    );
    expect(after?.machine.phase).toBe('Running');
  });

  it('leaves the phase alone that a step has written which was lost, when the node says otherwise by now', async () => {
    const { node, ref, seen } = await pair([ready]);
    await activities.syncNode(ref, seen, running, unseen);
    await client.delete(nodes, node.metadata);
    await client.patch(nodes, node.metadata, mergePatch({ metadata: { finalizers: null } }));
    const after = await activities.syncNode(ref, seen, running, unseen);
    expect(after).toMatchObject({ machine: { phase: 'Running' }, node: { state: 'absent' } });
  });

  it('[mcm 33 partly] writes Unknown for a node that is gone and keeps the conditions that were', async () => {
    const { node, ref, seen } = await pair([ready]);
    const { machine } = (await activities.syncNode(ref, seen, running, unseen)) ?? {};
    if (machine === undefined) throw new Error('the Machine is gone');
    await activities.removeNode(ref, node.metadata.name, {});
    const after = await activities.syncNode(
      ref,
      machine,
      { stage: 'unhealthy', stageSince: '2026-08-19T11:00:00Z' },
      unseen,
    );
    expect(after).toMatchObject({
      machine: { phase: 'Unknown', conditions: { Ready: 'True' } },
      node: { state: 'absent' },
    });
  });

  it('is in step afterwards with a node that has lost all its conditions', async () => {
    const { node, ref, seen } = await pair([ready]);
    await activities.syncNode(ref, seen, running, unseen);
    await setConditions(node.metadata.name, []);
    await client.patch(nodes, node.metadata, mergePatch({ status: { conditions: null } }), { subresource: 'status' });
    const after = await activities.syncNode(ref, snapshotOf(await get(ref)), { stage: 'unhealthy' }, unseen);
    expect(after?.machine.phase).toBe('Unknown');
    expect(after?.machine.conditions).toEqual({});
  });

  it('copies a condition that has no times', async () => {
    const { ref, seen } = await pair([ready, { type: 'Other', status: 'False' }]);
    const after = await activities.syncNode(ref, seen, running, unseen);
    expect(after?.machine.conditions).toEqual({ Ready: 'True', Other: 'False' });
  });

  it('[mcm 10 partly] answers for a node that is being deleted without our finalizer, where none can be added', async () => {
    const { node, ref, seen } = await pair([ready], { finalizers: ['example.com/other'] });
    await client.delete(nodes, node.metadata);
    expect(await activities.syncNode(ref, seen, running, unseen)).toMatchObject({
      node: { state: 'present', deleting: true },
    });
  });

  it('writes the taints where the API server refuses the rest, and the marks alone where it refuses these, too', async () => {
    const { node, machine, ref } = await pair([ready]);
    const taints = [{ key: 'dedicated', effect: 'NoSchedule' }];
    const annotations = { large: 'x'.repeat(140_000) }; // with a copy of them in the note it is too much
    const nodeTemplate = { metadata: { annotations }, spec: { taints } };
    await client.patch(machines, machine.metadata, mergePatch({ spec: { nodeTemplate } }));
    const sync = async (by: MachineActivities) => {
      const live = toNodeViewOf(gardener, { node: await client.get(nodes, node.metadata) }, await get(ref));
      return by.syncNode(ref, claimOf(await get(ref)), running, live);
    };
    const refusing: KubeClient = {
      ...client,
      patch: async (resource, key, patch, options) => {
        if (JSON.stringify(patch.body).includes('dedicated'))
          throw new StatusError('PATCH', 422, { message: 'not today' });
        return client.patch(resource, key, patch, options);
      },
    };

    const marked = await sync(createActivities(client, refusing));
    expect(marked).toMatchObject({ isTemplateRefused: true, nodeRefusal: 'PATCH: 422: not today' });
    expect(marked?.node).toMatchObject({ managed: true, outdated: true });

    const tainted = await sync(activities);
    expect(tainted).toMatchObject({ isTemplateRefused: true, nodeRefusal: expect.stringContaining('262144 bytes') });
    expect(tainted?.node).toMatchObject({ managed: true, outdated: true });
    expect((await client.get(nodes, node.metadata)).spec?.taints).toEqual(taints);
    const notes = events.filter(
      ({ reason, regarding }) => reason === 'NodeTemplateRefused' && regarding.uid === ref.uid,
    );
    expect(notes.map(({ note }) => note)).toEqual([
      'nodeTemplate: PATCH: 422: not today',
      expect.stringMatching(/^nodeTemplate: .*262144 bytes/),
    ]);
  });

  it('answers that the node lacks the capacity of the class that its API server does not keep', async () => {
    const { node, ref } = await pair([ready]);
    const ofClass = {
      metadata: { namespace, name: newName() },
      secretRef: { namespace, name: 'pool' },
      providerSpec: {},
    };
    const place = { instanceType: 'small', region: 'here', zone: 'here' };
    const nodeTemplate = { capacity: {}, virtualCapacity: { 'example.com/slots': '4' }, ...place };
    const { metadata } = await client.create(machineClasses, { ...ofClass, provider: 'simulated', nodeTemplate });
    await client.patch(machines, ref, mergePatch({ spec: { class: { kind: 'MachineClass', name: metadata.name } } }));
    const isStatus = (options: { readonly subresource?: string } | undefined) => options?.subresource === 'status';
    const dropping: KubeClient = {
      ...client,
      patch: async (resource, key, patch, options) =>
        resource.kind === 'Node' && isStatus(options)
          ? client.get(resource, key)
          : client.patch(resource, key, patch, options),
    };
    const outdated = { ...toNodeView(gardener.marks, { node }, ref), outdated: true } as const;
    const sync = async (by: MachineActivities) => by.syncNode(ref, claimOf(await get(ref)), running, outdated);

    expect(await sync(createActivities(client, dropping))).toMatchObject({ node: { outdated: true } });
    expect((await sync(activities))?.node).not.toHaveProperty('outdated');
  });

  it('answers for a Machine that names no node', async () => {
    const machine = await newMachine();
    const after = await activities.syncNode(refOf(machine), snapshotOf(machine), { stage: 'unhealthy' }, unseen);
    expect(after).toMatchObject({ machine: { phase: 'Unknown' }, node: { state: 'absent' } });
  });
});

describe('deleteMachine', () => {
  it('[mcm 10 partly] deletes it and returns since when', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const after = await activities.deleteMachine(refOf(machine));
    expect(after?.deletingSince).toEqual(expect.any(String));
    expect(events.filter(({ regarding }) => regarding.uid === machine.metadata.uid)).toMatchObject([
      { type: 'Normal', reason: 'DeletedWithNode', note: 'somebody deleted its Node' },
    ]);
    expect(await activities.deleteMachine(refOf(machine))).toEqual(after);
  });
});

describe('[mcm 19 partly] isNodeTaken', () => {
  it.each([
    { of: 'a node with the provider ID of another VM', providerID: 'cloud:///theirs', machine: 'self', taken: true },
    { of: 'a node with that of this VM', providerID: 'cloud:///ours', machine: 'other', taken: false },
    { of: 'a node without one that refers to another machine', machine: 'other', taken: true },
    { of: 'a node without one that refers to this machine', machine: 'self', taken: false },
    { of: 'a node that has just registered', taken: false },
  ])('is $taken for $of', async ({ providerID, machine, taken }) => {
    const ref = refOf(await newMachine());
    const labelled = { [labels.machineName]: machine === 'self' ? ref.name : 'other' };
    const { metadata } = await newNode(machine === undefined ? {} : { labels: labelled });
    if (providerID !== undefined) await client.patch(nodes, metadata, mergePatch({ spec: { providerID } }));
    expect(await activities.isNodeTaken(ref, metadata.name, { providerID: 'cloud:///ours' })).toBe(taken);
  });

  it('is true for a node that is older than the Machine, and has no provider ID', async () => {
    const ref = refOf(await newMachine());
    const { metadata } = await newNode({});
    const isTaken = (nodeNotBefore: string) =>
      activities.isNodeTaken(ref, metadata.name, { providerID: 'cloud:///ours', nodeNotBefore });
    expect(await isTaken(metadata.creationTimestamp)).toBe(false);
    expect(await isTaken(new Date(Date.parse(metadata.creationTimestamp) + 1_000).toISOString())).toBe(true);
  });

  it('is true for the node of its VM while that names another Machine of the VM', async () => {
    const providerID = 'cloud:///ours';
    const original = await newMachine();
    await client.patch(machines, original.metadata, mergePatch({ spec: { providerID } }));
    const copy = refOf(await newMachine());
    const { metadata } = await newNode({ labels: { [labels.machineName]: original.metadata.name } });
    await client.patch(nodes, metadata, mergePatch({ spec: { providerID } }));
    expect(await activities.isNodeTaken(copy, metadata.name, { providerID })).toBe(true);
    expect(await activities.isNodeTaken(refOf(original), metadata.name, { providerID })).toBe(false);
    await client.delete(machines, original.metadata);
    expect(await activities.isNodeTaken(copy, metadata.name, { providerID })).toBe(false);
  });

  it('is false for a name that no node has, and while nobody can tell', async () => {
    const ref = refOf(await newMachine());
    expect(await activities.isNodeTaken(ref, 'no-such-node', { providerID: 'cloud:///ours' })).toBe(false);
    const find: KubeClient['find'] = () => Promise.reject(new Error('no answer'));
    const cut = createActivities({ ...client, find });
    expect(await cut.isNodeTaken(ref, 'no-such-node', { providerID: 'cloud:///ours' })).toBe(false);
  });
});

describe('markInterrupted', () => {
  const taintsOf = async (name: string) => (await client.get(nodes, { name })).spec?.taints ?? [];
  const others = [{ key: 'example.com/other', effect: 'NoSchedule' }];

  async function tainted() {
    const { metadata } = await newNode({});
    await client.patch(nodes, metadata, mergePatch({ spec: { providerID: 'x:///zone/vm-1', taints: others } }));
    const machine = await newMachine({ labels: { [labels.node]: metadata.name } });
    const providerID = 'x:///zone/vm-1';
    const seen = { ...claimOf(machine), providerID, namedByCloud: { providerID } };
    return { name: metadata.name, ref: refOf(machine), seen };
  }

  it('adds a taint beside those of others, once, with the reason as far as a taint can say it', async () => {
    const { name, ref, seen } = await tainted();
    const interruption = 'the taint millwright.dev/vm-interrupted (marked-for-termination)';

    const node = await activities.markInterrupted(ref, seen, 'marked for termination!');
    expect(node).toMatchObject({ state: 'present', name, interruption });
    const added = { key: 'millwright.dev/vm-interrupted', value: 'marked-for-termination', effect: 'NoSchedule' };
    expect(await taintsOf(name)).toEqual([...others, added]);

    expect(await activities.markInterrupted(ref, seen, 'another')).toMatchObject({ interruption });
    expect(await taintsOf(name)).toEqual([...others, added]);
  });

  it('leaves a Node alone that another VM has registered under the name', async () => {
    const { name, ref, seen } = await tainted();
    expect(await activities.markInterrupted(ref, { ...seen, providerID: 'x:///zone/vm-2' }, 'soon')).toEqual({
      state: 'absent',
      notOwn: `node ${name} is that of another VM, x:///zone/vm-1: the Machine names x:///zone/vm-2`,
    });
    expect(await taintsOf(name)).toEqual(others);
  });
});

describe('uncordonNode', () => {
  it.each([
    ['undoes a cordon', {}, undefined],
    ['leaves a cordon that was there before the drain', { [names.cordonedBy]: cordoners.preservation }, true],
  ])('%s, and says that the machine is not being deleted', async (_, ofNode: Record<string, string>, expected) => {
    const { metadata } = await newNode({}, [ready, { type: 'Terminating', status: 'True', reason: 'ScaleDown' }]);
    const { name } = metadata;
    await client.patch(
      nodes,
      { name },
      mergePatch({ metadata: { annotations: ofNode }, spec: { unschedulable: true } }),
    );
    await activities.uncordonNode(refOf(await newMachine()), name, { namedByCloud: { nodeName: name } });
    const { spec, status } = await client.get(nodes, { name });
    expect([spec?.unschedulable, status?.conditions?.map(({ type }) => type)]).toEqual([expected, ['Ready']]);
  });
});

describe('removeNode', () => {
  it('removes the node of the machine, with our finalizer', async () => {
    const machine = await newMachine();
    const ours = { labels: { [labels.machineName]: machine.metadata.name }, finalizers: [finalizers.node] };
    const { metadata } = await newNode(ours);
    expect(await activities.removeNode(refOf(machine), metadata.name, {})).toBe(true);
    expect(await client.find(nodes, metadata)).toBeUndefined();
    expect(await activities.removeNode(refOf(machine), metadata.name, {})).toBe(true);
  });

  it('removes a node that never joined, and one that somebody is deleting', async () => {
    const machine = await newMachine();
    const fresh = await newNode({});
    const deleted = await newNode({ finalizers: [finalizers.node] });
    await client.delete(nodes, deleted.metadata);
    for (const { metadata } of [fresh, deleted]) {
      await activities.removeNode(refOf(machine), metadata.name, { namedByCloud: { nodeName: metadata.name } });
      expect(await client.find(nodes, metadata)).toBeUndefined();
    }
  });

  it('leaves the node alone that another VM has registered under the name', async () => {
    const machine = await newMachine();
    const { metadata } = await newNode({});
    await client.patch(nodes, metadata, mergePatch({ spec: { providerID: 'cloud:///theirs' } }));
    const remove = (providerID: string) =>
      activities.removeNode(refOf(machine), metadata.name, { providerID, namedByCloud: { providerID } });
    await remove('cloud:///ours');
    expect((await client.get(nodes, metadata)).metadata.uid).toBe(metadata.uid);
    await remove('cloud:///theirs');
    expect(await client.find(nodes, metadata)).toBeUndefined();
  });

  it('removes the node of a VM that the Machine does not name only where the cloud has named it', async () => {
    const machine = await newMachine();
    const { metadata } = await newNode({});
    await client.patch(nodes, metadata, mergePatch({ spec: { providerID: 'cloud:///never-heard' } }));
    await activities.removeNode(refOf(machine), metadata.name, {});
    expect((await client.get(nodes, metadata)).metadata.uid).toBe(metadata.uid);
    await activities.removeNode(refOf(machine), metadata.name, { namedByCloud: { nodeName: metadata.name } });
    expect(await client.find(nodes, metadata)).toBeUndefined();
  });

  it('leaves the finalizers of others', async () => {
    const machine = await newMachine();
    const { metadata } = await newNode({ finalizers: ['example.com/other', finalizers.node] });
    await activities.removeNode(refOf(machine), metadata.name, { namedByCloud: { nodeName: metadata.name } });
    const left = await client.get(nodes, metadata);
    expect(left.metadata.finalizers).toEqual(['example.com/other']);
    expect(left.metadata.deletionTimestamp).toBeDefined();
  });

  it('leaves a node alone that is older than the Machine, and has no provider ID', async () => {
    const node = await newNode({});
    const later = new Date(Date.parse(node.metadata.creationTimestamp) + 1_000).toISOString();
    await activities.removeNode(refOf(await newMachine()), node.metadata.name, {
      providerID: 'cloud:///ours',
      nodeNotBefore: later,
      namedByCloud: { nodeName: node.metadata.name },
    });
    expect(await client.get(nodes, node.metadata)).toEqual(node);
  });

  it('leaves a node alone that does not name the Machine, and that the cloud has not named', async () => {
    const machine = await newMachine();
    const node = await newNode({});
    await client.patch(nodes, node.metadata, mergePatch({ spec: { providerID: 'cloud:///ours' } }));
    const before = await client.get(nodes, node.metadata);
    const claim = { ...snapshotOf(machine), providerID: 'cloud:///ours' };
    const ref = refOf(machine);
    await activities.removeNode(ref, node.metadata.name, claim);
    await activities.uncordonNode(ref, node.metadata.name, claim);
    await activities.markInterrupted(ref, { ...claim, nodeName: node.metadata.name }, 'soon');
    await activities.syncNode(ref, { ...claim, nodeName: node.metadata.name }, { stage: 'running' }, unseen);
    expect(await client.get(nodes, node.metadata)).toEqual(before);
  });

  it('leaves its own node alone where that is of the control plane, also as it was seen', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    const controlPlaneLabel = 'node-role.kubernetes.io/control-plane';
    const of = { [labels.machineName]: ref.name, [controlPlaneLabel]: '' };
    const node = await newNode({ labels: of, finalizers: [finalizers.node] });
    const seen = toNodeView(gardener.marks, { node, facts: { controlPlaneLabel } }, ref);
    await activities.removeNode(ref, node.metadata.name, claimOf(machine), seen);
    expect(await client.get(nodes, node.metadata)).toEqual(node);
  });

  it('leaves the node of another machine alone', async () => {
    const machine = await newMachine();
    const node = await newNode({ labels: { [labels.machineName]: 'other' }, finalizers: [finalizers.node] }, [ready]);
    expect(await activities.removeNode(refOf(machine), node.metadata.name, {})).toBe(true);
    expect(await client.get(nodes, node.metadata)).toEqual(node);
  });
});

describe('announceDeletion', () => {
  const report: MachineReport = { stage: 'deleting', step: { kind: 'deleteVm', state: 'processing' } };

  it('says that the VM is being deleted, and reads where it is', async () => {
    const machine = await newMachine();
    const ref = refOf(machine);
    await activities.begin(ref, snapshotOf(machine), false);
    await client.delete(machines, ref);
    const announced = await activities.announceDeletion(ref, await seenOf(ref), report);
    expect(announced).toMatchObject({
      machine: { stage: 'deleting', deletingSince: expect.any(String) },
      places: [announced?.reading.cloud],
    });
    expect((await get(ref)).status?.currentStatus?.phase).toBe('Terminating');
  });

  it('says nothing on a Machine that is not deleted any more', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const seen = { ...snapshotOf(machine), resourceVersion: '1', deletingSince: '2026-08-19T10:00:00Z' };
    const announced = await activities.announceDeletion(refOf(machine), seen, report);
    expect(announced?.machine).toEqual(snapshotOf(machine));
    expect(await get(refOf(machine))).toEqual(machine);
  });
});

describe('tearDown', () => {
  const nothing = { nodeNames: [], seenNode: unseen, hasUserData: false };

  it('[mcm 7 partly] [invariant 2 partly] removes our finalizer alone, and the Machine goes with the last one', async () => {
    const ref = refOf(await newMachine({ finalizers: ['example.com/a', finalizers.machine, 'example.com/b'] }));
    await client.delete(machines, ref);
    const seen = await seenOf(ref);
    expect(await activities.tearDown(ref, seen, nothing)).toBe(true);
    expect(events.filter(({ regarding }) => regarding.uid === ref.uid)).toMatchObject([
      { type: 'Normal', reason: 'Deleted' },
    ]);
    expect((await get(ref)).metadata.finalizers).toEqual(['example.com/a', 'example.com/b']);
    expect(await activities.tearDown(ref, seen, nothing)).toBe(true);

    const alone = refOf(await newMachine({ finalizers: [finalizers.machine] }));
    await client.delete(machines, alone);
    const seenAlone = await seenOf(alone);
    expect(await activities.tearDown(alone, seenAlone, nothing)).toBe(true);
    expect(await client.find(machines, alone)).toBeUndefined();
    expect(await activities.tearDown(alone, seenAlone, nothing)).toBe(true);
  });

  it('answers false, without an Event, where the API server keeps our finalizer', async () => {
    const ref = refOf(await newMachine({ finalizers: [finalizers.machine] }));
    await client.delete(machines, ref);
    const keeping: KubeClient = Object.create(client, {
      patch: { value: (resource: typeof machines, key: typeof ref) => client.patch(resource, key, mergePatch({})) },
    });
    expect(await createActivities(keeping).tearDown(ref, await seenOf(ref), nothing)).toBe(false);
    expect(events.filter(({ regarding }) => regarding.uid === ref.uid)).toEqual([]);
    expect(await activities.tearDown(ref, await seenOf(ref), nothing)).toBe(true);
  });

  it('takes in its stride that others remove theirs at the same moment', async () => {
    const ref = refOf(await newMachine({ finalizers: ['example.com/a', finalizers.machine, 'example.com/b'] }));
    await client.delete(machines, ref);
    const others = mergePatch({ metadata: { finalizers: [finalizers.machine, 'example.com/b'] } });
    const late = createActivities(disturbed(() => client.patch(machines, ref, others)));
    expect(await late.tearDown(ref, await seenOf(ref), nothing)).toBe(true);
    expect((await get(ref)).metadata.finalizers).toEqual(['example.com/b']);
  });

  it('leaves it on a Machine that is not deleted any more, and answers false', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const seen = { ...snapshotOf(machine), resourceVersion: '1', deletingSince: '2026-08-19T10:00:00Z' };
    expect(await activities.tearDown(refOf(machine), seen, nothing)).toBe(false);
    expect(await get(refOf(machine))).toEqual(machine);
  });

  it('deletes the Node that was seen without reading it, and before the finalizer goes', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const ref = refOf(machine);
    const ours = { labels: { [labels.machineName]: ref.name }, finalizers: [finalizers.node] };
    const node = await newNode(ours);
    await client.delete(machines, ref);
    const target: KubeClient = Object.create(client, { find: { value: () => Promise.reject(new Error('a read')) } });
    let nodeWasGone: boolean | undefined;
    const control = disturbed(async () => {
      nodeWasGone = (await client.find(nodes, node.metadata)) === undefined;
    });
    const seenNode = toNodeView(gardener.marks, { node }, ref);
    const nodeName = node.metadata.name;
    await createActivities(control, target).tearDown(ref, await seenOf(ref), { ...nothing, nodeName, seenNode });
    expect(nodeWasGone).toBe(true);
    expect(await client.find(machines, ref)).toBeUndefined();
  });

  it('leaves alone a Node of another VM that has registered under the name since', async () => {
    const machine = await newMachine({ finalizers: [finalizers.machine] });
    const ref = refOf(machine);
    const ours = { labels: { [labels.machineName]: ref.name }, finalizers: [finalizers.node] };
    const node = await newNode(ours);
    const seenNode = { ...toNodeView(gardener.marks, { node }, ref), uid: 'of-an-earlier-node' };
    const ofOther = { metadata: { labels: null }, spec: { providerID: 'cloud:///theirs' } };
    await client.patch(nodes, node.metadata, mergePatch(ofOther));
    await client.delete(machines, ref);
    const teardown = { ...nothing, nodeName: node.metadata.name, nodeNames: [node.metadata.name], seenNode };
    await activities.tearDown(ref, { ...(await seenOf(ref)), providerID: 'cloud:///ours' }, teardown);
    expect((await client.get(nodes, node.metadata)).metadata.finalizers).toEqual([finalizers.node]);
    expect(await client.find(machines, ref)).toBeUndefined();
  });
});

describe('a Machine that is gone, or whose name another one has', () => {
  const change: MachineReport = { stage: 'failed', event: { reason: 'VmFailed' } };
  const calls: [string, (ref: ObjectRef, seen: MachineSnapshot) => Promise<unknown>][] = [
    ['observeMachine', (ref) => activities.observeMachine(ref)],
    ['addFinalizer', (ref, seen) => activities.addFinalizer(ref, seen)],
    ['announceDeletion', (ref, seen) => activities.announceDeletion(ref, seen, change)],
    ['storeIdentity', (ref, seen) => activities.storeIdentity(ref, seen, { providerID: 'x' })],
    ['writeStatus', (ref, seen) => activities.writeStatus(ref, seen, change)],
    ['syncNode', (ref, seen) => activities.syncNode(ref, seen, change, unseen)],
    ['deleteMachine', (ref) => activities.deleteMachine(ref)],
  ];

  it.each<(typeof calls)[number]>([...calls, ['begin', (ref, seen) => activities.begin(ref, seen, false)]])(
    '%s answers null when it is gone',
    async (_, call) => {
      const machine = await newMachine();
      await client.delete(machines, refOf(machine));
      expect(await call(refOf(machine), snapshotOf(machine))).toBeNull();
    },
  );

  const nothing = { nodeNames: [], seenNode: unseen, hasUserData: false };
  it.each<(typeof calls)[number]>([...calls, ['tearDown', (ref, seen) => activities.tearDown(ref, seen, nothing)]])(
    '%s changes nothing about another one of the same name',
    async (name, call) => {
      const first = await newMachine();
      await client.delete(machines, refOf(first));
      const { name: sameName } = first.metadata;
      const second = await client.create(machines, {
        metadata: { namespace, name: sameName, finalizers: [finalizers.machine] },
        spec: { class: { kind: 'MachineClass', name: 'small' } },
      });
      expect(await call(refOf(first), snapshotOf(first))).toBe(name === 'tearDown' ? true : null);
      expect(await get(refOf(second))).toEqual(second);
      expect(events.filter(({ regarding }) => regarding.uid === first.metadata.uid)).toEqual([]);
    },
  );
});
